"""
Averages over several rounds, and differences between rounds or periods.

**Remembered answers** do not average out. A device whose value stays the same sends the same bit every round
(but for the flip), so the error of one round is, for the most part, the error of the next:

    n·Var(R-round average of the bit) = (1-2γ)² M(1-M) + γ(1-γ)/R,        M the share that remembers a 1,

.112 at ε = 1, γ = .2 and R = 7 where independent rounds would give .036. Dividing by √R, the textbook rule,
would claim intervals 1.8 times too narrow after a week, and 11 times after a year. What holds instead:

*convex-order*, for an average. **Theorem.** Let n be the fewest reports of a round, devices independent, bits
remembered in any way and turned over with probability γ independently in each round. The average over R rounds of the
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

Averaging the ends of the rounds' own intervals, or subtracting them crosswise, would be narrower by a sixth
where there is no flip. It holds in the limit of many devices, since sd(a + b) ≤ sd(a) + sd(b); but quantiles do
not add like that, and for few devices that change it has no proof. So it is not offered.

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

from reticent.errors import ParameterError
from reticent.plan import Answers, Metric
from reticent_collector.counts import Counts, HistogramCounts, MeanCounts
from reticent_collector.estimates.convex_order import average_excess, average_interval, difference_excess
from reticent_collector.estimates.estimator import (
    Estimate,
    HistogramEstimate,
    counted,
    estimate,
    estimates,
    shares,
)
from reticent_collector.estimates.interval import (
    Floats,
    binomial_limits,
    check_confidence,
    check_devices,
    expected_half_width,
    truth_at,
)

REMEMBERED = Answers()
SPENT_ON_NUISANCE = 0.02  # the part of 1 - confidence that confines the probabilities behind a difference


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

    >>> from reticent_collector.counts import MeanCounts
    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> hours = Metric("hours", OneBitMean(epsilon=1, max_value=24), Flip("1/5"), unit="hour")
    >>> week = [MeanCounts(reports=100_000, ones=ones) for ones in (43_900, 44_100, 44_000, 43_800) * 7]
    >>> print(average(hours, week[:1]))
    6.72 ± 0.27 hour (95%, n=100,000)
    >>> print(average(hours, week), average(hours, week).rule)
    6.76 ± 0.20 hour (95%, n=100,000) convex-order
    """
    check_confidence(confidence)
    if not rounds:
        raise ParameterError("rounds", "the counts of at least one round", 0)
    if answers.sampled or len(rounds) == 1:
        return estimate(metric, reduce(add, rounds), confidence)
    bits = _Bits(metric, rounds, confidence)
    return estimates(
        metric,
        bits.share,
        bits.interval(bits.tail),
        bits.reports,
        bits.smallest,
        confidence,
        bits.leverage,
        rule="convex-order",
    )


Means = MeanCounts | Sequence[MeanCounts]
Histograms = HistogramCounts | Sequence[HistogramCounts]
Rounds = Counts | Sequence[Counts]


