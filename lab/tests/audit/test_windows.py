"""Plans with sampled answers: two windows lose twice one window's loss."""

from __future__ import annotations

import pytest

from reticent.plan import Plan
from reticent_lab.audit import audit

ONE, TWO = "any two histories, one window", "any two histories, two windows"


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("sampled", 1, 2), ("sampled group", 2, 4), ("sampled, one of two", 1, 2), ("sampled, two of three", 2, 4),
        ("sampled histogram", 2, 4),
    ],
)  # fmt: skip
def test_a_plan_attains_its_claims(plans: dict[str, Plan], name: str, one: float, two: float) -> None:
    result = audit(plans[name], rounds=4)
    losses = {loss.what: loss for loss in result.exact if loss.subject == "whole plan"}
    touched = {1: 4, 2: 3}[plans[name].answers.window]  # windows of four rounds in a row, at most
    for what, figure in ((ONE, one), (TWO, two), ("any two histories, 4 rounds", touched * one)):
        assert losses[what].claim == figure
        assert figure - 1e-12 < losses[what].loss <= figure
    assert result.problems == []
    assert all(check.holds for check in result.checks)
