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
`convex_order`. It holds for the population that the devices are drawn from, and for the devices that answered.

**Sampled answers** are fresh draws in each window. Within one window a device has one report, so the counts of its
rounds add up and Clopper-Pearson is exact (*clopper-pearson*), for the population and for these devices. Over V
windows there are two things to estimate, and the figure is unbiased for both: it is the mean over reports.

*These devices*: the mean over the reports of what their devices held. Given all values the N bits are independent
coins, so Clopper-Pearson for the sum of all counts is exact at any N and V. It is what `these=True` gives.

*The population*, which is the default and also covers these devices. A device keeps its value, so V reports of one
device are not those of V. Pooled Clopper-Pearson would cover the population's mean .88, .72 and .43 of the time
(V = 4, 12, 52; ε = 1, 100 devices).

*convex-order*, **theorem A.** Devices independent, any histories, coming and going, unequal windows; N reports in V
windows, at most one per device and window; n = ⌊N/V⌋. The share of hits is below, in convex order, that of n
devices that keep a truth of 1 with chance μ, of 0 otherwise, and answer V times each (`Steady`). *Proof.* Let every
value be 0 or 1, drawn with its mean afresh in each window. Given these, with y the part of ones, the share is the
expectation over a random sub-sample of nV reports with that part; so E f ≤ φ(nVy), φ(k) = E f(Bin(k, high) +
Bin(nV - k, low)), which is convex. y = Σ c_i a_i / n with c_i = V_i n/N ≤ 1, Σ c_i = n and independent means a_i in
[0, 1]; the rest as above. ∎

*convex-order*, **theorem B.** Where a report is about some rows or metrics only: n_v of the D_v reports of window v
are about the row, C = Σ n_v/D_v, N = Σ n_v, n = ⌊N/C⌋. The share of hits is below Bin(N, low + (high-low) J/n)/N,
J ~ Bin(n, μ) (`Asked`). *Proof.* Given values, those asked are a uniform n_v of D_v, so the hits of window v are
below Bin(n_v, low + (high-low) x̄_v), and all of them below Bin(N, low + (high-low) y) with y = Σ n_v x̄_v / N =
Σ c_i a_i / N, c_i = Σ n_v/D_v over the windows of device i, at most C; the rest as for A. ∎ Both hold; the one with
less variance is taken, which the answers do not decide.

**Differences** of two sides, D = later less earlier:

*crosswise*, where one side has fewer than 30 devices: the lower limit of one less the upper limit of the other, each
at half the tail. It holds whatever the dependence (Bonferroni), for whomever the limits of both sides hold.

*convex-order*, independent sides: D ≤cx Bin(n₂, P₂)/n₂ - Bin(n₁, P₁)/n₁. The two probabilities are unknown: they
are first confined to Clopper-Pearson intervals at a fiftieth of 1 - confidence, and the widest law within decides.
That is the one nearest to one half, but for skewness, for which there is a factor of 1 + 2/n (measured: 1 + 1.16/n).
It holds for

- two rounds of remembered answers, for **these devices**: given its values, the two bits of a device never correlate
  negatively (one class, one bit; two classes, independent draws; and the chance of a 1 is monotone in the alpha that
  both share. Parts of a split under the same darts are in any set S with chances p and q, and both with p q +
  m_S (1 - p - q) + m p q, where m_S ≤ m are the chances that the first dart to hit either hits both, in S or at all:
  at least p q). For the population only if values of a device in the two rounds do not correlate negatively, or in the
  limit of many devices, at 95 %, where (1-2γ) tanh(ε/2) ≤ .65 (at 99 % where ≤ .51);
- sampled answers of **these devices**;
- two sides with no device in common, such as two tags in one round, or in one window of sampled answers, for these
  devices and the population alike.

*convex-order*, sampled answers of the **population**: who was drawn enters both sides, in the worst case in opposite
ways. D ≤cx Y₂ - Y₁ of the laws of theorem A with countermonotone truths (`opposed_excess`). *Proof.* E f given the
numbers of ones is convex in each and supermodular in (y₂, -y₁); of all couplings the comonotone one of these is the
largest, and it grows with the margins in convex order. ∎

*convex-order*, all others, such as two periods of remembered answers: upper means add under any dependence, so those of
the two averages do. It holds for these devices and the population.

