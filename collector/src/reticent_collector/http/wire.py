"""From bytes on the wire to records of open rounds: the rules of `reticent.reports`, without its objects."""

from __future__ import annotations

import re
from array import array
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from reticent.errors import ReportError
from reticent.mechanisms import COHORTS
from reticent.plan import OTHER, Plan
from reticent.reports import (
    ID_BYTES,
    MAX_JSON,
    MAX_NAME,
    MAX_ROUND,
    MAX_VERSION,
    Verdict,
    asked_places,
    has_its_ones,
    packed_header,
)
from reticent.times import start_of
from reticent_collector.stores import Layout, RoundKey

ROUND_BYTES = 8
LONGEST_TAG = 64
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

_ACCEPTED = Verdict.ACCEPTED
_STANDARD = bytes.maketrans(b"-_", b"+/")
_STANDARD_OR_WRONG = bytes.maketrans(b"-_+/=", b"+/\xff\xff\xff")
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')  # a JSON string, quotes included
_NUMBER = rb"(0|[1-9][0-9]{0,%d})"
_BEFORE_ROUND = b',"round":'

Lines = Sequence[tuple[bytes, ...]]  # the groups that an expression matched in each of many reports
_COHORTS = {b"%d" % cohort: cohort for cohort in range(COHORTS)}


class WireReport(msgspec.Struct, forbid_unknown_fields=True):
    """A report in JSON, validated while it is decoded."""

    plan: str
    version: int
    round: int
    id: str
    bits: str
    cohort: int | msgspec.UnsetType = msgspec.UNSET
    asked: str | msgspec.UnsetType = msgspec.UNSET
    segment: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


@dataclass(slots=True)
class Batch:
    """The content of a request: records by round, and the places and codes of refused reports."""

    records: dict[RoundKey, list[bytes]] = field(default_factory=dict)
    accepted: int = 0
    rejected: list[tuple[int, Verdict]] = field(default_factory=list)
    places: dict[RoundKey, MutableSequence[int]] = field(default_factory=dict)
    """Which of the reports are in a round, in the order of its records."""


