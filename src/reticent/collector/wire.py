"""From bytes on the wire to records of open rounds: the rules of `reticent.reports`, without its objects."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from reticent.collector.columns import Lines, last_characters, text_length
from reticent.errors import ReportError
from reticent.mechanisms import COHORTS
from reticent.plan import OTHER, Plan, Segment
from reticent.reports import Verdict, packed_header
from reticent.reports.codec import ID_BYTES, MAX_JSON, MAX_ROUND
from reticent.stores import Layout, RoundKey

ROUND_BYTES = 8
BLOCK_BYTES = 1 << 16
"""How much of a batch of lines is read at once: one odd line costs its block the quick way, not the batch."""

MAX_VERSION = 2**31
LONGEST_NAME = 64

_ACCEPTED = Verdict.ACCEPTED


class WireReport(msgspec.Struct, forbid_unknown_fields=True):
    """A report in JSON, validated while it is decoded."""

    plan: str
    version: int
    round: int
    id: str
    bits: str
    cohort: int | msgspec.UnsetType = msgspec.UNSET
    segment: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(WireReport).decode
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
"""A text in JSON, from quote to quote."""


@dataclass(slots=True)
class Batch:
    """What a request holds: records by round, and the places and codes of what is refused."""

    records: dict[RoundKey, list[bytes]] = field(default_factory=dict)
    accepted: int = 0
    rejected: list[tuple[int, Verdict]] = field(default_factory=list)


class _Question:
    """One version of a plan, prepared for checking reports against it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layout = Layout(plan)
        self.padding = (1 << (plan.report_bytes * 8 - plan.bits)) - 1
        self.uses_cohort = plan.uses_cohort
        self.round_seconds = plan.round_seconds
        self.open_seconds = plan.round_seconds + plan.grace_seconds
        self.id_text, self.bits_text = _Text(ID_BYTES), _Text(plan.report_bytes)
        self.codes = [
            (segment.name, {tag: bytes([code]) for code, tag in enumerate(segment.tags)}, _other(segment))
            for segment in plan.segments
        ]
        self.lines = Lines(plan)
        self.no_tags = b"".join(other for _, _, other in self.codes)

    def verdict(self, number: int, now: float, skew: float) -> Verdict:
        start = number * self.round_seconds
        if now < start - skew:
            return Verdict.EARLY
        return Verdict.LATE if now >= start + self.open_seconds else _ACCEPTED

    def record(self, report: WireReport) -> bytes | None:
        """The record of a report that has the right shape; None for any other."""
        name, bits = self.id_text.bytes(report.id), self.bits_text.bytes(report.bits)
        if name is None or bits is None:
            return None
        if bits[-1] & self.padding or (report.cohort is not msgspec.UNSET) != self.uses_cohort:
            return None
        cohort = b""
        if report.cohort is not msgspec.UNSET:
            if not 0 <= report.cohort < COHORTS:
                return None
            cohort = bytes((report.cohort,))
        tags = self._tags(report.segment) if report.segment else self.no_tags
        return None if tags is None else name + cohort + tags + bits

    def _tags(self, segment: dict[str, str]) -> bytes | None:
        known, found = 0, b""
        for name, codes, other in self.codes:
            tag = segment.get(name)
            if tag is None:
                found += other
            else:
                known += 1
                found += codes.get(tag, other)
        return found if known == len(segment) else None