Averaging the ends of the rounds' own intervals would be narrower by a sixth where there is no flip. It holds in the
limit of many devices, since sd(a + b) ≤ sd(a) + sd(b); but quantiles do not add like that, and for few devices that
change it has no proof. So it is not offered.

A difference of tags is one of different people: early adopters of a version differ from others. Within one round
devices differ from segment to segment: pool segments by adding their counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple, overload

import numpy as np

from reticent.errors import ParameterError
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import Counts, HistogramCounts, MeanCounts
from reticent_collector.estimates.convex_order import (
    Asked,
    Repeated,
    Steady,
    average_interval,
    difference_excess,
    largest_excess,
    opposed_excess,
)
from reticent_collector.estimates.estimator import (
    THESE,
    Estimate,
    HistogramEstimate,
    counted,
    estimates,
    shares,
)
from reticent_collector.estimates.interval import (
    Floats,
    Integers,
    binomial_limits,
    check_confidence,
    check_devices,
    expected_half_width,
    truth_at,
)

REMEMBERED = Answers()
SPENT_ON_NUISANCE = 0.02  # the part of 1 - confidence that confines the probabilities behind a difference
ENOUGH = 30  # devices on each side from which on a difference is not that of crosswise limits

MeanRounds = Mapping[int, MeanCounts] | Sequence[MeanCounts]
HistogramRounds = Mapping[int, HistogramCounts] | Sequence[HistogramCounts]
CountsOfRounds = Mapping[int, Counts] | Sequence[Counts]
"""The counts of each round, by its number; a list serves where answers are remembered."""


@overload
def average(
    metric: Metric,
    rounds: MeanRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
    all_reports: Mapping[int, int] | None = None,
) -> Estimate: ...
@overload
def average(
    metric: Metric,
    rounds: HistogramRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
    all_reports: Mapping[int, int] | None = None,
) -> HistogramEstimate: ...
@overload
def average(
    metric: Metric,
    rounds: CountsOfRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
    all_reports: Mapping[int, int] | None = None,
) -> Estimate | HistogramEstimate: ...
def average(
    metric: Metric,
    rounds: CountsOfRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
    all_reports: Mapping[int, int] | None = None,
) -> Estimate | HistogramEstimate:
    """
    The average of one metric over rounds, from the counts of each.

    `plan` says how devices answer; without one, answers are remembered. For sampled answers `rounds` has the counts
    by the number of the round, such as `Result.by_round`, because a device has one report in each window. Counts of
    several rounds that are added up already are refused: of these no interval is known.

    The interval is for the mean over all devices like these. `these` asks for that over just the devices that
    answered, which is narrower for sampled answers over several windows; `Estimate.covers` says which it is.
    `all_reports`, by round, is for a plan whose reports are about some of its metrics: with it an average over
    several windows is narrower. `Estimate.rule` says where the interval comes from. `reports` is the fewest of a
    round for remembered answers, because bits that repeat themselves are not more evidence.

    >>> from reticent_collector.counts import MeanCounts
    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> hours = Metric("hours", OneBitMean(epsilon=1, max_value=24), Flip("1/5"), unit="hour")
    >>> week = [MeanCounts(reports=100_000, ones=ones) for ones in (43_900, 44_100, 44_000, 43_800) * 7]
    >>> print(average(hours, week[:1]))
    6.72 ± 0.27 hour (95%, n=100,000)
    >>> print(average(hours, week), average(hours, week).rule)
    6.76 ± 0.17 hour (95%, n=100,000) convex-order
    """
    check_confidence(confidence)
    return _side(metric, rounds, confidence, plan, these, all_reports).average()