@overload
def difference(
    metric: Metric, later: Means, earlier: Means, confidence: float = 0.95, answers: Answers = REMEMBERED
) -> Estimate: ...
@overload
def difference(
    metric: Metric, later: Histograms, earlier: Histograms, confidence: float = 0.95, answers: Answers = ...
) -> HistogramEstimate: ...
@overload
def difference(
    metric: Metric, later: Rounds, earlier: Rounds, confidence: float = 0.95, answers: Answers = ...
) -> Estimate | HistogramEstimate: ...
def difference(
    metric: Metric, later: Rounds, earlier: Rounds, confidence: float = 0.95, answers: Answers = REMEMBERED
) -> Estimate | HistogramEstimate:
    """
    `later` less `earlier`: each the counts of a round, or of the rounds of a period.

    A change of zero is not excluded until the interval excludes it. For remembered answers the interval speaks
    of the devices that answered. For devices that did not change, the noise cancels and the interval is far
    wider than the error, which counts alone do not show.
    """
    periods = [[*rounds] if isinstance(rounds, Sequence) else [rounds] for rounds in (later, earlier)]
    after, before = (average(metric, rounds, confidence, answers) for rounds in periods)
    pairs = [*zip(_numbers(after), _numbers(before), strict=True)]
    numbers: list[Estimate] = []
    if answers.sampled:
        for new, old in pairs:  # the distances to the limits combine like the errors of independent reports
            down = hypot(new.value - new.uncut[0], old.uncut[1] - old.value)
            up = hypot(new.uncut[1] - new.value, old.value - old.uncut[0])
            numbers.append(_subtracted(new, old, (down, up), "square-and-add"))
    else:
        late, early = (_Bits(metric, rounds, confidence) for rounds in periods)
        excess = _excess_of_rounds if late.single and early.single else _excess_of_periods
        tail, spent = (1 - SPENT_ON_NUISANCE) * late.tail, SPENT_ON_NUISANCE * late.tail / 2
        boxes = [np.clip(bits.interval(spent), bits.flip, 1 - bits.flip) for bits in (late, early)]
        scale = metric.mechanism.top / float(metric.channel.contrast)
        for place, pair in enumerate(pairs):
            ends = (0.0, 0.0)
            if late.reports[place] and early.reports[place]:
                later_box, earlier_box = ((low[place], high[place]) for low, high in boxes)
                ends = (
                    scale * excess(late, later_box, early, earlier_box, place, tail),
                    scale * excess(early, earlier_box, late, later_box, place, tail),
                )
            numbers.append(_subtracted(*pair, ends, "convex-order"))
    if isinstance(after, Estimate):
        return numbers[0]
    return replace(after, buckets=tuple(numbers), reports=min(after.reports, before.reports))


