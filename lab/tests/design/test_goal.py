from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from reticent.errors import ParameterError, PlanError
from reticent.plan import Plan
from reticent_lab.design import Goal

GOOD: dict[str, Any] = {"max_value": 24, "devices": 1000, "half_width": 2}
HEAD = '[plan]\nname = "p"\nversion = 1\nround = "6h"\n[metrics.m]\nkind = "mean"\n'


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("half_width", {"half_width": 0}),
        ("half_width", {"half_width": -1}),
        ("half_width", {"half_width": 12}),
        ("half_width", {"half_width": 25}),
        ("half_width", {"half_width": "0.5", "buckets": 8}),
        ("half_width", {"half_width": None}),
        ("epsilon", {"epsilon": 1, "lifetime": 2}),
        ("epsilon", {"epsilon": 0}),
        ("epsilon", {"epsilon": 21}),
        ("lifetime", {"lifetime": "0.001"}),
        ("flip", {"flip": "0.5"}),
        ("flip", {"flip": -1}),
        ("flip", {"flip": "0.1", "change_time": 1}),
        ("change_time", {"change_time": "0.004"}),
        ("change_time", {"change_time": 21}),
        ("max_value", {"max_value": 0}),
        ("devices", {"devices": 0}),
        ("segments", {"segments": 1001}),
        ("buckets", {"buckets": 1, "half_width": "0.1"}),
        ("buckets", {"buckets": 257, "half_width": "0.1"}),
        ("confidence", {"confidence": 1.0}),
        ("expected", {"expected": 25}),
        ("expected", {"expected": 2, "buckets": 8, "half_width": "0.1"}),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, changed: dict[str, Any]) -> None:
    assert Goal(**GOOD).half_width == 2
    with pytest.raises(ParameterError) as caught:
        Goal(**{**GOOD, **changed})
    assert caught.value.name == name


def test_numbers_are_what_was_written() -> None:
    goal = Goal(max_value=0.1, devices=10, half_width="1/30", epsilon=0.3)
    assert (goal.max_value, goal.half_width, goal.epsilon) == (
        Fraction(1, 10),
        Fraction(1, 30),
        Fraction(3, 10),
    )


def test_the_limit_of_privacy() -> None:
    assert Goal(**GOOD, epsilon=1).limit == 2
    assert Goal(**GOOD, lifetime=1).limit == 1
    assert Goal(**GOOD).limit == 8


def test_segments_share_the_fleet() -> None:
    assert replace(Goal(**GOOD), segments=3).reports == 333


def test_flips_are_the_papers_unless_the_time_of_a_change_is_limited() -> None:
    assert Goal(**GOOD).flip == Fraction(1, 5)
    assert Goal(**GOOD, change_time=1).flip is None


@pytest.mark.parametrize(
    ("ok", "refused"),
    [
        ("epsilon = 0.001", "epsilon = 0.00099"),
        ("epsilon = 20", "epsilon = 20.1"),
        ("epsilon = 1\nflip = 0.499", "epsilon = 1\nflip = 0.4991"),
    ],
)
def test_the_bounds_are_those_of_a_plan(ok: str, refused: str) -> None:
    """0.001 to 20 and 0.499: `goal` has them as constants, `plan.reading` in its messages."""
    Plan.from_toml(f"{HEAD}max_value = 1\n{ok}\n")
    with pytest.raises(PlanError):
        Plan.from_toml(f"{HEAD}max_value = 1\n{refused}\n")
