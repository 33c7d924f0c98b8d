"""The section that is written is read back as the very metric that was chosen."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from reticent.plan import Plan
from reticent.plan.card import privacy_card
from reticent.privacy.loss import YEAR
from reticent_collector.estimates import expected_half_width
from reticent_collector.plans import lint
from reticent_lab.design import Goal, check_command, choose, plan_text, section

HEAD = '[plan]\nname = "another-plan"\nversion = 3\nround = "6h"\nowner = "o"\nexpires = 2099-01-01\n\n'

GOALS: list[dict[str, Any]] = [
    {"max_value": 21_600, "half_width": 240, "unit": "second", "name": "editor_seconds"},
    {"max_value": "0.7", "half_width": "0.01", "flip": "0"},
    {"max_value": "1/3", "half_width": "0.01", "change_time": "7"},
    {"max_value": 24, "half_width": "0.02", "buckets": 32, "unit": 'a "quoted" \\ ünit'},
    {"max_value": 24, "half_width": "0.02", "buckets": 12, "change_time": 1},
    {"max_value": "1/3", "half_width": "0.02", "buckets": 2},
    {"max_value": 24, "half_width": "0.4", "buckets": 256},
    {"max_value": 24, "buckets": 3, "lifetime": 8},
    {"max_value": 24, "half_width": "0.001", "buckets": 3, "epsilon": "0.001"},
]


@pytest.mark.parametrize("wanted", GOALS)
def test_a_plan_reads_it_as_the_metric_that_was_chosen(wanted: dict[str, Any]) -> None:
    found = choose(Goal(devices=100_000, **wanted))
    plan = Plan.from_toml(plan_text(found))
    assert plan.metrics == (found.chosen.metric,)
    warned = {problem.rule for problem in lint(plan, today=date(2026, 1, 1))}
    assert warned <= {"owner", "expiry", "unit", "no-flip", "many-bits"}


@pytest.mark.parametrize("wanted", GOALS)
def test_in_any_plan_it_has_the_figures_of_the_design(wanted: dict[str, Any]) -> None:
    found = choose(Goal(devices=100_000, **wanted))
    plan = Plan.from_toml(HEAD + section(found))
    (metric,) = plan.metrics
    assert privacy_card(plan, rounds=YEAR).metrics[metric.name] == found.chosen.losses
    assert expected_half_width(metric, 100_000) == found.chosen.half_width


def test_both_histograms_and_several_bits_are_among_them() -> None:
    asked = [choose(Goal(devices=100_000, **wanted)).chosen.candidate for wanted in GOALS]
    assert {each.mechanism for each in asked} == {"one-bit-mean", "hadamard-bit", "d-bit-flip"}
    assert max(each.bits for each in asked) > 1


def test_the_command_in_the_plan_asks_for_one_segment() -> None:
    found = choose(Goal(max_value=24, devices=3001, half_width=8, segments=3, confidence=0.9, name="hours"))
    expected = "reticent plan check hours-design.toml --devices 1000 --confidence 0.9"
    assert check_command(found, "hours-design.toml") == expected
    assert expected in plan_text(found)
    assert " check 'my plans/hours.toml' " in check_command(found, "my plans/hours.toml")
