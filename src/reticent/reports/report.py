"""What is sent, one report per device, plan and round, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Report:
    """
    The noisy bits of one device in one round, and nothing else about it.

    `bits` holds the answers in plan order, most significant bit first, padded with 0 to whole bytes. `id` is
    a keyed hash of the round: the same on a retry, unrelated in the next round.
    """

    plan: str
    version: int
    round: int
    id: bytes
    bits: bytes
    cohort: int | None = None
    segment: Mapping[str, str] = field(default_factory=dict)

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


class Verdict(StrEnum):
    """What becomes of a report; the words are stable and stand on the wire."""

    ACCEPTED = "accepted"
    UNKNOWN_PLAN = "unknown_plan"
    VERSION_MISMATCH = "version_mismatch"
    MALFORMED = "malformed"
    EARLY = "early"
    LATE = "late"
