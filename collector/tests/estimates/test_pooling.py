from fractions import Fraction
from math import asin, ceil, comb, isnan, pi, sqrt

import numpy as np
import pytest
from scipy.fft import next_fast_len
from scipy.stats import binom

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import (
    average,
    convex_order,
    difference,
    estimate,
    expected_average_half_width,
)
from reticent_collector.estimates.pooling import compared

FLIPPED = Metric("mean", OneBitMean(1, 24), Flip("1/5"), unit="hour")
PLAIN = Metric("mean", OneBitMean(1, 24), unit="hour")
ROWS = Metric("rows", HadamardBit(1, Buckets.even(24, 3)), Flip("1/5"))
WEEKLY = Plan("p", 1, 21_600, 21_600, (PLAIN,), answers=Answers(window=28))
WINDOW = WEEKLY.window_of(20_000).first  # type: ignore[union-attr]
MONDAY, TUESDAY = MeanCounts(10_000, 4_000), MeanCounts(9_000, 4_100)


def test_an_average_has_the_mean_of_the_values_and_the_fewest_reports() -> None:
    pooled = average(FLIPPED, [MONDAY, TUESDAY])
    values = [estimate(FLIPPED, counts).value for counts in (MONDAY, TUESDAY)]
    assert pooled.value == pytest.approx(np.mean(values))
    assert (pooled.reports, pooled.devices, pooled.confidence) == (9_000, 9_000, 0.95)
    assert pooled.uncut[0] < pooled.value < pooled.uncut[1]


def test_one_round_is_its_own_average() -> None:
    assert average(FLIPPED, [MONDAY]) == estimate(FLIPPED, MONDAY)


@pytest.mark.parametrize(("rounds", "least", "most"), [(7, 0.79, 0.81), (28, 0.72, 0.75), (1000, 0.70, 0.72)])
def test_flips_average_out_and_remembered_bits_do_not(rounds: int, least: float, most: float) -> None:
    """At ε = 1 and a flip of 0.2, 50,000 devices: .74 of a round's half-width after 28 rounds, never below .70."""
    counts = MeanCounts(50_000, 22_500)
    pooled, one = average(FLIPPED, [counts] * rounds), estimate(FLIPPED, counts)
    assert pooled.rule == "convex-order"
    assert least < pooled.half_width / one.half_width < most


@pytest.mark.parametrize("rounds", [2, 28, 365])
def test_without_flips_a_year_is_no_more_precise_than_a_day(rounds: int) -> None:
    """The price of a proof for devices that may change: 2.338 standard deviations, not 1.960."""
    pooled, one = average(PLAIN, [MONDAY] * rounds), estimate(PLAIN, MONDAY)
    assert pooled.rule == "convex-order"
    assert 1.18 < pooled.half_width / one.half_width < 1.21
    assert pooled.manipulation == pytest.approx(one.manipulation)


def test_the_smallest_round_decides() -> None:
    many, few = MeanCounts(11_000, 4_950), MeanCounts(10_000, 4_500)
    mixed = average(FLIPPED, [many] * 27 + [few])
    assert mixed.half_width == pytest.approx(average(FLIPPED, [few] * 28).half_width, rel=1e-6)


# The theorem, by exact laws of small fleets

ROUNDS = 3
LOW, HIGH = 0.2689, 0.7311


def device_law(cells: tuple[int | None, ...], gamma: float) -> dict[tuple[int, ...], float]:
    """
    The law of one device's bits: `cells` has its class in each round, None where it is away.

    A class has one remembered bit, 1 with chance LOW for class 0, HIGH for others, turned over anew each round.
    """
    classes = sorted({cell for cell in cells if cell is not None})
    law: dict[tuple[int, ...], float] = {}
    for memos in np.ndindex(*[2] * len(classes)):
        memo = dict(zip(classes, memos, strict=True))
        ones = [LOW if cell == 0 else HIGH for cell in classes]
        chance = np.prod([one if bit else 1 - one for one, bit in zip(ones, memos, strict=True)])
        for flips in np.ndindex(*[2] * len(cells)):
            if any(flip and cell is None for flip, cell in zip(flips, cells, strict=True)):
                continue
            weight = chance * np.prod(
                [
                    1.0 if cell is None else gamma if flip else 1 - gamma
                    for flip, cell in zip(flips, cells, strict=True)
                ]
            )
            bits = tuple(
                0 if cell is None else memo[cell] ^ flip for flip, cell in zip(flips, cells, strict=True)
            )
            law[bits] = law.get(bits, 0.0) + float(weight)
    return law


