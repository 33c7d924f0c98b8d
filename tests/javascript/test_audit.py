"""`reticent audit --client` on whole devices in JavaScript."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.javascript.conftest import PACKAGE
from tests.shared.plans import COMMAND

from reticent.plan import Plan
from reticent_lab.audit import Audit, CommandClient, audit

EXAMPLE = Plan.load(Path(__file__).parents[2] / "examples" / "plan.toml")
SAVES = (Path(__file__).parents[2] / "examples" / "saves.toml").read_text()
GRACE = SAVES.replace("[metrics", 'grace = "12h"\n\n[metrics', 1)
CHOICE = Plan.from_toml(GRACE + COMMAND)
SAMPLED = Plan.from_toml(GRACE.replace("flip = 0.2", "") + '[answers]\nkind = "sampled"\nwindow = "1d"\n')


def run(node: str, plan: Plan, lives: int) -> Audit:
    with closing(CommandClient([node, str(PACKAGE / "audit.mjs")])) as client:
        return audit(plan, client=client, lives=lives, rounds=2)


@pytest.mark.parametrize("plan", [EXAMPLE, CHOICE, SAMPLED], ids=["segments", "choice", "sampled"])
def test_devices_in_javascript_send_what_the_rules_say(node: str, plan: Plan) -> None:
    result = run(node, plan, lives=2)
    assert result.problems == []
    assert result.sound
    assert result.reports > 30


@pytest.mark.soak
def test_two_hundred_lives_of_each_family(node: str) -> None:
    assert run(node, EXAMPLE, lives=200).sound
