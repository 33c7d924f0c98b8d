import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import HistogramEstimate, clip, estimate, expectation_maximisation, norm_sub

HOURS = Buckets.even(24, 6)
ALL = Metric("all", DBitFlip(1, HOURS, 6), Flip("1/10"))
ROWS = Metric("rows", HadamardBit(1, HOURS), Flip("1/10"))


def six(ones: list[int], reports: int = 1000) -> HistogramEstimate:
    return estimate(ALL, HistogramCounts((reports,) * 6, tuple(ones), rows_per_report=6))


some_ones = st.lists(st.integers(0, 1000), min_size=6, max_size=6)


@given(some_ones)
def test_clipping_cuts_to_shares(ones: list[int]) -> None:
    raw = six(ones)
    assert clip(raw) == pytest.approx(np.clip(raw.values, 0, 1))


@given(some_ones, st.lists(st.floats(0.01, 1), min_size=6, max_size=6))
def test_norm_sub_is_the_nearest_histogram(ones: list[int], weights: list[float]) -> None:
    """h is the projection of x onto the simplex iff (x - h)·(y - h) ≤ 0 for every y in it."""
    raw, near = np.array(six(ones).values), np.array(norm_sub(six(ones)))
    assert near.min() >= 0
    assert near.sum() == pytest.approx(1)
    other = np.array(weights) / sum(weights)
    for corner in (*np.eye(6), other):
        assert (raw - near) @ (corner - near) <= 1e-9


def chances(metric: Metric) -> np.ndarray:
    """Pr[1 | row, bucket], from the device's thresholds: independent of the estimates' own matrix."""
    mechanism = metric.mechanism
    rows = mechanism.size if isinstance(mechanism, HadamardBit) else 6
    table = np.empty((rows, 6))
    for bucket in range(6):
        for row in range(rows):
            memo = mechanism.memo_class(HOURS.edges[bucket], 0, row)
            thresholds = mechanism.thresholds(memo, row)
            threshold = thresholds[0] if isinstance(mechanism, HadamardBit) else thresholds[row]
            table[row, bucket] = float(metric.flip.chance_of_one(threshold))
    return table


@pytest.mark.parametrize("metric", [ALL, ROWS])
@pytest.mark.parametrize("seed", range(4))
def test_expectation_maximisation_finds_the_maximum(metric: Metric, seed: int) -> None:
    """Its likelihood is within `gap` nats of what a general optimiser finds."""
    source = np.random.default_rng(seed)
    table = chances(metric)
    truth = source.dirichlet(np.full(6, 0.5))
    reports = np.full(len(table), 600)
    ones = source.binomial(reports, table @ truth)
    counts = HistogramCounts(tuple(reports.tolist()), tuple(ones.tolist()), metric.bits)

    def loss(shares: np.ndarray) -> float:
        expected = table @ shares
        return float(-(ones @ np.log(expected) + (reports - ones) @ np.log(1 - expected)))

    fitted = expectation_maximisation(metric, counts)
    assert min(fitted.shares) >= 0
    assert sum(fitted.shares) == pytest.approx(1)
    best = minimize(
        loss,
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda shares: shares.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert loss(np.array(fitted.shares)) - best.fun < 0.01 + 1e-6
    assert fitted.gap < 0.01


@given(some_ones)
@settings(max_examples=50, deadline=None)
def test_expectation_maximisation_ends_whatever_the_counts(ones: list[int]) -> None:
    counts = HistogramCounts((1000,) * 6, tuple(ones), rows_per_report=6)
    for smoothing in (0, 1):
        fitted = expectation_maximisation(ALL, counts, smoothing=smoothing)
        assert sum(fitted.shares) == pytest.approx(1)
        assert min(fitted.shares) >= 0
        assert fitted.iterations <= 20_000


def test_smoothing_smooths() -> None:
    source = np.random.default_rng(3)
    reports = np.full(8, 300)
    ones = source.binomial(reports, chances(ROWS) @ np.full(6, 1 / 6))
    counts = HistogramCounts(tuple(reports.tolist()), tuple(ones.tolist()))
    rough = expectation_maximisation(ROWS, counts).shares
    smooth = expectation_maximisation(ROWS, counts, smoothing=1).shares
    assert np.abs(np.diff(smooth)).sum() < np.abs(np.diff(rough)).sum()


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(ParameterError):
        expectation_maximisation(ROWS, HistogramCounts((0,) * 8, (0,) * 8))
    with pytest.raises(ParameterError):
        expectation_maximisation(ROWS, HistogramCounts((1,) * 6, (0,) * 6))
    with pytest.raises(ParameterError, match="smoothing"):
        expectation_maximisation(ROWS, HistogramCounts((1,) * 8, (0,) * 8), smoothing=-1)
    with pytest.raises(ParameterError):
        expectation_maximisation(Metric("m", OneBitMean(1, 24)), MeanCounts(1, 1))  # type: ignore[arg-type]
