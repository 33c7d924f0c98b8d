"""Counts to estimates: the inverse of what the devices did, always with its error."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isnan, sqrt
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from reticent.errors import ParameterError
from reticent.plan import Metric, MetricKind
from reticent_collector.counts import Counts, HistogramCounts, MeanCounts, zero
from reticent_collector.estimates.interval import (
    Floats,
    Integers,
    clopper_pearson,
    decimals,
    paper_bound,
    reach,
)
from reticent_collector.estimates.notebook import (
    bucket_name,
    estimate_html,
    histogram_html,
    plot_estimate,
    plot_histogram,
)
from reticent_collector.estimates.table import number_rows, to_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


THESE = ", these devices"
"""Ends the rule of an interval that speaks of the devices that answered, not of all devices like these."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """
    An unbiased value, and an interval for the truth.

    `value` is right on average and therefore may be negative or above the range. `lower` and `upper` hold the
    truth with probability `confidence`: an interval for the share of hits, mapped through the estimator and cut to
    the range the truth is known to be in (`span`). The truth is that of the devices that `covers` names. So the value
    may lie outside its own interval, and both are right. Where nothing is left after cutting, both ends are the
    nearest end of the range and `consistent` is False: no truth in the range, or only with bad luck, produces these
    reports. `half_width`, printed after ±, is that of the interval before cutting.

    A bucket that no device was asked about has the whole range for its interval and no value: `value` is nan,
    null in JSON and empty in a table.
    """

    value: float
    lower: float
    upper: float
    confidence: float
    reports: int  #: Reports about this number: those asked about the bucket, for dBitFlip
    devices: int  #: Reports altogether
    unit: str
    span: tuple[float, float]  #: The range that the truth is known to be in
    uncut: tuple[float, float]  #: The interval before it was cut to `span`
    noise_share: float  #: The share of the variance that is the price of privacy
    paper_bound: float  #: The half-width that the paper's theorem would give, for comparison
    manipulation: float  #: Reach of dishonest reports per unit of their share
    together: int = 1  #: So many intervals, this one among them, hold at once with probability `confidence`
    edges: tuple[float, float] | None = None  #: The bucket, for the share of one between two numbers
    label: str = ""  #: The bucket, for one that has a name: a label of a choice, or "absent"
    kind: MetricKind = "mean"  #: What was asked
    rule: str = (
        "clopper-pearson"  #: The method of the interval: this, or one of `pooling`, and whom it covers
    )

    @property
    def covers(self) -> str:
        """
        Whose truth the interval holds.

        An interval for all devices like these covers that of the devices that answered no less often.
        """
        return "these devices" if self.rule.endswith(THESE) else "all devices like these"

    @property
    def half_width(self) -> float:
        """Half the interval, before it was cut to the range."""
        return (self.uncut[1] - self.uncut[0]) / 2

    @property
    def noise_half_width(self) -> float:
        """The part of the half-width that privacy costs: noise² + sampling² = half_width²."""
        return self.half_width * sqrt(self.noise_share)

    @property
    def sampling_half_width(self) -> float:
        """The part of the half-width that would remain without privacy."""
        return self.half_width * sqrt(1 - self.noise_share)

    @property
    def consistent(self) -> bool:
        """Whether any truth in the range explains the reports; False hints at dishonest or foreign ones."""
        return self.lower < self.upper

    def manipulation_bound(self, share: float) -> float:
        """
        How far the value can be from the honest one when a `share` of all reports is dishonest.

        A share β moves a mean by at most β · m · e^ε/(e^ε - 1), and a Hadamard bucket by β · (coth(ε/2) + 1)
        (down; up by one β less). A liar picks the cohort too, so all of them can gather on one bucket of
        dBitFlip: β · (n / n_v) · e^h/(e^h - 1), until every report on that bucket is theirs (which takes another
        share in each round of an average, so that has no such limit). Expected values: the noise that `half_width`
        covers comes on top.
        """
        if not 0 <= share <= 1:
            raise ParameterError("share", "a number from 0 to 1", share)
        limited = self.reports and self.rule.removesuffix(THESE) == "clopper-pearson"
        return self.manipulation * min(share, self.reports / self.devices if limited else 1.0)

    def __str__(self) -> str:
        places = decimals(self.half_width)
        unit = f" {self.unit}" if self.unit else ""
        level = f"{100 * self.confidence:.6g}%"
        if isnan(self.value):
            return f"unknown ({level}, n={self.reports:,})"
        number = f"{self.value:,.{places}f} ± {self.half_width:,.{places}f}"
        whom = THESE if self.rule.endswith(THESE) else ""
        return f"{number}{unit} ({level}, n={self.reports:,}{whom})"

    def _repr_html_(self) -> str:
        return estimate_html(self)

    def plot(self, axes: Axes | None = None, truth: float | None = None) -> Figure:
        """The value on its interval, with the truth beside it if that is known; needs matplotlib."""
        return plot_estimate(self, axes, truth)

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """One row, as a frame of "pyarrow", "pandas" or "polars"."""
        return to_frame(self, backend)

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` answers for one number: plain values, ready for JSON."""
        return next(_plain(self))


