"""Counters with a joint limit: the table of MATHS.md 4, by trying vectors and answers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from reticent.lab.audit.enumeration import remembered, worst_pair
from reticent.mechanisms import SCALE, Flip, OneBitMean
from reticent.plan import Group, Metric, Plan


def a_group(counters: int, limit: int = 100) -> tuple[Plan, Group]:
    metrics = tuple(Metric(f"app{number}", OneBitMean(1, 100), Flip("0.2")) for number in range(counters))
    group = Group("apps", tuple(metric.name for metric in metrics), limit)
    return Plan("p", 1, 3600, 3600, metrics, (group,)), group


@pytest.mark.parametrize(
    ("counters", "one_round", "all_rounds"),
    [(1, 0.5694, 1.0), (2, 1.1388, 2.0), (3, 1.2188, 2.2402), (10, 1.3057, 2.5725)],
)
def test_the_table(counters: int, one_round: float, all_rounds: float) -> None:
    """τ = 0.5694 is printed with four digits there, so the figures agree to about two of the last."""
    for flips, figure in ((True, one_round), (False, all_rounds)):
        found = worst_pair(*a_group(counters), flips=flips)
        assert float(found.ratio.logarithm) == pytest.approx(figure, abs=2.5e-4)


def test_the_worst_pair_is_that_of_the_proof() -> None:
    found = worst_pair(*a_group(3), flips=True)
    zero = found.answers.index(0)
    assert found.answers.count(0) == 1
    assert found.rarer[zero] == 100
    assert sorted(found.likelier) == [0, 50, 50]
    assert found.likelier[zero] == 0


@pytest.mark.parametrize("limit", [100, 130, 200])
def test_no_pair_on_a_grid_of_vectors_is_worse(limit: int) -> None:
    plan, group = a_group(3, limit)
    found = worst_pair(plan, group, flips=False).ratio
    best = Fraction(found.above, found.below)
    mechanism = plan.metrics[0].mechanism
    steps = [x for x in product(range(0, 101, 10), repeat=3) if sum(x) <= limit]
    chance = {value: Fraction(remembered(mechanism, value), SCALE**2) for value in range(0, 101, 10)}
    for answers in product((0, 1), repeat=3):
        laws = []
        for x in steps:
            law = Fraction(1)
            for value, answer in zip(x, answers, strict=True):
                law *= chance[value] if answer else 1 - chance[value]
            laws.append(law)
        assert max(laws) / min(laws) <= best


def test_the_chance_over_alphas_is_the_line_of_equation_1() -> None:
    mechanism = OneBitMean(1, 100, 25)
    low = Fraction(mechanism.response.low, SCALE)
    for value in (0, 1, 25, 40, 99, Fraction(1, 3), 100):
        line = low + Fraction(value) / 100 * (1 - 2 * low)
        assert abs(Fraction(remembered(mechanism, value), SCALE**2) - line) < Fraction(4, SCALE)
