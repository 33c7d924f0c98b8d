import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import average, clopper_pearson, cumulative, estimate
from reticent_collector.estimates.distribution import CumulativeEstimate

ALL = Metric("all", DBitFlip(2, Buckets.even(24, 6), 6), unit="hour")
ROWS = Metric("rows", HadamardBit(2, Buckets([0, 1, 2, 4, 8, 24])), unit="hour")


def six_buckets(ones: list[int], reports: int = 1000) -> HistogramCounts:
    return HistogramCounts((reports,) * 6, tuple(ones), rows_per_report=6)


@given(st.lists(st.integers(0, 1000), min_size=6, max_size=6))
@settings(max_examples=200)
def test_the_band_is_a_band(ones: list[int]) -> None:
    """Whatever the counts: it starts at 0, ends at 1, rises, and has its lower end below its upper end."""
    band = cumulative(ALL, [six_buckets(ones)])
    assert band.values[0] == band.lower[0] == band.upper[0] == 0
    assert band.values[-1] == band.lower[-1] == band.upper[-1] == 1
    for ends in (band.lower, band.upper):
        assert list(ends) == sorted(ends)
        assert min(ends) >= 0
        assert max(ends) <= 1
    assert all(low <= high for low, high in zip(band.lower, band.upper, strict=True))
    quantiles = [band.quantile(level) for level in (0.01, 0.25, 0.5, 0.75, 0.99)]
    for quantile in quantiles:
        assert quantile.lower <= quantile.value <= quantile.upper
        assert {quantile.lower, quantile.upper} <= set(band.edges)
    for ends in ([one.lower for one in quantiles], [one.upper for one in quantiles]):
        assert ends == sorted(ends)


def test_values_are_sums_from_the_nearer_end() -> None:
    shares = np.array(estimate(ALL, six_buckets([500, 300, 350, 280, 260, 250])).values)
    band = cumulative(ALL, [six_buckets([500, 300, 350, 280, 260, 250])])
    assert band.values[1:4] == pytest.approx(np.cumsum(shares)[:3])
    assert band.values[4:6] == pytest.approx([1 - shares[4] - shares[5], 1 - shares[5]])


def test_the_limits_of_a_sum_are_those_of_its_coins() -> None:
    """Every device answers about all six buckets: the sum of two is 2n coins, five edges have two limits each."""
    counts = six_buckets([34_596] * 6, 100_000)  # a sixth each: 1/(e+1) + (e-1)/(e+1)/6
    band = cumulative(ALL, [counts])
    lower, upper = clopper_pearson(2 * 34_596, 200_000, 0.95, together=5)
    assert band.lower[2] == pytest.approx(2 * ALL.channel.truth(lower))
    assert band.upper[2] == pytest.approx(2 * ALL.channel.truth(upper))
    assert band.lower[4] == pytest.approx(1 - band.upper[2])


def test_unequal_numbers_of_reports_pay_with_the_fewest_and_a_factor_e() -> None:
    """Two buckets with 400 and 300 reports: a binomial of 600 coins, at a tail that is e times smaller."""
    which = Metric("three", DBitFlip(2, Buckets.even(24, 3), 1))
    counts = HistogramCounts((400, 300, 20), (100, 60, 5))
    band, coins = cumulative(which, [counts]), 300 * (100 / 400 + 60 / 300)
    lower, _ = clopper_pearson(np.floor(coins), 600, 1 - 0.05 / np.e, together=2)
    _, upper = clopper_pearson(np.ceil(coins), 600, 1 - 0.05 / np.e, together=2)
    assert band.lower[2] == pytest.approx(max(2 * which.channel.truth(lower), 0))
    assert band.upper[2] == pytest.approx(2 * which.channel.truth(upper))


def test_a_bucket_that_nobody_was_asked_about_bounds_nothing() -> None:
    """All that is known is where the others are: a lower limit to the right of them, an upper one to the left."""
    which = Metric("four", DBitFlip(4, Buckets.even(24, 4), 1))
    counts = HistogramCounts((500, 0, 0, 500), (250, 0, 0, 10))
    band = cumulative(which, [counts])
    assert np.isnan(band.values[2])
    assert band.to_dict()["values"][2] is None
    assert 0.4 < band.lower[1] < band.upper[1] < 0.6
    assert band.lower[1] == band.lower[2] < band.upper[2] == band.upper[3]
    assert band.upper[3] > 0.95
    median = band.quantile(0.5)
    assert (median.lower, median.upper) == (0, 18)
    assert median.value == 9
    nobody = cumulative(which, [HistogramCounts((0, 1, 0, 0), (0, 1, 0, 0))])
    assert nobody.lower[1:-1] == (0, 0, 0)
    assert nobody.upper[1:-1] == pytest.approx((1, 1, 1), abs=0.01)


def band(lower: tuple[float, ...], upper: tuple[float, ...]) -> CumulativeEstimate:
    return CumulativeEstimate((0, 1, 2, 3), (0.0, 0.3, 0.7, 1.0), lower, upper, 0.95, 100, "hour")