def fleet_law(fleet: list[tuple[int | None, ...]], gamma: float) -> tuple[dict[float, float], float, int]:
    """The exact law of the average over rounds of the share of ones, its mean, and the fewest devices of a round."""
    present = [sum(cells[t] is not None for cells in fleet) for t in range(ROUNDS)]
    law = {0.0: 1.0}
    for cells in fleet:
        added: dict[float, float] = {}
        for bits, chance in device_law(cells, gamma).items():
            step = sum(bit / count for bit, count in zip(bits, present, strict=True)) / ROUNDS
            for total, before in law.items():
                key = round(total + step, 12)
                added[key] = added.get(key, 0.0) + before * chance
        law = added
    return law, sum(value * chance for value, chance in law.items()), min(present)


def steady_law(mean: float, devices: int, gamma: float) -> dict[float, float]:
    """The law of the theorem: devices that never change, each remembering a 1 with the chance that gives `mean`."""
    memo = (mean - gamma) / (1 - 2 * gamma)
    law: dict[float, float] = {}
    for ones in range(devices + 1):
        kept = comb(devices, ones) * memo**ones * (1 - memo) ** (devices - ones)
        truthful = binom.pmf(np.arange(ones * ROUNDS + 1), ones * ROUNDS, 1 - gamma)
        turned = binom.pmf(np.arange((devices - ones) * ROUNDS + 1), (devices - ones) * ROUNDS, gamma)
        for total, chance in enumerate(np.convolve(truthful, turned)):
            key = round(total / devices / ROUNDS, 12)
            law[key] = law.get(key, 0.0) + kept * float(chance)
    return law


def hinge(law: dict[float, float], at: float) -> float:
    return sum(chance * max(value - at, 0.0) for value, chance in law.items())


FLEETS: dict[str, list[tuple[int | None, ...]]] = {
    "nobody changes": [(0, 0, 0), (1, 1, 1), (0, 0, 0), (1, 1, 1)],
    "everybody changes": [(0, 1, 0), (1, 0, 1), (0, 1, 2), (2, 1, 0)],
    "one is missing once": [(0, 0, None), (1, 1, 1), (0, 1, 1)],
    "another every round": [(0, None, None), (None, 1, None), (None, None, 0), (1, 1, 1)],
    "a growing fleet": [(0, 0, 0), (None, 1, 1), (None, None, 1), (None, None, 0)],
    "come and go": [(0, 1, None), (None, 0, 1), (1, None, 0), (0, 0, 0)],
}


@pytest.mark.parametrize("gamma", [0.0, 0.2])
@pytest.mark.parametrize("name", FLEETS)
def test_an_average_is_below_that_of_steady_devices_in_convex_order(name: str, gamma: float) -> None:
    """Every hinge function, which together are all convex functions, has the smaller mean: computed, not sampled."""
    law, mean, fewest = fleet_law(FLEETS[name], gamma)
    bound = steady_law(mean, fewest, gamma)
    points = sorted({*law, *bound})
    assert all(hinge(law, at) <= hinge(bound, at) + 1e-12 for at in points)


def test_the_theorem_is_about_the_fewest_devices_of_a_round() -> None:
    """The law of one device more is too narrow."""
    law, mean, fewest = fleet_law(FLEETS["nobody changes"], 0.2)
    narrower = steady_law(mean, fewest + 1, 0.2)
    assert any(hinge(law, at) > hinge(narrower, at) + 1e-3 for at in law)


