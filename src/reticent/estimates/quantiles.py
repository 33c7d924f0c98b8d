"""The cumulative histogram with a band around all of it, and quantiles read off the band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import ParameterError
from reticent.estimates.estimator import HistogramEstimate
from reticent.estimates.interval import Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Quantile:
    """
    Where the smallest value lies that a share `level` of devices does not exceed.

    The interval ends on edges of the histogram, since the reports tell nothing finer; `value` is
    interpolated between edges as if values were spread evenly in each bucket, for display. Intervals hold
    for all levels at once.
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
        from reticent.estimates.notebook import quantile_html

        return quantile_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "level": self.level,
            "value": self.value,
            "lower": self.lower,
            "upper": self.upper,
            "confidence": self.confidence,
            "reports": self.reports,
            "unit": self.unit,
        }


@dataclass(frozen=True, slots=True)
class CumulativeEstimate:
    """
    The share of devices below each edge, F(e₀) = 0, …, F(e_k) = 1, with a band that holds all of it.

    `values` are unbiased and need not increase; `lower` and `upper` do.
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
        value = _interpolated(level, np.array(self.values), edges)
        return Quantile(
            level, min(max(value, lower), upper), lower, upper, self.confidence, self.reports, self.unit
        )

    def _repr_html_(self) -> str:
        from reticent.estimates.notebook import cumulative_html

        return cumulative_html(self)

    def plot(self, axes: Axes | None = None, truth: Sequence[float] | None = None) -> Figure:
        """The band, and the true share below each edge if that is known; needs matplotlib."""
        from reticent.estimates.notebook import plot_cumulative

        return plot_cumulative(self, axes, truth)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "edges": list(self.edges),
            "values": list(self.values),
            "lower": list(self.lower),
            "upper": list(self.upper),
            "confidence": self.confidence,
            "reports": self.reports,
            "unit": self.unit,
        }


def cumulative(histogram: HistogramEstimate) -> CumulativeEstimate:
    """
    The cumulative histogram, with a simultaneous band.

    F at an edge is the sum of the buckets below it or, past the middle, 1 less the sum of those above:
    both are unbiased, and the shorter sum has less noise. Its half-width is √(Σ half_width²) over the
    buckets in the sum, which are wide enough for k statements at once.

    Why squares may be added. Let π_v be the chance to be asked about v, π_vw about both. For devices drawn
    from a population with shares h, the ratio estimators of dBitFlip have

        n·Cov(ĥ_v, ĥ_w) = - π_vw / (π_v π_w) · h_v h_w  ≤  0,

    and those of the Hadamard bit - h_v h_w, because the product of two columns sums to 0 over the rows.
    So the variance of a sum is at most the sum of the variances. For *given* devices the covariance can be
    positive (d = 1: + h_v h_w), but by the law of total variance the sum then varies less still than for
    drawn ones, for which the half-widths are made. The one approximation is that a sum of many bits is
    normal; tests measure the coverage.

    The band is then cut to [0, 1] and tightened: F never falls, so a lower bound also holds to its right
    and an upper bound to its left.
    """
    shares = np.array(histogram.values)
    squares = np.array([bucket.half_width for bucket in histogram.buckets]) ** 2
    count = len(shares)
    from_left = np.arange(count + 1) <= count / 2
    values = np.where(from_left, _sums_before(shares), 1 - _sums_after(shares))
    reach = np.sqrt(np.where(from_left, _sums_before(squares), _sums_after(squares)))
    upper = np.minimum.accumulate(np.clip(values + reach, 0, 1)[::-1])[::-1]
    lower = np.minimum(np.maximum.accumulate(np.clip(values - reach, 0, 1)), upper)
    return CumulativeEstimate(
        edges=histogram.edges,
        values=tuple(values.tolist()),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        confidence=histogram.confidence,
        reports=histogram.reports,
        unit=histogram.unit,
    )


def _sums_before(numbers: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(numbers)))


def _sums_after(numbers: Floats) -> Floats:
    return _sums_before(numbers[::-1])[::-1]


def _interpolated(level: float, values: Floats, edges: Floats) -> float:
    """Where a rising line through `values`, midway between the tightest around them, first meets `level`."""
    above, below = np.maximum.accumulate(values), np.minimum.accumulate(values[::-1])[::-1]
    rising = np.clip((above + below) / 2, 0, 1)
    right = int(np.searchsorted(rising, level))
    left = right - 1
    part = (level - rising[left]) / (rising[right] - rising[left])
    return float(edges[left] + part * (edges[right] - edges[left]))
