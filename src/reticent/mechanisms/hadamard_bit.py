"""The Hadamard bit: one noisy bit about a value's bucket that says something about every bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from reticent.errors import ParameterError
from reticent.mechanisms.buckets import Buckets
from reticent.mechanisms.cohort import COHORTS, hadamard_row
from reticent.mechanisms.exact import SCALE, Number
from reticent.mechanisms.response import RandomizedResponse


def hadamard_sign(row: Any, column: Any) -> Any:
    """
    H[row, column] of the Sylvester matrix: -1 to the number of common one bits.

    Works on numbers and arrays below 256.

    >>> [[hadamard_sign(row, column) for column in range(4)] for row in range(4)]
    [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    common = row & column
    common = common ^ (common >> 4)
    common = common ^ (common >> 2)
    common = common ^ (common >> 1)
    return 1 - 2 * (common & 1)


@dataclass(frozen=True, slots=True, init=False)
class HadamardBit:
    """
    One noisy bit about the side of a public line that a bucket falls on.

    The device's cohort names a row *r* of the K × K Hadamard matrix, K the least power of two above the
    number of buckets. Its value's bucket *v* is on the side H[r, v+1] = ±1 (column 0 is left out: it is
    all ones), and randomized response with the whole ε answers whether that side is +1. Two remembered
    answers, hence at most 2ε for ever; even with ε = ∞ only one bit of the bucket is told.

    Every report says something about every bucket, so n·Var is about coth²(ε/2) whatever the number of
    buckets, where dBitFlip pays a factor k/d.

    >>> HadamardBit(epsilon=1, buckets=Buckets.even(24, 32)).size
    64
    """

    buckets: Buckets
    response: RandomizedResponse = field(repr=False)
    size: int = field(init=False)

    def __init__(self, epsilon: Number, buckets: Buckets) -> None:
        size = 1 << len(buckets).bit_length()
        if size > COHORTS:
            raise ParameterError(
                "buckets",
                f"at most {COHORTS - 1} for hadamard-bit (a row must fit the one-byte cohort)",
                len(buckets),
            )
        object.__setattr__(self, "buckets", buckets)
        object.__setattr__(self, "response", RandomizedResponse(epsilon))
        object.__setattr__(self, "size", size)

    bits = 1
    classes = 2
    uses_cohort = True

    @property
    def epsilon(self) -> Fraction:
        """ε of the remembered bit."""
        return self.response.epsilon

    @property
    def max_value(self) -> int | Fraction:
        """The top of the range."""
        return self.buckets.max_value

    def row(self, cohort: int) -> int:
        """The row that a device of this cohort answers about."""
        return hadamard_row(cohort, self.size)

    def probability_of_one(self, bucket: Any, row: Any) -> Any:
        """The chance of a 1 from a device of this row when the value is in `bucket` (numbers or arrays)."""
        contrast = 1 - 2 * self.response.low / SCALE
        return (1 + contrast * hadamard_sign(row, bucket + 1)) / 2

    def memo_class(self, value: int | Fraction, alpha: int, cohort: int) -> int:
        """Which remembered answer `value` calls for: 0 on the side of +1, 1 on the side of -1."""
        sign: int = hadamard_sign(self.row(cohort), self.buckets.index(value) + 1)
        return (1 - sign) // 2

    def thresholds(self, memo_class: int, cohort: int = 0) -> tuple[int, ...]:
        """What the answer bit's draw is compared with."""
        return (self.response.low if memo_class else self.response.high,)
