"""The vectorised fleet follows the law of the SDK."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from tacit.counts import HistogramCounts, MeanCounts, count_reports
from tacit.estimates import estimate
from tacit.fleet import SmallFleet, VectorisedFleet, app_usage
from tacit.mechanisms import Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from tacit.plan import Metric, Plan, Segment
from tacit.reports import Report, from_packed

DEVICES = 4000
BUCKETS = Buckets.even(60, 8)
PLAN = Plan(
    "vector",
    1,
    60,
    60,
    (
        Metric("mean", OneBitMean(1, 60), Flip("0.1")),
        Metric("steps", OneBitMean(2, grid=Grid([0, 7, 30, 60]))),
        Metric("hadamard", HadamardBit(1, BUCKETS), Flip("0.2")),
        Metric("tight", DBitFlip(1, BUCKETS, 3)),
        Metric("paper", DBitFlip(2, BUCKETS, 3, "paper"), Flip("0.1")),
        Metric("every", DBitFlip(2, BUCKETS, 8)),
    ),
    segments=(Segment("os", ("a", "b")),),
)


def reports(seed: int, values: np.ndarray, rounds: int = 1) -> list[list[Report]]:
    fleet = VectorisedFleet(PLAN, len(values), seed)
    column = {metric.name: values for metric in PLAN.metrics}
    tags = (np.arange(len(values)) % 3).astype(np.uint8)[:, None]
    return [from_packed(fleet.packed(number, column, tags), PLAN) for number in range(rounds)]


def test_batches_are_reports_of_the_plan_with_tags() -> None:
    (batch,) = reports(1, np.arange(30) * 2)
    assert len({report.id for report in batch}) == 30
    assert [report.segment["os"] for report in batch[:3]] == ["a", "b", "other"]


def test_a_seed_repeats_and_another_does_not() -> None:
    values = np.arange(50)
    assert reports(1, values) == reports(1, values) != reports(2, values)


@pytest.mark.parametrize("value", [0, 3.5, 20, 59, 60])
def test_the_share_of_ones_is_that_of_the_sdk(value: float) -> None:
    """
    Each bit's share of ones against the SDK's own devices at the same value.

    Two binomial shares of 4,000 differ by more than 5.6 standard errors once in 5e7; 18 bits, 5 values: the
    false-alarm rate is below 2e-6. Seeds are fixed, so this does not flicker.
    """
    (batch,) = reports(7, np.full(DEVICES, value))
    small = SmallFleet(PLAN, DEVICES, seed=7)
    sdk = list(small.reports(0, {metric.name: [value] * DEVICES for metric in PLAN.metrics}))
    for place in range(PLAN.bits):
        shares = [sum(report.bit(place) for report in each) / DEVICES for each in (batch, sdk)]
        assert abs(shares[0] - shares[1]) < 5.6 * sqrt(2 * 0.25 / DEVICES), place


def test_wrong_thresholds_would_be_noticed() -> None:
    (batch,) = reports(7, np.full(DEVICES, 60))
    share = sum(report.bit(1) for report in batch) / DEVICES  # steps: epsilon 2, at the top
    for wrong in (1.5, 3.0):
        expected = OneBitMean(wrong, 60).probability_of_one(60)
        assert abs(share - expected) > 5.6 * sqrt(0.25 / DEVICES)


def test_without_flips_a_device_that_stays_repeats_itself() -> None:
    first, second = reports(3, np.linspace(0, 60, 500), rounds=2)
    at, flipped = PLAN.offset("steps"), PLAN.offset("mean")
    assert [report.bit(at) for report in first] == [report.bit(at) for report in second]
    assert [report.bit(flipped) for report in first] != [report.bit(flipped) for report in second]


def test_estimates_of_a_fleet_hold_its_truth() -> None:
    values = app_usage(20_000, 1, 60, np.random.default_rng(5))[0]
    (batch,) = reports(11, values)
    totals: dict[str, MeanCounts | HistogramCounts] = {}
    for counts in count_reports(batch, PLAN).values():
        for name, count in counts.items():
            totals[name] = totals[name] + count if name in totals else count
    shares = np.histogram(values, np.linspace(0, 60, 9))[0] / len(values)
    for metric in PLAN.metrics:
        found = estimate(metric, totals[metric.name], confidence=1 - 1e-7)
        numbers = [found] if metric.kind == "mean" else found.buckets
        truths = [values.mean()] if metric.kind == "mean" else shares
        assert all(
            number.lower <= truth <= number.upper for number, truth in zip(numbers, truths, strict=True)
        )
