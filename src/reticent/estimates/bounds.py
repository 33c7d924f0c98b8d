"""What the paper promises, and what a liar can do: two bounds that stand beside every estimate."""

from __future__ import annotations

from math import log, sqrt

from reticent.errors import ParameterError
from reticent.estimates.interval import check_confidence
from reticent.plan import Metric


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
    if metric.kind == "mean":
        return mechanism.top / sqrt(2 * devices) / contrast * sqrt(log(2 / delta))
    count = mechanism.intervals
    return sqrt(5 * count / (devices * mechanism.bits)) / contrast * sqrt(log(6 * count / delta))


def reach(metric: Metric) -> float:
    """
    How far one dishonest answer can drag its own share of the estimate: top · high/(high - low).

    The estimator counts a hit as (1 - low)/(high - low) and a miss as -low/(high - low), while honest
    devices stand between 0 and 1. The longest way is from 1 to a miss, high/(high - low); from 0 to a hit
    it is (1 - low)/(high - low), the same for a mean and dBitFlip, one less for the Hadamard bit. At ε = 1
    this is 1.58 m for a mean, where a liar who only makes up a value reaches 1.00 m.
    """
    channel = metric.channel
    return metric.mechanism.top * float(channel.high / channel.contrast)


def check_devices(devices: float) -> None:
    """Raise unless there is at least one device."""
    if devices < 1:
        raise ParameterError("devices", "a number >= 1", devices)