class Wire:
    """Turns the three encodings into records, for the plans that are served."""

    block_bytes: ClassVar[int] = 1 << 16
    """How much of a batch of lines is read at once: one odd line costs its block the quick way, not the batch."""
    few: ClassVar[int] = 6  # single reports decoded one by one: more are faster at once
    decode = staticmethod(msgspec.json.Decoder(WireReport).decode)

    def __init__(self, plans: Iterable[Plan], skew: float = 300.0) -> None:
        self._skew = skew
        self._plans: dict[tuple[str, int], _PlanDecoder] = {}
        self.set_plans(plans)

    def set_plans(self, plans: Iterable[Plan]) -> None:
        """Decode reports on these plans from now on; from any thread."""
        self._plans = {
            (plan.name, plan.version): self._plans.get((plan.name, plan.version))
            or _PlanDecoder(plan, self._skew)
            for plan in plans
        }
        self._by_start = {decoder.start: decoder for decoder in self._plans.values()}
        self._names = {name for name, _ in self._plans}

    def one(self, body: bytes, now: float) -> tuple[RoundKey, bytes] | Verdict:
        """One report in JSON: its round and record, or why it is not counted."""
        report = self._read(body)
        decoder = self._plans.get((report.plan, report.version)) if report else None
        if report is None or (decoder is None and not _is_report(report)):
            return Verdict.MALFORMED
        if decoder is None:
            return self._unknown(report.plan)
        record = decoder.record(report)
        if record is None or not 0 <= report.round < MAX_ROUND:
            return Verdict.MALFORMED
        verdict = decoder.verdict(report.round, now)
        if verdict is not _ACCEPTED:
            return verdict
        return RoundKey(report.plan, report.version, report.round), record

    def _read(self, body: bytes) -> WireReport | None:
        """A report, if its keys and types are right and no key comes twice."""
        if len(body) > MAX_JSON:
            return None
        try:
            report = self.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        # Its keys, and the values that are texts. More texts mean a key that comes twice, of which the decoder
        # takes the last.
        texts = 8 + (report.cohort is not msgspec.UNSET) + 2 * (report.asked is not msgspec.UNSET)
        if report.segment is not msgspec.UNSET:
            texts += 1 + 2 * len(report.segment)
        return report if body.count(b'"') == 2 * texts or len(_TEXT.findall(body)) == texts else None

    def singles(self, bodies: Sequence[bytes], now: float) -> Batch:
        """Single reports in JSON that were queued together; each is read as `one` reads it."""
        batch = Batch()
        by_start: dict[bytes, list[int]] = {}
        for place, body in enumerate(bodies):
            by_start.setdefault(body[: body.find(_BEFORE_ROUND)], []).append(place)
        for start, places in by_start.items():
            decoder = self._by_start.get(start)
            odd = places
            if decoder is not None and len(places) > self.few:
                matches = [(place, decoder.match(bodies[place])) for place in places]
                usual = [match.groups() for _, match in matches if match]
                odd = [place for place, match in matches if not match]
                known = [place for place, match in matches if match] if odd else places
                if usual and not self._add(decoder, known, usual, now, batch):
                    odd = places
            self._add_each(((place, bodies[place]) for place in odd), now, batch)
        return batch

    def lines(self, body: bytes, now: float, most: int) -> Batch | None:
        """Lines of JSON; None for more than `most`."""
        if not body.endswith(b"\n"):
            body += b"\n"
        if body.count(b"\n") > most:
            return None
        batch, start = Batch(), 0
        while start < len(body):
            end = body.find(b"\n", start + self.block_bytes - 1) + 1 or len(body)
            block = body[start:end]
            # Most blocks are of one plan, and as `to_json` writes them; others are read line by line.
            if not self._at_once(block, now, batch):
                lines = filter(bytes.strip, block.split(b"\n"))
                self._add_each(enumerate(lines, batch.accepted + len(batch.rejected)), now, batch)
            start = end
        batch.rejected.sort()
        return batch

    def _add_each(self, bodies: Iterable[tuple[int, bytes]], now: float, batch: Batch) -> None:
        """Add reports with their places, one by one."""
        for place, body in bodies:
            result = self.one(body, now)
            if isinstance(result, Verdict):
                batch.rejected.append((place, result))
            else:
                batch.records.setdefault(result[0], []).append(result[1])
                batch.places.setdefault(result[0], []).append(place)
                batch.accepted += 1

    def _at_once(self, block: bytes, now: float, batch: Batch) -> bool:
        """Add lines that are all on one plan and as `to_json` writes them; False when any is not."""
        decoder = self._by_start.get(block[: block.find(_BEFORE_ROUND)])
        lines = decoder.matching_lines(block) if decoder else []
        if decoder is None or not lines or len(lines) != block.count(b"\n"):
            return False
        first = batch.accepted + len(batch.rejected)
        return self._add(decoder, range(first, first + len(lines)), lines, now, batch)

    def _add(
        self, decoder: _PlanDecoder, places: Sequence[int], lines: Lines, now: float, batch: Batch
    ) -> bool:
        """Add reports on one plan that its expression matched, by round; False when one is invalid."""
        rounds, *columns = zip(*lines, strict=True)
        records = decoder.records(columns)
        numbers = {text: int(text) for text in set(rounds)}
        if records is None or max(numbers.values()) >= MAX_ROUND:
            return False
        parts = [(numbers[rounds[0]], records, places)]
        if len(numbers) > 1:
            column = np.array([numbers[text] for text in rounds], dtype=np.uint64)
            parts = [
                (number, records[rows], [places[row] for row in rows.tolist()])
                for number, rows in _by_number(column, np.arange(len(rounds)))
            ]
        for number, of_round, chosen in parts:
            key = RoundKey(decoder.plan.name, decoder.plan.version, number)
            verdict = decoder.verdict(number, now)
            if verdict is _ACCEPTED:
                batch.records.setdefault(key, []).append(of_round.tobytes())
                batch.places.setdefault(key, []).extend(chosen)
                batch.accepted += len(of_round)
            else:
                batch.rejected += [(place, verdict) for place in chosen]
        return True

    def packed(self, body: bytes, now: float, most: int) -> Batch | Verdict | None:
        """A packed batch; one verdict when all of it is refused, None for more than `most` reports."""
        try:
            header = packed_header(body)
        except ReportError:
            return Verdict.MALFORMED
        if header.reports > most:
            return None
        decoder = self._plans.get((header.plan, header.version))
        if decoder is None:
            return self._unknown(header.plan)
        if header.width != decoder.layout.width + ROUND_BYTES:
            return Verdict.MALFORMED
        rows = np.frombuffer(body, dtype=np.uint8, offset=header.start).reshape(-1, header.width)
        columns = np.frombuffer(body, dtype=decoder.columns, offset=header.start)
        numbers = columns["round"].astype(np.uint64)
        records = columns["record"]  # as one value each: copied in a third of the time of their bytes
        fits = decoder.layout.fits(rows[:, ROUND_BYTES:]) & (numbers < MAX_ROUND)
        batch = Batch(rejected=[(place, Verdict.MALFORMED) for place in np.flatnonzero(~fits).tolist()])
        for number, places in _by_number(numbers, np.flatnonzero(fits)):
            verdict = decoder.verdict(number, now)
            if verdict is _ACCEPTED:
                key = RoundKey(header.plan, header.version, number)
                chosen = records if len(places) == len(records) else records[places]
                batch.records[key] = [chosen.tobytes()]
                batch.places[key] = array("q", places.astype(np.int64).tobytes())
                batch.accepted += len(places)
            else:
                batch.rejected += [(place, verdict) for place in places.tolist()]
        batch.rejected.sort()
        return batch

    def _unknown(self, plan: str) -> Verdict:
        return Verdict.VERSION_MISMATCH if plan in self._names else Verdict.UNKNOWN_PLAN