def expected_average_half_width(
    metric: Metric,
    devices: int,
    rounds: int,
    confidence: float = 0.95,
    answers: Answers = REMEMBERED,
    at: float | None = None,
) -> float:
    """
    The half-width to expect of an average over rounds, at a value or a share, or at the worst there is.

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
    if rounds < 1:
        raise ParameterError("rounds", "a number >= 1", rounds)
    check_devices(devices)
    if answers.sampled:
        return expected_half_width(metric, max(1, devices * rounds // answers.window), confidence, at)
    if rounds == 1:
        return expected_half_width(metric, devices, confidence, at)
    check_confidence(confidence)
    mechanism, flip = metric.mechanism, float(metric.flip.probability)
    reports = max(1, int(devices * mechanism.least_share))
    if mechanism.intervals > 1:
        reports = _rounded_down(reports)
    tail = (1 - confidence) / mechanism.intervals / 2
    share = float(metric.channel.share(truth_at(metric, at)))
    lower, upper = average_interval(np.array(share), reports, rounds if flip else 1, flip, tail)
    return mechanism.top * float(upper - lower) / 2 / float(metric.channel.contrast)


def _numbers(number: Estimate | HistogramEstimate) -> tuple[Estimate, ...]:
    return (number,) if isinstance(number, Estimate) else number.buckets


class _Bits:
    """The bits behind a mean, or behind each bucket, in the rounds of a period."""

    def __init__(self, metric: Metric, rounds: Sequence[Counts], confidence: float) -> None:
        hits, reports = counted(metric, rounds)
        devices = np.array([counts.devices for counts in rounds])
        self.flip = float(metric.flip.probability)
        self.single = len(rounds) == 1
        # Without flips the sum over R rounds of a device that never changes is R times one bit: one round's law.
        self.rounds = len(rounds) if self.flip else 1
        self.tail = (1 - confidence) / metric.mechanism.intervals / 2
        self.together = metric.mechanism.intervals > 1
        self.smallest = int(devices.min())
        self.reports = reports.min(axis=1)
        self.share: Floats = shares(hits, reports).mean(axis=1)
        self.leverage: Floats = (devices / np.where(reports, reports, devices)).mean(axis=1)
        # Rounding down widens an interval by 1.6 % at most, a mean's by 0.4 %. It lets the buckets of a histogram
        # share laws, and averages over the days of a year, whose devices differ by a few each.
        bits = 6 if self.together else 64 if self.single else 8
        self.devices = [_rounded_down(count, bits) for count in self.reports.tolist()]

    def excess(self, place: int, means: Floats, tail: float) -> float:
        """How far the average at `place` may be above its mean, at most, where that is one of `means`."""
        return float(average_excess(means, self.devices[place], self.rounds, self.flip, tail).max())

    def interval(self, tail: float) -> tuple[Floats, Floats]:
        """
        Where each mean is: each end is wrong with chance `tail` at most; nothing where there is no report.

        An end may be one that no mean has: below the flip, or above 1 less it.
        """
        lower, upper = np.full((2, len(self.share)), np.nan)
        if self.single:
            lower, upper = binomial_limits(np.nan_to_num(self.share) * self.reports, self.reports, tail)
        for devices in () if self.single else {*self.devices} - {0}:
            alike = np.array(self.devices) == devices
            lower[alike], upper[alike] = average_interval(
                self.share[alike], devices, self.rounds, self.flip, tail
            )
        return lower, upper


Box = tuple[float, float]


def _excess_of_rounds(later: _Bits, new: Box, earlier: _Bits, old: Box, place: int, tail: float) -> float:
    """
    How far the change of the share of ones may be above its mean, for two rounds.

    Of all chances in the boxes `new` and `old` those nearest to one half give the widest law, but for
    skewness, which adds less than the 1/n here. In a histogram they are rounded towards one half, so that
    buckets share laws.
    """
    widest = [min(max(0.5, low), high) for low, high in (new, old)]
    if later.together:
        widest = [_nearer_to_half(share) for share in widest]
    counts = later.devices[place], earlier.devices[place]
    return (1 + 1 / min(counts)) * difference_excess(widest[0], counts[0], widest[1], counts[1], tail)


def _excess_of_periods(later: _Bits, new: Box, earlier: _Bits, old: Box, place: int, tail: float) -> float:
    """The same for two averages: upper means add, whatever the dependence."""
    rises, falls = np.linspace(*new, 65), 1 - np.linspace(*old, 65)
    return later.excess(place, rises, tail) + earlier.excess(place, falls, tail)


def _subtracted(after: Estimate, before: Estimate, reach: tuple[float, float], rule: str) -> Estimate:
    """The change of one number, which may be so far below and above its value; else anything is possible."""
    squares = after.half_width**2, before.half_width**2
    noise = squares[0] * after.noise_share + squares[1] * before.noise_share
    value, most = after.value - before.value, after.span[1] - after.span[0]
    known = after.reports and before.reports
    uncut = (value - reach[0], value + reach[1]) if known else (-most, most)
    return replace(
        after,
        value=value,
        lower=min(max(uncut[0], -most), most),
        upper=min(max(uncut[1], -most), most),
        reports=min(after.reports, before.reports),
        devices=min(after.devices, before.devices),
        span=(-most, most),
        uncut=uncut,
        noise_share=noise / sum(squares) if any(squares) else after.noise_share,
        paper_bound=after.paper_bound + before.paper_bound,
        manipulation=after.manipulation + before.manipulation,
        rule=rule,
    )


def _rounded_down(count: int, bits: int = 6) -> int:
    low_bits = max(count.bit_length() - bits, 0)
    return count >> low_bits << low_bits


def _nearer_to_half(share: float) -> float:
    """The next of 256 shares on the way to one half, denser towards 0 and 1."""
    angle = np.arcsin(np.sqrt(min(share, 1 - share))) / np.pi * 512
    inner = float(np.sin(min(np.ceil(angle), 128) * np.pi / 512) ** 2)
    return inner if share <= 0.5 else 1 - inner
