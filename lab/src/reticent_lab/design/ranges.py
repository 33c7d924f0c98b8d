"""The range and the edges that suit recorded values: clipping weighed against noise, in round numbers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, hypot, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import exact
from reticent_collector.estimates import expected_variance
from reticent_lab.design.choice import Choice, Design, choose
from reticent_lab.design.goal import Goal

_DIGITS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)
_SECONDS = tuple(
    unit * number
    for unit, numbers in (
        (1, (1, 2, 5, 10, 15, 20, 30)),
        (60, (1, 2, 3, 5, 10, 15, 20, 30, 45)),
        (3600, (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)),
        (86_400, (1, 2, 3, 5, 7, 14, 28)),
    )
    for number in numbers
)
MOST_BIAS = 4  # Times that a wanted half-width is at least as wide as what the range cuts off
_SMALLEST = 64  # Ranges are tried from this part of the largest value


def round_numbers(top: float, unit: str = "") -> list[Fraction]:
    """
    Whole numbers that people use, up to the first that is not below `top`; of seconds, minutes, hours and days.

    >>> [int(number) for number in round_numbers(21, "hour")]
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25]
    >>> [int(number) for number in round_numbers(7000, "second")[-4:]]
    [2700, 3600, 5400, 7200]
    """
    powers = range(-1, len(str(ceil(top))) + 1)
    numbers = [Fraction(digits) * Fraction(10) ** power for power in powers for digits in _DIGITS]
    if unit.rstrip("s") == "second" and top <= _SECONDS[-1]:
        numbers = [Fraction(number) for number in _SECONDS]
    numbers = [number for number in numbers if number.denominator == 1]
    return numbers[: bisect_left(numbers, top) + 1]


@dataclass(frozen=True)
class Range:
    """A range for recorded values, and what comes of it."""

    choice: Choice  #: The best design with this range, whose half-widths include what it cuts off
    cut: float  #: The share of values above the range, which devices clip
    bias: float  #: How far that moves the mean
    noise: float  #: The standard deviation of the estimate of one period, for devices drawn from such people

    @property
    def max_value(self) -> Fraction:
        """The top of the range."""
        return self.choice.goal.max_value

    @property
    def rmse(self) -> float:
        """√(bias² + noise²): how far the estimate is from the mean of all that was recorded."""
        return hypot(self.bias, self.noise)


def weigh(goal: Goal, values: NDArray[Any]) -> tuple[Range, ...]:
    """
    A mean's goal with each range that values suggest, smallest first; `best` says which to take.

    >>> values = np.array([0] * 90 + [3600] * 9 + [86_400])
    >>> ranges = weigh(Goal(max_value=86_400, devices=10_000, epsilon=1, unit="second"), values)
    >>> int(best(ranges).max_value), round(best(ranges).rmse), round(ranges[-1].rmse)
    (21600, 749, 1500)
    """
    top = float(values.max(initial=1))
    tried = {number for number in round_numbers(top, goal.unit) if number * _SMALLEST >= top}
    found = []
    for number in sorted(tried | {goal.max_value}):
        kept = np.minimum(values, float(number))
        mean, whole = float(kept.mean()), float(values.mean())
        bias = max(0.0, whole - mean)
        wanted = replace(goal, max_value=number, expected=exact(mean), bias=exact(bias), half_width=None)
        if goal.half_width is not None and goal.half_width < number / 2:
            wanted = replace(wanted, half_width=goal.half_width)
        elif goal.half_width is not None and number < goal.max_value:
            continue  # the range itself is narrower than the interval that is wanted
        choice = choose(wanted)
        noise = _deviation(choice.goal, choice.chosen, mean)
        found.append(Range(choice, float((values > float(number)).mean()), bias, noise))
    return tuple(found)


def best(ranges: tuple[Range, ...]) -> Range:
    """
    The range that reaches the half-width at the least loss; or else the one with the least error.

    What is cut off, which intervals do not include, is at most a quarter of the half-width if possible.
    """
    precise = [tried for tried in ranges if tried.choice.met and tried.choice.goal.half_width is not None]
    if not precise:
        return min(ranges, key=lambda tried: tried.rmse)
    careful = [tried for tried in precise if MOST_BIAS * tried.bias <= (tried.choice.goal.half_width or 0)]
    if not careful:
        return min(precise, key=lambda tried: tried.bias)
    return min(careful, key=lambda tried: (tried.choice.chosen.loss, tried.rmse))


def _deviation(goal: Goal, design: Design, mean: float) -> float:
    """
    The standard deviation of the mean over a period.

    Of sampled answers the noise averages out over windows, who was drawn does not. Of remembered ones only flips
    average out: over T rounds of constant devices, the worst there are, a share P(1-P) of the variance of a bit stays
    and γ(1-γ) falls to γ(1-γ)/T.
    """
    metric, rounds = design.metric, goal.together
    if goal.sampled:
        reports = max(1, goal.answering * rounds // goal.answers.window)
        windows = -(-rounds // goal.answers.window)
        repeated = (windows - 1) * mean * (float(goal.max_value) - mean) / reports
        return sqrt(expected_variance(metric, reports, mean) + repeated)
    flip = float(design.flip)
    contrast = float(metric.channel.contrast)
    averaged = flip * (1 - flip) * (1 - 1 / rounds) * (float(goal.max_value) / contrast) ** 2 / goal.answering
    return sqrt(expected_variance(metric, goal.answering, mean) - averaged)


def edges_of(values: NDArray[Any], buckets: int, unit: str = "") -> tuple[Fraction, ...]:
    """
    Edges in round numbers between which about equally many of the recorded values lie.

    Zeros get a bucket of their own where they would fill one; there may be fewer buckets than asked for.

    >>> [int(edge) for edge in edges_of(np.array([0] * 50 + list(range(1, 101))), 4)]
    [0, 1, 30, 60, 100]
    """
    numbers = round_numbers(float(values.max(initial=1)), unit)
    inner: set[Fraction] = set()
    rest = np.sort(values, axis=None)
    parts = buckets
    if (values == 0).mean() * buckets >= 1 and (values > 0).any():
        rest = rest[rest > 0]
        parts = buckets - 1
        inner.add(Fraction(1))
    for part in range(1, parts):
        quantile = Fraction(int(rest[len(rest) * part // parts]))
        place = bisect_right(numbers, quantile)
        near = numbers[max(0, place - 1) : place + 1]
        inner.add(near[0] if quantile - near[0] <= near[-1] - quantile else near[-1])
    edges = Fraction(0), *sorted(inner - {numbers[-1]}), numbers[-1]
    return edges if len(edges) > 2 else (*edges, 2 * numbers[-1])
