"""Intervals: of a probability, given how often it came up; of a metric, before any data; the paper's; a liar's."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.plan import Metric
from reticent_collector.figures import places

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
    return binomial_limits(ones, reports, (1.0 - confidence) / together / 2)


def binomial_limits(ones: Any, reports: Any, tail: Any) -> tuple[Floats, Floats]:
    """The Clopper-Pearson interval whose ends are each wrong with probability `tail` at most."""
    from scipy.special import betaincinv  # here: to import it takes a third of a collector's start

    successes, trials = np.asarray(ones, dtype=np.float64), np.asarray(reports, dtype=np.float64)
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
    clusters = len(shares)
    mean = float(shares.mean())
    variance = float(shares.var(ddof=1)) / clusters if clusters > 1 else 0.0
    trials = float(clusters)
    if size > 1 and variance > 0:
        from scipy.special import stdtrit

        tail = (1 + confidence) / 2
        wide = stdtrit(clusters * size - 1, tail)
        narrow = stdtrit(clusters - 1, tail)
        trials = min(mean * (1 - mean) / variance * float(wide / narrow) ** 2, clusters * size)
    lower, upper = clopper_pearson(mean * trials, trials, confidence)
    return float(lower), float(upper)


def check_confidence(confidence: float) -> None:
    """Raise unless `confidence` is a probability strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ParameterError(
            "confidence", "a number between 0 and 1, both excluded", confidence, "0.95 is usual"
        )


def paper_bound(metric: Metric, devices: int, confidence: float = 0.95) -> float:
    """
    The error that the paper's own theorem grants with probability 1 - δ = `confidence`.

        mean:       m / √(2n) · C · √ln(2/δ)            (Theorem 1; Theorem 6 with a flip)
        histogram:  √(5k / (nd)) · C · √ln(6k/δ)        (Theorem 2, over all buckets at once)

    where C = (e^h + 1)/(e^h - 1) / (1 - 2γ) with the exponent h that the mechanism uses. For comparison
    only: Hoeffding's inequality behind the first is 1.4 times wider than need be, and more near the ends of
    the range; the second fails where nd/k < ln(6k/δ)/4.

    The Hadamard bit is not in the paper. Its bound is that of the paper's 1BitFlip (d = 1, h = ε/2) at the
    same ε and flip: what the paper would have promised for one bit.

    >>> from reticent.mechanisms import OneBitMean
    >>> day = Metric("seconds", OneBitMean(epsilon=1, max_value=86_400))
    >>> round(paper_bound(day, devices=300_000))
    464
    """
    check_devices(devices)
    check_confidence(confidence)
    delta = 1 - confidence
    mechanism = metric.mechanism
    contrast = float(metric.flip.channel(mechanism.paper_response).contrast)
    if mechanism.kind == "mean":
        return mechanism.top / sqrt(2 * devices) / contrast * sqrt(log(2 / delta))
    count = mechanism.intervals
    return metric.top * sqrt(5 * count / (devices * mechanism.bits)) / contrast * sqrt(log(6 * count / delta))


def reach(metric: Metric) -> float:
    """
    How far one dishonest answer can drag its own share of the estimate: top · max(high, 1 - low)/(high - low).

    The estimator counts a hit as (1 - low)/(high - low) and a miss as -low/(high - low), while honest
    devices stand between 0 and 1. It is high/(high - low) from 1 to a miss, and (1 - low)/(high - low) from 0 to a
    hit: the same for a mean and dBitFlip, one less for the Hadamard bit, and usually more for subset selection. At
    ε = 1 this is 1.58 m for a mean, where a liar who only makes up a value reaches 1.00 m.
    """
    channel = metric.channel
    return metric.top * float(max(channel.high, 1 - channel.low) / channel.contrast)


def check_devices(devices: float) -> None:
    """Raise unless there is at least one device."""
    if devices < 1:
        raise ParameterError("devices", "a number >= 1", devices)


def expected_half_width(
    metric: Metric, devices: int, confidence: float = 0.95, at: float | None = None
) -> float:
    """
    The half-width to expect from so many devices, in the metric's unit (a share, for a histogram).

    For a histogram: of the bucket that fewest cohorts are asked about, at a width that holds for all
    buckets at once. `at` is the truth, a value or a bucket's share; left out, the worst there is.

    >>> from reticent.mechanisms import OneBitMean
    >>> hours = Metric("hours", OneBitMean(epsilon=1, max_value=24))
    >>> round(expected_half_width(hours, devices=1_000_000), 4)
    0.0509
    """
    check_devices(devices)
    channel = metric.channel
    reports = devices * metric.mechanism.least_share
    hits = reports * channel.share(truth_at(metric, at))
    lower, upper = clopper_pearson(hits, reports, confidence, metric.mechanism.intervals)
    return metric.top * float(upper - lower) / 2 / float(channel.contrast)


def expected_variance(metric: Metric, devices: int, at: float | None = None, spread: float = 0.0) -> float:
    """
    The variance of the estimate from so many devices, exactly.

    For devices drawn from a population whose mean (or share of the bucket) is `at`, worst if left out:

        mean:          (m² (c² - 1)/4 + x (m - x)) / n  =  (m² c²/4 - (x - m/2)²) / n
        dBitFlip:      ((c² - 1)/4 + h (1 - h)) / (n π_v),     π_v the share of cohorts asked: about d/k
        Hadamard bit:  (c² - h²) / n
        subset:        P (1 - P) / c_s² / n,     P = low + h c_s,  c_s = high - low

    with c = (e^h + 1)/(e^h - 1) / (1 - 2γ) of the device's bit. For *these very* devices, of whom nobody
    else is meant, it is less by V/n, where V = `spread` is the variance of their own values (at most
    x (m - x); exactly h (1 - h) for a bucket). V cannot be learnt from one-bit reports, so 0 is the default.

    >>> from reticent.mechanisms import Buckets, HadamardBit
    >>> bucket = Metric("hours", HadamardBit(epsilon=1, buckets=Buckets.even(24, 32)))
    >>> round(1000 * expected_variance(bucket, devices=1000), 3)
    4.683
    """
    check_devices(devices)
    truth = truth_at(metric, at)
    highest = metric.top
    if not 0 <= spread <= truth * (1 - truth) * highest**2 * (1 + 1e-9):
        raise ParameterError("spread", f"a number from 0 to {truth * (1 - truth) * highest**2:g}", spread)
    noise, sampling = metric.mechanism.variances(metric.flip, truth)
    per_report = float(noise + sampling) * highest**2
    return per_report / (devices * metric.mechanism.least_share) - spread / devices


def truth_at(metric: Metric, at: float | None) -> float:
    """The truth as a part of the range: what was asked for, or the one with the widest interval."""
    if at is None:
        channel = metric.channel
        return min(float((1 - 2 * channel.low) / (2 * channel.contrast)), 1.0)
    highest = metric.top
    if not 0 <= at <= highest:
        raise ParameterError("at", f"a number from 0 to {highest:g}", at)
    return at / highest


def decimals(half_width: float) -> int:
    """
    How many decimals show a half-width with two significant digits.

    >>> [decimals(half_width) for half_width in (312, 5.2, 0.05)]
    [0, 1, 3]
    """
    return max(0, places(half_width))
