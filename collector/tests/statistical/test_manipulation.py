"""Dishonest reports: no attack passes the bound, and the best one reaches it. Expected counts, no chance."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean, hadamard_sign
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import estimate

N = 10**9
"""So many reports that rounding expected counts to whole ones does not show."""

MEAN = Metric("mean", OneBitMean(1, 24), Flip("1/5"))
ROWS = Metric("rows", HadamardBit(1, Buckets.even(24, 7)))
WINDOWS = Metric("windows", DBitFlip(1, Buckets.even(24, 8), 2, label="plan/h"))

shares = st.floats(0, 1)


def poisoned_mean(chance: Callable[..., float], share: float, value: float, says_one: float) -> tuple:
    """The estimate's expected shift when a share of devices, honestly at `value`, says 1 so often instead."""
    dishonest = round(N * share)
    honest = (N - dishonest) * chance(1, 0.2, value / 24)
    found = estimate(MEAN, MeanCounts(N, round(honest + dishonest * says_one)))
    return abs(found.value - value), found.manipulation_bound(share)


@given(shares, st.floats(0, 24), shares)
@settings(max_examples=100)
def test_no_lie_moves_a_mean_further(chance: object, share: float, value: float, says_one: float) -> None:
    shift, bound = poisoned_mean(chance, share, value, says_one)  # type: ignore[arg-type]
    assert shift <= bound + 1e-6


@pytest.mark.parametrize(("value", "says_one"), [(0, 1), (24, 0)])
def test_the_bound_of_a_mean_is_reached(chance: Callable[..., float], value: float, says_one: float) -> None:
    shift, bound = poisoned_mean(chance, 0.05, value, says_one)
    assert shift == pytest.approx(bound, rel=1e-6)
    assert bound > 0.05 * 24 * 2.2, "more than twice what making up a value could do"


def poisoned_rows(share: float, honest: np.ndarray, target: int, up: bool, weights: np.ndarray) -> tuple:
    """Liars spread over rows by `weights` agree, or not, with the target's column: its shift."""
    mechanism = ROWS.mechanism
    assert isinstance(mechanism, HadamardBit)
    rows = np.arange(8)
    dishonest = N * share * weights
    told = N * (1 - share) / 8
    says = mechanism.probability_of_one(np.arange(7)[None, :], rows[:, None]) @ honest
    agree = (hadamard_sign(rows, target + 1) > 0) == up
    reports = np.round(told + dishonest).astype(int)
    ones = np.minimum(np.round(told * says + dishonest * agree).astype(int), reports)
    found = estimate(ROWS, HistogramCounts(tuple(reports.tolist()), tuple(ones.tolist()))).buckets[target]
    return found.value - honest[target], found.manipulation_bound(share)


@given(
    shares,
    st.lists(st.floats(0.01, 1), min_size=7, max_size=7),
    st.integers(0, 6),
    st.booleans(),
    st.lists(st.floats(0.01, 1), min_size=8, max_size=8),
)
@settings(max_examples=100)
def test_no_lie_moves_a_hadamard_bucket_further(
    share: float, honest: list[float], target: int, up: bool, weights: list[float]
) -> None:
    population, rows = np.array(honest) / sum(honest), np.array(weights) / sum(weights)
    shift, bound = poisoned_rows(share, population, target, up, rows)
    assert abs(shift) <= bound + 1e-6


def test_the_bound_of_a_hadamard_bucket_is_reached() -> None:
    """Down from 1: β (coth(ε/2) + 1), the bound. Up from 0: β coth(ε/2), one β less."""
    even = np.full(8, 1 / 8)
    shift, bound = poisoned_rows(0.05, np.eye(7)[3], 3, up=False, weights=even)
    assert -shift == pytest.approx(bound, rel=1e-6)
    shift, bound = poisoned_rows(0.05, np.eye(7)[2], 3, up=True, weights=even)
    assert shift == pytest.approx(bound - 0.05, rel=1e-6)


def poisoned_windows(chance: Callable[..., float], share: float, h: float, up: bool) -> tuple:
    """Every liar claims a cohort that is asked about bucket 0, and lies about it."""
    mechanism = WINDOWS.mechanism
    assert isinstance(mechanism, DBitFlip)
    window = next(window for window in map(mechanism.rows_of, range(256)) if window[0] == 0)
    reports = [round(N * (1 - share) * 2 / 8)] * 8
    low, high = chance(0.5, 0, 0), chance(0.5, 0, 1)
    rest = (1 - h) / 7
    ones = [round(reports[0] * (low + part * (high - low))) for part in [h] + [rest] * 7]
    for bucket in window:
        reports[bucket] += round(N * share)
    ones[0] += round(N * share) if up else 0
    reports[window[1]] += sum(reports) % 2
    found = estimate(WINDOWS, HistogramCounts(tuple(reports), tuple(ones), rows_per_report=2)).buckets[0]
    return found.value - h, found.manipulation_bound(share)


@given(st.floats(0, 0.9), shares, st.booleans())
@settings(max_examples=100)
def test_no_lie_moves_a_bucket_of_d_bit_flip_further(
    chance: object, share: float, h: float, up: bool
) -> None:
    shift, bound = poisoned_windows(chance, share, h, up)  # type: ignore[arg-type]
    assert abs(shift) <= bound + 1e-6


@pytest.mark.parametrize(("h", "up"), [(0.0, True), (1.0, False)])
def test_the_bound_of_d_bit_flip_is_reached_by_gathering(
    chance: Callable[..., float], h: float, up: bool
) -> None:
    """A twentieth of all reports, all on one bucket out of eight: a sixth of what is known about it."""
    shift, bound = poisoned_windows(chance, 0.05, h, up)
    assert abs(shift) == pytest.approx(bound, rel=1e-6)
    assert bound > 0.05 * 3 * 2.5
