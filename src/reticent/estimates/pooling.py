"""
Averages over several rounds, and differences between rounds or periods.

**Remembered answers** do not average out. A device whose value stays the same sends the same bit every round
(but for the flip), so the error of one round is, for the most part, the error of the next:

    n·Var(R-round average of the bit) = (1-2γ)² M(1-M) + γ(1-γ)/R,        M the share that remembers a 1,

.112 at ε = 1, γ = .2 and R = 7 where independent rounds would give .036. Dividing by √R, the textbook rule,
would claim intervals 1.8 times too narrow after a week, and 11 times after a year. What holds instead:

*convex-order*, for an average. **Theorem.** Let n be the fewest reports of a round, devices independent, bits
remembered in any way and turned over with probability γ anew in each round. The average over R rounds of the
share of ones is below, in convex order, that of n devices that never change and remember a 1 with
probability M each, where M has the same mean. *Proof.* Give every bit of round t the weight w = n / n_t ≤ 1.
Given all remembered bits, the weighted sum of reported bits is the expectation, given the bits, of the sum
over n of them in each round, picked at random with probability w; the pick can be made such that the number
of remembered ones in it is κ = Σ w·m rounded up or down, with mean κ. So E f(sum) ≤ φ(κ) with
φ(K) = E f(Bin(K, 1-γ) + Bin(nR - K, γ)), linear between whole numbers, for convex f; and φ is convex. Now
κ/R = Σ a_i over devices, with independent a_i in [0, c_i], where c_i ≤ 1 and Σ c_i = n. So a_i ≤cx c_i · B_i
with a coin B_i, and Σ c_i B_i is the expectation of Σ B_i over a random set of n devices with inclusion
probabilities c_i. Such a set can be strongly Rayleigh; then that sum has the law of n independent coins,
which is below Bin(n, M) (Hoeffding 1956). ∎ The interval inverts the upper mean of that law; see
`convex_order`.

*convex-order*, for a difference of two rounds of **given devices**. Given its values, the two bits of a
device never correlate negatively: one class, one bit; two classes, independent draws; and the chance of a 1
is monotone in the alpha that both share. So the difference of two bits is below that of two independent ones,
and D ≤cx Bin(n₂, P₂)/n₂ - Bin(n₁, P₁)/n₁. The two probabilities are unknown: they are first confined to
Clopper-Pearson intervals at a fiftieth of 1 - confidence, and the widest law within decides. For devices
*drawn* from a population who is drawn adds to both rounds alike, and the interval can be too narrow for the
population's change. Different devices, such as two segments of one round, are independent: it holds for both.

*convex-order*, for a difference of two periods: upper means add under any dependence, so those of the two
averages do.

*wide*: the ends of the rounds' intervals are averaged, or subtracted crosswise. Since sd(average) ≤ average
of sds and sd(a - b) ≤ sd(a) + sd(b) whatever the dependence, it holds for many devices, and exactly for an
average of devices that keep their class; for few devices that change it is measured, not proved. It is used
where it is narrower, which the numbers of reports and rounds and γ decide, never the answers: averages with a
flip of about 0.1 or less.

**Sampled answers** are fresh draws: the *counts* of all rounds add up and Clopper-Pearson is exact for them
(*clopper-pearson*). The figure is the mean over reports, so a round with more reports weighs more. The
difference of two periods combines the distances to the limits like independent errors (*square-and-add*).

Within one round devices differ from segment to segment: pool segments by adding their counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import hypot
from operator import add
from typing import overload

import numpy as np

from reticent.counts import Counts, HistogramCounts, MeanCounts
from reticent.errors import ParameterError
from reticent.estimates.convex_order import average_excess, average_interval, difference_excess
from reticent.estimates.estimator import Estimate, HistogramEstimate, estimate
from reticent.estimates.interval import Floats, binomial_limits, expected_half_width
from reticent.plan import Answers, Metric

REMEMBERED = Answers()
SPENT_ON_NUISANCE = 0.02
"""The part of 1 - confidence that confines the probabilities behind a difference."""


@overload
def average(
    metric: Metric, rounds: Sequence[MeanCounts], confidence: float = 0.95, answers: Answers = REMEMBERED
) -> Estimate: ...
@overload
def average(
    metric: Metric, rounds: Sequence[HistogramCounts], confidence: float = 0.95, answers: Answers = REMEMBERED
) -> HistogramEstimate: ...
@overload
def average(
    metric: Metric, rounds: Sequence[Counts], confidence: float = 0.95, answers: Answers = REMEMBERED
) -> Estimate | HistogramEstimate: ...
def average(
    metric: Metric, rounds: Sequence[Counts], confidence: float = 0.95, answers: Answers = REMEMBERED
) -> Estimate | HistogramEstimate:
    """
    The average of one metric over rounds, from the counts of each.

    `answers` is the plan's way of answering (`Plan.answers`): the counts of sampled answers are added up,
    rounds of remembered ones are averaged. `Estimate.rule` says where the interval comes from. `reports` is the
    fewest of a round for remembered answers, because bits that repeat themselves are not more evidence.

    >>> from reticent.counts import MeanCounts
    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> hours = Metric("hours", OneBitMean(epsilon=1, max_value=24), Flip("1/5"), unit="hour")
    >>> week = [MeanCounts(reports=100_000, ones=ones) for ones in (43_900, 44_100, 44_000, 43_800) * 7]
    >>> print(average(hours, week[:1]))
    6.72 ± 0.27 hour (95%, n=100,000)
    >>> print(average(hours, week), average(hours, week).rule)
    6.76 ± 0.20 hour (95%, n=100,000) convex-order
    """
    if not rounds:
        raise ParameterError("rounds", "the counts of at least one round", 0)
    if answers.sampled:
        return estimate(metric, reduce(add, rounds), confidence)
    period = _Period(metric, rounds, confidence)
    return period.shaped([_average(metric, numbers) for numbers in period.numbers])


@overload
def difference(
    metric: Metric,
    later: MeanCounts | Sequence[MeanCounts],
    earlier: MeanCounts | Sequence[MeanCounts],
    confidence: float = 0.95,
    answers: Answers = REMEMBERED,
) -> Estimate: ...
@overload
def difference(
    metric: Metric,
    later: HistogramCounts | Sequence[HistogramCounts],
    earlier: HistogramCounts | Sequence[HistogramCounts],
    confidence: float = 0.95,
    answers: Answers = REMEMBERED,
) -> HistogramEstimate: ...
@overload
def difference(
    metric: Metric,
    later: Counts | Sequence[Counts],
    earlier: Counts | Sequence[Counts],
    confidence: float = 0.95,
    answers: Answers = REMEMBERED,
) -> Estimate | HistogramEstimate: ...
def difference(
    metric: Metric,
    later: Counts | Sequence[Counts],
    earlier: Counts | Sequence[Counts],
    confidence: float = 0.95,
    answers: Answers = REMEMBERED,
) -> Estimate | HistogramEstimate:
    """
    `later` less `earlier`: each the counts of a round, or of the rounds of a period.

    A change of zero is not excluded until the interval excludes it. For remembered answers the interval speaks
    of the devices that answered. For devices that did not change, the noise cancels and the interval is far
    wider than the error, which nobody can know from counts alone.
    """
    periods = []
    for rounds in (later, earlier):
        counts = [*rounds] if isinstance(rounds, Sequence) else [rounds]
        if not counts:
            raise ParameterError("rounds", "the counts of at least one round", 0)
        periods.append(_Period(metric, [reduce(add, counts)] if answers.sampled else counts, confidence))
    pairs = zip(periods[0].numbers, periods[1].numbers, strict=True)
    rule = _square_and_add if answers.sampled else _change
    return periods[0].shaped([rule(metric, after, before) for after, before in pairs])


def expected_average_half_width(
    metric: Metric, devices: int, rounds: int, confidence: float = 0.95, answers: Answers = REMEMBERED
) -> float:
    """
    The half-width to expect of an average over rounds, at the worst truth.

    The same rules as `average`: `devices` answer every round with remembered answers, or each one round of
    every window with sampled ones.

    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> part = Metric("part", OneBitMean(epsilon=1, max_value=1), Flip("1/5"))
    >>> [round(expected_average_half_width(part, 100_000, rounds), 4) for rounds in (1, 28, 1460)]
    [0.0112, 0.0083, 0.0081]
    >>> part = Metric("part", OneBitMean(epsilon=1, max_value=1))
    >>> weekly = Answers(window=28)
    >>> [round(expected_average_half_width(part, 100_000, rounds, 0.95, weekly), 4) for rounds in (1, 28, 1460)]
    [0.0358, 0.0067, 0.0009]
    """
    if answers.sampled:
        return expected_half_width(metric, max(1, devices * rounds // answers.window), confidence)
    single = expected_half_width(metric, devices, confidence)
    if rounds == 1 or not metric.flip.threshold:
        return single
    mechanism = metric.mechanism
    reports = max(1, int(devices * mechanism.least_share))
    if mechanism.intervals > 1:
        reports = _rounded_down(reports)
    tail = (1 - confidence) / mechanism.intervals / 2
    flip = float(metric.flip.probability)
    lower, upper = average_interval(np.array(0.5), reports, rounds, flip, tail)
    return min(single, mechanism.top * float(upper - lower) / 2 / float(metric.channel.contrast))


Rounds = tuple[Estimate, ...]
"""One number, or one bucket, in each round of a period."""


class _Period:
    """The rounds of a period, number by number."""

    def __init__(self, metric: Metric, rounds: Sequence[Counts], confidence: float) -> None:
        self.estimates = [estimate(metric, counts, confidence) for counts in rounds]
        parts = [
            number.buckets if isinstance(number, HistogramEstimate) else (number,)
            for number in self.estimates
        ]
        self.numbers: list[Rounds] = [*zip(*parts, strict=True)]

    def shaped(self, numbers: list[Estimate]) -> Estimate | HistogramEstimate:
        """The numbers as what the metric is: one of them, or a histogram."""
        first = self.estimates[0]
        if isinstance(first, Estimate):
            return numbers[0]
        fewest = min(number.reports for number in self.estimates)
        return replace(first, buckets=tuple(numbers), reports=fewest)


def _average(metric: Metric, rounds: Rounds) -> Estimate:
    """The average of one number over rounds, by the narrower rule for so many reports, rounds and flips."""
    if len(rounds) == 1:
        return rounds[0]
    wide = _averaged(rounds)
    if not (wide.reports and metric.flip.threshold):
        return wide
    bits = _Bits(metric, rounds)
    if bits.excess(np.array(0.5), bits.tail) >= _wide_at_half(rounds):
        return wide
    ends = metric.mechanism.top * metric.channel.truth(np.array(bits.interval(bits.tail)))
    return _with_ends(wide, float(ends[0]), float(ends[1]), "convex-order")


def _change(metric: Metric, later: Rounds, earlier: Rounds) -> Estimate:
    """The change of one number, by the narrower rule for so many reports, rounds and flips."""
    wide = _subtracted(_averaged(later), _averaged(earlier))
    if not wide.reports:
        return wide
    new, old = _Bits(metric, later), _Bits(metric, earlier)
    single, tail = len(later) == len(earlier) == 1, (1 - SPENT_ON_NUISANCE) * new.tail
    excess = _excess_of_rounds if single else _excess_of_periods
    half = (0.5, 0.5)
    if excess(new, half, old, half, tail) >= _wide_at_half(later) + _wide_at_half(earlier):
        return wide
    new_box, old_box = (bits.interval(SPENT_ON_NUISANCE * bits.tail / 2) for bits in (new, old))
    scale = metric.mechanism.top / float(metric.channel.contrast)
    up = scale * excess(new, new_box, old, old_box, tail)
    down = scale * excess(old, old_box, new, new_box, tail)
    return _with_ends(wide, wide.value - up, wide.value + down, "convex-order")


class _Bits:
    """The bits behind one number in the rounds of a period: how many, with what share of ones."""

    def __init__(self, metric: Metric, rounds: Rounds) -> None:
        self.rounds = rounds
        self.flip = float(metric.flip.probability)
        self.bounds = (self.flip, 1 - self.flip)
        shares = [metric.channel.share(number.value / metric.mechanism.top) for number in rounds]
        self.share = float(np.mean(shares))
        self.reports = min(number.reports for number in rounds)
        self.tail = _tail(rounds[0])
        # Rounding down widens the interval by 1.6 % at most; it lets the buckets of a histogram share laws.
        self.devices = _rounded_down(self.reports) if rounds[0].together > 1 else self.reports

    def excess(self, share: Floats, tail: float) -> Floats:
        """How far above its mean the average may be; `share` is that mean."""
        return average_excess(share, self.devices, len(self.rounds), self.flip, tail)

    def interval(self, tail: float) -> tuple[float, float]:
        """Where the mean is: each end is wrong with chance `tail` at most."""
        if len(self.rounds) == 1:
            hits = round(self.share * self.reports)
            lower, upper = binomial_limits(hits, self.reports, tail)
        else:
            share = np.array(self.share)
            lower, upper = average_interval(share, self.devices, len(self.rounds), self.flip, tail)
        return float(np.clip(lower, *self.bounds)), float(np.clip(upper, *self.bounds))


Box = tuple[float, float]


def _excess_of_rounds(later: _Bits, new: Box, earlier: _Bits, old: Box, tail: float) -> float:
    """
    How far the change of the share of ones may be above its mean, for two rounds.

    Of all chances in the boxes `new` and `old` those nearest to one half give the widest law, but for
    skewness, which adds less than the 1/n here. In a histogram they are rounded towards one half, so that
    buckets share laws.
    """
    widest = [min(max(0.5, low), high) for low, high in (new, old)]
    if later.rounds[0].together > 1:
        widest = [_nearer_to_half(share) for share in widest]
    excess = difference_excess(widest[0], later.devices, widest[1], earlier.devices, tail)
    return (1 + 1 / min(later.devices, earlier.devices)) * excess


def _excess_of_periods(later: _Bits, new: Box, earlier: _Bits, old: Box, tail: float) -> float:
    """The same for two averages: upper means add, whatever the dependence."""
    rises = later.excess(np.linspace(*new, 65), tail).max()
    falls = earlier.excess(1 - np.linspace(*old, 65), tail).max()
    return float(rises + falls)


def _square_and_add(metric: Metric, later: Rounds, earlier: Rounds) -> Estimate:
    """The change of one number between independent reports."""
    (after,), (before,) = later, earlier
    wide = _subtracted(after, before)
    if not wide.reports:
        return wide
    down = hypot(after.value - after.uncut[0], before.uncut[1] - before.value)
    up = hypot(after.uncut[1] - after.value, before.value - before.uncut[0])
    return _with_ends(wide, wide.value - down, wide.value + up, "square-and-add")


def _averaged(rounds: Rounds) -> Estimate:
    return _combined(rounds, [1 / len(rounds)] * len(rounds), rounds[0].span)


def _subtracted(later: Estimate, earlier: Estimate) -> Estimate:
    low, high = later.span
    return _combined((later, earlier), [1.0, -1.0], (low - high, high - low))


def _combined(numbers: Rounds, weights: list[float], span: tuple[float, float]) -> Estimate:
    """Σ weight · estimate, by the wide rule."""
    pairs = [*zip(weights, numbers, strict=True)]
    ends = [sorted(weight * end for end in number.uncut) for weight, number in pairs]
    squares = [abs(weight) * number.half_width**2 for weight, number in pairs]
    noise = sum(square * number.noise_share for square, number in zip(squares, numbers, strict=True))
    combined = replace(
        numbers[0],
        value=sum(weight * number.value for weight, number in pairs),
        reports=min(number.reports for number in numbers),
        devices=min(number.devices for number in numbers),
        span=span,
        noise_share=noise / sum(squares),
        paper_bound=sum(abs(weight) * number.paper_bound for weight, number in pairs),
        manipulation=sum(abs(weight) * number.manipulation for weight, number in pairs),
    )
    return _with_ends(combined, sum(low for low, _ in ends), sum(high for _, high in ends), "wide")


def _with_ends(number: Estimate, lower: float, upper: float, rule: str) -> Estimate:
    low, high = number.span
    cut = [min(max(end, low), high) for end in (lower, upper)]
    return replace(number, uncut=(lower, upper), lower=cut[0], upper=cut[1], rule=rule)


def _wide_at_half(rounds: Rounds) -> float:
    """The average half-width of the rounds' shares of ones, if each were one half."""
    reports = np.array([number.reports for number in rounds])
    lower, upper = binomial_limits(reports / 2, reports, _tail(rounds[0]))
    return float((upper - lower).mean()) / 2


def _tail(number: Estimate) -> float:
    return (1 - number.confidence) / number.together / 2


def _rounded_down(count: int) -> int:
    """A whole number with all but its six most significant bits set to 0."""
    low_bits = max(count.bit_length() - 6, 0)
    return count >> low_bits << low_bits


def _nearer_to_half(share: float) -> float:
    """The next of 256 shares on the way to one half, denser towards 0 and 1."""
    angle = np.arcsin(np.sqrt(min(share, 1 - share))) / np.pi * 512
    inner = float(np.sin(min(np.ceil(angle), 128) * np.pi / 512) ** 2)
    return inner if share <= 0.5 else 1 - inner