def test_the_order_would_notice_rounds_taken_as_independent() -> None:
    """Independent rounds would be narrower than devices that remember: the hinge functions say so."""
    law, mean, _ = fleet_law(FLEETS["nobody changes"], 0.2)
    independent = {ones / 12: float(binom.pmf(ones, 12, mean)) for ones in range(13)}
    assert any(hinge(law, at) > hinge(independent, at) + 1e-3 for at in law)


def test_coverage_of_an_average_at_few_devices_is_computed_exactly() -> None:
    """All counts that twenty steady devices can send in three rounds; each end misses 2.5 % at most."""
    which = Metric("mean", OneBitMean(1, 1), Flip("1/5"))
    devices, rounds = 20, 3
    for truth in (0.0, 0.1, 0.5, 0.9, 1.0):
        memo = 0.26894142 + truth * (1 - 2 * 0.26894142)
        low = binom.pmf(np.arange(rounds + 1), rounds, 0.2)
        law = np.ones(1)
        for _ in range(devices):
            law = np.convolve(law, (1 - memo) * low + memo * low[::-1])
        below = above = 0.0
        for total, chance in enumerate(law):
            base, more = divmod(total, rounds)
            week = [MeanCounts(devices, base + (place < more)) for place in range(rounds)]
            pooled = average(which, week)
            below += chance * (truth < pooled.uncut[0])
            above += chance * (truth > pooled.uncut[1])
        assert pooled.rule == "convex-order"
        assert below <= 0.025
        assert above <= 0.025
        assert below + above > 0.001, "an interval that never misses is wider than it need be"


@pytest.mark.parametrize("stay", [0, 3, 8, 12])
def test_coverage_of_an_average_without_flips_is_computed_exactly(stay: int) -> None:
    """Of twelve devices some stay and the others move: all pairs of counts, each end misses 2.5 % at most."""
    which, move = Metric("mean", OneBitMean(6, 1)), 12 - stay
    for steady, before, after in ((0.0, 0.0, 1.0), (1.0, 0.0, 0.1), (0.5, 0.9, 0.0), (0.05, 0.3, 0.6)):
        chances = [float(which.channel.share(truth)) for truth in (steady, before, after)]
        truth, below, above = (stay * steady + move * (before + after) / 2) / 12, 0.0, 0.0
        for kept, first, second in np.ndindex(stay + 1, move + 1, move + 1):
            weight = np.prod(binom.pmf((kept, first, second), (stay, move, move), chances))
            if weight > 1e-9:
                pooled = average(which, [MeanCounts(12, kept + first), MeanCounts(12, kept + second)])
                below += weight * (truth < pooled.uncut[0])
                above += weight * (truth > pooled.uncut[1])
        assert below <= 0.025
        assert above <= 0.025


def upper_mean(points: np.ndarray, chances: np.ndarray, tail: float) -> float:
    """The mean of the largest part of a law whose chance is `tail`, from the definition."""
    left = np.clip(tail - (np.cumsum(chances[::-1])[::-1] - chances), 0, chances)
    return float(points @ left / tail)


@pytest.mark.parametrize("devices", [5, 33, 400, 20_000])
@pytest.mark.parametrize(
    ("rounds", "flip", "confidence"), [(2, "1/5", 0.9984), (7, "1/5", 0.95), (30, "2/5", 0.95)]
)
def test_the_ends_of_an_average_are_those_of_the_law_and_never_inside(
    devices: int, rounds: int, flip: str, confidence: float
) -> None:
    """The law of steady devices on its whole grid: at the lower end its upper mean is just below what was seen."""
    which, gamma = Metric("mean", OneBitMean(3, 1), Flip(flip)), float(Fraction(flip))
    for seen in (0.45, 0.5, 0.6):
        counts = MeanCounts(devices, round(devices * seen))
        pooled, share = average(which, [counts] * rounds, confidence), counts.ones / devices
        for end, shown in ((pooled.uncut[0], share), (1 - pooled.uncut[1], 1 - share)):
            mean = float(which.channel.share(end))
            memo = (mean - gamma) / (1 - 2 * gamma)
            if not 0.01 < memo < 0.99:
                continue  # nobody remembers a 1, or everybody does: the end is that of the range
            low = binom.pmf(np.arange(rounds + 1), rounds, gamma)
            size = devices * rounds + 1
            length = next_fast_len(size, real=True)  # the sum of all bits is at most size - 1
            wave = np.fft.rfft((1 - memo) * low + memo * low[::-1], length) ** devices
            law = np.maximum(np.fft.irfft(wave, length)[:size], 0)
            exact = upper_mean(np.arange(size) / devices / rounds, law / law.sum(), (1 - confidence) / 2)
            assert exact <= shown + 1e-9
            assert exact - mean >= (shown - mean) / (1.02 + 4 / devices)


