"""Warnings about plans that can be read, and what must not change without a new version."""

from __future__ import annotations

from datetime import date

import pytest

from reticent.plan import Plan
from reticent_collector.plans import lint
from reticent_collector.plans.linter import lint_succession

CLEAN = """
[plan]
name = "p"
version = 3
round = "6h"
owner = "someone"
expires = 2030-01-01
[metrics.a]
kind = "mean"
unit = "second"
epsilon = 1
flip = 0.2
max_value = 60
[metrics.h]
kind = "histogram"
unit = "second"
epsilon = 1
flip = 0.2
max_value = 60
buckets = 32
mechanism = "d-bit-flip"
"""

NO_LIMIT = '[groups.g]\nmetrics = ["a"]\nmax_total = 60\n'
MANY_SEGMENTS = f"[segments]\nos = {list('abcdefg')}\nx = {list('abcdef')}\n"


def rules(text: str) -> set[tuple[str, str]]:
    warnings = lint(Plan.from_toml(text), today=date(2026, 1, 1))
    assert all(problem.severity == "warning" and problem.hint for problem in warnings)
    return {(problem.where, problem.rule) for problem in warnings}


def test_a_sensible_plan_has_no_warnings() -> None:
    assert rules(CLEAN) == set()


@pytest.mark.parametrize(
    ("before", "after", "where", "rule"),
    [
        ('owner = "someone"\n', "", "plan.owner", "owner"),
        ("expires = 2030-01-01\n", "", "plan.expires", "expiry"),
        ("2030-01-01", "2026-01-01", "plan.expires", "expired"),
        ('"6h"', '"5s"', "plan.round", "short-round"),
        ('"6h"', '"6h"\ngrace = "1h"', "plan.grace", "short-grace"),
        ('unit = "second"\n', "", "metrics.a.unit", "unit"),
        ("flip = 0.2\nmax_value = 60\n[", "max_value = 60\n[", "metrics.a.flip", "no-flip"),
        ("max_value = 60\n[", "max_value = 60\nstep = 2\n[", "metrics.a.step", "many-steps"),
        ("epsilon = 1\n", "epsilon = 5\n", "metrics.a.epsilon", "large-epsilon"),
        ('"d-bit-flip"', '"d-bit-flip"\nvariant = "paper"', "metrics.h.variant", "paper-variant"),
        ('"d-bit-flip"', '"d-bit-flip"\nbits = 4', "metrics.h.bits", "many-bits"),
        ("buckets = 32", "buckets = 100", "metrics.h.buckets", "uneven-coverage"),
        ("[metrics.h]", f"{NO_LIMIT}[metrics.h]", "groups.g.max_total", "no-limit"),
        ("[metrics.h]", f"{MANY_SEGMENTS}[metrics.h]", "segments", "many-segments"),
    ],
)
def test_each_unwise_choice_is_named(before: str, after: str, where: str, rule: str) -> None:
    assert before in CLEAN
    assert (where, rule) in rules(CLEAN.replace(before, after, 1))


def test_mixed_units_in_a_group_are_named() -> None:
    extra = '[metrics.b]\nkind = "mean"\nunit = "click"\nepsilon = 1\nflip = 0.2\nmax_value = 60\n'
    group = '[groups.g]\nmetrics = ["a", "b"]\nmax_total = 60\n'
    assert rules(CLEAN + extra + group) == {("groups.g.metrics", "mixed-units")}


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("epsilon = 1", "epsilon = 2", True),
        ("flip = 0.2", "flip = 0.1", True),
        ("max_value = 60", "max_value = 61", True),
        ('unit = "second"', 'unit = "minute"', False),
        ('owner = "someone"', 'owner = "another"', False),
    ],
)
def test_parameters_do_not_change_under_one_version(before: str, after: str, refused: bool) -> None:
    old, new = Plan.from_toml(CLEAN), CLEAN.replace(before, after, 1)
    assert bool(lint_succession(old, Plan.from_toml(new))) is refused
    assert lint_succession(old, Plan.from_toml(new.replace("version = 3", "version = 4"))) == []


def test_versions_only_rise_and_names_stay() -> None:
    old = Plan.from_toml(CLEAN)
    lower = lint_succession(old, Plan.from_toml(CLEAN.replace("version = 3", "version = 2")))
    other = lint_succession(old, Plan.from_toml(CLEAN.replace('"p"', '"q"')))
    assert [problem.where for problem in (*lower, *other)] == ["plan.version", "plan.name"]


def test_other_rounds_are_another_plan() -> None:
    """Round numbers would repeat, and with them the draws of flips and ids."""
    new = Plan.from_toml(CLEAN.replace('"6h"', '"12h"').replace("version = 3", "version = 4"))
    (problem,) = lint_succession(Plan.from_toml(CLEAN), new)
    assert (problem.where, problem.severity) == ("plan.round", "error")
