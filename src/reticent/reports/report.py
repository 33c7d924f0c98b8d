"""What is sent, one report per device, plan and round, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent.plan import Plan


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


def asked_places(plan: Plan, asked: bytes) -> int | None:
    """
    The places of a report's bits that may be 1 where `asked` says which metrics it answers, as one number.

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
    """Whether a report says which metrics it answers exactly where the plan wants it, and answers no others."""
    if report.asked is None or not plan.asked_bytes:
        return report.asked is None and not plan.asked_bytes
    places = asked_places(plan, report.asked)
    return places is not None and int.from_bytes(report.bits, "big") & ~places == 0


class Verdict(StrEnum):
    """What becomes of a report; the words are stable and stand on the wire."""

    ACCEPTED = "accepted"
    UNKNOWN_PLAN = "unknown_plan"
    VERSION_MISMATCH = "version_mismatch"
    MALFORMED = "malformed"
    EARLY = "early"
    LATE = "late"
