"""The ways to ask about a counter, and the one that meets a wish or comes nearest to it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log10
from typing import Literal, TypeVar

from reticent.estimates import expected_half_width
from reticent.lab.design.wish import LEAST_EPSILON, MOST_BUCKETS, MOST_EPSILON, MOST_FLIP, Wish
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric
from reticent.privacy import Losses, loss_by_width, loss_of_moved_change, losses, upward

Rung = TypeVar("Rung")


@lru_cache(maxsize=16)
def ladder(low: Fraction, high: Fraction) -> tuple[Fraction, ...]:
    """
    All numbers of three significant digits from `low` to `high`, in order.

    >>> [str(rung) for rung in ladder(Fraction("0.998"), Fraction("1.02"))]
    ['499/500', '999/1000', '1', '101/100', '51/50']
    """
    decades = range(_decade(low), _decade(high) + 1)
    rungs = (digits * Fraction(10) ** (decade - 2) for decade in decades for digits in range(100, 1000))
    return tuple(rung for rung in rungs if low <= rung <= high)


def rounded_up(number: Fraction) -> Fraction:
    """
    The least number of three significant digits that is not below a positive `number`.

    >>> float(rounded_up(Fraction("241.83"))), int(rounded_up(Fraction(9999)))
    (242.0, 10000)
    """
    unit = Fraction(10) ** (_decade(number) - 2)
    return ceil(number / unit) * unit


def first(rungs: Sequence[Rung], will_do: Callable[[Rung], bool]) -> Rung | None:
    """
    The first rung that will do, where all above it do as well; None when none does.

    >>> first([1, 2, 3, 4], lambda rung: rung * rung >= 5)
    3
    """
    place = bisect_left(rungs, True, key=will_do)
    return rungs[place] if place < len(rungs) else None


def last(rungs: Sequence[Rung], will_do: Callable[[Rung], bool]) -> Rung | None:
    """
    The last rung that will do, where all below it do as well; None when none does.

    >>> last([1, 2, 3, 4], lambda rung: rung * rung <= 5)
    2
    """
    place = bisect_left(rungs, True, key=lambda rung: not will_do(rung))
    return rungs[place - 1] if place else None


def _decade(number: Fraction) -> int:
    """The power of ten at or below a positive number: log10 may be off by one, the comparison is not."""
    guess = floor(log10(number.numerator) - log10(number.denominator))
    return guess + (number >= Fraction(10) ** (guess + 1)) - (number < Fraction(10) ** guess)


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
    remembers more answers, so its same-pattern loss is larger. The paper's dBitFlip of one bit spends h = ε/2 where
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
        """The same-pattern loss at an epsilon; flips do not change it."""
        mechanism = self._build(wish, epsilon)
        return loss_by_width(mechanism, mechanism.classes)

    def most_epsilon(self, wish: Wish, limit: Fraction) -> Fraction | None:
        """
        The largest epsilon whose same-pattern loss is within a limit; None when the least is too much.

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

    def _build(self, wish: Wish, epsilon: Fraction) -> OneBitMean | DBitFlip | HadamardBit:
        if wish.buckets is None:
            return OneBitMean(epsilon, wish.max_value, wish.max_value / self.steps)
        buckets = _even(wish.max_value, wish.buckets)
        if self.mechanism == "hadamard-bit":
            return HadamardBit(epsilon, buckets)
        return DBitFlip(epsilon, buckets, self.bits, self.variant, f"{wish.name}/{wish.name}")


def candidates(wish: Wish) -> tuple[Candidate, ...]:
    """
    Every way there is to answer a wish, those for comparison last.

    >>> [candidate.bits for candidate in candidates(Wish(max_value=24, devices=1000, epsilon=1, buckets=6))]
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


@dataclass(frozen=True)
class Design:
    """
    A metric for a fleet, what it loses and how precise it is.

    `half_width` is at the truth the wish expects, `worst_half_width` at the worst there can be; they are the
    same when it expects none.
    """

    candidate: Candidate
    metric: Metric
    devices: int
    """How many there are; an estimate has its segment's share of them."""
    losses: Losses
    half_width: float
    worst_half_width: float

    @property
    def epsilon(self) -> Fraction:
        """ε of the remembered answer."""
        return self.metric.mechanism.epsilon

    @property
    def flip(self) -> Fraction:
        """γ, the flip probability."""
        return self.metric.flip.probability