class _PlanDecoder:
    """
    One version of a plan, prepared for decoding reports: `record` decodes one, `records` many.

    For many, one expression matches a report from end to end exactly as `reticent.reports.to_json` writes it: each
    key once and in its place, no spaces, no escapes, only canonical base64url. So a match is a report and nothing
    else. Reports written in another way are decoded one by one, with the same result.
    """

    def __init__(self, plan: Plan, skew: float) -> None:
        self.plan = plan
        self.layout = Layout(plan)
        self.columns = np.dtype([("round", ">u8"), ("record", f"V{self.layout.width}")])
        """A report of a packed batch."""
        self._padding = (1 << (plan.report_bytes * 8 - plan.bits)) - 1
        self._bits_size = plan.report_bytes
        self._uses_cohort = plan.uses_cohort
        self._round_seconds = plan.round_seconds
        self._open_seconds = plan.round_seconds + plan.grace_seconds
        self._skew = skew
        self._id_text, self._bits_text = _base64url(ID_BYTES), _base64url(plan.report_bytes)
        self._asked_text = _base64url(plan.asked_bytes) if plan.asked_bytes else None
        others = [segment.tags.index(OTHER) for segment in plan.segments]
        self._no_tags = bytes(others)
        self._tags = [
            (segment.name, {tag: bytes([code]) for code, tag in enumerate(segment.tags)}, bytes([other]))
            for segment, other in zip(plan.segments, others, strict=True)
        ]
        self._tag_columns = [
            ({tag.encode(): code for code, tag in enumerate(segment.tags)}, other)
            for segment, other in zip(plan.segments, others, strict=True)
        ]
        names = sum(len(segment.name) + LONGEST_TAG + 6 for segment in plan.segments)
        sizes = 200 + len(plan.name) + (plan.report_bytes + plan.asked_bytes) * 4 // 3 + names
        # What might be too long for a report is matched by nothing, and read one by one.
        pattern = self._pattern(plan) if sizes <= MAX_JSON else rb"(?!)"
        self.start = b'{"plan":"%s","version":%d' % (plan.name.encode(), plan.version)
        """What reports on this plan begin with."""
        self.match = re.compile(pattern).fullmatch
        self.matching_lines = re.compile(rb"^%s\n" % pattern, re.MULTILINE).findall

    def _pattern(self, plan: Plan) -> bytes:
        """A report as `to_json` writes it; groups: round, id, cohort and asked if any, bits, tags."""
        parts = [
            rb'\{"plan":"%s","version":%d,' % (re.escape(plan.name.encode()), plan.version),
            rb'"round":' + _NUMBER % 15,
            rb',"id":"%s",' % self._id_text.pattern,
            rb'"cohort":' + _NUMBER % 2 + rb"," if plan.uses_cohort else b"",
            rb'"asked":"%s",' % self._asked_text.pattern if self._asked_text else b"",
            rb'"bits":"%s"' % self._bits_text.pattern,
        ]
        if plan.segments:
            tags = [
                rb'"%s":"([ !#-\[\]-~]{0,%d})"' % (re.escape(segment.name.encode()), LONGEST_TAG)
                for segment in plan.segments
            ]
            parts.append(rb',"segment":\{%s\}' % b",".join(tags))
        return b"".join([*parts, rb"\}"])

    def verdict(self, number: int, now: float) -> Verdict:
        """Whether a round takes reports at a Unix time."""
        start = start_of(number, self._round_seconds)
        if now < start - self._skew:
            return Verdict.EARLY
        return Verdict.LATE if now >= start + self._open_seconds else _ACCEPTED

    def record(self, report: WireReport) -> bytes | None:
        """The record of a report of this plan's form; None for any other."""
        name, bits = self._id_text.bytes(report.id), self._bits_text.bytes(report.bits)
        if name is None or bits is None:
            return None
        if bits[-1] & self._padding or (report.cohort is not msgspec.UNSET) != self._uses_cohort:
            return None
        cohort = b""
        if report.cohort is not msgspec.UNSET:
            if not 0 <= report.cohort < COHORTS:
                return None
            cohort = bytes((report.cohort,))
        asked = self._asked(report, bits)
        if asked is None:
            return None
        if not report.segment:
            return name + cohort + asked + self._no_tags + bits
        known, tags = 0, b""
        for segment, codes, other in self._tags:
            tag = report.segment.get(segment)
            if tag is None:
                tags += other
            else:
                known += 1
                tags += codes.get(tag, other)
        return name + cohort + asked + tags + bits if known == len(report.segment) else None

    def _asked(self, report: WireReport, bits: bytes) -> bytes | None:
        """The field of asked metrics, empty where the plan has none; None where it or the bits are wrong."""
        if self._asked_text is None and report.asked is msgspec.UNSET:
            number = int.from_bytes(bits, "big") if self.plan.fixed_ones else 0
            return b"" if has_its_ones(self.plan, number, -1) else None
        if self._asked_text is None or report.asked is msgspec.UNSET:
            return None
        asked = self._asked_text.bytes(report.asked)
        places = None if asked is None else asked_places(self.plan, asked)
        number = int.from_bytes(bits, "big")
        if places is None or number & ~places or not has_its_ones(self.plan, number, places):
            return None
        return asked

    def records(self, columns: Sequence[Sequence[bytes]]) -> NDArray[np.uint8] | None:
        """The records, [n, width], of matched reports; None when one of them is invalid."""
        ids, *rest = columns
        parts = [_decoded(ids, ID_BYTES)]
        if self._uses_cohort:
            cohorts = [_COHORTS.get(cohort) for cohort in rest.pop(0)]
            if None in cohorts:
                return None
            parts.append(np.array(cohorts, dtype=np.uint8).reshape(-1, 1))
        if self._asked_text:
            parts.append(_decoded(rest.pop(0), self.plan.asked_bytes))
        bits = _decoded(rest.pop(0), self._bits_size)
        if (bits[:, -1] & self._padding).any():
            return None
        for (codes, other), tags in zip(self._tag_columns, rest, strict=True):
            parts.append(np.array([codes.get(tag, other) for tag in tags], dtype=np.uint8).reshape(-1, 1))
        records = np.concatenate([*parts, bits], axis=1)
        looked_at = self._asked_text is not None or self.plan.fixed_ones
        return records if not looked_at or self.layout.fits(records).all() else None


