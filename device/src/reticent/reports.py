"""
The wire: what a device sends, how it is written as bytes, and what becomes of it.

Reports as bytes: one JSON object, many as lines of JSON, or a packed batch of fixed-width records.

JSON, exactly one way to write a report (keys in this order, no spaces, unpadded base64url):

    {"plan":"app-usage","version":1,"round":81652,"id":"<22 characters>",
     "cohort":17,"asked":"…","bits":"…","segment":{"os":"linux"}}        (on one line)

`cohort` is left out when the plan has no histogram that needs it, `asked` when a report answers all metrics of
the plan, `segment` when the plan has no segments.

Packed, all of one plan and version, big-endian; what relays and replays send:

    9 bytes    "reticent" and the format number 1
    1          length of the plan's name
    …          the plan's name
    4          plan version
    2          width of a record
    then per report:  8 round · 16 id · 1 cohort (if the plan uses it) · the metrics asked (if not all) ·
                      1 per segment (index of its tag, "other" last) · the bits
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from reticent.errors import ReportError
from reticent.plan import Plan

__all__ = [
    "ID_BYTES",
    "MAGIC",
    "MAX_JSON",
    "MAX_NAME",
    "MAX_ROUND",
    "MAX_VERSION",
    "NO_ANSWERS",
    "Report",
    "Verdict",
    "answers_asked",
    "asked_places",
    "from_json",
    "from_ndjson",
    "from_packed",
    "has_its_ones",
    "pack_bits",
    "packed_header",
    "record_width",
    "to_json",
    "to_ndjson",
    "to_packed",
]

ID_BYTES = 16
MAX_JSON = 8192
MAX_NAME = 64
MAX_VERSION = 2**31
MAX_ROUND = 2**53
MAGIC = b"reticent\x01"

_KEYS = {"plan", "version", "round", "id", "cohort", "asked", "bits", "segment"}
_REQUIRED = {"plan", "version", "round", "id", "bits"}
_FROM_URL = bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True, slots=True)
class Report:
    """
    The noisy bits of one device in one round, and nothing else about it.

    `bits` holds the answers in plan order, most significant bit first, padded with 0 to whole bytes. `id` is
    a keyed hash of the round: the same on a retry, unrelated in the next round. `asked` says which metrics the
    report answers, one bit each in plan order, where it does not answer all of them; the bits of the others
    are 0.
    """

    plan: str
    version: int
    round: int
    id: bytes
    bits: bytes
    cohort: int | None = None
    segment: Mapping[str, str] = field(default_factory=dict)
    asked: bytes | None = None

    def bit(self, position: int) -> int:
        """The answer bit at a place counted from the first metric's first bit."""
        return self.bits[position // 8] >> (7 - position % 8) & 1


def pack_bits(bits: list[int]) -> bytes:
    """
    Bits to bytes, most significant first, padded with 0.

    >>> pack_bits([1, 0, 0, 0, 0, 0, 0, 1, 1]).hex()
    '8180'
    """
    size = (len(bits) + 7) // 8
    number = 0
    for bit in bits:
        number = number << 1 | bit
    return (number << (size * 8 - len(bits))).to_bytes(size, "big")


NO_ANSWERS = "asked, bits: expected answers about {} metrics and no others, each with as many ones as it has"


def asked_places(plan: Plan, asked: bytes) -> int | None:
    """
    The places of a report's bits that may be 1 where `asked` is its bitmap of metrics, as one number.

    None when it is not the bitmap of a report of the plan: of another size, about more or fewer metrics than
    the plan asks at a time, or with a bit after the last metric.
    """
    count = len(plan.metrics)
    bitmap = int.from_bytes(asked, "big")
    spare = 8 * plan.asked_bytes - count
    if len(asked) != plan.asked_bytes or bitmap.bit_count() != plan.asked or bitmap & ((1 << spare) - 1):
        return None
    places = 0
    for number, metric in enumerate(plan.metrics):
        answered = bitmap >> (count + spare - 1 - number) & 1
        places = places << metric.bits | ((1 << metric.bits) - 1) * answered
    return places << (8 * plan.report_bytes - plan.bits)


def answers_asked(report: Report, plan: Plan) -> bool:
    """
    Whether a report says which metrics it answers exactly where the plan wants it, and answers no others.

    An answer that always has the same number of ones must have that many.
    """
    bits = int.from_bytes(report.bits, "big")
    places = (1 << 8 * len(report.bits)) - 1
    if report.asked is not None and plan.asked_bytes:
        asked = asked_places(plan, report.asked)
        if asked is None or bits & ~asked:
            return False
        places = asked
    elif report.asked is not None or plan.asked_bytes:
        return False
    return has_its_ones(plan, bits, places)


def has_its_ones(plan: Plan, bits: int, places: int) -> bool:
    """Whether every answer at `places` that always has the same number of ones has that many."""
    return all((bits & mask).bit_count() == ones for mask, ones in plan.fixed_ones if places & mask)


class Verdict(StrEnum):
    """What becomes of a report; the words are stable and used on the wire."""

    ACCEPTED = "accepted"
    UNKNOWN_PLAN = "unknown_plan"
    VERSION_MISMATCH = "version_mismatch"
    MALFORMED = "malformed"
    EARLY = "early"
    LATE = "late"


# Reports as bytes


def to_json(report: Report) -> bytes:
    """One report as JSON."""
    fields: dict[str, object] = {
        "plan": report.plan,
        "version": report.version,
        "round": report.round,
        "id": _base64(report.id),
    }
    if report.cohort is not None:
        fields["cohort"] = report.cohort
    if report.asked is not None:
        fields["asked"] = _base64(report.asked)
    fields["bits"] = _base64(report.bits)
    if report.segment:
        fields["segment"] = dict(report.segment)
    return json.dumps(fields, separators=(",", ":")).encode()


def from_json(data: bytes) -> Report:
    """
    One report from JSON; raises `ReportError` for anything that is not exactly a report.

    >>> from_json(b'{"plan":"a","version":1}')
    Traceback (most recent call last):
    ...
    reticent.errors.ReportError: a report has the keys plan, version, round, id, bits
    """
    if len(data) > MAX_JSON:
        _malformed(f"a report is at most {MAX_JSON:,} bytes")
    try:
        fields = json.loads(data.decode(), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError):
        _malformed("not JSON")
    if not isinstance(fields, dict):
        _malformed("a report is a JSON object")
    if not fields.keys() <= _KEYS:
        _malformed("a report has no other keys than plan, version, round, id, cohort, asked, bits, segment")
    if not fields.keys() >= _REQUIRED:
        _malformed("a report has the keys plan, version, round, id, bits")
    return Report(
        plan=_text(fields["plan"], "plan"),
        version=_whole(fields["version"], "version", MAX_VERSION),
        round=_whole(fields["round"], "round", MAX_ROUND),
        id=_bytes(fields["id"], "id", ID_BYTES),
        bits=_bytes(fields["bits"], "bits"),
        cohort=_whole(fields["cohort"], "cohort", 256) if "cohort" in fields else None,
        segment=_segment(fields["segment"]) if "segment" in fields else {},
        asked=_bytes(fields["asked"], "asked") if "asked" in fields else None,
    )


def to_ndjson(reports: Iterable[Report]) -> bytes:
    """Many reports, a line of JSON each."""
    return b"".join(to_json(report) + b"\n" for report in reports)


def from_ndjson(data: bytes) -> Iterator[Report | ReportError]:
    """Each line's report, or the error that says why it is none; empty lines are skipped."""
    for line in data.split(b"\n"):
        if line.strip():
            try:
                yield from_json(line)
            except ReportError as error:
                yield error


@dataclass(frozen=True, slots=True)
class PackedHeader:
    """The header of a packed batch."""

    plan: str
    version: int
    width: int
    start: int  #: Where the first record begins
    reports: int


def record_width(plan: Plan) -> int:
    """Bytes per report in a packed batch."""
    return 8 + ID_BYTES + plan.uses_cohort + plan.asked_bytes + len(plan.segments) + plan.report_bytes


def to_packed(reports: Iterable[Report], plan: Plan) -> bytes:
    """Many reports of one plan and version, packed."""
    name = plan.name.encode()
    parts = [MAGIC, bytes([len(name)]), name, struct.pack(">IH", plan.version, record_width(plan))]
    for report in reports:
        if (report.plan, report.version) != (plan.name, plan.version):
            raise ReportError(
                "version_mismatch", f"a packed batch holds {plan.name} version {plan.version} only"
            )
        parts += [struct.pack(">Q", report.round), report.id]
        if plan.uses_cohort:
            parts.append(bytes([report.cohort or 0]))
        parts.append(report.asked or bytes(plan.asked_bytes))
        tags = plan.tags(report.segment)
        parts.append(bytes(segment.tags.index(tags[segment.name]) for segment in plan.segments))
        parts.append(report.bits)
    return b"".join(parts)


def packed_header(data: bytes) -> PackedHeader:
    """Read the start of a packed batch; raises `ReportError` unless whole records follow."""
    if data[: len(MAGIC)] != MAGIC:
        _malformed("a packed batch starts with reticent and the format number 1")
    length = data[len(MAGIC)] if len(data) > len(MAGIC) else 0
    start = len(MAGIC) + 1 + length + 6
    if len(data) < start or not length:
        _malformed("a packed batch is cut off in its header")
    name = data[start - 6 - length : start - 6]
    version, width = struct.unpack_from(">IH", data, start - 6)
    if not name.isascii() or width <= 8 + ID_BYTES or (len(data) - start) % width:
        _malformed("a packed batch is made of whole records")
    return PackedHeader(name.decode(), version, width, start, (len(data) - start) // width)


def from_packed(data: bytes, plan: Plan) -> list[Report]:
    """The reports of a packed batch of `plan`; raises `ReportError` when it is not one."""
    header = packed_header(data)
    if (header.plan, header.version) != (plan.name, plan.version):
        raise ReportError("version_mismatch", f"expected a batch of {plan.name} version {plan.version}")
    if header.width != record_width(plan):
        _malformed(f"a record of this plan has {record_width(plan)} bytes")
    records = range(header.start, len(data), header.width)
    return [_record(data[place : place + header.width], plan) for place in records]


def _record(record: bytes, plan: Plan) -> Report:
    place = 8 + ID_BYTES
    number = int.from_bytes(record[:8], "big")
    if number >= MAX_ROUND:
        _malformed("round: expected a whole number below 2^53")
    cohort = record[place] if plan.uses_cohort else None
    place += plan.uses_cohort
    asked = record[place : place + plan.asked_bytes] if plan.asked_bytes else None
    place += plan.asked_bytes
    tags = {}
    for segment, index in zip(plan.segments, record[place:], strict=False):
        if index >= len(segment.tags):
            _malformed(f"segment {segment.name}: no such tag")
        tags[segment.name] = segment.tags[index]
    bits = record[place + len(plan.segments) :]
    report = Report(plan.name, plan.version, number, record[8 : 8 + ID_BYTES], bits, cohort, tags, asked)
    if not answers_asked(report, plan):
        _malformed(NO_ANSWERS.format(plan.asked))
    return report


def _malformed(message: str) -> NoReturn:
    raise ReportError("malformed", message) from None


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError
    return fields


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(value: object, name: str, size: int | None = None) -> bytes:
    """Strict: the one unpadded base64url text of some bytes, of the right size."""
    if isinstance(value, str) and value.isascii() and "=" not in value:
        try:
            padded = value.encode().translate(_FROM_URL) + b"=" * (-len(value) % 4)
            data = b64decode(padded, validate=True)
        except ValueError:
            data = b""
        if data and _base64(data) == value and (size is None or len(data) == size):
            return data
    _malformed(f"{name}: expected {f'{size} bytes' if size else 'bytes'} as unpadded base64url")


def _whole(value: object, name: str, below: int) -> int:
    if type(value) is not int or not 0 <= value < below:
        _malformed(f"{name}: expected a whole number from 0 to below {below}")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME:
        _malformed(f"{name}: expected a text of 1 to {MAX_NAME} characters")
    if any("\ud800" <= sign <= "\udfff" for sign in value):
        _malformed(f"{name}: expected a text without lone surrogates")
    return value


def _segment(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(tag, str) for tag in value.values()):
        _malformed("segment: expected an object of texts")
    try:
        "".join([*value, *value.values()]).encode()
    except UnicodeEncodeError:
        _malformed("segment: expected texts without lone surrogates")
    return value