# Differences


@pytest.mark.parametrize("tail", [0.025, 3e-5])
@pytest.mark.parametrize(
    "law",
    [
        convex_order.Steady(40, 1, 0.0, 1.0),
        convex_order.Steady(139, 7, 0.1, 0.9),
        convex_order.Steady(31, 3, 0.1, 0.6),
        convex_order.Asked(50, 400, 0.25, 0.75),
    ],
)
def test_the_end_of_an_interval_is_the_last_mean_that_is_refused_and_is_found_in_few_steps(
    law: convex_order.Repeated, tail: float
) -> None:
    """A page of 36 tags has a thousand ends; bisection takes thirteen steps for each."""
    places = convex_order.FINE * ceil(sqrt(law.devices))
    convex_order._upper_mean_at.cache_clear()
    drawn = np.random.default_rng(1).uniform(law.low, law.high, 40)
    shares = [*drawn, law.low + 1e-6, law.high - 1e-6]
    steps = []
    for share in shares:
        before = convex_order._upper_mean_at.cache_info().misses
        end = convex_order._last_refused(law, share, tail)
        steps.append(convex_order._upper_mean_at.cache_info().misses - before)
        if end < law.low:  # even the lowest mean explains it
            assert share <= convex_order._upper_mean_at(law, tail, 0, places)[1]
            continue
        place = round(2 / pi * places * asin(sqrt((end - law.low) / (law.high - law.low))))
        refused, next_one = (convex_order._upper_mean_at(law, tail, at, places) for at in (place, place + 1))
        assert refused[0] == pytest.approx(end, abs=1e-12)
        assert refused[1] < share <= next_one[1]
    assert np.mean(steps) < 7


@pytest.mark.parametrize("times", [1, 2, 7])
@pytest.mark.parametrize("devices", [1, 2, 37, 48])
def test_the_law_of_all_hits_is_that_of_one_device_after_another(devices: int, times: int) -> None:
    law, truth, tail = convex_order.Steady(devices, times, 0.2, 0.7), 0.3, 0.01
    hits = np.arange(times + 1)
    one = (1 - truth) * binom.pmf(hits, times, law.low) + truth * binom.pmf(hits, times, law.high)
    chances = np.ones(1)
    for _ in range(devices):
        chances = np.convolve(chances, one)
    exact = upper_mean(np.arange(len(chances)) / (devices * times), chances, tail)
    assert law.upper_mean(truth, tail) == pytest.approx(exact, rel=1e-10)


def test_a_difference_comes_with_the_averages_that_it_is_of() -> None:
    later, earlier = ([MeanCounts(reports=900, ones=ones)] * 3 for ones in (500, 400))
    both = compared(FLIPPED, later, earlier, 0.9)
    assert both.later == average(FLIPPED, later, 0.9)
    assert both.earlier == average(FLIPPED, earlier, 0.9)
    assert both.difference == difference(FLIPPED, later, earlier, 0.9)