@overload
def difference(
    metric: Metric,
    later: MeanRounds,
    earlier: MeanRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
) -> Estimate: ...
@overload
def difference(
    metric: Metric,
    later: HistogramRounds,
    earlier: HistogramRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
) -> HistogramEstimate: ...
@overload
def difference(
    metric: Metric,
    later: CountsOfRounds,
    earlier: CountsOfRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
) -> Estimate | HistogramEstimate: ...
def difference(
    metric: Metric,
    later: CountsOfRounds,
    earlier: CountsOfRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
) -> Estimate | HistogramEstimate:
    """
    `later` less `earlier`: each the counts of the rounds of a period, as for `average`.

    Two periods, or two tags in the same rounds; no report may be on both sides. `Estimate.covers` says whether the
    interval speaks of all devices like these or of the devices that answered, as it does for two rounds of
    remembered answers. A change of zero is not excluded until the interval excludes it. For devices that did not
    change, the noise of remembered answers cancels and the interval is far wider than the error, which counts alone
    do not show.

    >>> from reticent_collector.counts import MeanCounts
    >>> from reticent.mechanisms import OneBitMean
    >>> hours = Metric("hours", OneBitMean(epsilon=1, max_value=24), unit="hour")
    >>> monday, tuesday = MeanCounts(reports=10_000, ones=4_000), MeanCounts(reports=9_000, ones=4_100)
    >>> print(difference(hours, [tuesday], [monday]))
    2.89 ± 0.88 hour (95%, n=9,000, these devices)
    """
    return compared(metric, later, earlier, confidence, plan, these=these).difference


class Compared(NamedTuple):
    """A difference, and the averages that it is of."""

    later: Estimate | HistogramEstimate
    earlier: Estimate | HistogramEstimate
    difference: Estimate | HistogramEstimate


