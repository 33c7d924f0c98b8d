import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import estimate

HOURS = Buckets.even(24, 4)
MEAN = Metric("mean", OneBitMean(1, 24), unit="hour")
FLIPPED = Metric("flipped", OneBitMean(1, 24), Flip("1/5"), unit="hour")
WINDOWS = Metric("windows", DBitFlip(1, HOURS, 2, label="plan/windows"), unit="hour")
ROWS = Metric("rows", HadamardBit(1, HOURS), unit="hour")

counts_of_a_mean = st.integers(1, 10**7).flatmap(
    lambda n: st.builds(MeanCounts, st.just(n), st.integers(0, n))
)


def paper_mean(ones: int, reports: int, epsilon: float, top: float, gamma: float = 0.0) -> float:
    """Eq. (meanest) of the paper at ε′ (Theorem 6), in 30 digits."""
    with mpmath.workdps(30):
        p = mpmath.exp(epsilon) / (mpmath.exp(epsilon) + 1)
        seen_high, seen_low = (1 - 2 * gamma) * p + gamma, (1 - 2 * gamma) * (1 - p) + gamma
        e = seen_high / seen_low
        return float(mpmath.mpf(top) / reports * (ones * (e + 1) - reports) / (e - 1))


@given(counts_of_a_mean)
def test_mean_is_the_papers_estimator(counts: MeanCounts) -> None:
    assert estimate(MEAN, counts).value == pytest.approx(
        paper_mean(counts.ones, counts.reports, 1.0, 24), rel=1e-12, abs=1e-11
    )
    assert estimate(FLIPPED, counts).value == pytest.approx(
        paper_mean(counts.ones, counts.reports, 1.0, 24, 0.2), rel=1e-12, abs=1e-11
    )


@given(counts_of_a_mean, st.sampled_from([0.8, 0.95, 0.999]))
def test_intervals_stay_in_the_range_and_are_never_empty(counts: MeanCounts, confidence: float) -> None:
    for metric in (MEAN, FLIPPED):
        estimated = estimate(metric, counts, confidence)
        assert 0 <= estimated.lower <= estimated.upper <= 24
        assert estimated.uncut[0] <= estimated.value <= estimated.uncut[1]
        assert estimated.half_width > 0
        assert estimated.noise_half_width**2 + estimated.sampling_half_width**2 == pytest.approx(
            estimated.half_width**2
        )
        assert estimated.consistent == (estimated.uncut[1] > 0 and estimated.uncut[0] < 24)


def test_a_value_outside_the_range_is_kept() -> None:
    below = estimate(MEAN, MeanCounts(1000, 260))
    assert below.value < 0 == below.lower < below.upper
    assert below.consistent
    above = estimate(MEAN, MeanCounts(1000, 740))
    assert above.lower < above.upper == 24 < above.value


@pytest.mark.parametrize(("ones", "end"), [(0, 0.0), (1000, 24.0)])
def test_reports_that_no_truth_explains_end_at_the_nearest_end(ones: int, end: float) -> None:
    estimated = estimate(MEAN, MeanCounts(1000, ones))
    assert (estimated.lower, estimated.upper) == (end, end)
    assert not estimated.consistent


def test_the_split_is_the_exact_one_at_the_middle() -> None:
    """At x = m/2: noise (c² - 1)/4, sampling 1/4, so sampling is 1/c² of the variance; c = coth(1/2)."""
    estimated = estimate(MEAN, MeanCounts(1_000_000, 500_000))
    assert estimated.sampling_half_width / estimated.half_width == pytest.approx(math.tanh(0.5))
    without_privacy = 1.959964 * 12 / 1000  # a coin of heads 24 and tails 0, a million times
    assert estimated.sampling_half_width == pytest.approx(
        without_privacy, rel=2e-3
    )  # exact is a little wider than normal
    assert estimate(MEAN, MeanCounts(1000, 200)).sampling_half_width == 0


def test_d_bit_flip_divides_by_the_reports_that_cover_a_bucket() -> None:
    counts = HistogramCounts((100, 200, 300, 400), (50, 80, 100, 200), rows_per_report=2)
    low = 1 / (math.exp(0.5) + 1)
    estimated = estimate(WINDOWS, counts)
    expected = [(ones / n - low) / (1 - 2 * low) for n, ones in zip(counts.reports, counts.ones, strict=True)]
    assert estimated.values == pytest.approx(expected)
    assert [bucket.reports for bucket in estimated.buckets] == [100, 200, 300, 400]
    assert estimated.reports == 500
    assert all(bucket.devices == 500 and bucket.together == 4 for bucket in estimated.buckets)


