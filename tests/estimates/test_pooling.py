import pytest

from reticent.counts import HistogramCounts, MeanCounts
from reticent.errors import ParameterError
from reticent.estimates import average, difference, estimate
from reticent.mechanisms import Buckets, HadamardBit, OneBitMean
from reticent.plan import Metric

MEAN = Metric("mean", OneBitMean(1, 24), unit="hour")
ROWS = Metric("rows", HadamardBit(1, Buckets.even(24, 3)))
MONDAY = estimate(MEAN, MeanCounts(10_000, 4_000))
TUESDAY = estimate(MEAN, MeanCounts(9_000, 4_100))


def test_half_widths_of_an_average_are_averaged() -> None:
    pooled = average([MONDAY, TUESDAY])
    assert pooled.value == pytest.approx((MONDAY.value + TUESDAY.value) / 2)
    assert pooled.half_width == pytest.approx((MONDAY.half_width + TUESDAY.half_width) / 2)
    assert pooled.lower == pytest.approx((MONDAY.lower + TUESDAY.lower) / 2)
    assert pooled.paper_bound == pytest.approx((MONDAY.paper_bound + TUESDAY.paper_bound) / 2)
    assert pooled.reports == 9_000


@pytest.mark.parametrize("rounds", [1, 2, 365])
def test_a_year_of_the_same_is_no_more_precise_than_a_day(rounds: int) -> None:
    pooled = average([MONDAY] * rounds)
    assert pooled.half_width == pytest.approx(MONDAY.half_width)
    assert pooled.noise_half_width == pytest.approx(MONDAY.noise_half_width)
    assert pooled.manipulation == pytest.approx(MONDAY.manipulation)
    assert pooled.confidence == MONDAY.confidence


def test_half_widths_of_a_difference_add() -> None:
    change = difference(TUESDAY, MONDAY)
    assert change.value == pytest.approx(TUESDAY.value - MONDAY.value)
    assert change.half_width == pytest.approx(TUESDAY.half_width + MONDAY.half_width)
    assert change.lower == pytest.approx(TUESDAY.lower - MONDAY.upper)
    assert change.upper == pytest.approx(TUESDAY.upper - MONDAY.lower)
    assert change.span == (-24, 24)
    assert change.manipulation == pytest.approx(2 * MONDAY.manipulation)
    back = difference(MONDAY, TUESDAY)
    assert (back.value, back.lower, back.upper) == pytest.approx(
        (-change.value, -change.upper, -change.lower)
    )


def test_ends_are_averaged_before_they_are_cut() -> None:
    """Cutting first would claim more than is known: half of a negative error is thrown away."""
    low = estimate(MEAN, MeanCounts(1000, 262))
    high = estimate(MEAN, MeanCounts(1000, 400))
    pooled = average([low, high])
    assert low.uncut[0] < 0 == low.lower
    assert pooled.lower == pytest.approx((low.uncut[0] + high.uncut[0]) / 2)
    assert pooled.lower < (low.lower + high.lower) / 2


def test_histograms_pool_bucket_by_bucket() -> None:
    first = estimate(ROWS, HistogramCounts((250,) * 4, (180, 70, 170, 80)))
    second = estimate(ROWS, HistogramCounts((200,) * 4, (100, 90, 110, 80)))
    pooled, change = average([first, second]), difference(second, first)
    for bucket, a, b in zip(pooled.buckets, first.buckets, second.buckets, strict=True):
        assert bucket == average([a, b])
    for bucket, a, b in zip(change.buckets, first.buckets, second.buckets, strict=True):
        assert bucket == difference(b, a)
    assert pooled.reports == change.reports == 800


def test_only_what_measures_the_same_is_pooled() -> None:
    histogram = estimate(ROWS, HistogramCounts((250,) * 4, (180, 70, 170, 80)))
    other_edges = estimate(
        Metric("rows", HadamardBit(1, Buckets.even(12, 3))), HistogramCounts((250,) * 4, (180, 70, 170, 80))
    )
    for refused in (
        lambda: average([]),
        lambda: average([MONDAY, estimate(MEAN, MeanCounts(10, 5), 0.9)]),
        lambda: average([MONDAY, estimate(Metric("m", OneBitMean(1, 12), unit="hour"), MeanCounts(10, 5))]),
        lambda: average([MONDAY, histogram]),  # type: ignore[list-item]
        lambda: difference(MONDAY, histogram),  # type: ignore[call-overload]
        lambda: difference(histogram, other_edges),
    ):
        with pytest.raises(ParameterError, match="estimates"):
            refused()
