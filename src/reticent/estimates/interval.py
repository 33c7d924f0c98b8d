"""Where a probability can be, given how often it came up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, stdtrit

from reticent.errors import ParameterError

Floats = NDArray[np.float64]


def clopper_pearson(ones: Any, reports: Any, confidence: float, together: int = 1) -> tuple[Floats, Floats]:
    """
    The exact binomial interval for S `ones` out of n `reports` (numbers or arrays).

        lower = the P with Pr[Bin(n, P) ≥ S] = α/2,     0 when S = 0,
        upper = the P with Pr[Bin(n, P) ≤ S] = α/2,     1 when S = n,

    where α = (1 - `confidence`) / `together`, so that so many intervals hold at once (Bonferroni). Both
    ends are Beta quantiles. With no reports the interval is [0, 1].

    Devices differ, so S is not binomial but a sum of unlike coins; that has thinner tails than the binomial
    of the same mean (Hoeffding 1956, Theorem 4), and the interval covers the mean P at least as often.

    >>> lower, upper = clopper_pearson(0, 10, confidence=0.95)
    >>> float(lower), round(float(upper), 4)
    (0.0, 0.3085)
    """
    check_confidence(confidence)
    successes, trials = np.asarray(ones, dtype=np.float64), np.asarray(reports, dtype=np.float64)
    tail = (1.0 - confidence) / together / 2
    failures = trials - successes
    some, not_all = successes > 0, failures > 0
    lower = np.where(some, betaincinv(np.where(some, successes, 1.0), failures + 1, tail), 0.0)
    upper = np.where(not_all, 1 - betaincinv(np.where(not_all, failures, 1.0), successes + 1, tail), 1.0)
    return lower, upper


def clustered_interval(shares: Floats, size: int, confidence: float) -> tuple[float, float]:
    """
    Where a probability is, given how often it came up in each of several clusters of `size` trials.

    Trials of one cluster may depend on each other, clusters do not. The interval is Clopper and Pearson's for
    as many independent trials as would vary as much (Korn and Graubard 1998): n = P(1 - P) / Var[P], times
    (t₁ / t₂)² for the degrees of freedom of all trials and of the clusters. It is exact where a cluster is
    one trial; where all came out alike, only the clusters count.

    >>> low, high = clustered_interval(np.array([1.0, 1.0, 0.5, 1.0]), size=2, confidence=0.95)
    >>> round(low, 3), round(high, 3)
    (0.274, 1.0)
    """
    clusters, mean = len(shares), float(shares.mean())
    variance = float(shares.var(ddof=1)) / clusters if clusters > 1 else 0.0
    trials = float(clusters)
    if size > 1 and variance > 0:
        tail = (1 + confidence) / 2
        wide, narrow = stdtrit(clusters * size - 1, tail), stdtrit(clusters - 1, tail)
        trials = min(mean * (1 - mean) / variance * float(wide / narrow) ** 2, clusters * size)
    lower, upper = clopper_pearson(mean * trials, trials, confidence)
    return float(lower), float(upper)


def check_confidence(confidence: float) -> None:
    """Raise unless `confidence` is a probability strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ParameterError(
            "confidence", "a number between 0 and 1, both excluded", confidence, "0.95 is usual"
        )