def test_an_edge_whose_limit_is_the_level_itself() -> None:
    """
    F(1) ≤ 0.5 does not put the median above 1: it may be at or below, if F(1) is 0.5.

    F(2) ≥ 0.5 does put it at 2 or below.
    """
    touching = band((0.0, 0.1, 0.5, 1.0), (0.0, 0.5, 0.9, 1.0)).quantile(0.5)
    assert (touching.lower, touching.upper) == (0, 2)
    within = band((0.0, 0.1, 0.51, 1.0), (0.0, 0.49, 0.9, 1.0)).quantile(0.5)
    assert (within.lower, within.upper) == (1, 2)
    outside = band((0.0, 0.1, 0.49, 1.0), (0.0, 0.51, 0.9, 1.0)).quantile(0.5)
    assert (outside.lower, outside.upper) == (0, 3)


def test_rounds_of_the_same_devices_are_no_more_evidence_and_sampled_ones_are() -> None:
    """The band is what the intervals of the average imply: sums from the left, and from the right."""
    metric = Metric("hours", HadamardBit(1, Buckets.even(4, 4)), Flip("1/5"))
    counts = HistogramCounts((100, 110, 90, 100, 100, 105, 95, 100), (40, 50, 45, 60, 52, 44, 41, 55))
    week = cumulative(metric, [counts] * 28)
    pooled = average(metric, [counts] * 28)
    lower, upper = ([getattr(bucket, end) for bucket in pooled.buckets] for end in ("lower", "upper"))
    low = [max(sum(lower[:edge]), 1 - sum(upper[edge:]), 0.0) for edge in (1, 2, 3)]
    high = [min(sum(upper[:edge]), 1 - sum(lower[edge:]), 1.0) for edge in (1, 2, 3)]
    for place in range(3):  # it never falls
        assert week.upper[place + 1] == pytest.approx(min(high[place:]))
        assert week.lower[place + 1] == pytest.approx(min(max(low[: place + 1]), *high[place:]))
    total = HistogramCounts(*(tuple(2 * number for number in part) for part in (counts.reports, counts.ones)))
    plain = Metric("hours", HadamardBit(1, Buckets.even(4, 4)))
    plan = Plan("p", 1, 21_600, 21_600, (plain,), answers=Answers(window=4))
    one_window, two_windows = ({16: counts, last: counts} for last in (19, 20))
    assert cumulative(plain, one_window, plan=plan) == cumulative(plain, [total])
    assert cumulative(plain, two_windows, plan=plan, these=True) == cumulative(plain, [total])
    population, pooled = (act(plain, two_windows, plan=plan) for act in (cumulative, average))
    assert population.upper[1] == pytest.approx(min(bucket.upper for bucket in pooled.buckets[:1]))
    assert population.upper[2] > cumulative(plain, [total]).upper[2]


def test_the_width_of_a_band_of_reports_is_that_of_the_coins_of_bentkus() -> None:
    """One inner edge, so its two limits have 2.5 % each: the least t with e²/2 · Pr[B ≥ t] below it."""
    which, reports = Metric("two", HadamardBit(1, Buckets.even(24, 2)), Flip("1/5")), 1000
    band, channel = cumulative(which, [HistogramCounts((250,) * 4, (125,) * 4)]), which.channel
    hit, miss = (float(channel.truth(share)) for share in (1, 0))
    square = max(
        chance * hit**2 + (1 - chance) * miss**2 for chance in map(float, (channel.low, channel.high))
    )
    reach = max(hit, -miss) + 1
    tails = np.e**2 / 2 * binom.sf(np.arange(-1, reports), reports, square / (square + reach**2))
    most = int(np.argmax(tails <= 0.025))
    width = most * (reach + square / reach) / reports - square / reach
    assert band.upper[1] - band.values[1] == pytest.approx(min(width, 1 - band.values[1]))
    assert width < 0.5


def test_shares_of_devices_with_a_value_are_ratios_of_the_ends_that_are_farthest_apart() -> None:
    counts = HistogramCounts((5000,) * 4, (2038, 1807, 1807, 2038), rows_per_report=4)
    every = cumulative(Metric("all", DBitFlip(2, Buckets.even(32, 4), 4)), [counts])
    present = cumulative(Metric("some", DBitFlip(2, Buckets.even(24, 3, absent=True), 4)), [counts])
    assert present.lower[1:3] == pytest.approx([low / every.upper[3] for low in every.lower[1:3]])
    assert present.upper[1:3] == pytest.approx([high / every.lower[3] for high in every.upper[1:3]])
    assert 0 < present.lower[1] < present.upper[1] < present.upper[2] < 1


def test_a_mean_has_no_band() -> None:
    with pytest.raises(ParameterError, match="a histogram"):
        cumulative(Metric("mean", OneBitMean(1, 1)), [MeanCounts(10, 5)])


def test_quantiles_of_a_known_population() -> None:
    """Half of a million devices in [0, 1) h, half in [4, 8) h: the median is at an edge of what is known."""
    counts = HistogramCounts((125_000,) * 8, tuple(_expected_ones(ROWS, [0.5, 0, 0, 0.5, 0], 125_000)))
    band = cumulative(ROWS, [counts])
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
        cumulative(ALL, [six_buckets([400] * 6)]).quantile(level)


def test_dictionaries_are_json() -> None:
    band = cumulative(ALL, [six_buckets([400] * 6)])
    for plain in (band.to_dict(), band.quantile(0.5).to_dict()):
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
