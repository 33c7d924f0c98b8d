"""
Sampled answers: one report per device and window, in a round that it picks, with fresh draws.

Counts of rounds, windows and years have laws that are known exactly, so coverage and variance are computed,
through the code that estimates. That devices have these laws is sampled: a fleet is split by a tag into many
small ones, each of which is a repetition.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from math import tanh

import numpy as np
import pytest
from scipy.stats import binom, chi2

from reticent.mechanisms import OneBitMean
from reticent.plan import Answers, Metric, Plan, Segment
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import Estimate, average, estimate
from reticent_lab.fleet import VectorisedFleet

DEVICES, WINDOW, WINDOWS = 2_000, 28, 52
WEEKLY = Answers(window=WINDOW)
METRIC = Metric("part", OneBitMean(1, 1))
PLAN = Plan("sampled", 1, 21_600, 21_600, (METRIC,), answers=WEEKLY)
FIRST = PLAN.window_of(20_000).first  # type: ignore[union-attr]
NOISE = 1 / (4 * tanh(0.5) ** 2)
"""n·Var/m² of one bit at ε = 1 at half of the range: 1.17."""

FORMULAS = {"round": WINDOW * NOISE, "window": NOISE, "year": NOISE / WINDOWS}
"""n·Var/m² (MATHS.md 11)."""

FALSE_ALARM = 1e-6


@lru_cache
def law(period: str, share: float) -> list[tuple[float, Estimate]]:
    """Every estimate of a period with its chance; devices are at a value whose bits are 1 with chance `share`."""
    if period == "round":  # each device picks it with chance 1/28; a round without reports has no estimate
        sizes = np.arange(1, 200)
        chances = binom.pmf(sizes, DEVICES, 1 / WINDOW)
    else:  # every device answers once in every window
        sizes, chances = np.array([DEVICES * (WINDOWS if period == "year" else 1)]), np.array([1.0])
    outcomes = []
    for size, chance in zip(sizes.tolist(), chances.tolist(), strict=True):
        if chance < 1e-9:
            continue
        spread = 7 * np.sqrt(size * share * (1 - share)) + 3
        ones = np.arange(max(0, int(size * share - spread)), min(size, int(size * share + spread)) + 1)
        for count, of_count in zip(ones.tolist(), binom.pmf(ones, size, share).tolist(), strict=True):
            outcomes.append((chance * of_count, pooled(size, count, period)))
    return outcomes


def pooled(reports: int, ones: int, period: str) -> Estimate:
    """The figure for these devices of so many reports in several rounds: counts add up, however they fell."""
    rounds = 1 if period == "round" else WINDOW
    parts = [MeanCounts(reports // rounds, ones // rounds)] * (rounds - 1)
    rest = MeanCounts(reports - reports // rounds * (rounds - 1), ones - ones // rounds * (rounds - 1))
    apart = WINDOW if period == "year" else 1
    counts = {FIRST + apart * place: part for place, part in enumerate([*parts, rest])}
    return average(METRIC, counts, plan=PLAN, these=True)


def coverage(outcomes: list[tuple[float, Estimate]], truth: float) -> float:
    total = sum(chance for chance, _ in outcomes)
    return sum(chance for chance, of in outcomes if of.lower <= truth <= of.upper) / total


def variance(outcomes: list[tuple[float, Estimate]], truth: float) -> float:
    """n·Var/m²; every estimate is unbiased."""
    total = sum(chance for chance, _ in outcomes)
    return DEVICES * sum(chance * (of.value - truth) ** 2 for chance, of in outcomes) / total


@pytest.mark.parametrize("truth", [0.5, 0.02])
@pytest.mark.parametrize("period", FORMULAS)
def test_intervals_cover_and_variances_are_those_of_the_formula(period: str, truth: float) -> None:
    """Exactly: at least 95 % in every period and hardly more, and at the worst value within 3 % of the formula."""
    outcomes = law(period, 0.5 + tanh(0.5) * (truth - 0.5))
    assert 0.95 <= coverage(outcomes, truth) <= 0.98
    if truth == 0.5:
        assert variance(outcomes, truth) == pytest.approx(FORMULAS[period], rel=0.03)
        others = [formula for name, formula in FORMULAS.items() if name != period]
        assert all(abs(variance(outcomes, truth) / other - 1) > 0.03 for other in others)


@pytest.mark.parametrize(("epsilon", "windows", "pooled_covers"), [(1, 4, 0.88), (1, 52, 0.43), (2, 4, 0.77)])
def test_the_population_of_devices_that_keep_their_values_is_covered(
    epsilon: float, windows: int, pooled_covers: float
) -> None:
    """
    2,000 devices, drawn 0 or 1, answer in each window: the exact law of the sum of their bits.

    The interval for these devices, of the counts of all windows together, is no interval for the population.
    """
    metric = Metric("part", OneBitMean(epsilon, 1))
    low = 1 / (np.exp(epsilon) + 1)
    for truth in (0.5, 0.1):
        hits = np.arange(windows + 1)
        device = (1 - truth) * binom.pmf(hits, windows, low) + truth * binom.pmf(hits, windows, 1 - low)
        size = DEVICES * windows + 1
        law = np.maximum(np.fft.irfft(np.fft.rfft(device, 2 * size) ** DEVICES, 2 * size)[:size], 0)
        seen = np.flatnonzero(law > 1e-9)
        # Ends are monotone in the number of ones: find where the interval begins and ceases to hold the truth.
        covered = {}
        for these in (False, True):
            ends = [
                bisect_left(seen, 1, key=lambda ones: beyond(metric, int(ones), windows, truth, side, these))
                for side in ("upper", "lower")
            ]
            covered[these] = law[seen[ends[0] : ends[1]]].sum()
        assert 0.95 <= covered[False] <= 0.99
        assert covered[True] < 0.94
        if truth == 0.5:
            assert covered[True] == pytest.approx(pooled_covers, abs=0.01)


def beyond(metric: Metric, ones: int, windows: int, truth: float, side: str, these: bool) -> int:
    """Whether an end of an average has reached the truth ("upper"), or passed it ("lower")."""
    base, more = divmod(ones, windows)
    counts = {FIRST + WINDOW * place: MeanCounts(DEVICES, base + (place < more)) for place in range(windows)}
    figure = average(metric, counts, plan=PLAN, these=these)
    assert figure.covers == ("these devices" if these else "all devices like these")
    return int(figure.uncut[1] >= truth if side == "upper" else figure.uncut[0] > truth)


@pytest.mark.parametrize("period", ["round", "year"])
def test_the_rule_of_remembered_answers_would_not_do(period: str) -> None:
    """It has the spread of one window in every period: a round would hardly be covered, a year not be sharper."""
    outcomes = law(period, 0.5)
    half = estimate(METRIC, MeanCounts(DEVICES, DEVICES // 2)).half_width
    covered = sum(chance for chance, of in outcomes if abs(of.value - 0.5) <= half)
    assert covered < 0.5 if period == "round" else covered > 1 - 1e-9
    assert variance(outcomes, 0.5) / NOISE == pytest.approx(
        WINDOW if period == "round" else 1 / WINDOWS, rel=0.03
    )


def statistics(answers: Answers, fleets: int, windows: int, seed: int) -> dict[str, tuple[float, int]]:
    """
    Per period, Σ (ones - N/2)² / (N/4) over periods and fleets of 2,000 devices at half of the range, and its
    degrees of freedom: χ² if all bits are independent fair coins.
    """
    plan = Plan(
        "sampled", 1, 86_400, 3_600, (Metric("part", OneBitMean(1, 60)),),
        segments=(Segment("fleet", tuple(f"f{number}" for number in range(fleets))),), answers=answers,
    )  # fmt: skip
    fleet = VectorisedFleet(plan, fleets * DEVICES, seed)
    tags = np.repeat(np.arange(fleets, dtype=np.uint8), DEVICES)[:, None]
    values = {"part": np.full(fleets * DEVICES, 30)}
    first = plan.window_of(20_000)
    start = 20_000 if first is None else first.first
    rounds = windows * max(1, answers.window)
    reports, ones = np.zeros((2, fleets, rounds), dtype=np.int64)
    for number in range(rounds):
        for (_, (tag,)), counts in fleet.counts(start + number, values, tags).items():
            place = int(tag.removeprefix("f"))
            reports[place, number], ones[place, number] = counts["part"].reports, counts["part"].ones
    sums = {}
    for period, length in (("round", 1), ("window", max(1, answers.window)), ("year", rounds)):
        size, said = (of.reshape(fleets, -1, length).sum(axis=2) for of in (reports, ones))
        some = size > 0
        sums[period] = float(((said - size / 2) ** 2 / np.maximum(size / 4, 1))[some].sum()), int(some.sum())
        if period == "window" and answers.sampled:
            assert (size == DEVICES).all(), "every device answers once in every window"
    return sums


def is_fair(statistic: float, freedom: int) -> bool:
    """Two-sided; a correct fleet fails with probability 1e-6."""
    return bool(min(chi2.cdf(statistic, freedom), chi2.sf(statistic, freedom)) > FALSE_ALARM / 2)


def test_a_fleet_has_these_laws_and_a_remembering_one_has_not() -> None:
    """
    40 fleets over 52 windows of two rounds. False-alarm rate 1e-6 per period.

    Remembered bits are fair coins in each round too, and the same ones all year.
    """
    sums = statistics(Answers(window=2), fleets=40, windows=WINDOWS, seed=5)
    assert all(is_fair(*sums[period]) for period in sums)
    kept = statistics(Answers(), fleets=40, windows=12, seed=5)
    assert not is_fair(*kept["year"])
    assert not is_fair(0.88 * sums["round"][0], sums["round"][1]), (
        "a variance that is off by an eighth is noticed"
    )


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_a_year_of_weekly_windows() -> None:
    """250 fleets over 52 windows of 28 rounds: variances to 3 % per round, 8 % per window. False-alarm 1e-6."""
    sums = statistics(WEEKLY, fleets=250, windows=WINDOWS, seed=6)
    assert all(is_fair(*sums[period]) for period in sums)
    assert not is_fair(1.03 * sums["round"][0], sums["round"][1])
    assert not is_fair(1.08 * sums["window"][0], sums["window"][1])
