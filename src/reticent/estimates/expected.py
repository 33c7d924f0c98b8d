"""Before any data: how precise a plan will be."""

from __future__ import annotations

from reticent.errors import ParameterError
from reticent.estimates.bounds import check_devices, paper_bound
from reticent.estimates.interval import clopper_pearson
from reticent.plan import Metric

__all__ = ["expected_half_width", "expected_variance", "paper_bound"]


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
    channel, reports = metric.channel, devices * metric.mechanism.least_share
    hits = reports * channel.share(_truth(metric, at))
    lower, upper = clopper_pearson(hits, reports, confidence, metric.mechanism.intervals)
    return metric.mechanism.top * float(upper - lower) / 2 / float(channel.contrast)


def expected_variance(metric: Metric, devices: int, at: float | None = None, spread: float = 0.0) -> float:
    """
    The variance of the estimate from so many devices, exactly.

    For devices drawn from a population whose mean (or share of the bucket) is `at`, worst if left out:

        mean:          (m² (c² - 1)/4 + x (m - x)) / n  =  (m² c²/4 - (x - m/2)²) / n
        dBitFlip:      ((c² - 1)/4 + h (1 - h)) / (n π_v),     π_v the share of cohorts asked: about d/k
        Hadamard bit:  (c² - h²) / n

    with c = (e^h + 1)/(e^h - 1) / (1 - 2γ) of the device's bit. For *these very* devices, of whom nobody
    else is meant, it is less by V/n, where V = `spread` is the variance of their own values (at most
    x (m - x); exactly h (1 - h) for a bucket). V cannot be learnt from one-bit reports, so 0 is the default.

    >>> from reticent.mechanisms import Buckets, HadamardBit
    >>> bucket = Metric("hours", HadamardBit(epsilon=1, buckets=Buckets.even(24, 32)))
    >>> round(1000 * expected_variance(bucket, devices=1000), 3)
    4.683
    """
    check_devices(devices)
    truth, highest = _truth(metric, at), metric.mechanism.top
    if not 0 <= spread <= truth * (1 - truth) * highest**2 * (1 + 1e-9):
        raise ParameterError("spread", f"a number from 0 to {truth * (1 - truth) * highest**2:g}", spread)
    noise, sampling = metric.mechanism.variances(metric.flip, truth)
    per_report = float(noise + sampling) * highest**2
    return per_report / (devices * metric.mechanism.least_share) - spread / devices


def _truth(metric: Metric, at: float | None) -> float:
    """The truth as a part of the range: what was asked for, or the one with the widest interval."""
    if at is None:
        channel = metric.channel
        return float((1 - 2 * channel.low) / (2 * channel.contrast))
    highest = metric.mechanism.top
    if not 0 <= at <= highest:
        raise ParameterError("at", f"a number from 0 to {highest:g}", at)
    return at / highest
