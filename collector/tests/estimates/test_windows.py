"""Sampled answers over several windows, differences, and versions of a plan: exact laws, and the wrong ones refused."""

from __future__ import annotations

from math import ceil, comb, exp, floor, hypot, sqrt, tanh
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean, SubsetSelection
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import (
    average,
    clopper_pearson,
    cumulative,
    difference,
    estimate,
    expected_average_half_width,
)
from reticent_collector.estimates.convex_order import (
    Asked,
    Repeated,
    Steady,
    average_interval,
    difference_excess,
    largest_excess,
    opposed_excess,
)

PART = Metric("part", OneBitMean(1, 1))
PLAN = Plan("p", 1, 21_600, 21_600, (PART,), answers=Answers(window=28))
FIRST = PLAN.window_of(20_000).first  # type: ignore[union-attr]


def coin(epsilon: float) -> tuple[float, float]:
    low = 1 / (exp(epsilon) + 1)
    return low, 1 - low


def hadamard(epsilon: float) -> tuple[float, float]:
    return 0.5, 0.5 + tanh(epsilon / 2) / 2


def windows(counts: list[Any], start: int = 0) -> dict[int, Any]:
    return {FIRST + 28 * (start + place): one for place, one in enumerate(counts)}


# The numbers of the notes

UPPER_MEANS = [
    (Steady(5, 4, *coin(1)), 0.5, 0.025, 0.826424489, 0.173575511),
    (Steady(20, 12, *coin(1)), 0.3, 0.025, 0.541324857, 0.284683803),
    (Steady(20, 4, *coin(1)), 0.0, 0.025, 0.389040255, 0.158626397),
    (Steady(20, 4, *hadamard(1)), 0.1, 0.025 / 32, 0.716842929, 0.327131475),
    (Asked(100, 60, *coin(1)), 0.5, 0.025, 0.658512461, 1 - 0.658512461),
    (Asked(20, 200, *coin(1)), 0.3, 0.025, 0.549519667, 0.278097870),
]


@pytest.mark.parametrize(("law", "truth", "tail", "upper", "lower"), UPPER_MEANS)
def test_upper_means_to_nine_digits(
    law: Repeated, truth: float, tail: float, upper: float, lower: float
) -> None:
    assert law.upper_mean(truth, tail) == pytest.approx(upper, abs=1e-9)
    assert 1 - law.misses.upper_mean(1 - truth, tail) == pytest.approx(lower, abs=1e-9)


def test_an_upper_mean_on_a_coarser_grid_is_no_less() -> None:
    upper = Steady(100, 52, *coin(2)).upper_mean(0.5, 0.025)
    assert 0.589432620 <= upper < 0.58945


