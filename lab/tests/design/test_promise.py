"""The promise decides how devices answer: any two histories need sampled answers, and a window."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent.plan.card import privacy_card
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import average, expected_average_half_width
from reticent_lab.design import Goal, both_ways, choose, curves, neighbours, plan_text, reason, ways_out

HISTORIES = Goal(max_value=21_600, devices=100_000, promise="any-history", year=54, round_seconds=21_600)


def touched(window: int, rounds: int = 1460) -> int:
    """The most windows that so many consecutive rounds fall into, by trying every phase."""
    return max((phase + rounds - 1) // window + 1 for phase in range(window))


def test_the_figures_of_a_weekly_window(by_hand) -> None:
    """MATHS.md 11: 1 per window and 54 in a year of 6-hour rounds, as sharp as one bit without flips."""
    choice = choose(HISTORIES)
    assert (choice.goal.window, choice.chosen.epsilon, choice.chosen.flip) == (28, 1, 0)
    assert (choice.chosen.card.window, choice.chosen.card.any_history) == (1, 54)
    assert choice.chosen.half_width == pytest.approx(by_hand.mean(21_600, 100_000, 1, 0), rel=1e-9)


@pytest.mark.parametrize("year", ["0.6", "7", "54", "300"])
@pytest.mark.parametrize("window", [1, 3, 28, 124, 1460])
@pytest.mark.parametrize("buckets", [None, 8])
def test_a_year_never_loses_more_than_it_may(year: str, window: int, buckets: int | None) -> None:
    least = Fraction(touched(window), 1000)
    goal = replace(HISTORIES, window=window, year=max(Fraction(year), least), buckets=buckets)
    choice = choose(goal)
    assert choice.chosen.epsilon * touched(window) <= goal.year
    largest = min(goal.year / touched(window), Fraction(20))
    assert choice.chosen.epsilon > largest * Fraction(989, 1000), "the limit is used to three digits"
    plan = Plan.from_toml(plan_text(choice))
    assert plan.answers == Answers(window)
    assert privacy_card(plan).any_history == choice.chosen.losses.any_history


def test_the_window_is_the_shortest_that_is_precise_enough(by_hand) -> None:
    """A window's interval depends on epsilon alone; longer windows leave more of the year to each."""
    for weeks, half_width in ((1, 146), (2, 91), (4, 75)):
        choice = choose(replace(HISTORIES, half_width=Fraction(half_width)))
        assert choice.met
        assert choice.goal.window == 28 * weeks
        shorter = weeks // 2
        if shorter:
            most = 54 / touched(28 * shorter)
            assert by_hand.mean(21_600, 100_000, most, 0) > half_width
    assert not choose(replace(HISTORIES, half_width=Fraction(60))).met


def test_what_to_give_up_is_enough_and_nothing_less_is() -> None:
    choice = choose(replace(HISTORIES, year=Fraction(10), half_width=Fraction(200)))
    ways = {way.part: way.instead for way in ways_out(choice)}
    assert list(ways) == ["devices", "year", "half_width", "window"]
    assert choice.goal.window == 112
    less = {"devices": 1000, "year": Fraction(1, 10), "half_width": 1, "window": 1}
    for part, instead in ways.items():
        assert choose(replace(choice.goal, **{part: instead})).met, part
        assert not choose(replace(choice.goal, **{part: instead - less[part]})).met, part
    per_window = choose(replace(HISTORIES, year=None, epsilon=Fraction("0.5"), half_width=Fraction(200)))
    assert [way.part for way in ways_out(per_window)] == ["devices", "epsilon", "half_width"]


def test_no_window_may_be_long_enough() -> None:
    tiny = choose(replace(HISTORIES, devices=100, half_width=Fraction(500)))
    assert {way.part: way.instead for way in ways_out(tiny)}["window"] is None


def test_bits_cost_nothing_in_a_window() -> None:
    """Remembered, k bits lose k·ε; in a window all of them lose ε, and more of them are more precise."""
    shares = Goal(max_value=24, devices=10**6, epsilon=1, buckets=32)
    assert choose(shares).chosen.metric.bits == 1
    sampled = choose(replace(shares, promise="any-history", flip=None)).chosen
    assert (sampled.metric.bits, sampled.card.window) == (32, 1)


@pytest.mark.parametrize("promise", ["constant", "any-history"])
def test_both_ways_spend_the_same_on_all_metrics(promise: str) -> None:
    choice = choose(Goal(max_value=24, devices=10**6, epsilon=3, metrics=3, promise=promise))
    remembered, sampled = both_ways(choice)
    assert remembered.card.constant == sampled.card.window == 3


