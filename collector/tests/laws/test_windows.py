"""
Sampled answers: the loss of a window and of a year, against all pairs of histories of small grids.

Which round and which metrics are answered is drawn without values and shows in the report. Given them, a window's
report has the law of one round without flips, so all pairs of histories are all pairs of vectors in that round.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import mpmath
import pytest

from reticent.device import in_range
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Group, Metric, Plan
from reticent_collector.plans import lint, plan_tracking
from reticent_collector.privacy import loss_of_window
from reticent_collector.privacy.card import privacy_card

MEAN, SMALL, HADAMARD = OneBitMean(1, 2), OneBitMean("0.5", 2, 1), HadamardBit("0.75", Buckets.even(3, 3))
TWO_BITS = DBitFlip(1, Buckets.even(3, 3), 2)
LIMIT = (Group("both", ("a", "b"), 2),)


def plan_of(mechanisms, asked, groups=(), window=4):
    metrics = tuple(Metric(name, mechanism) for name, mechanism in zip("abcd", mechanisms, strict=False))
    return Plan("p", 1, 86_400, 86_400, metrics, groups, answers=Answers(window, asked))


PLANS = {
    "one of three": plan_of([MEAN, SMALL, HADAMARD], 1),
    "two of three": plan_of([MEAN, SMALL, HADAMARD], 2),
    "all of them": plan_of([MEAN, HADAMARD], None),
    "one of a group": plan_of([MEAN, MEAN, HADAMARD], 1, LIMIT),
    "two with a group": plan_of([MEAN, MEAN, HADAMARD], 2, LIMIT),
    "three with a group": plan_of([MEAN, MEAN, HADAMARD], 3, LIMIT),
    "unlike counters": plan_of([MEAN, SMALL, HADAMARD], 2, LIMIT),
    "two bits": plan_of([TWO_BITS, MEAN], 1),
}


def truth(enumeration, plan):
    """The worst of all sets of metrics, all pairs of vectors, all cohorts and all answers."""
    tops = [int(metric.max_value) + (metric.kind == "mean") for metric in plan.metrics]
    vectors = sorted(
        {
            tuple(in_range(plan, dict(zip(plan.by_name, values, strict=True))).values())
            for values in product(*map(range, tops))
        }
    )
    worst = mpmath.mpf(0)
    for cohort in (0, 1, 2, 3, 100, 200):
        losses = {}
        for metric in plan.metrics:
            values = {vector[list(plan.by_name).index(metric.name)] for vector in vectors}
            laws = {x: enumeration.of_values(metric.mechanism, Flip(0), [x], cohort) for x in values}
            losses[metric.name] = {
                (x, y): enumeration.loss(laws[x], laws[y]) for x, y in product(values, repeat=2)
            }
        for asked in combinations(range(len(tops)), plan.asked):
            names = [plan.metrics[place].name for place in asked]
            for one, other in product(vectors, repeat=2):
                pair = [
                    losses[name][one[place], other[place]] for name, place in zip(names, asked, strict=True)
                ]
                worst = max(worst, mpmath.fsum(pair))
    return worst


@pytest.mark.parametrize("name", PLANS)
def test_one_window(enumeration, attains, name):
    plan = PLANS[name]
    with mpmath.workdps(40):
        worst = truth(enumeration, plan)
        figure = privacy_card(plan).window
        assert worst <= figure
        assert name == "unlike counters" or attains(worst, figure)


@pytest.mark.parametrize("mechanism", [MEAN, SMALL, TWO_BITS], ids=lambda mechanism: mechanism.name)
def test_two_windows(enumeration, attains, mechanism):
    """The joint law of two windows with draws of their own, over all pairs of values in both."""
    plan = plan_of([mechanism], None)
    laws = {x: enumeration.of_values(mechanism, Flip(0), [x]) for x in range(3)}
    joint = {
        (x, y): {(a, b): p * q for a, p in laws[x].items() for b, q in laws[y].items()}
        for x, y in product(range(3), repeat=2)
    }
    worst = enumeration.worst(product(joint.values(), repeat=2))
    card = privacy_card(plan, rounds=4)
    assert card.windows == 2, "four rounds can touch two windows of four"
    assert attains(worst, card.any_history)
    assert card.any_history == 2 * card.window


def test_a_year_touches_54_windows_of_a_week():
    plan = Plan("p", 1, 21_600, 21_600, (Metric("a", MEAN),), answers=Answers(28))
    card = privacy_card(plan)
    assert (card.rounds, card.windows, card.window, card.any_history) == (1460, 54, 1.0, 54.0)
    assert privacy_card(plan, rounds=1).any_history == 1
    assert list(card.columns.values()) == ["one window", "any two histories, 1 year"]


def test_many_unlike_counters_are_bounded_quickly():
    members = [OneBitMean(Fraction(number, 10), 10 + number) for number in range(1, 31)]
    few = loss_of_window([], [(members, 20)], 15)
    assert 3.0 <= few <= sum(number / 10 for number in range(16, 31))
    assert loss_of_window([], [(members, 20)], 1) <= 3.0, "a limit below the range helps one counter too"
    assert loss_of_window([], [(members, 20)], 30) >= few


def test_windows_have_nothing_in_common_but_tags():
    metrics = tuple(Metric(f"m{number}", HADAMARD) for number in range(40))
    sampled = Plan("p", 1, 60, 60, metrics, answers=Answers(7))
    assert plan_tracking(sampled, 1000).many_rounds == pytest.approx(1 / 1000)
    assert "tracking" not in [problem.rule for problem in lint(sampled)]
    assert plan_tracking(Plan("p", 1, 60, 60, metrics), 1000).many_rounds > 0.99