@dataclass(frozen=True, slots=True)
class HistogramEstimate:
    """
    The share of devices in each bucket, or the mean amount of each part of a split and the unused rest.

    The intervals hold for all buckets at once. Each share is unbiased by itself, so they may be negative and need not
    add up to 1 (or to the range of a split). `postprocess` makes them do so for display; intervals always come from
    here.
    """

    buckets: tuple[Estimate, ...]
    reports: int
    confidence: float
    unit: str  #: The unit of the edges; shares have none

    @property
    def values(self) -> tuple[float, ...]:
        """The unbiased share of each bucket."""
        return tuple(bucket.value for bucket in self.buckets)

    @property
    def edges(self) -> tuple[float, ...]:
        """The k + 1 edges of the k buckets between numbers; none for a choice."""
        pairs = [bucket.edges for bucket in self.buckets if bucket.edges is not None]
        return (*(left for left, _ in pairs), *(right for _, right in pairs[-1:]))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each bucket: its label, or its range with the unit."""
        unit = f" {self.unit}" if self.unit else ""
        top = self.edges[-1:]
        ranges = ((bucket.label, bucket.edges or (0.0, 1.0)) for bucket in self.buckets)
        return tuple(
            label or bucket_name(left, right, closed=(right,) == top) + unit
            for label, (left, right) in ranges
        )

    def __str__(self) -> str:
        return "\n".join(f"{name}: {bucket}" for name, bucket in zip(self.names, self.buckets, strict=True))

    def _repr_html_(self) -> str:
        return histogram_html(self)

    def plot(self, axes: Axes | None = None, truth: Sequence[float] | None = None) -> Figure:
        """A bar per bucket with its interval, and the true shares if they are known; needs matplotlib."""
        return plot_histogram(self, axes, truth)

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """A row per bucket, as a frame of "pyarrow", "pandas" or "polars"."""
        return to_frame(self, backend)

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` answers for a histogram: plain values, ready for JSON."""
        return {
            "kind": self.buckets[0].kind,
            "unit": self.unit,
            "confidence": self.confidence,
            "reports": self.reports,
            "buckets": [
                {name: cell for name, cell in row.items() if name not in ("kind", "unit")}
                for row in _plain(self)
            ],
        }


def _plain(estimate: Estimate | HistogramEstimate) -> Iterator[dict[str, Any]]:
    for row in number_rows(estimate):
        plain = {name: cell for name, cell in row.items() if cell is not None or name == "value"}
        yield plain | {"consistent": plain["lower"] < plain["upper"]}


@overload
def estimate(metric: Metric, counts: MeanCounts, confidence: float = 0.95) -> Estimate: ...
@overload
def estimate(metric: Metric, counts: HistogramCounts, confidence: float = 0.95) -> HistogramEstimate: ...
@overload
def estimate(metric: Metric, counts: Counts, confidence: float = 0.95) -> Estimate | HistogramEstimate: ...
def estimate(metric: Metric, counts: Counts, confidence: float = 0.95) -> Estimate | HistogramEstimate:
    """
    The mean, or the histogram, that explains the counts of one round.

    With S hits among n reports and the channel's exact low and high (see `Mechanism.channel`),

        value = top · (S/n - low) / (high - low),

    unbiased because low and high are the very integers the devices drew against. A hit is a 1 for a mean;
    a 1 about the bucket, among the reports asked about it, for dBitFlip (the *ratio estimator*: dividing by
    the reports that came in place of the nd/k expected is never worse, and up to 9 times better on heavy
    buckets); agreement with the bucket's column for the Hadamard bit. The interval is Clopper-Pearson for
    (S, n) through the same line; for a histogram, each at (1 - confidence)/k, so that all hold at once.

    Without any report there is nothing to explain, and `ParameterError` is raised. A bucket of dBitFlip
    that no device was asked about gets its whole range, no value (nan), and `reports=0`.

    >>> from reticent.mechanisms import Buckets, HadamardBit
    >>> hours = Metric("hours", HadamardBit(epsilon=1, buckets=Buckets.even(24, 3)), unit="hour")
    >>> rows = HistogramCounts(reports=(250, 250, 250, 250), ones=(180, 70, 170, 80))
    >>> print(estimate(hours, rows))
    [0, 8) hour: 0.87 ± 0.15 (95%, n=1,000)
    [8, 16) hour: 0.00 ± 0.17 (95%, n=1,000)
    [16, 24] hour: 0.09 ± 0.17 (95%, n=1,000)
    """
    hits, reports = (rows[:, 0] for rows in counted(metric, [counts]))
    lower, upper = clopper_pearson(hits, reports, confidence, metric.mechanism.intervals)
    return estimates(metric, shares(hits, reports), (lower, upper), reports, counts.devices, confidence)