def compared(
    metric: Metric,
    later: CountsOfRounds,
    earlier: CountsOfRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    *,
    these: bool = False,
) -> Compared:
    """`difference` with the `average` of each side, which it is made of."""
    check_confidence(confidence)
    after, before = (_side(metric, rounds, confidence, plan, these, None) for rounds in (later, earlier))
    whole, other = after.average(), before.average()
    scale = metric.top / float(metric.channel.contrast)
    pairs = zip(_numbers(whole), _numbers(other), strict=True)
    numbers = []
    for place, (new, old) in enumerate(pairs):
        down, up, rule = _reach(after, before, place) if new.reports and old.reports else (0.0, 0.0, new.rule)
        numbers.append(_subtracted(new, old, (scale * down, scale * up), rule))
    if isinstance(whole, Estimate):
        return Compared(whole, other, numbers[0])
    subtracted = replace(whole, buckets=tuple(numbers), reports=min(whole.reports, other.reports))
    return Compared(whole, other, subtracted)


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
    every window with sampled ones; the first round is the first of a window.

    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> part = Metric("part", OneBitMean(epsilon=1, max_value=1), Flip("1/5"))
    >>> [round(expected_average_half_width(part, 100_000, rounds), 4) for rounds in (1, 28, 1456)]
    [0.0112, 0.0073, 0.0071]
    >>> part = Metric("part", OneBitMean(epsilon=1, max_value=1))
    >>> weekly = Answers(window=28)
    >>> [round(expected_average_half_width(part, 100_000, rounds, 0.95, weekly), 4) for rounds in (1, 28, 1456)]
    [0.0358, 0.0067, 0.0038]
    """
    if rounds < 1:
        raise ParameterError("rounds", "a number >= 1", rounds)
    check_devices(devices)
    windows = -(-rounds // answers.window) if answers.sampled else 1
    if answers.sampled and windows == 1:
        return expected_half_width(metric, max(1, devices * rounds // answers.window), confidence, at)
    if rounds == 1:
        return expected_half_width(metric, devices, confidence, at)
    check_confidence(confidence)
    mechanism = metric.mechanism
    if answers.sampled:
        whole = devices * rounds // answers.window
        law = _over_windows(
            metric, max(windows, int(whole * mechanism.least_share)), windows, windows * mechanism.least_share
        )
    else:
        law = _over_rounds(metric, max(1, int(devices * mechanism.least_share)), rounds)
    tail = (1 - confidence) / mechanism.intervals / 2
    share = law.low + (law.high - law.low) * law.widest
    if at is not None:
        share = float(metric.channel.share(truth_at(metric, at)))
    lower, upper = average_interval(law, np.array(share), tail)
    return metric.top * float(upper - lower) / 2 / float(metric.channel.contrast)


def _numbers(number: Estimate | HistogramEstimate) -> tuple[Estimate, ...]:
    return (number,) if isinstance(number, Estimate) else number.buckets


# The laws behind an average


def _over_rounds(metric: Metric, devices: int, rounds: int) -> Steady:
    """The law of an average of remembered answers, at least so many devices each round."""
    flip = float(metric.flip.probability)
    # Without flips the sum over R rounds of a device that never changes is R times one bit: one round's law.
    return Steady(_rounded_down(metric, devices), rounds if flip else 1, flip, 1 - flip)


def _over_windows(metric: Metric, reports: int, windows: int, parts: float) -> Repeated:
    """The law of a share of hits among the reports of so many windows, each about a part of them; `parts` in all."""
    low, high = float(metric.channel.low), float(metric.channel.high)
    steady = Steady(_rounded_down(metric, max(1, reports // windows)), windows, low, high)
    if parts > windows * (1 - 1e-9):
        return steady
    asked = Asked(
        _rounded_down(metric, max(1, int(reports / parts))), _rounded_down(metric, reports), low, high
    )
    return asked if asked.variance(asked.widest) < steady.variance(steady.widest) else steady


def _rounded_down(metric: Metric, count: int) -> int:
    """
    A count with a few significant bits.

    Rounding down widens an interval by 1.6 % at most, a mean's by 0.4 %. It lets the buckets of a histogram share
    laws, and averages over the days of a year, whose devices differ by a few each.
    """
    low_bits = max(count.bit_length() - (6 if metric.mechanism.intervals > 1 else 8), 0)
    return count >> low_bits << low_bits


@dataclass(frozen=True)
class _Side:
    """What is known of a mean, or of each bucket, from the rounds of a period."""

    metric: Metric
    confidence: float
    share: Floats  # of hits
    hits: Floats  # as many as that share is of the reports; whole where they are added up
    reports: Integers  # about each: all of them, or the fewest of a round of remembered answers
    devices: int  # reports in all, or the fewest of a round
    leverage: Floats | None
    limits: tuple[float, float]  # between which the mean share is
    laws: tuple[Repeated | None, ...]  # None: independent coins
    sampled: bool
    these: bool  # whether only the devices that answered are asked for
    where: frozenset[int] | None  # the windows or rounds, if known
    intervals: dict[float, tuple[Floats, Floats]] = field(
        default_factory=dict
    )  # that are known, by their tail

    @property
    def tail(self) -> float:
        """The chance with which each end of an interval may be wrong."""
        return (1 - self.confidence) / self.metric.mechanism.intervals / 2

    @property
    def alone(self) -> bool:
        """Whether no device has two reports in it, or their values are given."""
        return all(law is None for law in self.laws)

    @property
    def several(self) -> bool:
        """Whether its interval is for the devices that answered only: they may have answered several times."""
        return self.these and self.where is not None and len(self.where) > 1

    def count(self, place: int) -> int:
        """The number of devices that its law is about."""
        law = self.laws[place]
        return min(int(self.reports[place]), law.devices if law else int(self.reports[place]))

    def interval(self, tail: float) -> tuple[Floats, Floats]:
        """
        Where each mean is: each end is wrong with chance `tail` at most; nothing where there is no report.

        An end may be one that no mean has: beyond the limits. Each bucket of a difference asks for that of all.
        """
        if tail not in self.intervals:
            self.intervals[tail] = self._interval(tail)
        return self.intervals[tail]

    def _interval(self, tail: float) -> tuple[Floats, Floats]:
        if None in self.laws:
            lower, upper = binomial_limits(self.hits, self.reports, tail)
        else:
            lower, upper = np.empty_like(self.share), np.empty_like(self.share)
        for law in {*self.laws} - {None}:
            alike = np.array([one == law for one in self.laws])
            if law is not None:
                lower[alike], upper[alike] = average_interval(law, self.share[alike], tail)
        return lower, upper

    def average(self) -> Estimate | HistogramEstimate:
        """The estimate of this side alone."""
        return estimates(
            self.metric,
            self.share,
            self.interval(self.tail),
            self.reports,
            self.devices,
            self.confidence,
            self.leverage,
            rule=("clopper-pearson" if self.alone else "convex-order") + (THESE if self.several else ""),
            weights=self._weights(),
        )

    def _weights(self) -> tuple[Floats, Floats]:
        """Of the noise and of the sampling of one report in the variance."""
        noise, sampling = np.ones((2, len(self.laws)))
        for place, law in enumerate(self.laws if self.sampled else ()):
            if isinstance(law, Steady):
                noise[place] = 1 / law.times
            elif law is not None:
                sampling[place] = 1 + (law.reports - 1) / law.devices
        return noise, sampling


def _side(
    metric: Metric,
    rounds: CountsOfRounds,
    confidence: float,
    plan: Plan | None,
    these: bool,
    all_reports: Mapping[int, int] | None,
) -> _Side:
    sampled = plan is not None and plan.answers.sampled
    if isinstance(rounds, Counts) or (sampled and not isinstance(rounds, Mapping)):
        raise ParameterError(
            "rounds",
            "the counts of each round, by its number" + ("" if sampled else ", or a list of them"),
            f"{type(rounds).__name__}",
            "give Result.by_round, or {number: counts}; an interval needs to know how often a device may have answered",
        )
    if not rounds:
        raise ParameterError("rounds", "the counts of at least one round", 0)
    if sampled and plan is not None and isinstance(rounds, Mapping):
        return _of_windows(metric, rounds, confidence, plan, these, all_reports)
    return _of_rounds(metric, rounds, confidence)


def _of_rounds(metric: Metric, rounds: CountsOfRounds, confidence: float) -> _Side:
    numbers = frozenset(rounds) if isinstance(rounds, Mapping) else None
    given = [*rounds.values()] if isinstance(rounds, Mapping) else [*rounds]
    hits, told = counted(metric, given)
    devices = np.array([counts.devices for counts in given])
    reports = told.min(axis=1)
    laws: list[Repeated | None] = [None] * len(reports)
    if len(given) > 1:
        laws = [_over_rounds(metric, count, len(given)) if count else None for count in reports.tolist()]
    flip = float(metric.flip.probability)
    share = shares(hits, told).mean(axis=1)
    return _Side(
        metric=metric,
        confidence=confidence,
        share=share,
        hits=hits[:, 0].astype(float) if len(given) == 1 else np.nan_to_num(share) * reports,
        reports=reports,
        devices=int(devices.min()),
        leverage=(devices / np.where(told, told, devices)).mean(axis=1),
        limits=(flip, 1 - flip),
        laws=tuple(laws),
        sampled=False,
        these=False,
        where=numbers,
    )


def _of_windows(
    metric: Metric,
    rounds: Mapping[int, Counts],
    confidence: float,
    plan: Plan,
    these: bool,
    all_reports: Mapping[int, int] | None,
) -> _Side:
    by_window: dict[int, Counts] = {}
    in_all: dict[int, int] = {}
    for number, counts in rounds.items():
        if not counts.devices:
            continue
        window = plan.window_of(number)
        first = number if window is None else window.first
        by_window[first] = by_window[first] + counts if first in by_window else counts
        whole = counts.devices if all_reports is None else all_reports[number]
        in_all[first] = in_all.get(first, 0) + max(whole, counts.devices)
    hits, told = counted(metric, [*by_window.values()] or [reduce(add, rounds.values())])
    reports = told.sum(axis=1)
    windows = (told > 0).sum(axis=1)
    parts = (told / np.array([*in_all.values()])).sum(axis=1)
    several = zip(reports.tolist(), windows.tolist(), parts.tolist(), strict=True)
    laws = [None if these or one[1] < 2 else _over_windows(metric, *one) for one in several]
    channel = metric.channel
    return _Side(
        metric=metric,
        confidence=confidence,
        share=shares(hits.sum(axis=1), reports),
        hits=hits.sum(axis=1),
        reports=reports,
        devices=sum(counts.devices for counts in by_window.values()),
        leverage=None,
        limits=(float(channel.low), float(channel.high)),
        laws=tuple(laws),
        sampled=True,
        these=these,
        where=frozenset(by_window),
    )


# Differences


def _reach(after: _Side, before: _Side, place: int) -> tuple[float, float, str]:
    """How far the change of the share of hits may be below and above what was seen, and by which rule."""
    these = THESE if after.several or before.several else ""
    if min(after.count(place), before.count(place)) < ENOUGH:
        new, old = (side.interval(side.tail / 2) for side in (after, before))
        gap = float(after.share[place] - before.share[place])
        ends = float(new[0][place] - old[1][place]), float(new[1][place] - old[0][place])
        return gap - ends[0], ends[1] - gap, "crosswise" + these
    tail = (1 - SPENT_ON_NUISANCE) * after.tail
    spent = SPENT_ON_NUISANCE * after.tail / 2
    boxes = []
    for side in (after, before):
        low, high = (float(ends[place]) for ends in side.interval(spent))
        boxes.append(
            (min(max(low, side.limits[0]), side.limits[1]), min(max(high, side.limits[0]), side.limits[1]))
        )
    excess, these = _rule(after, before, place)
    down = excess(after, boxes[0], before, boxes[1], place, tail)
    up = excess(before, boxes[1], after, boxes[0], place, tail)
    return down, up, "convex-order" + these


def _rule(after: _Side, before: _Side, place: int) -> tuple[Any, str]:
    """Which of the laws of a difference holds, and whether it is for the devices that answered only."""
    apart = after.where is not None and after.where == before.where and len(after.where) == 1
    if after.alone and before.alone:
        if apart:  # one round, or one window: no device is on both sides
            return _excess_of_independent, ""
        if not after.sampled or after.these:
            return _excess_of_independent, THESE
    steady = not any(isinstance(side.laws[place], Asked) for side in (after, before))
    return (_excess_of_opposed if after.sampled and steady else _excess_of_any), ""


Box = tuple[float, float]


def _excess_of_independent(
    later: _Side, new: Box, earlier: _Side, old: Box, place: int, tail: float
) -> float:
    """
    How far the change of the share of hits may be above its mean, where both sides are independent.

    Of all chances in the boxes `new` and `old` those nearest to one half give the widest law. In a histogram they are
    rounded towards one half, and counts down, so that buckets share laws.
    """
    widest = [min(max(0.5, low), high) for low, high in (new, old)]
    counts = later.count(place), earlier.count(place)
    if later.metric.mechanism.intervals > 1:
        widest = [_nearer_to_half(share) for share in widest]
        counts = _rounded_down(later.metric, counts[0]), _rounded_down(later.metric, counts[1])
    return (1 + 2 / min(counts)) * difference_excess(widest[0], counts[0], widest[1], counts[1], tail)


def _excess_of_opposed(later: _Side, new: Box, earlier: _Side, old: Box, place: int, tail: float) -> float:
    """The same for sampled answers of the same devices, whose truths may be opposed."""
    laws = _steady(later, place), _steady(earlier, place)
    truths = []
    for law, box in zip(laws, (new, old), strict=True):
        low, high = ((share - law.low) / (law.high - law.low) for share in box)
        truth = min(max(law.widest, low), high)
        truths.append(_nearer(truth, law.widest) if later.metric.mechanism.intervals > 1 else truth)
    few = min(law.devices for law in laws)
    return (1 + 2 / few) * opposed_excess(laws[0], truths[0], laws[1], truths[1], tail)


def _excess_of_any(later: _Side, new: Box, earlier: _Side, old: Box, place: int, tail: float) -> float:
    """The same, whatever the dependence: upper means add."""
    up, down = later.laws[place] or _steady(later, place), earlier.laws[place] or _steady(earlier, place)
    return largest_excess(up, new, tail) + largest_excess(down.misses, (1 - old[1], 1 - old[0]), tail)


def _steady(side: _Side, place: int) -> Steady:
    """The law of devices that keep their value, also of a single round or window."""
    law = side.laws[place]
    if isinstance(law, Steady):
        return law
    return Steady(_rounded_down(side.metric, int(side.reports[place])), 1, *side.limits)


def _subtracted(after: Estimate, before: Estimate, reach: tuple[float, float], rule: str) -> Estimate:
    """The change of one number, which may be so far below and above its value; else anything is possible."""
    squares = after.half_width**2, before.half_width**2
    noise = squares[0] * after.noise_share + squares[1] * before.noise_share
    value = after.value - before.value
    most = after.span[1] - after.span[0]
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


def _nearer_to_half(share: float) -> float:
    """The next of 256 shares on the way to one half, denser towards 0 and 1."""
    return _nearer(share, 0.5)


def _nearer(share: float, goal: float) -> float:
    """The next of 256 shares on the way to another, or that one itself; denser towards 0 and 1."""
    angle, end = (np.arcsin(np.sqrt(min(max(one, 0.0), 1.0))) / np.pi * 512 for one in (share, goal))
    place = np.ceil(angle - 1e-9) if angle < end else np.floor(angle + 1e-9)
    moved = float(np.sin(place * np.pi / 512) ** 2)
    return min(moved, goal) if share < goal else max(moved, goal)
