"""The cumulative histogram with a simultaneous band, and quantiles from the band."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce
from math import e, isnan
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reticent.errors import ParameterError
from reticent.mechanisms import Flip, Mechanism
from reticent.plan import Metric, Plan
from reticent_collector.counts import HistogramCounts
from reticent_collector.estimates.estimator import THESE, Estimate, HistogramEstimate
from reticent_collector.estimates.interval import Floats, Integers, binomial_limits
from reticent_collector.estimates.notebook import cumulative_html, plot_cumulative, quantile_html
from reticent_collector.estimates.pooling import CountsOfRounds, average

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Quantile:
    """
    Where the smallest value lies that a share `level` of devices does not exceed.

    The interval ends on edges of the histogram, since the reports tell nothing finer; `value` is
    interpolated between edges as if values were spread evenly in each bucket, for display; where a bucket had
    no report, it is the middle of the interval. Intervals hold for all levels at once.
    """

    level: float
    value: float
    lower: float
    upper: float
    confidence: float
    reports: int
    unit: str

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.value:g}{unit} in [{self.lower:g}, {self.upper:g}] ({100 * self.confidence:g}%)"

    def _repr_html_(self) -> str:
        return quantile_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CumulativeEstimate:
    """
    The share of devices below each edge, F(e₀) = 0, …, F(e_k) = 1, with a band that holds all of it.

    `values` are unbiased and need not increase; `lower` and `upper` do. A value is nan (null in JSON) where
    buckets on both sides of the edge had no report.

    Of a histogram with a bucket for devices without a value, it is about the devices that have one: values are
    ratios of unbiased estimates, and nan where none may have a value.
    """

    edges: tuple[float, ...]
    values: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    confidence: float
    reports: int
    unit: str

    def quantile(self, level: float) -> Quantile:
        """
        The value that a share `level` of devices does not exceed.

        If F(e) < level throughout the band, the quantile is at or above e; if F(e) ≥ level, it is at or
        below. So the interval runs from the last edge of the first kind to the first edge of the second.
        """
        if not 0 < level < 1:
            raise ParameterError("level", "a number between 0 and 1, both excluded", level, "0.5: the median")
        edges = np.array(self.edges)
        lower = float(edges[np.array(self.upper) < level].max())
        upper = float(edges[np.array(self.lower) >= level].min())
        unknown = any(isnan(share) for share in self.values)
        value = (lower + upper) / 2 if unknown else _interpolated(level, np.array(self.values), edges)
        return Quantile(
            level, min(max(value, lower), upper), lower, upper, self.confidence, self.reports, self.unit
        )

    def quantiles(self, levels: Iterable[float]) -> tuple[Quantile, ...]:
        """Several quantiles, which hold at once."""
        return tuple(map(self.quantile, levels))

    def _repr_html_(self) -> str:
        return cumulative_html(self)

    def plot(self, axes: Axes | None = None, truth: Sequence[float] | None = None) -> Figure:
        """The band, and the true share below each edge if that is known; needs matplotlib."""
        return plot_cumulative(self, axes, truth)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "edges": list(self.edges),
            "values": [None if isnan(value) else value for value in self.values],
            "lower": list(self.lower),
            "upper": list(self.upper),
            "confidence": self.confidence,
            "reports": self.reports,
            "unit": self.unit,
        }


def cumulative(
    metric: Metric,
    rounds: CountsOfRounds,
    confidence: float = 0.95,
    plan: Plan | None = None,
    histogram: Estimate | HistogramEstimate | None = None,
    *,
    these: bool = False,
) -> CumulativeEstimate:
    """
    The cumulative histogram, with a band that holds at all edges at once, however few reports there are.

    Of the counts of each round, as `average` takes them, and for the same devices. *For several rounds of remembered
    answers, and several windows of sampled ones*, it is that of their average: its intervals hold for all buckets at
    once, so the sums of their lower and of their upper ends bound F from the left, and 1 less those sums from the
    right. What follows is about one round, or one window, whose counts are added up; and about several windows where
    `these` devices are asked for.

    F at an edge is the sum of the buckets below it, or 1 less the sum of those above. Each of the k - 1 inner
    edges has two limits, each wrong with probability a = (1 - confidence) / 2(k - 1) at most, for devices
    drawn from a population. Which sum, and which limit, is decided by the numbers of reports, never by the
    answers. F never falls, so a lower limit also holds to its right and an upper limit to its left.

    *Where a row is a bucket* (dBitFlip), let S_v of n_v reports say 1, n be the fewest reports of the *m*
    buckets in the sum, and X = Σ S_v / n_v. Given who was asked what, the d bits of a device are those of one
    value seen through independent coins, hence strongly Rayleigh: their sums have the law of sums of
    independent coins, and weighted ones are below those of independent coins in convex order.

    - All n_v alike (one bucket; or every device answers about every bucket): n · X is a sum of m·n coins, and
      Clopper-Pearson for it is exact (Hoeffding 1956).
    - Otherwise X ≤cx Y / n with Y ~ Bin(m·n, P), P the mean of the P_v: Bin(n_v, P_v)/n_v ≤cx Bin(n, P_v)/n,
      and a sum of unlike coins ≤cx the binomial. The tail q(t) = Pr[Y ≥ t] is log-concave, so
      q(u) ≤ q(t) · e^(-λ(u - t)) for some λ, E(Y - c)⁺ ≤ q(t) · e^(λ(t - c)) / λ, and with c = t - 1/λ
      Pr[n·X ≥ t] ≤ E(Y - c)⁺ / (t - c) ≤ e · q(t). So the limits are Clopper and Pearson's at a/e.

    A bucket that no device was asked about is not in any sum: the rest bounds F from one side only.

    *Where every report is about every bucket* (the Hadamard bit) F is a mean over reports of independent
    terms x with |x - F| ≤ b and E x² ≤ v, both known from the mechanism. By Bentkus (2004, Theorem 1.1) their
    sum exceeds its mean by t with probability at most e²/2 · Pr[B ≥ t], where B is a sum of as many coins of
    mean 0 and variance v that show b at most: b with chance v/(v + b²), and -v/b otherwise.

    This holds for given devices as well. For given devices and dBitFlip with d < k, coverage is measured.

    *Where some devices have no value*, C at an edge is the share of all devices that have a value below it, and
    C at the top the share that has one, c. The band [L, U] holds all of C, hence for F = C/c

        L / U(top)  ≤  F  ≤  U / L(top),

    at all edges at once and with the same confidence; F is 1 at the top.
    """
    if histogram is None:  # else it is that of these counts, computed already
        histogram = average(metric, rounds, confidence, plan, these=these)
    total = reduce(add, rounds.values() if isinstance(rounds, Mapping) else rounds)
    if (
        metric.kind != "histogram"
        or not isinstance(total, HistogramCounts)
        or not isinstance(histogram, HistogramEstimate)
    ):
        raise ParameterError(metric.name, "a histogram", f"a {metric.kind}")
    if all(bucket.rule.removesuffix(THESE) == "clopper-pearson" for bucket in histogram.buckets):
        tail = (1 - confidence) / 2 / max(len(histogram.buckets) - 1, 1)
        limits = _limits_by_bucket if metric.mechanism.rows_are_buckets else _limits_by_report
        inner = limits(metric, total, histogram.values, tail)
    else:
        inner = _limits_by_intervals(histogram)
    values, lower, upper = (np.concatenate(([0.0], numbers, [1.0])) for numbers in inner)
    upper = np.minimum.accumulate(np.clip(upper, 0, 1)[::-1])[::-1]
    lower = np.minimum(np.maximum.accumulate(np.clip(lower, 0, 1)), upper)
    if metric.absent:
        values, lower, upper = _of_present(*(band[:-1] for band in (values, lower, upper)))
    return CumulativeEstimate(
        edges=histogram.edges,
        values=tuple(values.tolist()),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        confidence=confidence,
        reports=histogram.reports,
        unit=histogram.unit,
    )


Limits = tuple[Floats, Floats, Floats]
"""Values, lower and upper limits at the inner edges."""


def _of_present(values: Floats, lower: Floats, upper: Floats) -> Limits:
    """The same, at all edges, as shares of the devices that have a value: those below the last edge."""
    known = values / values[-1] if values[-1] > 0 else np.full_like(values, np.nan)
    low = lower / upper[-1] if upper[-1] > 0 else np.zeros_like(lower)
    high = np.minimum(upper / lower[-1], 1.0) if lower[-1] > 0 else np.ones_like(upper)
    known[0], low[0], high[0] = 0.0, 0.0, 0.0
    known[-1], low[-1], high[-1] = 1.0, 1.0, 1.0
    return known, low, high


def _limits_by_intervals(histogram: HistogramEstimate) -> Limits:
    shares, lower, upper = (
        np.array([getattr(bucket, name) for bucket in histogram.buckets])
        for name in ("value", "lower", "upper")
    )
    return (
        _sums_before(shares)[1:-1],
        np.maximum(_sums_before(lower), 1 - _sums_after(upper))[1:-1],
        np.minimum(_sums_before(upper), 1 - _sums_after(lower))[1:-1],
    )


def _limits_by_bucket(
    metric: Metric, counts: HistogramCounts, values: Sequence[float], tail: float
) -> Limits:
    hits, reports = metric.mechanism.hits(counts.reports, counts.ones)
    left = _sums(metric, hits, reports, tail)
    right = _Sums(*(numbers[::-1] for numbers in _sums(metric, hits[::-1], reports[::-1], tail)))
    from_left = left.spread <= right.spread
    left_values = _sums_before(np.array(values))[1:-1]
    right_values = 1 - _sums_after(np.array(values))[1:-1]
    known = np.isfinite(np.where(from_left, left.spread, right.spread))
    return (
        np.where(from_left, left_values, right_values),
        np.where(from_left, left.lower, 1 - right.upper),
        np.where(from_left & known, left.upper, 1 - right.lower),
    )


class _Sums(NamedTuple):
    """Sums over the first 1, 2, …, k - 1 buckets."""

    spread: Floats  # about n times the variance; infinite where a bucket without reports is in the sum
    lower: Floats
    upper: Floats


def _sums(metric: Metric, hits: Integers, reports: Integers, tail: float) -> _Sums:
    asked = reports > 0
    buckets = np.cumsum(asked)[:-1]
    fewest = np.minimum.accumulate(np.where(asked, reports, np.iinfo(np.int64).max))[:-1]
    most = np.maximum.accumulate(reports)[:-1]
    fewest = np.where(buckets > 0, fewest, 0)
    ones = fewest * np.cumsum(hits / np.maximum(reports, 1))[:-1]
    alike = fewest == most
    ones = np.where(alike, np.cumsum(hits)[:-1], ones)
    level = np.where(alike, tail, tail / e)
    low, _ = binomial_limits(np.floor(ones), buckets * fewest, level)
    _, high = binomial_limits(np.minimum(np.ceil(ones), buckets * fewest), buckets * fewest, level)
    complete = buckets == np.arange(1, len(hits))
    return _Sums(
        spread=np.where(complete, buckets / np.maximum(fewest, 1), np.inf),
        lower=buckets * metric.channel.truth(low),
        upper=np.where(complete, buckets * metric.channel.truth(high), 1.0),
    )


def _limits_by_report(
    metric: Metric, counts: HistogramCounts, values: Sequence[float], tail: float
) -> Limits:
    from scipy.special import bdtrc, bdtrik

    left, right = _terms(metric.mechanism, metric.flip)
    from_left = left.square <= right.square
    square, reach = (np.where(from_left, *pair) for pair in zip(left, right, strict=True))
    coin = square / (square + reach**2)
    most = (
        np.floor(np.nan_to_num(bdtrik(1 - 2 * tail / e**2, counts.devices, coin))) + 1
    )  # of B's coins that show b
    most = np.where(bdtrc(most - 1, counts.devices, coin) > 2 * tail / e**2, most + 1, most)
    width = most * (reach + square / reach) / counts.devices - square / reach
    shares = np.array(values)
    middle = np.where(from_left, _sums_before(shares)[1:-1], 1 - _sums_after(shares)[1:-1])
    return middle, middle - width, middle + width


class _Terms(NamedTuple):
    """What one report adds to sums over buckets, at each inner edge: E x² at most, and |x - F| at most."""

    square: Floats
    reach: Floats


@lru_cache(maxsize=64)
def _terms(mechanism: Mechanism, flip: Flip) -> tuple[_Terms, _Terms]:
    """Of the sums of the buckets below each inner edge, and of those above."""
    channel = mechanism.channel(flip)
    rows = mechanism.row_count
    none = [0] * rows
    hits = []  # [row and bit, bucket]: whether a report of this row with this bit is a hit for the bucket
    for row in range(rows):
        report = [int(place == row) for place in range(rows)]
        hits += [mechanism.hits(report, none)[0], mechanism.hits(report, report)[0]]
    added = channel.truth(np.array(hits, dtype=np.float64))
    one = mechanism.row_chances(flip)
    chance = np.stack((1 - one, one), axis=1) * np.array(mechanism.coverage)[:, None, None]
    chance = chance.reshape(2 * rows, -1)
    sums = np.cumsum(added, axis=1)[:, :-1], np.cumsum(added[:, ::-1], axis=1)[:, -2::-1]
    left, right = (_Terms((chance.T @ x**2).max(axis=0), np.abs(x).max(axis=0) + 1) for x in sums)
    return left, right


def _sums_before(numbers: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(numbers)))


def _sums_after(numbers: Floats) -> Floats:
    return _sums_before(numbers[::-1])[::-1]


def _interpolated(level: float, values: Floats, edges: Floats) -> float:
    """Where a rising line through `values`, midway between the tightest around them, first meets `level`."""
    above = np.maximum.accumulate(values)
    below = np.minimum.accumulate(values[::-1])[::-1]
    rising = np.clip((above + below) / 2, 0, 1)
    right = int(np.searchsorted(rising, level))
    left = right - 1
    part = (level - rising[left]) / (rising[right] - rising[left])
    return float(edges[left] + part * (edges[right] - edges[left]))