def counted(metric: Metric, rounds: Sequence[Counts]) -> tuple[Integers, Integers]:
    """Hits and their reports, as [0 or bucket, round]; raises `ParameterError` for other or empty counts."""
    expected = _shape(zero(metric))
    for counts in rounds:
        if (given := _shape(counts)) != expected:
            raise ParameterError(f"counts of {metric.name}", expected, given)
        if counts.devices == 0:
            raise ParameterError(
                f"counts of {metric.name}",
                "at least one report",
                0,
                "a round without reports has no estimate",
            )
    rows = metric.mechanism.row_count
    reports, ones = (
        np.array([getattr(counts, name) for counts in rounds], dtype=np.int64).reshape(-1, rows).T
        for name in ("reports", "ones")
    )
    return metric.mechanism.hits(reports, ones)


def shares(hits: Integers, reports: Integers) -> Floats:
    """The share of hits; nan where there is no report."""
    return np.where(reports > 0, hits / np.maximum(reports, 1), np.nan)


def estimates(
    metric: Metric,
    share: Floats,
    ends: tuple[Floats, Floats],
    reports: Integers,
    devices: int,
    confidence: float,
    leverage: Floats | None = None,
    rule: str = "clopper-pearson",
    weights: tuple[Floats, Floats] | None = None,
) -> Estimate | HistogramEstimate:
    """
    The estimate from shares of hits and the ends of their intervals: of a mean, or of each bucket.

    Without a report, the interval is the whole range. `leverage` is the number of devices for each report; a
    liar who picks the cohort has so many times the weight of an honest device. `weights` are those of the noise and
    of the sampling of one report in the variance, where they are not the same.
    """
    mechanism, channel = metric.mechanism, metric.channel
    top = metric.top
    asked = reports > 0
    value = top * channel.truth(share)
    lower = np.where(asked, top * channel.truth(ends[0]), 0.0)
    upper = np.where(asked, top * channel.truth(ends[1]), top)
    noise, sampling = mechanism.variances(metric.flip, np.clip(np.where(asked, value / top, 0.5), 0.0, 1.0))
    if weights is not None:
        noise, sampling = noise * weights[0], sampling * weights[1]
    per_report = devices / np.where(asked, reports, devices) if leverage is None else leverage
    columns = {
        "value": value,
        "lower": np.clip(lower, 0.0, top),
        "upper": np.clip(upper, 0.0, top),
        "reports": reports,
        "noise_share": noise / (noise + sampling),
        "manipulation": reach(metric) * per_report,
    }
    same: dict[str, Any] = {
        "confidence": confidence,
        "devices": devices,
        "unit": "" if mechanism.buckets and not metric.parts else metric.unit,
        "span": (0.0, top),
        "paper_bound": paper_bound(metric, devices, confidence),
        "together": mechanism.intervals,
        "kind": metric.kind,
        "rule": rule,
    }
    ranges = [*pairwise(map(float, mechanism.points))]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    ends_of = zip(lower.tolist(), upper.tolist(), strict=True)
    numbers = [
        Estimate(
            **same,
            **dict(zip(columns, row, strict=True)),
            uncut=uncut,
            edges=None if label or mechanism.buckets is None else ranges[place],
            label=label,
        )
        for place, (row, uncut, label) in enumerate(zip(rows, ends_of, metric.bucket_labels, strict=True))
    ]
    if mechanism.buckets is None:
        return numbers[0]
    return HistogramEstimate(tuple(numbers), devices, confidence, metric.unit)


def _shape(counts: Counts) -> str:
    if isinstance(counts, MeanCounts):
        return "counts of a mean"
    return f"{len(counts.ones)} rows of a histogram, {counts.rows_per_report} per report"