class Wire:
    """Turns the three encodings into records, for the plans that are served."""

    def __init__(self, plans: Iterable[Plan], skew: float = 300.0) -> None:
        self._questions = {(plan.name, plan.version): _Question(plan) for plan in plans}
        self._names = {name for name, _ in self._questions}
        self._skew = skew

    def one(self, body: bytes, now: float) -> tuple[RoundKey, bytes] | Verdict:
        """One report in JSON: its round and record, or why it does not count."""
        report = _read(body)
        question = self._questions.get((report.plan, report.version)) if report else None
        if report is None or (question is None and not _is_report(report)):
            return Verdict.MALFORMED
        if question is None:
            return self._unknown(report.plan)
        record = question.record(report)
        if record is None or not 0 <= report.round < MAX_ROUND:
            return Verdict.MALFORMED
        verdict = question.verdict(report.round, now, self._skew)
        if verdict is not _ACCEPTED:
            return verdict
        return RoundKey(report.plan, report.version, report.round), record

    def lines(self, body: bytes, now: float, most: int) -> Batch | None:
        """Lines of JSON; None when there are more than `most`."""
        if not body.endswith(b"\n"):
            body += b"\n"
        if body.count(b"\n") > most:
            return None
        batch = Batch()
        for block in _blocks(body):
            if not self._in_columns(block, now, batch):
                self._one_by_one(block, now, batch)
        return batch

    def _one_by_one(self, block: bytes, now: float, batch: Batch) -> None:
        """Add lines to a batch, whatever they are."""
        for line in block.split(b"\n"):
            if not line.strip():
                continue
            found = self.one(line, now)
            if isinstance(found, Verdict):
                batch.rejected.append((batch.accepted + len(batch.rejected), found))
            else:
                batch.records.setdefault(found[0], []).append(found[1])
                batch.accepted += 1

    def _in_columns(self, block: bytes, now: float, batch: Batch) -> bool:
        """Add lines of one round that are all as `to_json` writes them, at once; False when any is not."""
        first = self.one(block[: block.index(b"\n")], now)
        if isinstance(first, Verdict):
            return False
        key = first[0]
        lines = self._questions[key.plan, key.version].lines
        records = lines.records(block, block.count(b"\n"), key.round)
        if records is None:
            return False
        batch.records.setdefault(key, []).append(records.tobytes())
        batch.accepted += len(records)
        return True

    def packed(self, body: bytes, now: float, most: int) -> Batch | Verdict | None:
        """A packed batch; one verdict when all of it is refused, None when there are more than `most`."""
        try:
            header = packed_header(body)
        except ReportError:
            return Verdict.MALFORMED
        if header.reports > most:
            return None
        question = self._questions.get((header.plan, header.version))
        if question is None:
            return self._unknown(header.plan)
        if header.width != question.layout.width + ROUND_BYTES:
            return Verdict.MALFORMED
        rows = np.frombuffer(body, dtype=np.uint8, offset=header.start).reshape(-1, header.width)
        numbers = np.ascontiguousarray(rows[:, :ROUND_BYTES]).view(">u8").ravel()
        fits = self._fits(question, rows) & (numbers < MAX_ROUND)
        batch = Batch(rejected=[(place, Verdict.MALFORMED) for place in np.flatnonzero(~fits).tolist()])
        for number, places in _by_number(numbers, np.flatnonzero(fits)):
            verdict = question.verdict(number, now, self._skew)
            if verdict is _ACCEPTED:
                key = RoundKey(header.plan, header.version, number)
                batch.records[key] = [rows[places, ROUND_BYTES:].tobytes()]
                batch.accepted += len(places)
            else:
                batch.rejected += [(place, verdict) for place in places.tolist()]
        batch.rejected.sort()
        return batch

    def _fits(self, question: _Question, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        fits: NDArray[np.bool_] = (rows[:, -1] & question.padding) == 0
        first_tag = ROUND_BYTES + ID_BYTES + question.uses_cohort
        for place, segment in enumerate(question.plan.segments):
            fits &= rows[:, first_tag + place] < len(segment.tags)
        return fits

    def _unknown(self, plan: str) -> Verdict:
        return Verdict.VERSION_MISMATCH if plan in self._names else Verdict.UNKNOWN_PLAN


def _by_number(
    numbers: NDArray[np.uint64], places: NDArray[np.intp]
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """
    The places of each round, in order; sorted once, so that a round for each record takes no longer.

    >>> numbers = np.array([7, 5, 7], dtype=np.uint64)
    >>> [(number, places.tolist()) for number, places in _by_number(numbers, np.arange(3))]
    [(5, [1]), (7, [0, 2])]
    """
    if len(places):
        sorted_places = places[np.argsort(numbers[places], kind="stable")]
        found, firsts = np.unique(numbers[sorted_places], return_index=True)
        yield from zip(found.tolist(), np.split(sorted_places, firsts[1:]), strict=True)


def _read(body: bytes) -> WireReport | None:
    """A report, if the keys and types are right and no key comes twice."""
    if len(body) > MAX_JSON:
        return None
    try:
        report = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    texts = _texts(report)
    return report if body.count(b'"') == 2 * texts or len(_TEXT.findall(body)) == texts else None


def _texts(report: WireReport) -> int:
    """
    How many texts a report has in JSON: its keys, and the values that are texts.

    More of them mean a key that comes twice, of which the decoder takes the last.
    """
    texts = 8 if report.cohort is msgspec.UNSET else 9
    return texts if report.segment is msgspec.UNSET else texts + 1 + 2 * len(report.segment)


def _is_report(report: WireReport) -> bool:
    """Whether a report is one at all, though its plan is not served: what `reticent.reports.from_json` asks."""
    return (
        1 <= len(report.plan) <= LONGEST_NAME
        and 0 <= report.version < MAX_VERSION
        and 0 <= report.round < MAX_ROUND
        and _text_of(ID_BYTES).bytes(report.id) is not None
        and report.bits != ""
        and _text_of(len(report.bits) * 3 // 4).bytes(report.bits) is not None
        and (report.cohort is msgspec.UNSET or 0 <= report.cohort < COHORTS)
    )


def _blocks(body: bytes) -> Iterator[bytes]:
    """
    Whole lines, some at a time.

    >>> body = b"line\\n" * 20_000
    >>> [len(block) for block in _blocks(body)], b"".join(_blocks(body)) == body
    ([65540, 34460], True)
    """
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + BLOCK_BYTES - 1) + 1 or len(body)
        yield body[start:end]
        start = end


def _other(segment: Segment) -> bytes:
    return bytes([segment.tags.index(OTHER)])


_URL_SAFE = bytes.maketrans(b"-_+/=", b"+/\xff\xff\xff")


class _Text:
    """
    The unpadded base64url texts that stand for so many bytes.

    >>> _Text(2).bytes("_w8"), _Text(2).bytes("_w9"), _Text(2).bytes("_w8="), _Text(3).bytes("_w8")
    (b'\\xff\\x0f', None, None, None)
    """

    def __init__(self, size: int) -> None:
        self._length = text_length(size)
        self._last = frozenset(last_characters(size).decode())
        self._padding = b"=" * (-self._length % 4)

    def bytes(self, text: str) -> bytes | None:
        """The bytes that a text stands for; None when it is none of these texts."""
        if len(text) != self._length or text[-1] not in self._last:
            return None
        try:
            return a2b_base64(text.encode("ascii").translate(_URL_SAFE) + self._padding, strict_mode=True)
        except ValueError:
            return None


_text_of = cache(_Text)
"""There are as many as a line has room for."""
