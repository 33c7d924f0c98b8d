"""Ranges, edges and several metrics, against figures computed without reticent's estimates."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import e, sqrt, tanh
from pathlib import Path

import numpy as np
import pytest

from reticent.plan import Plan
from reticent.plan.card import privacy_card
from reticent_lab.design import Goal, best, choose, edges_of, neighbours, plan_text, weigh

DATA = Path(__file__).parents[3].parent / "shared" / "data"
VALUES = np.array([[0] * 70 + [600] * 15 + [3000] * 10 + [9000] * 4 + [40_000]])
GOAL = Goal(max_value=43_200, devices=20_000, epsilon=1, unit="second")


def drawn(goal: Goal, top: float, epsilon: float, rounds: int, runs: int) -> np.ndarray:
    """Estimates of a period from devices whose values never change, bit by bit from Eq. 1 and the flip."""
    draw, flip = np.random.default_rng(20), float(goal.flip or 0)
    values = np.minimum(draw.choice(VALUES[0], (runs, goal.devices)), top)
    memo = draw.random(values.shape) < (1 + values / top * (e**epsilon - 1)) / (e**epsilon + 1)
    ones = np.where(
        memo, draw.binomial(rounds, 1 - flip, memo.shape), draw.binomial(rounds, flip, memo.shape)
    )
    share = (ones.mean(axis=1) / rounds - flip) / (1 - 2 * flip)
    return (share - 1 / (e**epsilon + 1)) * top / tanh(epsilon / 2)


@pytest.mark.parametrize("rounds", [1, 7])
def test_the_error_of_a_range_is_that_of_devices_that_answer(rounds: int) -> None:
    """Of 400 runs the squared error over its expectation is χ²/400: outside 0.70 to 1.34 once in 10⁵."""
    goal, truth = replace(GOAL, devices=500, period=rounds), float(VALUES.mean())
    for tried in weigh(goal, VALUES):
        if tried.max_value in (3600, 10_800):
            top = float(tried.max_value)
            errors = drawn(goal, top, float(tried.choice.chosen.epsilon), rounds, 400) - truth
            assert 0.70 < (errors**2).mean() / tried.rmse**2 < 1.34
            assert not 0.70 < (errors**2).mean() / (tried.rmse * 1.3) ** 2 < 1.34
            share = np.mean(np.abs(errors) <= tried.choice.chosen.half_width)
            assert share > 0.9, "the half-width with its clipping covers the mean of all values"


def test_the_smallest_error_wins_and_the_table_says_what_others_cost() -> None:
    """√(bias² + m²(c²/4 - (x/m - 1/2)²)/n) with c = coth(1/2)/0.6, by hand for each range."""
    ranges, errors = weigh(GOAL, VALUES), {}
    for tried in ranges:
        top = float(tried.max_value)
        mean = float(np.minimum(VALUES, top).mean())
        noise = ((top / tanh(0.5) / 0.6 / 2) ** 2 - (mean - top / 2) ** 2) / GOAL.devices
        errors[tried.max_value] = sqrt((VALUES.mean() - mean) ** 2 + noise)
        assert tried.rmse == pytest.approx(errors[tried.max_value], rel=1e-9)
        assert tried.cut == np.mean(top < VALUES)
    assert best(ranges).max_value == min(errors, key=lambda top: errors[top])
    assert len({*errors} & {3600, 7200, 21_600, 43_200}) == 4, "in minutes and hours"
    assert ranges[-1].bias == 0


def test_a_wanted_half_width_includes_the_clipping_which_takes_a_quarter_at_most() -> None:
    ranges = weigh(replace(GOAL, half_width=Fraction(600), epsilon=Fraction(2)), VALUES)
    chosen, choice = best(ranges), best(ranges).choice
    alone = replace(choice.goal, bias=Fraction(0), half_width=None, epsilon=choice.chosen.epsilon)
    assert choice.met
    assert 0 < 4 * chosen.bias <= 600
    assert choice.chosen.half_width == pytest.approx(chosen.bias + choose(alone).chosen.half_width, rel=1e-9)
    losses = {tried.bias: tried.choice.chosen.loss for tried in ranges if tried.choice.met}
    assert min(loss for bias, loss in losses.items() if 4 * bias <= 600) == choice.chosen.loss
    assert min(losses.values()) < choice.chosen.loss, "more clipping would have been cheaper"


def test_a_goal_that_needs_more_clipping_gets_as_little_as_will_do() -> None:
    ranges = weigh(replace(GOAL, half_width=Fraction(500), epsilon=Fraction(2)), VALUES)
    enough = [tried for tried in ranges if tried.choice.met]
    assert 4 * min(tried.bias for tried in enough) > 500
    assert best(ranges) == enough[-1]


def test_a_goal_no_range_can_meet_gets_the_smallest_error() -> None:
    ranges = weigh(replace(GOAL, half_width=Fraction(20)), VALUES)
    assert not best(ranges).choice.met
    assert best(ranges).rmse == min(tried.rmse for tried in ranges)


def test_the_error_of_sampled_answers_is_that_of_the_reports_of_a_period() -> None:
    """Without flips c = coth(1/2); of 20,000 devices 140,000 / 28 report in 7 of 28 rounds."""
    goal = Goal(43_200, 20_000, epsilon=1, promise="any-history", window=28, period=7)
    whole = weigh(goal, VALUES)[-1]
    variance = ((43_200 / tanh(0.5) / 2) ** 2 - (VALUES.mean() - 21_600) ** 2) / 5000
    assert whole.noise == pytest.approx(sqrt(variance), rel=1e-9)


def test_more_devices_ask_for_a_wider_range() -> None:
    tops = [best(weigh(replace(GOAL, devices=devices), VALUES)).max_value for devices in (100, 20_000, 10**8)]
    assert tops == sorted(set(tops))
    assert tops[-1] == 43_200


def test_edges_have_zeros_of_their_own_and_as_many_values_between_them() -> None:
    values = np.array([0] * 400 + list(range(1, 601)))
    assert edges_of(values, 4) == (0, 1, 200, 400, 600)
    assert edges_of(np.arange(1, 1001), 4) == (0, 250, 500, 800, 1000), "nearest: 751 is 800 rather than 600"
    for few in ([0, 0, 1], [0] * 9, [1] * 9):
        assert edges_of(np.array(few), 4) == (0, 1, 2), "a histogram has two buckets at least"


@pytest.mark.parametrize(
    ("question", "read"),
    [
        ({"edges": (0, 60, 600, 3600)}, "edges = [0, 60, 600, 3600]"),
        ({"labels": ("build", "test")}, 'labels = ["build", "test"]'),
        ({"flag": True}, 'kind = "flag"'),
    ],
)
@pytest.mark.parametrize("promise", ["constant", "any-history"])
def test_every_kind_of_metric_is_read_back(question, read: str, promise) -> None:
    choice = choose(Goal(None, devices=10_000, epsilon=1, promise=promise, **question))
    plan = Plan.from_toml(plan_text(choice))
    assert plan.metrics == choice.chosen.plan.metrics
    assert read in plan_text(choice)


@pytest.mark.parametrize("promise", ["constant", "any-history"])
def test_the_limit_is_for_all_metrics_together(promise, by_hand) -> None:
    goal = Goal(max_value=24, devices=10**6, epsilon=1, metrics=10, promise=promise, period=7)
    choice = choose(goal)
    plan = Plan.from_toml(plan_text(choice))
    card = privacy_card(plan)
    assert len(plan.metrics) == 10
    assert 0.998 < (card.window or card.constant) <= 1
    if promise == "any-history":
        assert (plan.answers.window, plan.asked, choice.chosen.epsilon) == (7, 1, 1)
        assert choice.chosen.half_width == pytest.approx(by_hand.mean(24, 10**5, 1, 0), rel=1e-9)
        (split,) = [each.design for each in neighbours(choice) if each.label == "10 per report"]
        assert split.half_width == pytest.approx(by_hand.mean(24, 10**6, 0.1, 0), rel=2e-3)
    else:
        assert choice.chosen.epsilon == Fraction("0.0999")


def test_with_much_to_lose_a_report_answers_several_metrics() -> None:
    """n·Var·4/m² is (T/k) coth²(E/2k): for E = 16 and T = 4 it is 4.0, 2.0 and 1.08 for k of 1, 2 and 4."""
    goal = Goal(max_value=1, devices=10**5, epsilon=16, metrics=4, promise="any-history")
    assert choose(goal).chosen.plan.asked == 4


@pytest.mark.parametrize(("period", "reports"), [(1, 10**6 / 28), (4, 10**6 / 7), (28, 10**6), (None, 10**6)])
def test_sampled_answers_add_up_over_a_period(period: int | None, reports: float, by_hand) -> None:
    goal = Goal(24, 10**6, promise="any-history", year=54, round_seconds=21_600, period=period)
    assert choose(goal).chosen.half_width == pytest.approx(by_hand.mean(24, int(reports), 1, 0), rel=1e-9)


def test_a_precise_round_needs_a_shorter_window() -> None:
    """A day's answers are a seventh of a week's; under a limit per window a daily window has them all."""
    goal = Goal(24, 10**6, epsilon=1, promise="any-history", period=1, half_width="0.06")
    assert choose(goal).goal.window == 1
    assert choose(replace(goal, half_width=Fraction(1, 4))).goal.window == 7
    assert choose(replace(goal, period=7)).goal.window == 7


def test_remembered_answers_of_a_week_are_narrower_than_of_a_round() -> None:
    goal = Goal(24, 10**5, epsilon=1)
    day, week = (choose(replace(goal, period=period)).chosen for period in (None, 7))
    assert week.half_width < day.half_width < sqrt(7) * week.half_width
    low = choose(replace(goal, period=7, expected=Fraction(0))).chosen
    assert low.half_width < 0.99 * low.worst_half_width == 0.99 * week.half_width


@pytest.mark.skipif(not DATA.exists(), reason="the recorded files are not here")
def test_real_people_need_a_smaller_range_than_a_day() -> None:
    from reticent_lab.fleet import read_values

    values = read_values(DATA / "the_crew_2_daily_seconds.csv.gz").table
    ranges = weigh(Goal(86_400, 615, epsilon=1, unit="second"), values)
    errors = {int(tried.max_value): tried.rmse for tried in ranges}
    assert errors[86_400] > 3.9 * errors[21_600], "four times the range, four times the noise"
    assert best(ranges).max_value < 21_600
