"""The ways to ask about a counter."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from reticent.lab.design.ladder import first, ladder, last
from reticent.lab.design.wish import LEAST_EPSILON, MOST_BUCKETS, MOST_EPSILON, MOST_FLIP, Wish
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, Mechanism, OneBitMean
from reticent.plan import Metric
from reticent.privacy import loss_by_width, loss_of_moved_change, upward

EPSILONS = ladder(LEAST_EPSILON, MOST_EPSILON)
FLIPS = ladder(Fraction(1, 10**9), MOST_FLIP)
FINER_STEPS = 10
"""Steps of the mean that is shown for comparison."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """
    One mechanism with everything but its epsilon.

    Two are there to compare with and are never chosen. A mean on a finer grid (`steps` > 1) answers 1 with
    the very same probability (α-point rounding is unbiased, Theorem 3), so it is as precise in a round, and
    remembers more answers, so it loses more for life. The paper's dBitFlip of one bit spends h = ε/2 where
    h = ε would do, and remembers every bucket.
    """

    mechanism: Literal["one-bit-mean", "hadamard-bit", "d-bit-flip"]
    bits: int = 1
    variant: Literal["tight", "paper"] = "tight"
    steps: int = 1

    @property
    def for_comparison(self) -> bool:
        """Whether it is shown only."""
        return self.steps > 1 or self.variant == "paper"

    def metric(self, wish: Wish, epsilon: Fraction, flip: Fraction) -> Metric:
        """The metric a plan would have."""
        return Metric(wish.name, self._build(wish, epsilon), Flip(flip), wish.unit)

    def lifetime(self, wish: Wish, epsilon: Fraction) -> float:
        """The loss for life at an epsilon; flips do not change it."""
        mechanism = self._build(wish, epsilon)
        return loss_by_width(mechanism, mechanism.classes)

    def most_epsilon(self, wish: Wish, limit: Fraction) -> Fraction | None:
        """
        The largest epsilon whose loss for life is within a limit; None when the least is too much.

        Losses are floats rounded up, and so is the limit they are compared with: 2 · 0.3 is within 0.6.

        >>> wish = Wish(max_value=24, devices=1000, lifetime=1, buckets=32)
        >>> Candidate("d-bit-flip", bits=4).most_epsilon(wish, wish.limit)
        Fraction(1, 4)
        """
        most = upward(limit)
        return last(EPSILONS, lambda epsilon: self.lifetime(wish, epsilon) <= most)

    def flip(self, wish: Wish) -> Fraction | None:
        """The flip that was asked for, or the least that hides a change well enough; None when none does."""
        if wish.change_time is None:
            return wish.flip
        most = upward(wish.change_time)
        return first(FLIPS, lambda gamma: self.change_time(wish, gamma) <= most)

    def change_time(self, wish: Wish, flip: Fraction) -> float:
        """What is lost per round by which a change is moved; epsilon does not change it."""
        return loss_of_moved_change(self._build(wish, MOST_EPSILON), Flip(flip))

    def _build(self, wish: Wish, epsilon: Fraction) -> Mechanism:
        if wish.buckets is None:
            return OneBitMean(epsilon, wish.max_value, wish.max_value / self.steps)
        buckets = _even(wish.max_value, wish.buckets)
        if self.mechanism == "hadamard-bit":
            return HadamardBit(epsilon, buckets)
        return DBitFlip(epsilon, buckets, self.bits, self.variant, f"{wish.name}/{wish.name}")


def candidates(wish: Wish) -> tuple[Candidate, ...]:
    """
    Every way there is to answer a wish, those for comparison last.

    >>> [each.bits for each in candidates(Wish(max_value=24, devices=1000, epsilon=1, buckets=6))]
    [1, 1, 2, 4, 6, 1]
    """
    if wish.buckets is None:
        return Candidate("one-bit-mean"), Candidate("one-bit-mean", steps=FINER_STEPS)
    count = wish.buckets
    powers = [1 << power for power in range(count.bit_length()) if 1 << power < count]
    hadamard = [Candidate("hadamard-bit")] if count < MOST_BUCKETS else []
    flips = [Candidate("d-bit-flip", bits) for bits in (*powers, count)]
    return *hadamard, *flips, Candidate("d-bit-flip", variant="paper")


@lru_cache(maxsize=64)
def _even(max_value: Fraction, count: int) -> Buckets:
    """Buckets are asked for many times in a search."""
    return Buckets.even(max_value, count)
