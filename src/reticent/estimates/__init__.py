"""
Counts, un-biased, are estimates.

    >>> from reticent.counts import MeanCounts
    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> hours = Metric("hours", OneBitMean(epsilon=1, max_value=24), unit="hour")
    >>> print(estimate(hours, MeanCounts(reports=1_000_000, ones=400_000)))
    6.807 ± 0.050 hour (95%, n=1,000,000)

Every estimate is unbiased and carries its error; it may be negative. `reticent.estimates.postprocess` makes
it look nicer, and biased, for those who ask.
"""

from reticent.errors import MissingExtraError

try:
    import numpy as _numpy  # noqa: F401
    import scipy.special as _special  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("estimates", (missing.name or "numpy").partition(".")[0]) from missing

from reticent.estimates.bounds import paper_bound
from reticent.estimates.cumulative import CumulativeEstimate, Quantile, cumulative
from reticent.estimates.estimate import Estimate, HistogramEstimate
from reticent.estimates.estimator import estimate
from reticent.estimates.expected import expected_half_width, expected_variance
from reticent.estimates.pictures import plot_rounds
from reticent.estimates.pooling import average, difference
from reticent.estimates.table import estimates_to_frame

__all__ = [
    "CumulativeEstimate",
    "Estimate",
    "HistogramEstimate",
    "Quantile",
    "average",
    "cumulative",
    "difference",
    "estimate",
    "estimates_to_frame",
    "expected_half_width",
    "expected_variance",
    "paper_bound",
    "plot_rounds",
]