class _Base64Url:
    """
    The unpadded base64url texts of so many bytes.

    >>> two, three = _Base64Url(2), _Base64Url(3)
    >>> two.bytes("_w8"), two.bytes("_w9"), two.bytes("_w8="), three.bytes("_w8")
    (b'\\xff\\x0f', None, None, None)
    """

    def __init__(self, size: int) -> None:
        self._length = -(-size * 4 // 3)
        spare = self._length * 6 - size * 8
        last = bytes(ALPHABET[sextet] for sextet in range(0, 64, 1 << spare))  # those whose spare bits are 0
        self._last = frozenset(last.decode())
        self._padding = b"=" * (-self._length % 4)
        self.pattern = rb"([\w-]{%d}[%s])" % (self._length - 1, re.escape(last))
        """An expression for such a text, as a group."""

    def bytes(self, text: str) -> bytes | None:
        """The bytes that a text encodes; None when it is not canonical."""
        if len(text) != self._length or text[-1] not in self._last:
            return None
        try:
            data = text.encode("ascii").translate(_STANDARD_OR_WRONG)
            return a2b_base64(data + self._padding, strict_mode=True)
        except ValueError:
            return None


_base64url = cache(_Base64Url)  # as many as a line has room for


def _decoded(texts: Sequence[bytes], size: int) -> NDArray[np.uint8]:
    """
    The bytes of base64url texts of one length, as uint8[n, size].

    >>> _decoded([b"AAE", b"_w8"], size=2).tolist()
    [[0, 1], [255, 15]]
    """
    fill = b"A" * (-len(texts[0]) % 4)
    data = a2b_base64((fill.join(texts) + fill).translate(_STANDARD))
    return np.frombuffer(data, dtype=np.uint8).reshape(len(texts), -1)[:, :size]


def _by_number(
    numbers: NDArray[np.uint64], places: NDArray[np.intp]
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """
    The places of each round, in order; sorted once, so one round per record takes no longer.

    >>> numbers = np.array([7, 5, 7], dtype=np.uint64)
    >>> [(number, places.tolist()) for number, places in _by_number(numbers, np.arange(3))]
    [(5, [1]), (7, [0, 2])]
    """
    if len(places) and (numbers[places] == numbers[places[0]]).all():
        yield int(numbers[places[0]]), places
    elif len(places):
        sorted_places = places[np.argsort(numbers[places], kind="stable")]
        distinct, firsts = np.unique(numbers[sorted_places], return_index=True)
        yield from zip(distinct.tolist(), np.split(sorted_places, firsts[1:]), strict=True)


def _is_report(report: WireReport) -> bool:
    """Whether it is a report at all, though its plan is not served: as `reticent.reports.from_json` judges."""
    return (
        1 <= len(report.plan) <= MAX_NAME
        and 0 <= report.version < MAX_VERSION
        and 0 <= report.round < MAX_ROUND
        and _base64url(ID_BYTES).bytes(report.id) is not None
        and report.bits != ""
        and _base64url(len(report.bits) * 3 // 4).bytes(report.bits) is not None
        and (report.cohort is msgspec.UNSET or 0 <= report.cohort < COHORTS)
        and (
            report.asked is msgspec.UNSET
            or (report.asked != "" and _base64url(len(report.asked) * 3 // 4).bytes(report.asked) is not None)
        )
    )
