import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.counts import HistogramCounts
from reticent.errors import ParameterError
from reticent.estimates import cumulative, estimate
from reticent.mechanisms import Buckets, DBitFlip, HadamardBit
from reticent.plan import Metric

ALL = Metric("all", DBitFlip(2, Buckets.even(24, 6), 6), unit="hour")
ROWS = Metric("rows", HadamardBit(2, Buckets([0, 1, 2, 4, 8, 24])), unit="hour")


def six_buckets(ones: list[int], reports: int = 1000) -> HistogramCounts:
    return HistogramCounts((reports,) * 6, tuple(ones), rows_per_report=6)


@given(st.lists(st.integers(0, 1000), min_size=6, max_size=6))
@settings(max_examples=200)
def test_the_band_is_a_band(ones: list[int]) -> None:
    """Whatever the counts: it starts at 0, ends at 1, rises, and has its lower end below its upper end."""
    histogram = estimate(ALL, six_buckets(ones))
    band = cumulative(histogram)
    assert band.values[0] == band.lower[0] == band.upper[0] == 0
    assert band.values[-1] == band.lower[-1] == band.upper[-1] == 1
    for ends in (band.lower, band.upper):
        assert list(ends) == sorted(ends)
        assert min(ends) >= 0
        assert max(ends) <= 1
    assert all(low <= high for low, high in zip(band.lower, band.upper, strict=True))
    found = [band.quantile(level) for level in (0.01, 0.25, 0.5, 0.75, 0.99)]
    for quantile in found:
        assert quantile.lower <= quantile.value <= quantile.upper
        assert {quantile.lower, quantile.upper} <= set(histogram.edges)
    for ends in ([each.lower for each in found], [each.upper for each in found]):
        assert ends == sorted(ends)


def test_values_are_sums_from_the_nearer_end() -> None:
    shares = np.array(estimate(ALL, six_buckets([500, 300, 350, 280, 260, 250])).values)
    band = cumulative(estimate(ALL, six_buckets([500, 300, 350, 280, 260, 250])))
    assert band.values[1:4] == pytest.approx(np.cumsum(shares)[:3])
    assert band.values[4:6] == pytest.approx([1 - shares[4] - shares[5], 1 - shares[5]])


def test_the_half_width_is_the_root_of_the_squares() -> None:
    flat = estimate(ALL, six_buckets([34_596] * 6, 100_000))  # a sixth each: 1/(e+1) + (e-1)/(e+1)/6
    band = cumulative(flat)
    width = flat.buckets[0].half_width
    assert band.upper[2] - band.values[2] == pytest.approx(width * 2**0.5)
    assert band.values[4] - band.lower[4] == pytest.approx(width * 2**0.5)


def test_quantiles_of_a_known_population() -> None:
    """Half of a million devices in [0, 1) h, half in [4, 8) h: the median is at an edge of what is known."""
    counts = HistogramCounts((125_000,) * 8, tuple(_expected_ones(ROWS, [0.5, 0, 0, 0.5, 0], 125_000)))
    band = cumulative(estimate(ROWS, counts))
    assert (band.quantile(0.25).lower, band.quantile(0.25).upper) == (0, 1)
    assert band.quantile(0.25).value == pytest.approx(0.5, abs=0.01)
    assert (band.quantile(0.75).lower, band.quantile(0.75).upper) == (4, 8)
    assert band.quantile(0.75).value == pytest.approx(6, abs=0.1)
    median = band.quantile(0.5)
    assert (median.lower, median.upper) == (0, 8)
    assert str(band.quantile(0.75)).endswith("hour in [4, 8] (95%)")


def _expected_ones(metric: Metric, shares: list[float], reports: int) -> list[int]:
    mechanism = metric.mechanism
    assert isinstance(mechanism, HadamardBit)
    return [
        round(reports * sum(h * mechanism.probability_of_one(u, row) for u, h in enumerate(shares)))
        for row in range(mechanism.size)
    ]


@pytest.mark.parametrize("level", [0, 1, -1, 50, float("nan")])
def test_a_level_is_between_0_and_1(level: float) -> None:
    with pytest.raises(ParameterError, match="level"):
        cumulative(estimate(ALL, six_buckets([400] * 6))).quantile(level)


def test_dictionaries_are_json() -> None:
    band = cumulative(estimate(ALL, six_buckets([400] * 6)))
    for plain in (band.to_dict(), band.quantile(0.5).to_dict()):
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
