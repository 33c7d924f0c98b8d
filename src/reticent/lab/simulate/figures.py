"""How good the estimates of a metric are, over rounds and repetitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.estimates import Estimate, HistogramEstimate
from reticent.estimates.interval import clustered_interval
from reticent.plan import Metric

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MetricFigures:
    """
    The estimates of one metric beside the truth.

    A mean is one number per round, a histogram one per bucket: arrays are [repetition, round, number]. In
    each repetition the devices have other alphas, memos, cohorts and flips, and the same values.
    """

    metric: Metric
    confidence: float
    truth: Floats
    """[round, number]"""
    value: Floats
    lower: Floats
    upper: Floats
    half_width: Floats
    first: tuple[Estimate | HistogramEstimate, ...]
    """The estimates of the first repetition, one per round: what a collector would have shown."""

    @property
    def inside(self) -> NDArray[np.bool_]:
        """[repetition, round]: whether the interval holds the truth; of a histogram, all of them at once."""
        return np.asarray(np.all((self.lower <= self.truth) & (self.truth <= self.upper), axis=2))

    @property
    def coverage(self) -> Floats:
        """Per round, the share of repetitions whose interval held the truth."""
        return np.asarray(self.inside.mean(axis=0))

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """
        Where the coverage over all rounds is, at 95 %.

        Rounds of a repetition share their memo, so only repetitions are independent.
        """
        return clustered_interval(self.inside.mean(axis=1), self.inside.shape[1], 0.95)

    @property
    def absolute_error(self) -> Floats:
        """[round, number]: the mean distance from the truth."""
        return np.asarray(np.abs(self.value - self.truth).mean(axis=0))

    @property
    def bias(self) -> Floats:
        """[round, number]: the mean deviation from the truth, which is 0 but for chance."""
        return np.asarray((self.value - self.truth).mean(axis=0))

    def misses_too_often(self, false_alarm: float) -> bool:
        """Whether some round's intervals miss more often than promised, but for a chance of `false_alarm`."""
        repetitions, rounds = self.inside.shape
        hits = int(self.inside.sum(axis=0).min())
        return bool(binom.cdf(hits, repetitions, self.confidence) * rounds < false_alarm)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: a summary, and every number of every round."""
        low, high = self.coverage_interval
        return {
            "kind": self.metric.kind,
            "unit": self.metric.unit,
            "confidence": self.confidence,
            "coverage": float(self.inside.mean()),
            "coverage_lower": low,
            "coverage_upper": high,
            "half_width": float(self.half_width.mean()),
            "absolute_error": float(self.absolute_error.mean()),
            "bias": float(self.bias.mean()),
            "rounds": list(self.rows()),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per round, and per bucket of a histogram."""
        several = self.truth.shape[1] > 1
        for place, truths in enumerate(self.truth):
            for number, truth in enumerate(truths):
                bucket = {"bucket": number} if several else {}
                yield {
                    "metric": self.metric.name,
                    "round": place,
                    **bucket,
                    "truth": float(truth),
                    "value": float(self.value[0, place, number]),
                    "lower": float(self.lower[0, place, number]),
                    "upper": float(self.upper[0, place, number]),
                    "half_width": float(self.half_width[0, place, number]),
                    "coverage": float(self.coverage[place]),
                    "absolute_error": float(self.absolute_error[place, number]),
                    "bias": float(self.bias[place, number]),
                }


def figures_of(
    metric: Metric,
    confidence: float,
    truth: Sequence[Floats],
    estimates: Sequence[Sequence[Estimate | HistogramEstimate]],
) -> MetricFigures:
    """The figures of `estimates`, a list per repetition of one per round."""
    numbers = np.array([[_numbers(each) for each in of_round] for of_round in estimates])
    value, lower, upper, half_width = np.moveaxis(numbers, 3, 0)
    return MetricFigures(
        metric, confidence, np.array(truth), value, lower, upper, half_width, tuple(estimates[0])
    )


def _numbers(found: Estimate | HistogramEstimate) -> list[tuple[float, float, float, float]]:
    parts = [found] if isinstance(found, Estimate) else found.buckets
    return [(each.value, each.lower, each.upper, each.half_width) for each in parts]