def test_hadamard_is_the_transform_over_the_contrast() -> None:
    counts = HistogramCounts((100,) * 8, (70, 30, 60, 40, 50, 50, 50, 50))
    margins = np.array([40, -40, 20, -20, 0, 0, 0, 0])
    signs = np.array([[(-1) ** (row & column).bit_count() for row in range(8)] for column in range(1, 5)])
    estimated = estimate(ROWS, counts)
    assert estimated.values == pytest.approx(signs @ margins / 800 / math.tanh(0.5))


@pytest.mark.parametrize("metric", [WINDOWS, ROWS])
def test_a_histogram_interval_is_that_of_one_bucket_at_a_fourth_of_the_risk(metric: Metric) -> None:
    """Bonferroni, seen from outside: a mean on [0, 1] with the same channel and counts at 1 - .05/4."""
    if metric is WINDOWS:
        counts = HistogramCounts((500,) * 4, (250, 200, 180, 170), rows_per_report=2)
        alone = estimate(Metric("one", OneBitMean("1/2", 1)), MeanCounts(500, 250), 1 - 0.05 / 4)
        first = estimate(metric, counts).buckets[0]
        assert first.uncut == pytest.approx(alone.uncut)
    else:
        counts = HistogramCounts((100,) * 8, (70, 30, 60, 40, 50, 50, 50, 50))
        first = estimate(metric, counts).buckets[0]
        # 460 of 800 agree; the mean on [0, 2] less 1 has the same line, (P - 1/2) / (contrast/2)
        alone = estimate(Metric("one", OneBitMean(1, 2)), MeanCounts(800, 460), 1 - 0.05 / 4)
        assert first.uncut == pytest.approx([end - 1 for end in alone.uncut])
    assert first.confidence == 0.95


def test_a_bucket_nobody_was_asked_about_can_be_anything() -> None:
    counts = HistogramCounts((10, 10, 10, 0), (5, 5, 5, 0), rows_per_report=2)
    blank = estimate(WINDOWS, counts).buckets[3]
    assert (blank.lower, blank.upper, blank.reports) == (0.0, 1.0, 0)
    assert math.isnan(blank.value)
    assert blank.to_dict()["value"] is None
    assert math.isfinite(blank.manipulation)
    json.dumps(blank.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("metric", "counts"),
    [
        (MEAN, MeanCounts(0, 0)),
        (ROWS, HistogramCounts((0,) * 8, (0,) * 8)),
        (WINDOWS, HistogramCounts((0,) * 4, (0,) * 4, rows_per_report=2)),
    ],
)
def test_no_reports_are_no_estimate(metric: Metric, counts: MeanCounts | HistogramCounts) -> None:
    with pytest.raises(ParameterError, match="at least one report"):
        estimate(metric, counts)


@pytest.mark.parametrize(
    ("metric", "counts"),
    [
        (MEAN, HistogramCounts((1,), (1,))),
        (ROWS, MeanCounts(1, 1)),
        (ROWS, HistogramCounts((1,) * 4, (1,) * 4)),
        (WINDOWS, HistogramCounts((1,) * 4, (1,) * 4)),
    ],
)
def test_counts_of_another_metric_are_refused(metric: Metric, counts: MeanCounts | HistogramCounts) -> None:
    with pytest.raises(ParameterError, match=f"counts of {metric.name}"):
        estimate(metric, counts)


def test_dictionaries_are_json_and_complete() -> None:
    one = estimate(MEAN, MeanCounts(1000, 400)).to_dict()
    assert {"value", "lower", "upper", "confidence", "reports", "unit", "paper_bound", "manipulation"} <= set(
        one
    )
    assert json.loads(json.dumps(one, allow_nan=False)) == one
    many = estimate(ROWS, HistogramCounts((100,) * 8, (50,) * 8)).to_dict()
    assert json.loads(json.dumps(many, allow_nan=False)) == many
    assert [bucket["bucket_low"] for bucket in many["buckets"]] == [0, 6, 12, 18]
    assert many["reports"] == 800


@given(st.integers(1, 20), st.fractions(0, Fraction(49, 100), max_denominator=100))
@settings(max_examples=40)
def test_the_expected_value_is_the_truth_in_rationals(steps: int, gamma: Fraction) -> None:
    """
    E[value] at every grid point equals the point but for the floor in the thresholds: at most
    1/(high - low), a 2⁻⁶³th of the range at ε = 1.
    """
    mechanism, flip = OneBitMean(1, steps, 1), Flip(gamma)
    channel = flip.channel(mechanism.response)
    for cell in range(steps + 1):
        share = flip.chance_of_one(mechanism.thresholds(cell)[0])
        expected = (share - channel.low) / channel.contrast
        error = expected - Fraction(cell, steps)
        assert -Fraction(1, mechanism.response.high - mechanism.response.low) < error <= 0
        if cell in (0, steps):
            assert error == 0
