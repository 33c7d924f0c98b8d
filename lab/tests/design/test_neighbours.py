from __future__ import annotations

from fractions import Fraction
from math import sqrt, tanh

import pytest

from reticent.privacy import losses
from reticent_lab.design import Goal, Neighbour, choose, neighbours

MEAN = Goal(max_value=24, devices=10**6, epsilon=1, flip="0.2")
SHARES = Goal(max_value=24, devices=10**6, epsilon=1, flip="0.2", buckets=32)


def around(goal: Goal) -> dict[str, list[Neighbour]]:
    found: dict[str, list[Neighbour]] = {}
    for each in neighbours(choose(goal)):
        found.setdefault(each.label, []).append(each)
    return found


def test_each_differs_in_what_its_label_says() -> None:
    found = around(MEAN)
    (chosen,) = found.pop("chosen")
    shown = {label: (float(one.design.epsilon), float(one.design.flip)) for label, (one,) in found.items()}
    assert shown == {
        "epsilon / 2": (0.5, 0.2),
        "epsilon × 2": (2, 0.2),
        "fewer flips": (1, 0.1),
        "more flips": (1, 0.3),
        "devices / 2": (1, 0.2),
        "devices × 2": (1, 0.2),
    }
    base = chosen.design.half_width
    ratios = {label: one.design.half_width / base for label, (one,) in found.items()}
    assert ratios["epsilon / 2"] == pytest.approx(tanh(0.5) / tanh(0.25), rel=1e-9)
    assert ratios["epsilon × 2"] == pytest.approx(tanh(0.5) / tanh(1), rel=1e-9)
    assert ratios["fewer flips"] == pytest.approx(0.6 / 0.8, rel=1e-9)
    assert ratios["more flips"] == pytest.approx(0.6 / 0.4, rel=1e-9)
    assert ratios["devices / 2"] == pytest.approx(sqrt(2), rel=1e-3)
    assert ratios["devices × 2"] == pytest.approx(1 / sqrt(2), rel=1e-3)


def test_other_mechanisms_lose_as_much_for_life_and_are_wider() -> None:
    """At worst n·Var is c² for Hadamard and k c²/4 for one bit: √8 as wide with 32 buckets."""
    found = around(SHARES)
    (chosen,) = found["chosen"]
    others = {each.design.metric.bits: each.design for each in found["instead"]}
    assert set(others) == {1, 2, 4}
    assert all(0.99 * 2 <= each.losses.lifetime <= 2 for each in others.values())
    ratio = others[1].half_width / chosen.design.half_width
    assert ratio == pytest.approx(sqrt(8), rel=0.01)


def test_what_a_plan_could_not_have_is_left_out() -> None:
    extremes = around(Goal(max_value=24, devices=1, epsilon="0.001", flip="0.45"))
    assert {"epsilon / 2", "more flips", "devices / 2"}.isdisjoint(extremes)
    assert around(Goal(max_value=24, devices=10, epsilon="0.003", flip=0))["epsilon / 2"]


def test_figures_are_those_of_the_metric() -> None:
    for each in neighbours(choose(SHARES)):
        assert each.design.losses == losses(each.design.metric.mechanism, each.design.metric.flip)
        assert each.design.half_width == each.design.worst_half_width
        assert isinstance(each.design.epsilon, Fraction)