def test_both_ways_have_the_figures_of_the_notes() -> None:
    """MATHS.md 11, the table: constant device, any two histories, and standard deviations of 1,460 rounds."""
    for choice in (choose(HISTORIES), choose(Goal(21_600, 100_000, epsilon=1, round_seconds=21_600))):
        remembered, sampled = both_ways(choice)
        assert (remembered.card.constant, remembered.card.lifetime) == (1, 2)
        assert remembered.card.any_history == pytest.approx(1015, rel=1e-3)
        assert (sampled.card.window, sampled.card.any_history) == (1, 54)
        wide = {
            period: (remembered.half_widths[period], sampled.half_widths[period])
            for period in ("round", "year")
        }
        assert wide["round"][1] / wide["round"][0] == pytest.approx((32.8 / 3.25) ** 0.5, rel=0.01)
        assert sampled.half_widths["week"] / wide["year"][1] == pytest.approx(
            (1.17 / 0.268) ** 0.5 / 1.193,  # MATHS.md 13: who was drawn stays, and the upper mean costs 1.193
            rel=0.01,
        )
        assert sampled.half_widths["week"] < remembered.half_widths["week"] < wide["round"][0]


def test_the_reason_names_the_promise_and_the_other_ways_loss() -> None:
    """Word for word the sentences of the list of claims."""
    assert "from a device that keeps any other. Sampled answers lose 1.0 in each window" in reason(
        choose(Goal(21_600, 100_000, epsilon=1))
    )
    said = reason(choose(HISTORIES))
    assert (
        "All answers of 1 year are at most e^54 times as likely from one history as from any other." in said
    )
    assert "may lose 1,015 in 1 year" in said


def test_neighbours_and_curves_are_of_windows() -> None:
    choice = choose(HISTORIES)
    around = {neighbour.label: neighbour.design for neighbour in neighbours(choice)}
    assert not {"fewer flips", "more flips", "10 steps"} & set(around)
    assert around["window × 2"].card.any_history == touched(56) == 28
    assert around["window / 2"].half_width == choice.chosen.half_width
    assert [curve.label for curve in curves(choice)] == [f"window {days}d" for days in (1, 7, 28, 91, 364)]
    weekly = next(curve for curve in curves(choice) if curve.label == "window 7d")
    assert weekly.losses[12] == pytest.approx(54, rel=1e-6)


EXAMPLES = (
    Metric("m", OneBitMean(1, 24), Flip("0.2")),
    Metric("m", OneBitMean(2, 24)),
    Metric("h", HadamardBit(1, Buckets.even(24, 4)), Flip("0.1")),
    Metric("d", DBitFlip(1, Buckets.even(24, 4), 2), Flip("0.2")),
)


@pytest.mark.parametrize("metric", EXAMPLES, ids=lambda metric: metric.name)
@pytest.mark.parametrize("devices", [400, 50_000])
def test_the_half_width_to_expect_is_that_of_the_average(metric: Metric, devices: int) -> None:
    """Of counts in which half of all bits are ones, the worst there is."""
    counts: MeanCounts | HistogramCounts = MeanCounts(devices, devices // 2)
    if metric.kind == "histogram":
        rows = 8 if metric.name == "h" else 4
        reports = devices * metric.bits // rows
        counts = HistogramCounts((reports,) * rows, (reports // 2,) * rows, metric.bits)
    for rounds in (1, 7, 30):
        found = average(metric, [counts] * rounds)
        parts = found.buckets if metric.kind == "histogram" else (found,)
        worst = max((part.uncut[1] - part.uncut[0]) / 2 for part in parts)
        assert expected_average_half_width(metric, devices, rounds) == pytest.approx(worst, rel=0.02)


@pytest.mark.parametrize("devices", [1000, 40_000])
def test_sampled_answers_are_expected_as_they_are_pooled(devices: int) -> None:
    metric = Metric("m", OneBitMean(1, 24))
    for rounds in (1, 7, 365):
        windows = ceil(rounds / 7)
        reports = ceil(devices * rounds / 7 / windows)
        plan = Plan("p", 1, 86_400, 86_400, (metric,), answers=Answers(7))
        first = plan.window_of(20_000).first  # type: ignore[union-attr]
        counts = {first + 7 * window: MeanCounts(reports, reports // 2) for window in range(windows)}
        pooled = average(metric, counts, plan=plan)
        expected = expected_average_half_width(metric, devices, rounds, answers=Answers(7))
        assert expected == pytest.approx(pooled.half_width, rel=0.01)