def test_a_difference_is_later_less_earlier() -> None:
    change, back = difference(PLAIN, [TUESDAY], [MONDAY]), difference(PLAIN, [MONDAY], [TUESDAY])
    monday, tuesday = estimate(PLAIN, MONDAY), estimate(PLAIN, TUESDAY)
    assert change.value == pytest.approx(tuesday.value - monday.value)
    assert change.span == (-24, 24)
    assert change.manipulation == pytest.approx(2 * monday.manipulation)
    assert change.rule == "convex-order, these devices"
    assert change.covers == "these devices"
    assert 0.80 < change.half_width / (monday.half_width + tuesday.half_width) < 0.86
    assert (back.value, back.lower, back.upper) == pytest.approx(
        (-change.value, -change.upper, -change.lower), rel=1e-3
    )


@pytest.mark.parametrize(("reports", "more"), [(1_000, 1.02), (1_000_003, 1.01)])
def test_a_difference_of_many_devices_is_that_of_two_normal_laws(reports: int, more: float) -> None:
    """2.345 standard deviations at 97.55 %: a fiftieth of the tail is for the unknown chances; and the grid."""
    counts = MeanCounts(reports, reports // 2)
    change, deviation = difference(PLAIN, [counts], [counts]), np.sqrt(2 * 0.25 / reports)
    half = change.half_width * float(PLAIN.channel.contrast) / 24
    assert 2.344 * deviation < half < 2.338 * more * deviation


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_skewed_difference_is_that_of_the_way_back_turned_over(rounds: int) -> None:
    """Few devices of many are at one end: it may exceed what was seen by more than fall short of it."""
    which = Metric("mean", OneBitMean(8, 1))
    few, half = [MeanCounts(400, 8)] * rounds, [MeanCounts(40_000, 20_000)] * rounds
    change, back = difference(which, few, half), difference(which, half, few)
    assert change.uncut == pytest.approx((-back.uncut[1], -back.uncut[0]))
    down, up = change.value - change.uncut[0], change.uncut[1] - change.value
    assert down > 1.05 * up, "the share of ones among the few may be far above its mean by chance, not below"


def test_devices_are_rounded_down_where_laws_are_shared() -> None:
    sixty_four, one_more = ([HistogramCounts((n, 16, 16, 16), (8,) * 4)] * 7 for n in (16, 17))
    widths = [average(ROWS, week).buckets[0].half_width for week in (sixty_four, one_more)]
    assert widths[1] == pytest.approx(widths[0], rel=2e-3)


def test_upper_means_of_two_periods_add() -> None:
    week = [MeanCounts(50_000, 22_500)] * 28
    change, one = difference(FLIPPED, week, week), average(FLIPPED, week)
    assert change.rule == "convex-order"
    assert 1.99 < change.half_width / one.half_width < 2.03
    plain, round_ = difference(PLAIN, week, week), estimate(PLAIN, week[0])
    assert 2.36 < plain.half_width / round_.half_width < 2.44


def test_a_difference_of_two_rounds_is_below_that_of_independent_ones() -> None:
    """Devices that stay share a remembered bit, movers draw a second one; γ = 0; exact hinge functions."""
    for stay in range(5):
        law: dict[float, float] = {0.0: 1.0}
        mean_before = mean_after = 0.0
        for device in range(4):
            before, after = (LOW, LOW) if device < stay else (LOW, HIGH)
            joint = {0.0: 1.0} if device < stay else {1.0: after * (1 - before), -1.0: before * (1 - after)}
            joint.setdefault(0.0, 1 - sum(joint.values()))
            mean_before, mean_after = mean_before + before / 4, mean_after + after / 4
            law_next: dict[float, float] = {}
            for value, chance in law.items():
                for step, weight in joint.items():
                    law_next[value + step] = law_next.get(value + step, 0.0) + chance * weight
            law = law_next
        bound = {float(later - earlier): 0.0 for later in range(5) for earlier in range(5)}
        for later in range(5):
            for earlier in range(5):
                bound[float(later - earlier)] += float(
                    binom.pmf(later, 4, mean_after) * binom.pmf(earlier, 4, mean_before)
                )
        assert all(hinge(law, at) <= hinge(bound, at) + 1e-12 for at in bound)


@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize(("first", "second"), [(3, 5), (10, 14), (40, 25)])
def test_coverage_of_a_difference_at_few_devices_is_computed_exactly(
    epsilon: float, first: int, second: int
) -> None:
    """All pairs of counts, for devices that all change: at least 95 %."""
    which = Metric("mean", OneBitMean(epsilon, 1))
    changes = {
        (ones, others): difference(which, [MeanCounts(second, others)], [MeanCounts(first, ones)])
        for ones in range(first + 1)
        for others in range(second + 1)
    }
    for before, after in ((0.0, 0.0), (0.0, 1.0), (0.3, 0.4), (0.5, 0.5), (0.9, 0.1)):
        ones = binom.pmf(np.arange(first + 1), first, which.channel.share(before))
        others = binom.pmf(np.arange(second + 1), second, which.channel.share(after))
        covered = sum(
            ones[pair[0]] * others[pair[1]] * (change.uncut[0] <= after - before <= change.uncut[1])
            for pair, change in changes.items()
        )
        assert covered >= 0.95


# Histograms, buckets without reports


def test_histograms_pool_bucket_by_bucket() -> None:
    first, second = (
        HistogramCounts((2500,) * 4, (1800, 700, 1700, 800)),
        HistogramCounts((2000,) * 4, (1000, 900, 1100, 800)),
    )
    pooled, change = average(ROWS, [first, second] * 4), difference(ROWS, [second], [first])
    one, two = estimate(ROWS, first), estimate(ROWS, second)
    for bucket, a, b in zip(pooled.buckets, one.buckets, two.buckets, strict=True):
        assert bucket.value == pytest.approx((a.value + b.value) / 2)
        assert bucket.rule == "convex-order"
        assert bucket.edges == a.edges
        assert bucket.half_width < (a.half_width + b.half_width) / 2
    for bucket, a, b in zip(change.buckets, one.buckets, two.buckets, strict=True):
        assert bucket.value == pytest.approx(b.value - a.value)
        assert 0.75 < bucket.half_width / (a.half_width + b.half_width) < 0.95
    assert pooled.reports == change.reports == 8000


def test_a_bucket_without_reports_has_its_whole_range_in_every_rule() -> None:
    which = Metric("h", DBitFlip(1, Buckets.even(24, 4), 1), Flip("1/5"))
    asked, unasked = HistogramCounts((50,) * 4, (20,) * 4), HistogramCounts((50, 0, 50, 50), (20, 0, 20, 20))
    alone = estimate(which, unasked).buckets[1]
    assert isnan(alone.value)
    assert (alone.lower, alone.upper, alone.reports) == (0, 1, 0)
    assert str(alone) == "unknown (95%, n=0)"
    assert alone.to_dict()["value"] is None
    for pooled in (average(which, [unasked] * 7), difference(which, [asked], [unasked])):
        assert isnan(pooled.buckets[1].value)
        assert (pooled.buckets[1].lower, pooled.buckets[1].upper) == pooled.buckets[1].span
    assert average(which, [asked, unasked]).buckets[1].upper == 1
    plain = Metric("h", DBitFlip(1, Buckets.even(24, 4), 1))
    change = difference(plain, {WINDOW: asked}, {WINDOW + 28: unasked}, plan=WEEKLY).buckets[1]
    assert (change.lower, change.upper) == (-1, 1)


# Sampled answers


def test_counts_of_a_window_of_sampled_answers_are_added_up() -> None:
    rounds = {WINDOW: MONDAY, WINDOW + 4: TUESDAY, WINDOW + 8: MeanCounts(0, 0)}
    pooled = average(PLAIN, rounds, plan=WEEKLY)
    assert pooled == estimate(PLAIN, MeanCounts(19_000, 8_100))
    assert pooled.rule == "clopper-pearson"


def test_pooled_counts_cover_unlike_coins() -> None:
    """Devices answer once each, with chances of their own: the exact law of the sum, each end misses 2.5 % at most."""
    which = Metric("mean", OneBitMean(3, 1))
    for truths in ([0.0, 1.0] * 12, [0.05] * 20 + [1.0] * 4, list(np.linspace(0, 1, 24))):
        law = np.ones(1)
        for truth in truths:
            chance = float(which.channel.share(truth))
            law = np.convolve(law, [1 - chance, chance])
        mean, below, above = float(np.mean(truths)), 0.0, 0.0
        for ones, weight in enumerate(law):
            first = min(ones, 10)
            rounds = {WINDOW: MeanCounts(10, first), WINDOW + 1: MeanCounts(14, ones - first)}
            pooled = average(which, rounds, plan=WEEKLY)
            below += weight * (mean < pooled.uncut[0])
            above += weight * (mean > pooled.uncut[1])
        assert below <= 0.025
        assert above <= 0.025


def test_what_cannot_be_pooled_is_refused() -> None:
    histogram = HistogramCounts((250,) * 4, (180, 70, 170, 80))
    for refused in (
        lambda: average(PLAIN, []),
        lambda: difference(PLAIN, [], [MONDAY]),
        lambda: average(PLAIN, [MONDAY, histogram]),
        lambda: difference(PLAIN, [MONDAY], [histogram]),  # type: ignore[call-overload]
        lambda: average(PLAIN, [MONDAY, MeanCounts(0, 0)]),
        lambda: average(PLAIN, [MONDAY, MONDAY], confidence=1),
    ):
        with pytest.raises(ParameterError):
            refused()


@pytest.mark.parametrize("share", [0.0, 0.19, 0.2, 0.81, 1.0])
def test_what_lies_beyond_the_range_has_the_width_of_its_noise(share: float) -> None:
    """With flips no mean has a share of ones below γ; the width must not vanish there, nor may a change fail."""
    metric = Metric("mean", OneBitMean(1, 1), Flip("1/5"))
    week = [MeanCounts(1000, round(1000 * share))] * 7
    inside = average(metric, [MeanCounts(1000, 300 if share < 0.5 else 700)] * 7)
    outside = average(metric, week)
    assert 0.5 * inside.half_width < outside.half_width < 1.1 * inside.half_width
    assert outside.uncut[0] < outside.value < outside.uncut[1]
    assert 0 <= outside.lower <= outside.upper <= 1
    assert difference(metric, week, week).value == 0


@pytest.mark.parametrize("share", [0.01, 0.25, 1.0])
def test_liars_on_one_bucket_stay_within_the_bound_of_an_average(share: float) -> None:
    """In each round they take at most all of its reports on the bucket; few of them are enough in the second."""
    which = Metric("h", DBitFlip(1, Buckets.even(24, 4), 1), Flip("1/5"))
    wide, narrow = (
        HistogramCounts((500, 0, 0, 500), (250, 0, 0, 250)),
        HistogramCounts((10, 0, 0, 990), (5, 0, 0, 495)),
    )
    one = [estimate(which, counts).buckets[0].manipulation_bound(share) for counts in (wide, narrow)]
    assert average(which, [wide, narrow]).buckets[0].manipulation_bound(share) >= sum(one) / 2 * (1 - 1e-9)
    for plan in (None, WEEKLY):
        change = difference(which, {WINDOW: wide}, {WINDOW + 28: narrow}, plan=plan).buckets[0]
        assert change.manipulation_bound(share) >= sum(one) * (1 - 1e-9)


@pytest.mark.parametrize(
    "asked",
    [{"devices": 0}, {"rounds": 0}, {"rounds": -3}, {"confidence": 1}, {"confidence": 1.5}, {"at": 25.0}],
    ids=str,
)
def test_a_width_is_expected_of_some_devices_in_some_rounds_only(asked: dict[str, float]) -> None:
    usual = {"devices": 100, "rounds": 5, "confidence": 0.95, "at": 24.0}
    assert expected_average_half_width(FLIPPED, **usual) > 0
    with pytest.raises(ParameterError, match=next(iter(asked))):
        expected_average_half_width(FLIPPED, **(usual | asked))
