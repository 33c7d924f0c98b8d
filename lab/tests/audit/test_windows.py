"""Plans with sampled answers: two windows lose twice one window's loss, and clients that break a rule are caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reticent.plan import Plan
from reticent_lab.audit import CoreClient, audit

ONE, TWO = "any two histories, one window", "any two histories, two windows"


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [("sampled", 1, 2), ("sampled group", 2, 4), ("sampled, one of two", 1, 2), ("sampled histogram", 2, 4)],
)
def test_an_honest_client_attains_its_claims_and_is_not_flagged(
    plans: dict[str, Plan], name: str, one: float, two: float
) -> None:
    """Declared false alarm: 1e-6 per audit. The seed is fixed."""
    result = audit(plans[name], client=CoreClient(seed="1"), reports=3_000, rounds=4)
    losses = {loss.what: loss for loss in result.exact if loss.subject == "whole plan"}
    touched = {1: 4, 2: 3}[plans[name].answers.window]  # windows of four rounds in a row, at most
    for what, figure in ((ONE, one), (TWO, two), ("any two histories, 4 rounds", touched * one)):
        assert losses[what].claim == figure
        assert figure - 1e-12 < losses[what].loss <= figure
    assert result.problems == []
    assert all(check.holds for check in result.checks)
    assert result.power.keys() >= set(result.metrics)
    proved = [row.lower for row in result.attacks if row.subject in result.metrics and row.what == ONE]
    assert min(proved) > 0.2  # of those whose cohort or metrics tell nothing, none is counted


ALIKE = "other values change only the bits"
CAUGHT = [
    ("answers in every round", "sampled", {"messages are whole reports"}),
    ("one draw for all windows", "sampled",
     {"two windows: linked by bits", "two windows: linked by round that is answered"}),
    ("memo remembered", "sampled", {"two windows: linked by bits", f"whole plan: {TWO}, learned event"}),
    ("round remembered", "sampled", {"two windows: linked by round that is answered"}),
    ("cohort remembered", "sampled histogram", {"two windows: linked by cohort"}),
    ("metrics remembered", "sampled, one of two", {"two windows: linked by metrics that are asked"}),
    ("round by value", "sampled", {"report: round that is answered", ALIKE}),
    ("metrics by value", "sampled, one of two", {"report: metrics that are asked", ALIKE}),
    ("metrics not said", "sampled, one of two", {"messages are whole reports"}),
    ("half too much", "sampled", {f"a: {ONE}"}),
]  # fmt: skip


MANY = {"memo remembered", "half too much"}  # what takes more reports to tell


@pytest.mark.parametrize(("twist", "plan", "faults"), CAUGHT)
def test_a_client_that_breaks_a_rule_is_caught(
    plans: dict[str, Plan], crooked: Callable, flagged: Callable, twist: str, plan: str, faults: set[str]
) -> None:
    result = audit(plans[plan], client=crooked(twist), reports=6_000 if twist in MANY else 2_000)
    assert faults <= flagged(result)
    assert result.verdict == "above claim"


def test_the_honest_twist_is_honest(plans: dict[str, Plan], crooked: Callable) -> None:
    assert audit(plans["sampled"], client=crooked("honest in windows"), reports=6_000).problems == []


def test_whole_devices_answer_once_in_a_window(plans: dict[str, Plan]) -> None:
    result = audit(plans["sampled, one of two"], reports=2_000, sdk_devices=8, seed=5)
    assert result.problems == []
    whole = {check.what: check for check in result.checks if check.subject == "reticent.Device"}
    assert all(check.holds for check in whole.values())
    assert {
        "bytes are those the SDK core computes",
        "another process gives the same bytes",
        "messages are whole reports",
    } <= whole.keys()
    assert "round that is answered, reticent.Device" in {attack.what for attack in result.attacks}
