"""Shares of a choice hold for all labels at once, and the share of a flag has its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.stats import binom

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import Estimate, estimate

Draw = Callable[[Metric, np.ndarray, int, np.random.Generator], Iterator[HistogramCounts]]
LABELS = ("build", "test", "run")
BUCKETS = Buckets(range(4), absent=True)
CHOICES = [
    Metric("command", HadamardBit(1, BUCKETS), Flip("1/5"), labels=LABELS),
    Metric("command", DBitFlip(1, BUCKETS, 1), labels=LABELS),
    Metric("command", DBitFlip(1, BUCKETS, 4), Flip("1/10"), labels=LABELS),
]


@pytest.mark.parametrize("metric", CHOICES, ids=lambda metric: metric.mechanism.title)
@pytest.mark.parametrize("shares", [(5, 3, 0, 2), (1, 0, 0, 19), (4, 3, 3, 0)], ids=str)
def test_shares_of_labels_cover_all_at_once(
    metric: Metric, shares: tuple[int, ...], draw: Draw, misses_allowed: Callable[..., int]
) -> None:
    """From 60 devices to 600,000; false-alarm rate 1e-6 each. Shares in another order are refused."""
    for size in (60, 6_000, 600_000):
        devices = np.array(shares) * size // sum(shares)
        truth, rounds = devices / devices.sum(), 60
        missed = swapped = 0
        for counts in draw(metric, devices, rounds, np.random.default_rng(5)):
            histogram = estimate(metric, counts)
            assert [bucket.label for bucket in histogram.buckets] == [*LABELS, "absent"]
            lower = np.array([bucket.lower for bucket in histogram.buckets])
            upper = np.array([bucket.upper for bucket in histogram.buckets])
            missed += bool(((truth < lower - 1e-12) | (truth > upper + 1e-12)).any())
            swapped += bool(((truth[::-1] < lower) | (truth[::-1] > upper)).any())
        assert missed <= misses_allowed(rounds)
    assert swapped > misses_allowed(rounds)


@pytest.mark.parametrize("devices", [10, 40])
def test_the_share_of_a_flag_covers_exactly(devices: int) -> None:
    """Every number of devices with a yes, every outcome: with its probability, no sampling."""
    metric = Metric("crashed", OneBitMean(1, 1), Flip("1/5"), is_flag=True)
    low = 1 / (math.e + 1)
    chance = [(1 - 2 * 0.2) * share + 0.2 for share in (low, 1 - low)]
    estimates = [estimate(metric, MeanCounts(devices, ones)) for ones in range(devices + 1)]
    assert all(isinstance(number, Estimate) and number.span == (0, 1) for number in estimates)
    for yes in range(devices + 1):
        law = np.convolve(
            binom.pmf(range(yes + 1), yes, chance[1]),
            binom.pmf(range(devices - yes + 1), devices - yes, chance[0]),
        )
        covered = [number.lower <= yes / devices <= number.upper for number in estimates]
        assert law @ covered >= 0.95
    mean = sum(weight * number.value for weight, number in zip(law, estimates, strict=True))
    assert mean == pytest.approx(1.0), "unbiased"
