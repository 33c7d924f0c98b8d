"""From a share of bits to what it says, for each mechanism: the one line under every estimator."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, assert_never

from reticent.mechanisms import Channel, DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Metric


def top(metric: Metric) -> float:
    """The largest truth there can be: m for a mean, 1 for the share of a bucket."""
    return float(metric.max_value) if isinstance(metric.mechanism, OneBitMean) else 1.0


def intervals(metric: Metric) -> int:
    """How many intervals hold at once: one for a mean, one per bucket for a histogram."""
    return 1 if isinstance(metric.mechanism, OneBitMean) else len(metric.mechanism.buckets)


def seen(metric: Metric) -> Channel:
    """
    What the collector sees: a truth t in [0, 1] shows as a share low + t · (high - low) of *hits*.

    Mean and dBitFlip: a hit is a 1, and low and high are the device's own integers after the flip. Hadamard
    bit: a hit is a bit that agrees with the bucket's column; devices in other buckets agree half of the
    time, since rows are uniform and columns orthogonal, so low = 1/2 and high = (1 + contrast)/2.

    >>> from reticent.mechanisms import Buckets
    >>> seen(Metric("hours", HadamardBit(1, Buckets.even(24, 32)))).low
    Fraction(1, 2)
    """
    mechanism = metric.mechanism
    channel = metric.flip.channel(mechanism.response)
    if isinstance(mechanism, HadamardBit):
        return Channel(Fraction(1, 2), (1 + channel.contrast) / 2)
    if isinstance(mechanism, OneBitMean | DBitFlip):
        return channel
    assert_never(mechanism)


def variances(metric: Metric, truth: Any) -> tuple[Any, Any]:
    """
    n·Var of one answer about a truth t in [0, 1] (a number or an array), in two parts: noise, and sampling.

    With P the share of hits and 1/C the channel's contrast, n·Var = C² · P(1 - P). *Sampling*, t(1 - t), is
    what remains without any privacy: which devices were drawn, and, for a mean, the rounding to the ends of
    the range. *Noise* is the rest, the price of privacy. With c = 1/(high - low) of the device's bit,

        mean and dBitFlip:   n·Var = (c² - 1)/4 + t(1 - t),
        Hadamard bit:        n·Var = (c² - t)   + t(1 - t)  =  c² - t².
    """
    mechanism = metric.mechanism
    contrast = float(metric.flip.channel(mechanism.response).contrast)
    sampling = truth * (1 - truth)
    if isinstance(mechanism, HadamardBit):
        return contrast**-2 - truth, sampling
    if isinstance(mechanism, OneBitMean | DBitFlip):
        return (contrast**-2 - 1) / 4 + 0 * truth, sampling
    assert_never(mechanism)
