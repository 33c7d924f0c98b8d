"""
Debiased counts are estimates.

    >>> from reticent_collector.counts import MeanCounts
    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> hours = Metric("hours", OneBitMean(epsilon=1, max_value=24), unit="hour")
    >>> print(estimate(hours, MeanCounts(reports=1_000_000, ones=400_000)))
    6.807 ± 0.050 hour (95%, n=1,000,000)

Every estimate is unbiased and carries its error; it may be negative. `clip`, `norm_sub` and
`expectation_maximisation` are biased post-processing, for display.
"""

from reticent_collector.estimates.distribution import cumulative
from reticent_collector.estimates.division import best_division
from reticent_collector.estimates.estimator import Estimate, HistogramEstimate, estimate
from reticent_collector.estimates.interval import (
    check_confidence,
    clopper_pearson,
    clustered_interval,
    expected_half_width,
    expected_variance,
    paper_bound,
)
from reticent_collector.estimates.notebook import plot_rounds
from reticent_collector.estimates.pooling import average, difference, expected_average_half_width
from reticent_collector.estimates.postprocess import clip, expectation_maximisation, norm_sub
from reticent_collector.estimates.table import estimates_to_frame

__all__ = [
    "Estimate",
    "HistogramEstimate",
    "average",
    "best_division",
    "check_confidence",
    "clip",
    "clopper_pearson",
    "clustered_interval",
    "cumulative",
    "difference",
    "estimate",
    "estimates_to_frame",
    "expectation_maximisation",
    "expected_average_half_width",
    "expected_half_width",
    "expected_variance",
    "norm_sub",
    "paper_bound",
    "plot_rounds",
]
