"""The ways to ask about a counter, and the one that meets a goal or comes nearest to it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, floor, log10
from typing import Literal, TypeVar

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan
from reticent.plan.card import PrivacyCard, privacy_card
from reticent.privacy import Losses, compose, lifetime_loss, loss_of_moved_change, loss_of_window, upward
from reticent_collector.estimates import expected_average_half_width
from reticent_lab.design.goal import DAY, LEAST_EPSILON, MOST_BUCKETS, MOST_EPSILON, MOST_FLIP, WEEK, Goal

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


@dataclass(frozen=True, slots=True)
class Candidate:
    """One mechanism with everything but its epsilon."""

    mechanism: Literal["one-bit-mean", "hadamard-bit", "d-bit-flip"]
    bits: int = 1

    def metric(self, goal: Goal, epsilon: Fraction, flip: Fraction, name: str = "") -> Metric:
        """The metric a plan would have."""
        name = name or goal.name
        mechanism = self._build(goal, epsilon, name)
        return Metric(name, mechanism, Flip(flip), goal.unit, labels=goal.labels, is_flag=goal.flag)

    def loss(self, goal: Goal, epsilon: Fraction) -> float:
        """The loss behind the promise, of all metrics: same pattern (whatever the flip), or one window."""
        mechanism = self._build(goal, epsilon)
        if goal.sampled:
            return loss_of_window([mechanism] * goal.metrics, [], goal.answers.metrics or goal.metrics)
        return compose([lifetime_loss(mechanism)] * goal.metrics)

    def most_epsilon(self, goal: Goal, limit: Fraction) -> Fraction | None:
        """
        The largest epsilon whose loss behind the promise is within a limit; None when the least is too much.

        >>> goal = Goal(max_value=24, devices=1000, lifetime=1, buckets=32)
        >>> Candidate("d-bit-flip", bits=4).most_epsilon(goal, goal.limit)
        Fraction(1, 4)
        """
        most = upward(limit)
        return last(EPSILONS, lambda epsilon: self.loss(goal, epsilon) <= most)

    def flip(self, goal: Goal) -> Fraction | None:
        """The flip that was asked for, or the least that hides a change well enough; None when none does."""
        if goal.change_time is None:
            return goal.flip
        most = upward(goal.change_time)
        return first(FLIPS, lambda gamma: self.change_time(goal, gamma) <= most)

    def change_time(self, goal: Goal, flip: Fraction) -> float:
        """What is lost per round by which a change is moved; epsilon does not change it."""
        return loss_of_moved_change(self._build(goal, MOST_EPSILON), Flip(flip))

    def _build(self, goal: Goal, epsilon: Fraction, name: str = "") -> OneBitMean | DBitFlip | HadamardBit:
        if goal.buckets is None:
            return OneBitMean(epsilon, goal.max_value)
        buckets = _buckets(goal.max_value, goal.buckets, goal.edges, bool(goal.labels))
        if self.mechanism == "hadamard-bit":
            return HadamardBit(epsilon, buckets)
        return DBitFlip(epsilon, buckets, self.bits, "tight", f"{goal.name}/{name}")


def candidates(goal: Goal) -> tuple[Candidate, ...]:
    """
    Every way there is to answer a goal.

    >>> [candidate.bits for candidate in candidates(Goal(max_value=24, devices=1000, epsilon=1, buckets=6))]
    [1, 1, 2, 4, 6]
    """
    if goal.buckets is None:
        return (Candidate("one-bit-mean"),)
    count = goal.buckets
    powers = [1 << power for power in range(count.bit_length()) if 1 << power < count]
    hadamard = [Candidate("hadamard-bit")] if count < MOST_BUCKETS else []
    flips = [Candidate("d-bit-flip", bits) for bits in (*powers, count)]
    return *hadamard, *flips


@lru_cache(maxsize=64)
def _buckets(max_value: Fraction, count: int, edges: tuple[Fraction, ...], labels: bool) -> Buckets:
    if labels:
        return Buckets(range(count), absent=True)
    return Buckets(edges) if edges else Buckets.even(max_value, count)


@dataclass(frozen=True)
class Design:
    """
    A metric for a fleet, its losses and its precision.

    `half_width` is at the truth the goal expects, `worst_half_width` at the worst; of a round or of a sampled
    window.
    """

    candidate: Candidate
    plan: Plan  #: The smallest plan there is around the metric, or around as many as the goal has
    devices: int  #: How many there are; an estimate has its segment's share of them
    card: PrivacyCard
    loss: float  #: The one behind the promise: of the same pattern, or of one window
    half_width: float
    worst_half_width: float

    @property
    def metric(self) -> Metric:
        """What is asked; the first of several that are alike."""
        return self.plan.metrics[0]

    @property
    def losses(self) -> Losses:
        """All losses; those over all rounds have no bound where answers are sampled."""
        return self.card.loss

    @property
    def epsilon(self) -> Fraction:
        """ε of one answer."""
        return self.metric.mechanism.epsilon

    @property
    def flip(self) -> Fraction:
        """γ, the flip probability."""
        return self.metric.flip.probability


def half_width(goal: Goal, metric: Metric) -> float:
    """The half-width that a goal is about: of one segment, at the truth it expects, with what the range cuts off."""
    at = None if goal.expected is None else float(goal.expected)
    noise = expected_average_half_width(
        metric, goal.answering, goal.together, goal.confidence, goal.answers, at
    )
    return noise + float(goal.bias)


def make(goal: Goal, candidate: Candidate, epsilon: Fraction, flip: Fraction) -> Design:
    """A candidate with all its parameters, and its figures."""
    names = [f"{goal.name}_{number}" for number in range(1, goal.metrics + 1)]
    if goal.metrics == 1:
        names = [goal.name]
    metrics = tuple(candidate.metric(goal, epsilon, flip, name) for name in names)
    plan = Plan(goal.name, 1, goal.round_seconds, goal.round_seconds, metrics, answers=goal.answers)
    return Design(
        candidate=candidate,
        plan=plan,
        devices=goal.devices,
        card=privacy_card(plan),
        loss=candidate.loss(goal, epsilon),
        half_width=half_width(goal, metrics[0]),
        worst_half_width=half_width(replace(goal, expected=None), metrics[0]),
    )


@dataclass(frozen=True)
class Choice:
    """What was wanted, what comes of it, and whether that is enough."""

    goal: Goal
    chosen: Design
    met: bool

    def rank(self) -> tuple[bool, float, float]:
        """The less, the better: precise enough at the least loss, or as precise as can be."""
        figures = self.chosen.loss, self.chosen.half_width
        reaches = self.met and self.goal.half_width is not None
        return not self.met, *(figures if reaches else figures[::-1])


def choose(goal: Goal) -> Choice:
    """
    The design that is precise enough at the least loss, or else the most precise within the limit.

    Each candidate gets the flip that the goal asks for and the smallest epsilon of three significant digits that
    reaches the half-width. The limit is never exceeded: when nothing within it is precise enough, `met` is False.
    Mechanisms are compared by the loss behind the promise, not by epsilon.

    A sampled window that the goal leaves open is a week; if that is not precise enough, 2 or 4 weeks under the
    limit of a year, and a day or a round under a limit per window for a period of less than a week. Metrics per
    report that are left open are as many as give the least loss or the narrowest interval.

    >>> choice = choose(Goal(max_value=21_600, devices=100_000, half_width=300, epsilon=1))
    >>> choice.met, float(choice.chosen.epsilon), round(choice.chosen.half_width, 1)
    (True, 0.783, 299.9)
    """
    if goal.sampled and goal.window is None:
        return _choose_window(goal)
    if goal.sampled and goal.metrics > 1 and goal.asked is None:
        powers = [1 << power for power in range(goal.metrics.bit_length()) if 1 << power < goal.metrics]
        numbers = [n for n in (*powers, goal.metrics) if n * LEAST_EPSILON <= goal.limit]
        return min((choose(replace(goal, asked=number)) for number in numbers), key=Choice.rank)
    precise = []
    for candidate, flip, most in _private_enough(goal):
        if _is_enough(goal, candidate, flip, most):
            least = first(EPSILONS, partial(_is_enough, goal, candidate, flip)) or most
            precise.append(make(goal, candidate, least, flip))
    if precise:
        best = min(precise, key=lambda design: (design.loss, design.half_width))
        return Choice(goal, best, met=True)
    most_precise = [make(goal, candidate, most, flip) for candidate, flip, most in _private_enough(goal)]
    nearest = min(most_precise, key=lambda design: (design.half_width, design.loss))
    return Choice(goal, nearest, met=goal.half_width is None)


def _choose_window(goal: Goal) -> Choice:
    """The first window that is precise enough, or else the one that comes nearest."""
    seconds = [WEEK, 2 * WEEK, 4 * WEEK] if goal.year else [WEEK]
    if goal.year is None and goal.period and goal.period * goal.round_seconds < WEEK:
        seconds += [DAY, goal.round_seconds]
    choices = []
    for window in dict.fromkeys(max(1, length // goal.round_seconds) for length in seconds):
        choice = choose(replace(goal, window=window))
        if choice.met:
            return choice
        choices.append(choice)
    return choices[-1] if goal.year else min(choices, key=lambda choice: choice.chosen.half_width)


def can_be_met(goal: Goal) -> bool:
    """Whether some candidate is precise enough within the limit; with sampled answers, in the goal's window."""
    return any(_is_enough(goal, candidate, flip, most) for candidate, flip, most in _private_enough(goal))


def _private_enough(goal: Goal) -> Iterator[tuple[Candidate, Fraction, Fraction]]:
    for candidate in candidates(goal):
        flip = candidate.flip(goal)
        most = candidate.most_epsilon(goal, goal.limit)
        if flip is not None and most is not None:
            yield candidate, flip, most


def _is_enough(goal: Goal, candidate: Candidate, flip: Fraction, epsilon: Fraction) -> bool:
    """Whether a candidate is precise enough; once it is, it is for every larger epsilon."""
    wanted = goal.half_width
    return wanted is not None and half_width(goal, candidate.metric(goal, epsilon, flip)) <= wanted