def half_width(wish: Wish, metric: Metric) -> float:
    """The half-width that a wish is about: of one segment, at the truth it expects."""
    at = None if wish.expected is None else float(wish.expected)
    return expected_half_width(metric, wish.reports, wish.confidence, at)


def make(wish: Wish, candidate: Candidate, epsilon: Fraction, flip: Fraction) -> Design:
    """A candidate with all its parameters, and its figures."""
    metric = candidate.metric(wish, epsilon, flip)
    return Design(
        candidate=candidate,
        metric=metric,
        devices=wish.devices,
        losses=losses(metric.mechanism, metric.flip),
        half_width=half_width(wish, metric),
        worst_half_width=half_width(replace(wish, expected=None), metric),
    )


def least_epsilon(wish: Wish, candidate: Candidate, flip: Fraction) -> Fraction | None:
    """The smallest epsilon that is precise enough; None when no epsilon of a plan is."""
    wanted = wish.half_width
    if wanted is None:
        return None
    return first(EPSILONS, lambda epsilon: half_width(wish, candidate.metric(wish, epsilon, flip)) <= wanted)


@dataclass(frozen=True)
class Choice:
    """What was wished for, what comes of it, and whether that is enough."""

    wish: Wish
    chosen: Design
    met: bool


def choose(wish: Wish) -> Choice:
    """
    The design that is precise enough at the least same-pattern loss, or else the most precise within the limit.

    Each candidate gets the flip that the wish asks for and the smallest epsilon of three significant digits
    that reaches the half-width. Of those within the limit of privacy the one with the least same-pattern loss is
    chosen, the more precise of two that lose the same. The limit is never exceeded: when nothing within it is
    precise enough, the narrowest interval within it is the answer, and `met` is False. Mechanisms are thus
    compared at equal same-pattern loss, not at equal epsilon: that of dBitFlip with d bits is d·ε.

    >>> choice = choose(Wish(max_value=21_600, devices=100_000, half_width=300, epsilon=1))
    >>> choice.met, float(choice.chosen.epsilon), round(choice.chosen.half_width, 1)
    (True, 0.783, 299.9)
    """
    precise = [design for candidate in eligible(wish) if (design := _precise_enough(wish, candidate))]
    if precise:
        least = min(precise, key=lambda design: (design.losses.lifetime, design.half_width))
        return Choice(wish, least, met=True)
    nearest = min(most_precise(wish), key=lambda design: (design.half_width, design.losses.lifetime))
    return Choice(wish, nearest, met=wish.half_width is None)


def eligible(wish: Wish) -> list[Candidate]:
    """The candidates that may be chosen."""
    return [candidate for candidate in candidates(wish) if not candidate.for_comparison]


def most_precise(wish: Wish) -> list[Design]:
    """Each eligible candidate with the largest epsilon that is private enough; one bit always has one."""
    return [
        make(wish, candidate, most, flip)
        for candidate in eligible(wish)
        if (most := candidate.most_epsilon(wish, wish.limit)) is not None
        and (flip := candidate.flip(wish)) is not None
    ]


def _precise_enough(wish: Wish, candidate: Candidate) -> Design | None:
    """A candidate with the least epsilon that is precise enough, if it is private enough."""
    flip, most = candidate.flip(wish), candidate.most_epsilon(wish, wish.limit)
    if flip is None or most is None:
        return None
    epsilon = least_epsilon(wish, candidate, flip)
    return make(wish, candidate, epsilon, flip) if epsilon is not None and epsilon <= most else None