@pytest.mark.parametrize(
    ("devices", "count", "these", "population"),
    [
        (2000, 4, 0.0238, 0.0362),
        (2000, 12, 0.0137, 0.0298),
        (2000, 52, 0.0066, 0.0270),
        (2000, 1, 0.0479, 0.0479),
    ],
)
def test_half_widths_of_the_notes(devices: int, count: int, these: float, population: float) -> None:
    rounds = windows([MeanCounts(devices, devices // 2)] * count)
    assert average(PART, rounds, plan=PLAN, these=True).half_width == pytest.approx(these, abs=6e-5)
    figure = average(PART, rounds, plan=PLAN)
    assert figure.half_width == pytest.approx(population, rel=5e-3)
    assert expected_average_half_width(PART, devices, 28 * count, answers=PLAN.answers) == pytest.approx(
        figure.half_width, rel=1e-3
    )
    assert figure.sampling_half_width < figure.half_width
    assert figure.noise_share == pytest.approx(
        (1 / tanh(0.5) ** 2 - 1) / 4 / count / ((1 / tanh(0.5) ** 2 - 1) / 4 / count + 0.25), rel=1e-6
    )


def test_unequal_windows_have_their_mean_number_of_devices_rounded_down() -> None:
    """3 and 2 reports in two windows are those of two devices; a window without reports is none."""
    counts = windows([MeanCounts(3, 2), MeanCounts(2, 1), MeanCounts(0, 0)])
    figure = average(PART, counts, plan=PLAN)
    ends = average_interval(Steady(2, 2, *coin(1)), np.array(3 / 5), 0.025)
    assert figure.uncut == pytest.approx([float(PART.channel.truth(float(end))) for end in ends])
    assert (figure.reports, figure.value) == (5, pytest.approx(estimate(PART, MeanCounts(5, 3)).value))


def test_metrics_that_some_reports_are_about() -> None:
    """1 of 20 metrics, 20,000 devices, 52 windows: with all reports known, ± .0138 in place of ± .0383."""
    rounds = windows([MeanCounts(1000, 500)] * 52)
    everybody = dict.fromkeys(rounds, 20_000)
    assert average(PART, rounds, plan=PLAN).half_width == pytest.approx(0.0383, rel=6e-3)
    assert average(PART, rounds, plan=PLAN, all_reports=everybody).half_width == pytest.approx(
        0.0138, rel=1e-2
    )


def test_devices_asked_are_rounded_down() -> None:
    """10 of 41 and 11 of 40 reports: 21 reports of 40.47 devices, which count as 40."""
    counts = windows([MeanCounts(10, 4), MeanCounts(11, 6)])
    figure = average(PART, counts, plan=PLAN, all_reports=dict(zip(counts, (41, 40), strict=True)))
    ends = average_interval(Asked(40, 21, *coin(1)), np.array(10 / 21), 0.025)
    assert figure.uncut == pytest.approx([float(PART.channel.truth(float(end))) for end in ends])
    # However the reports of a window fell into its rounds.
    apart = {FIRST: MeanCounts(4, 1), FIRST + 5: MeanCounts(6, 3), FIRST + 28: MeanCounts(11, 6)}
    assert average(PART, apart, plan=PLAN, all_reports=dict(zip(apart, (21, 20, 40), strict=True))) == figure


@pytest.mark.parametrize(("count", "these", "population"), [(12, 0.0019, 0.0042), (52, 0.0009, 0.0038)])
def test_half_widths_of_a_large_fleet(count: int, these: float, population: float) -> None:
    rounds = windows([MeanCounts(100_000, 50_000)] * count)
    assert average(PART, rounds, plan=PLAN, these=True).half_width == pytest.approx(these, abs=5.1e-5)
    assert average(PART, rounds, plan=PLAN).half_width == pytest.approx(population, abs=5.1e-5)


@pytest.mark.parametrize(("epsilon", "relative"), [(2, (1.06, 0.99, 0.91)), (3, (1.14, 1.11, 1.08))])
def test_few_windows_are_no_narrower_than_one_where_noise_is_small(
    epsilon: float, relative: tuple[float, ...]
) -> None:
    """The upper mean costs 1.19, which one window does not pay: 2, 4 and 52 windows beside one, of 20,000 devices."""
    metric = Metric("part", OneBitMean(epsilon, 1))
    widths = [
        average(metric, windows([MeanCounts(20_000, 10_000)] * count), plan=PLAN).half_width
        for count in (1, 2, 4, 52)
    ]
    assert [width / widths[0] for width in widths[1:]] == pytest.approx(relative, abs=0.006)


@pytest.mark.parametrize(("epsilon", "two", "many"), [(1, 1.08, 1.01), (2, 1.17, 1.01)])
def test_where_all_are_asked_the_law_of_steady_devices_is_narrower(
    epsilon: float, two: float, many: float
) -> None:
    for count, wider in ((2, two), (52, many)):
        asked, steady = Asked(2000, 2000 * count, *coin(epsilon)), Steady(2000, count, *coin(epsilon))
        ratio = sqrt(asked.variance(0.5) / steady.variance(0.5))
        assert ratio == pytest.approx(wider, abs=0.006)
        rounds = windows([MeanCounts(2000, 1000)] * count)
        metric = Metric("part", OneBitMean(epsilon, 1))
        everybody = dict.fromkeys(rounds, 2000)
        figure = average(metric, rounds, plan=PLAN, all_reports=everybody)
        assert figure == average(metric, rounds, plan=PLAN), "so that law is taken"


@pytest.mark.parametrize(
    ("count", "these", "population"), [(1, 0.0113, 0.0125), (4, 0.0057, 0.0089), (52, 0.0016, 0.0075)]
)
def test_differences_of_the_notes(count: int, these: float, population: float) -> None:
    later, earlier = (windows([MeanCounts(100_000, 50_000)] * count, start) for start in (100, 0))
    change = difference(PART, later, earlier, plan=PLAN)
    assert (change.half_width, change.rule) == (pytest.approx(population, rel=9e-3), "convex-order")
    given = difference(PART, later, earlier, plan=PLAN, these=True)
    assert (given.half_width, given.covers) == (pytest.approx(these, rel=2e-2), "these devices")
    assert str(given).endswith("these devices)")
    assert given.to_dict()["rule"] == "convex-order, these devices"
    tags = difference(PART, later, later, plan=PLAN)
    assert tags.covers == "all devices like these"
    assert tags.half_width == pytest.approx(these if count == 1 else population, rel=2e-2)
    of_these = difference(PART, later, later, plan=PLAN, these=True)
    assert of_these.half_width == pytest.approx(these, rel=2e-2)
    assert of_these.covers == ("all devices like these" if count == 1 else "these devices")


# Convex order, by the exact laws of random small fleets


def hinge_excess(law: dict[float, float], bound: dict[float, float]) -> float:
    points = sorted({*law, *bound})

    def hinge(of: dict[float, float], at: float) -> float:
        return sum(chance * max(value - at, 0.0) for value, chance in of.items())

    return max(hinge(law, at) - hinge(bound, at) for at in points)


def law_of_steady(devices: int, times: int, low: float, high: float, truth: float) -> dict[float, float]:
    hits = np.arange(times + 1)
    device = (1 - truth) * binom.pmf(hits, times, low) + truth * binom.pmf(hits, times, high)
    law = np.ones(1)
    for _ in range(devices):
        law = np.convolve(law, device)
    return {round(ones / devices / times, 9): float(chance) for ones, chance in enumerate(law)}


def random_fleet(
    source: np.random.Generator,
) -> tuple[dict[float, float], float, int, int, tuple[float, float]]:
    """
    Devices that come and go in up to four windows, keep a value or change it: the law of the share of hits.

    Each has a chance of its own to hold a 1 always, or another value in each window.
    """
    count, size = int(source.integers(2, 5)), int(source.integers(1, 7))
    there = source.random((size, count)) < source.uniform(0.4, 1)
    there[0, :] = True
    low, high = coin(source.choice([0.5, 1, 4])) if source.random() < 0.7 else hadamard(2)
    total, law, mean = int(there.sum()), np.ones(1), 0.0
    for present in there:
        times = int(present.sum())
        hits = np.arange(times + 1)
        if source.random() < 0.6:  # keeps a value drawn 0 or 1
            chance = float(source.random())
            of_device = (1 - chance) * binom.pmf(hits, times, low) + chance * binom.pmf(hits, times, high)
            mean += chance * times / total
        else:
            truths = source.random(times)
            of_device = np.ones(1)
            for truth in truths:
                share = low + truth * (high - low)
                of_device = np.convolve(of_device, [1 - share, share])
            mean += float(truths.sum()) / total
        law = np.convolve(law, of_device)
    shares = {round(ones / total, 9): float(chance) for ones, chance in enumerate(law)}
    return shares, mean, total, count, (low, high)


def test_the_share_of_hits_is_below_that_of_steady_devices_and_of_no_more() -> None:
    """150 random fleets: hinge functions never exceed; devices rounded up, a window less, or coins are refused."""
    source = np.random.default_rng(13)
    worst = {"rule": -1.0, "rounded up": -1.0, "a window less": -1.0, "coins": -1.0}
    for _ in range(150):
        law, mean, total, count, channel = random_fleet(source)
        count = min(count, total)
        wrong = {
            "rule": (total // count, count),
            "rounded up": (ceil(total / count), count),
            "a window less": (total // (count - 1), count - 1),
        }
        for name, (devices, times) in wrong.items():
            bound = law_of_steady(devices, times, *channel, mean)
            worst[name] = max(worst[name], hinge_excess(law, bound))
        share = channel[0] + mean * (channel[1] - channel[0])
        coins = {round(ones / total, 9): float(binom.pmf(ones, total, share)) for ones in range(total + 1)}
        worst["coins"] = max(worst["coins"], hinge_excess(law, coins))
    assert worst["rule"] <= 1e-8
    assert all(worst[name] > 0.005 for name in ("rounded up", "a window less", "coins")), worst


def law_of_asked(devices: int, reports: int, low: float, high: float, truth: float) -> dict[float, float]:
    law = np.zeros(reports + 1)
    for ones in range(devices + 1):
        share = low + (high - low) * ones / devices
        law += binom.pmf(ones, devices, truth) * binom.pmf(np.arange(reports + 1), reports, share)
    return {round(hits / reports, 9): float(chance) for hits, chance in enumerate(law)}


def test_reports_about_some_metrics_are_below_the_law_of_those_asked_and_of_no_more() -> None:
    """Six devices that keep a value drawn 0 or 1, of which two and then three are asked: exact, over all values."""
    low, high = coin(4)
    fleet, asked = 6, (2, 3)
    parts, total = sum(number / fleet for number in asked), sum(asked)
    devices = floor(total / parts + 1e-9)
    for truth in (0.5, 0.2):
        law = np.zeros(total + 1)
        for ones in range(fleet + 1):
            of_values = np.ones(1)
            for number in asked:
                of_window = np.zeros(number + 1)
                for picked in range(number + 1):  # of the asked have a 1: hypergeometric
                    ways = [binom_ways(ones, picked), binom_ways(fleet - ones, number - picked)]
                    chance = ways[0] * ways[1] / binom_ways(fleet, number)
                    hits = np.convolve(
                        binom.pmf(np.arange(picked + 1), picked, high),
                        binom.pmf(np.arange(number - picked + 1), number - picked, low),
                    )
                    of_window += chance * hits
                of_values = np.convolve(of_values, of_window)
            law += binom.pmf(ones, fleet, truth) * of_values
        seen = {round(hits / total, 9): float(chance) for hits, chance in enumerate(law)}
        assert hinge_excess(seen, law_of_asked(devices, total, low, high, truth)) <= 1e-9
    # The tightest case: everybody is asked in each of two windows.
    kept = law_of_steady(1, 2, low, high, 0.5)
    assert hinge_excess(kept, law_of_asked(1, 2, low, high, 0.5)) <= 1e-9
    assert hinge_excess(kept, law_of_asked(2, 2, low, high, 0.5)) > 0.03, "one device more"


def binom_ways(size: int, chosen: int) -> float:
    return float(comb(size, chosen)) if 0 <= chosen <= size else 0.0


# Coverage of averages, exactly


@pytest.mark.parametrize("devices", [1, 2, 3, 5, pytest.param(20, marks=pytest.mark.soak)])
@pytest.mark.parametrize("tail", [0.025, 0.025 / 32])
@pytest.mark.parametrize("channel", [coin(0.5), coin(2), coin(8), hadamard(1), hadamard(8)], ids=str)
def test_each_end_of_an_average_misses_as_often_as_it_may(
    devices: int, tail: float, channel: tuple[float, float]
) -> None:
    """Truths on a grid that is dense where the tail begins, for devices that keep them: no end exceeds its tail."""
    for times in (2, 12):
        law = Steady(devices, times, *channel)
        shares = np.arange(devices * times + 1) / (devices * times)
        lower, upper = average_interval(law, shares, tail)
        hits = np.arange(times + 1)
        for truth in (
            0.0,
            0.9 * tail,
            tail,
            1.03 * tail,
            0.1,
            0.3,
            0.5,
            0.77,
            1 - 1.03 * tail,
            1 - tail,
            1.0,
        ):
            device = (1 - truth) * binom.pmf(hits, times, channel[0]) + truth * binom.pmf(
                hits, times, channel[1]
            )
            chances = np.ones(1)
            for _ in range(devices):
                chances = np.convolve(chances, device)
            mean = channel[0] + truth * (channel[1] - channel[0])
            assert chances[mean < lower - 1e-12].sum() <= tail * (1 + 1e-9)
            assert chances[mean > upper + 1e-12].sum() <= tail * (1 + 1e-9)


@pytest.mark.parametrize("devices", [2001, 3000, 25_000])
def test_the_polynomial_is_never_below_the_upper_mean(devices: int) -> None:
    """At truths drawn at random, most of them near the ends."""
    source = np.random.default_rng(devices)
    for channel in (coin(1), coin(8), hadamard(8), (0.0, 1.0)):
        law = Steady(devices, 1 if channel[0] == 0 else 4, *channel)
        for truth in (*source.uniform(0.005, 0.05, 4), *source.uniform(0.05, 0.95, 3)):
            share = law.low + (law.high - law.low) * truth
            exact = law.upper_mean(truth, 0.025) - share
            assert exact <= largest_excess(law, (share, share), 0.025) <= 1.02 * exact


def test_one_end_of_a_single_device_is_wrong_no_more_often_than_its_tail() -> None:
    """The upper mean has a kink at a truth of `tail`; a polynomial through it would be wrong 1.028 times as often."""
    law = Steady(1, 1, 0.0, 1.0)
    lower, _ = average_interval(law, np.array(1.0), 0.025)
    assert 0.024 < float(lower) <= 0.025


def test_devices_of_an_expected_width_are_rounded_down_as_those_of_an_average() -> None:
    metric = Metric("part", OneBitMean(1, 1), Flip("1/5"))
    for devices in (4_111, 16_447, 65_791):
        expected = expected_average_half_width(metric, devices, 7)
        seen = average(metric, [MeanCounts(devices, devices // 2)] * 7).half_width
        assert expected == pytest.approx(seen, rel=2e-4)


@pytest.mark.parametrize("count", [2, 52])
@pytest.mark.parametrize(
    "mechanism",
    [
        HadamardBit(1, Buckets.even(8, 8)),
        SubsetSelection(1, Buckets.even(8, 8)),
        DBitFlip(2, Buckets.even(4, 4), 1),
    ],
    ids=lambda one: one.title,
)
def test_no_share_has_a_wider_average_than_the_worst_that_is_expected(mechanism: Any, count: int) -> None:
    """For devices that keep their bucket one half is worst, in the end; for coins of the Hadamard bit it is 0."""
    metric = Metric("h", mechanism)
    answers = Answers(window=28)
    worst, *others = (
        expected_average_half_width(metric, 2_400, 28 * count, answers=answers, at=share)
        for share in (None, 0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
    )
    assert max(others) <= worst * 1.005
    assert max(others) >= worst * 0.97


def test_the_widest_law_of_those_asked_is_that_of_the_largest_variance() -> None:
    truths = np.linspace(0, 1, 2001)
    for law in (
        Asked(30, 40, *coin(1)),
        Asked(400, 40, *hadamard(3)),
        Asked(8, 900, 0.1, 0.6),
        Steady(9, 3, 0.1, 0.6),
    ):
        variances = law.variance(truths)
        assert law.widest == pytest.approx(truths[variances.argmax()], abs=1e-3)


# Narrower averages of large fleets


@pytest.mark.parametrize(("memo", "expected"), [(0.5, 0.0203), (0.27, 0.0200)])
def test_an_average_of_a_large_fleet_is_narrower_and_its_tail_is_still_kept(
    memo: float, expected: float
) -> None:
    """100,000 devices, three rounds, flips of 0.2: the exact chance that the lower end is above the mean."""
    devices, rounds, flip = 100_000, 3, 0.2
    law = Steady(devices, rounds, flip, 1 - flip)
    mean = flip + (1 - 2 * flip) * memo
    hits = np.arange(rounds + 1)
    device = (1 - memo) * binom.pmf(hits, rounds, flip) + memo * binom.pmf(hits, rounds, 1 - flip)
    size = 2**19
    chances = np.fft.irfft(np.fft.rfft(device, size) ** devices, size)
    totals = np.arange(size)
    near = np.abs(totals / devices / rounds - mean) < 0.02
    lower, upper = average_interval(law, totals[near] / devices / rounds, 0.025)
    assert chances[near][lower > mean].sum() == pytest.approx(expected, abs=4e-4)
    assert chances[near][upper < mean].sum() <= 0.025
    wide = largest_excess(law, (mean, mean), 0.025)
    assert (mean - float(average_interval(law, np.array(mean), 0.025)[0])) < 0.92 * wide


def test_the_normal_law_without_its_error_would_miss() -> None:
    """40,000 devices of which six in ten thousand hit: z standard deviations are exceeded with chance .031."""
    mean, deviation = 24.0, sqrt(40_000 * 0.0006 * (1 - 0.0006))
    assert binom.sf(floor(mean + norm.isf(0.025) * deviation), 40_000, 0.0006) > 0.03
    law = Steady(40_000, 1, 0.0, 1.0)
    shares = np.arange(80) / 40_000
    lower, _ = average_interval(law, shares, 0.025)
    assert binom.pmf(np.flatnonzero(lower > 0.0006), 40_000, 0.0006).sum() <= 0.025


@pytest.mark.parametrize(
    ("law", "tail"),
    [(Steady(10**8, 1, *coin(1)), 0.002), (Asked(300_000, 600_000, *coin(1)), 0.025)],
    ids=str,
)
def test_the_normal_law_is_taken_only_where_it_was_proved(law: Repeated, tail: float) -> None:
    """Not for tails below .003, nor where hits are no sum of independent terms: a sixth wider there."""
    lower, _ = average_interval(law, np.array(0.5), tail)
    normal = float(norm.isf(tail) * sqrt(law.variance(0.5)))
    assert 0.5 - float(lower) > 1.1 * normal
    both = average_interval(Steady(300_000, 2, *coin(1)), np.array(0.5), 0.025)[0]
    steady = float(norm.isf(0.025) * sqrt(Steady(300_000, 2, *coin(1)).variance(0.5)))
    assert 0.5 - float(both) < 1.04 * steady, "where it was"


@pytest.mark.parametrize(
    ("devices", "gain"), [(80_000, 1.0), (100_000, 1.28), (200_000, 1.32), (10**6, 1.38), (10**7, 1.41)]
)
def test_the_gain_of_large_fleets_in_variance(devices: int, gain: float) -> None:
    """Remembered answers of four weeks, flips of 0.2, against the upper mean alone."""
    metric = Metric("part", OneBitMean(1, 1), Flip("1/5"))
    figure = average(metric, [MeanCounts(devices, devices // 2)] * 28)
    wide = largest_excess(Steady(devices, 28, 0.2, 0.8), (0.5, 0.5), 0.025) / float(metric.channel.contrast)
    assert (wide / figure.half_width) ** 2 == pytest.approx(gain, abs=0.006)


def test_bounds_of_single_shares_are_not_added() -> None:
    """Upper means add under any dependence, quantiles do not: a difference of large fleets is no narrower."""
    metric = Metric("part", OneBitMean(1, 1), Flip("1/5"))
    week = [MeanCounts(1_000_000, 500_000)] * 28
    assert difference(metric, week, week).half_width > 2.3 * average(metric, week).half_width


# Differences


def table_of(later: int, earlier: int, change: Any) -> tuple[np.ndarray, np.ndarray]:
    ends = [[change(ones, others).uncut for others in range(earlier + 1)] for ones in range(later + 1)]
    lower, upper = np.moveaxis(np.array(ends), 2, 0)
    return lower, upper


@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
@pytest.mark.parametrize(("later", "earlier"), [(1, 1), (2, 2), (5, 3), (10, 10), (20, 7)])
def test_a_difference_of_few_reports_is_covered(epsilon: float, later: int, earlier: int) -> None:
    """All pairs of counts, over a grid of truths: crosswise limits cover 95 %, and 1 - α/32 each."""
    metric = Metric("part", OneBitMean(epsilon, 1))
    for confidence in (0.95, 1 - 0.05 / 32):
        lower, upper = table_of(
            later,
            earlier,
            lambda ones, others: difference(
                metric,
                windows([MeanCounts(later, ones)], 1),
                windows([MeanCounts(earlier, others)]),
                confidence,  # noqa: B023
                PLAN,
            ),
        )
        for after, before in np.ndindex(5, 5):
            truths = after / 4, before / 4
            chances = [
                binom.pmf(np.arange(size + 1), size, float(metric.channel.share(truth)))
                for size, truth in zip((later, earlier), truths, strict=True)
            ]
            held = (lower <= truths[0] - truths[1] + 1e-9) & (upper >= truths[0] - truths[1] - 1e-9)
            assert chances[0] @ held @ chances[1] >= confidence


@pytest.mark.parametrize("plan", [None, PLAN])
def test_limits_are_crosswise_below_thirty_reports(plan: Plan | None) -> None:
    """Each limit at half the tail: valid whatever the dependence, for all devices like these."""
    later, earlier = {FIRST + 28: MeanCounts(29, 11)}, {FIRST: MeanCounts(90, 30)}
    change = difference(PART, later, earlier, plan=plan)
    new, old = (
        [float(PART.channel.truth(end)) for end in clopper_pearson(*pair, 0.975)]
        for pair in ((11, 29), (30, 90))
    )
    assert change.uncut == pytest.approx((new[0] - old[1], new[1] - old[0]))
    assert (change.rule, change.covers) == ("crosswise", "all devices like these")
    more = {FIRST + 28: MeanCounts(30, 11)}
    assert difference(PART, more, earlier, plan=plan).rule.startswith("convex-order")


def test_square_and_add_would_not_cover() -> None:
    """One report each at ε = 2: .904, and a bucket of 32 misses forty times too often."""
    metric = Metric("part", OneBitMean(2, 1))
    for confidence, least in ((0.95, 0.92), (1 - 0.05 / 32, 0.97)):
        ends = [
            [float(metric.channel.truth(end)) for end in clopper_pearson(ones, 1, confidence)]
            for ones in (0, 1)
        ]
        value = [float(metric.channel.truth(ones)) for ones in (0, 1)]
        worst = 1.0
        for after, before in np.ndindex(21, 21):
            held = np.zeros((2, 2))
            for ones, others in np.ndindex(2, 2):
                gap = value[ones] - value[others]
                down = hypot(value[ones] - ends[ones][0], ends[others][1] - value[others])
                up = hypot(ends[ones][1] - value[ones], value[others] - ends[others][0])
                held[ones, others] = gap - down <= (after - before) / 20 <= gap + up
            chances = [
                binom.pmf([0, 1], 1, float(metric.channel.share(truth / 20))) for truth in (after, before)
            ]
            worst = min(worst, float(chances[0] @ held @ chances[1]))
        assert worst < least


@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_change_of_a_population_is_covered(epsilon: float) -> None:
    """30 devices that answer in both windows and hold 0 or 1 in each, opposed or not: all pairs of counts, exactly."""
    metric, devices = Metric("part", OneBitMean(epsilon, 1)), 30
    lower, upper = table_of(
        devices,
        devices,
        lambda ones, others: difference(
            metric, windows([MeanCounts(devices, ones)], 1), windows([MeanCounts(devices, others)]), plan=PLAN
        ),
    )
    low, high = coin(epsilon)
    for after, before in ((0.5, 0.5), (0.3, 0.6), (0.1, 0.1)):
        for both in (max(after + before - 1, 0.0), after * before, min(after, before)):
            joint = {
                (1, 1): both,
                (1, 0): after - both,
                (0, 1): before - both,
                (0, 0): 1 - after - before + both,
            }
            device = np.zeros((2, 2))
            for (new, old), chance in joint.items():
                hit = [high if truth else low for truth in (new, old)]
                device += chance * np.outer([1 - hit[0], hit[0]], [1 - hit[1], hit[1]])
            wave = np.fft.rfft2(device, (devices + 1, devices + 1)) ** devices
            law = np.maximum(np.fft.irfft2(wave, (devices + 1, devices + 1)), 0)
            held = (lower <= after - before) & (upper >= after - before)
            assert 0.975 <= law[held].sum() <= 1 + 1e-9


def test_devices_that_swap_need_more_room_than_independent_ones() -> None:
    """Half go from 0 to 1 and half back, ε = 2: the independent law covers .937 of the population's changes."""
    contrast, devices = tanh(1), 100_000
    opposed = opposed_excess(Steady(devices, 1, *coin(2)), 0.5, Steady(devices, 1, *coin(2)), 0.5, 0.0245)
    independent = difference_excess(0.5, devices, 0.5, devices, 0.0245)
    deviation = sqrt(0.5 / devices) * sqrt(1 + contrast**2)
    assert opposed == pytest.approx(independent * sqrt(1 + contrast**2), rel=5e-3)
    assert 1 - 2 * norm.sf(independent / deviation) == pytest.approx(0.937, abs=2e-3)
    assert 1 - 2 * norm.sf(opposed / deviation) > 0.975


def test_opposed_truths_are_those_of_the_law_by_enumeration() -> None:
    """40 and 60 devices whose truths are 1 with chance .2 and .6: quantiles from opposite ends, and hits given them."""
    later, earlier, truths = Steady(40, 2, *coin(2)), Steady(60, 1, *coin(2)), (0.2, 0.6)
    ones, others = (
        binom.ppf(chances, law.devices, truth).astype(int)
        for law, truth, chances in (
            (later, truths[0], (np.arange(4000) + 0.5) / 4000),
            (earlier, truths[1], 1 - (np.arange(4000) + 0.5) / 4000),
        )
    )
    laws = []
    for law, numbers in ((later, ones), (earlier, others)):
        laws.append(
            {
                number: np.convolve(
                    binom.pmf(np.arange(law.times * number + 1), law.times * number, law.high),
                    binom.pmf(
                        np.arange(law.times * (law.devices - number) + 1),
                        law.times * (law.devices - number),
                        law.low,
                    ),
                )
                for number in set(numbers.tolist())
            }
        )
    joint = np.zeros((81, 61))
    pairs, weights = np.unique(np.stack((ones, others)), axis=1, return_counts=True)
    for (one, other), weight in zip(pairs.T.tolist(), weights.tolist(), strict=True):
        joint += weight / 4000 * np.outer(laws[0][one], laws[1][other])
    gaps = (np.arange(81)[:, None] / 80 - np.arange(61)[None, :] / 60).ravel()
    order = np.argsort(-gaps)
    chances = joint.ravel()[order]
    part = np.clip(0.0245 - (np.cumsum(chances) - chances), 0, chances)
    exact = float(gaps[order] @ part) / 0.0245 - float(gaps[order] @ chances)
    assert opposed_excess(later, truths[0], earlier, truths[1], 0.0245) == pytest.approx(exact, rel=3e-3)


def test_a_law_that_is_not_smooth_is_replaced_by_the_sum_of_upper_means() -> None:
    """Few hits in 40 devices at ε = 8: no less than the law of opposed truths, computed by enumeration."""
    devices, (low, high), truth = 40, coin(8), 0.03
    law = Steady(devices, 1, low, high)
    excess = opposed_excess(law, truth, law, truth, 0.0245)
    share = low + (high - low) * truth
    parts = [largest_excess(law, (share, share), 0.0245), largest_excess(law, (1 - share, 1 - share), 0.0245)]
    assert excess <= sum(parts) * (1 + 1e-9)
    assert excess >= difference_excess(share, devices, share, devices, 0.0245)


@pytest.mark.parametrize("sides", [(30, 30), pytest.param((30, 90), marks=pytest.mark.soak)])
@pytest.mark.parametrize("epsilon", [pytest.param(1, marks=pytest.mark.soak), 6])
def test_independent_sides_are_covered_from_thirty_reports_on(epsilon: float, sides: tuple[int, int]) -> None:
    """Two tags in one window: all pairs of counts, at 95 %; the notes have .981 to .987."""
    metric = Metric("part", OneBitMean(epsilon, 1))
    lower, upper = table_of(
        *sides,
        lambda ones, others: difference(
            metric, windows([MeanCounts(sides[0], ones)]), windows([MeanCounts(sides[1], others)]), plan=PLAN
        ),
    )
    for after, before in np.ndindex(6, 6):
        truths = after / 5, before / 5
        chances = [
            binom.pmf(np.arange(size + 1), size, float(metric.channel.share(truth)))
            for size, truth in zip(sides, truths, strict=True)
        ]
        held = (lower <= truths[0] - truths[1]) & (upper >= truths[0] - truths[1])
        assert 0.975 <= chances[0] @ held @ chances[1] <= 1 + 1e-9


def test_no_chances_that_are_possible_have_a_wider_law_of_their_difference() -> None:
    """
    30 reports with 4 hits on each side, at the level of one of 254 buckets: all chances in the boxes.

    The law nearest to one half is not the widest one there.
    """
    metric, confidence = Metric("part", OneBitMean(8, 1)), 1 - 0.05 / 254
    tail = (1 - confidence) / 2
    low, high = (float(end) for end in clopper_pearson(4, 30, 1 - 0.02 * tail))
    chances = np.linspace(max(low, coin(8)[0]), high, 5).tolist()
    widest = max(difference_excess(one, 30, other, 30, 0.98 * tail) for one in chances for other in chances)
    nearest = difference_excess(min(high, 0.5), 30, min(high, 0.5), 30, 0.98 * tail)
    assert nearest < 0.99 * widest
    side = windows([MeanCounts(30, 4)])
    change = difference(metric, side, side, confidence, PLAN)
    assert change.half_width * float(metric.channel.contrast) >= widest


@pytest.mark.parametrize(
    ("later", "earlier", "confidence", "epsilon"),
    [((4, 30), (4, 30), 0.95, 8), ((3, 40), (20, 60), 0.95, 2), ((10, 35), (4, 30), 1 - 0.05 / 32, 1)],
)
def test_the_interval_of_a_difference_is_that_of_its_rule(
    later: tuple[int, int], earlier: tuple[int, int], confidence: float, epsilon: float
) -> None:
    """
    Hits and reports of two tags in one window, by the rule of the notes and sums over all outcomes.

    Boxes are wrong with .005 α per end, the upper mean is that of .98 of a tail, at the point of the box nearest to
    1/2, with arguments swapped for the other end, and a margin of 2/n.
    """
    metric, error = Metric("part", OneBitMean(epsilon, 1)), 1 - confidence
    low, high = float(metric.channel.low), float(metric.channel.high)

    def widest(hits: int, reports: int) -> float:
        ends = clopper_pearson(hits, reports, 1 - 0.01 * error)
        left, right = np.clip([float(end) for end in ends], low, high)
        return float(np.clip(0.5, left, right))

    def excess(one: float, reports: int, other: float, others: int) -> float:
        gaps = np.arange(reports + 1)[:, None] / reports - np.arange(others + 1) / others
        chances = np.outer(
            binom.pmf(np.arange(reports + 1), reports, one), binom.pmf(np.arange(others + 1), others, other)
        ).ravel()
        order, tail = np.argsort(-gaps.ravel()), 0.49 * error
        part = np.clip(tail - (np.cumsum(chances[order]) - chances[order]), 0, chances[order])
        return float(gaps.ravel()[order] @ part) / tail - (one - other)

    new, old = widest(*later), widest(*earlier)
    gap, margin = later[0] / later[1] - earlier[0] / earlier[1], 1 + 2 / min(later[1], earlier[1])
    down = margin * excess(new, later[1], old, earlier[1])
    up = margin * excess(old, earlier[1], new, later[1])
    sides = [windows([MeanCounts(reports, hits)]) for hits, reports in (later, earlier)]
    change = difference(metric, *sides, confidence, PLAN)
    assert change.uncut == pytest.approx(((gap - down) / (high - low), (gap + up) / (high - low)), rel=5e-4)


def test_two_devices_and_thirty_two_buckets_of_remembered_answers_are_covered() -> None:
    """Each bucket at 1 - .05/32: the law nearest to one half gave .99719 where .99844 is promised."""
    metric = Metric("h", DBitFlip(4, Buckets.even(32, 32), 32))
    held = np.zeros((3, 3), dtype=bool)
    low = float(metric.channel.low)
    worst = 1.0
    ends = {}
    for later, earlier in np.ndindex(3, 3):
        sides = [HistogramCounts((2,) * 32, (ones,) + (1,) * 31, 32) for ones in (later, earlier)]
        ends[later, earlier] = difference(metric, [sides[0]], [sides[1]]).buckets[0].uncut
    for after, before in np.ndindex(3, 3):
        for pair, (lower, upper) in ends.items():
            held[pair] = lower <= (after - before) / 2 <= upper
        chances = []
        for inside in (after, before):  # so many of the two devices are in the bucket
            law = np.ones(1)
            for device in range(2):
                share = 1 - low if device < inside else low
                law = np.convolve(law, [1 - share, share])
            chances.append(law)
        worst = min(worst, float(chances[0] @ held @ chances[1]))
    assert worst >= 1 - 0.05 / 32


def test_this_week_against_four_weeks_and_unequal_sides() -> None:
    """The rule of the population for one window on one side and four on the other: between those of both."""
    one, four = windows([MeanCounts(5_000, 2_500)], 10), windows([MeanCounts(2_000, 1_000)] * 4)
    mixed = difference(PART, one, four, plan=PLAN)
    assert mixed.rule == "convex-order"
    widths = [average(PART, side, plan=PLAN).half_width for side in (one, four)]
    assert hypot(*widths) < mixed.half_width < sum(widths) * 1.2
    back = difference(PART, four, one, plan=PLAN)
    assert back.uncut == pytest.approx((-mixed.uncut[1], -mixed.uncut[0]), rel=1e-6)


@pytest.mark.parametrize("act", [average, cumulative])
def test_counts_that_are_added_up_already_are_refused(act: Any) -> None:
    rows = Metric("h", HadamardBit(1, Buckets.even(4, 3)))
    counts = HistogramCounts((250,) * 4, (125,) * 4)
    for rounds, plan in ((counts, None), (counts, PLAN), ([counts], PLAN)):
        with pytest.raises(ParameterError, match=r"Result\.by_round"):
            act(rows, rounds, plan=plan)
    with pytest.raises(ParameterError, match=r"Result\.by_round"):
        difference(rows, counts, counts)  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="at least one round"):
        act(rows, {}, plan=PLAN)


def test_a_histogram_over_windows_that_keep_their_values() -> None:
    """Three buckets, 50 devices, four windows, d = 1: pooled per bucket, bands from the intervals."""
    rows = Metric("h", DBitFlip(2, Buckets.even(4, 4), 1))
    counts = windows([HistogramCounts((15, 10, 12, 13), (5, 3, 4, 6))] * 4)
    population, these = average(rows, counts, plan=PLAN), average(rows, counts, plan=PLAN, these=True)
    assert population.values == pytest.approx(these.values)
    assert all(a.half_width > b.half_width for a, b in zip(population.buckets, these.buckets, strict=True))
    assert {bucket.covers for bucket in these.buckets} == {"these devices"}
    wide, narrow = cumulative(rows, counts, plan=PLAN), cumulative(rows, counts, plan=PLAN, these=True)
    assert wide.lower[2] <= narrow.lower[2] <= narrow.upper[2] <= wide.upper[2]
    with_gap = {**counts, FIRST + 28 * 9: HistogramCounts((15, 10, 0, 0), (5, 3, 0, 0))}
    assert average(rows, with_gap, plan=PLAN).buckets[2].uncut == population.buckets[2].uncut
    # The same where nearly all buckets are asked about, which another law decides.
    rows = Metric("h", DBitFlip(2, Buckets.even(4, 4), 3))
    counts = windows([HistogramCounts((15,) * 4, (5, 3, 4, 6), 3)] * 2)
    with_gap = {**counts, FIRST + 28 * 9: HistogramCounts((5, 5, 0, 5), (2, 2, 0, 2), 3)}
    uncut = [average(rows, rounds, plan=PLAN).buckets[2].uncut for rounds in (counts, with_gap)]
    assert uncut[0] == uncut[1]
