"""`reticent audit --client` on whole devices in JavaScript."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tests.javascript.conftest import PACKAGE

from reticent.plan import Plan
from reticent_collector.plans import export_plan
from reticent_lab.audit import Audit, CommandClient, audit

SAVES = Plan.load(Path(__file__).parents[2] / "examples" / "saves.toml")
SAMPLED = Plan.from_toml(
    SAVES.text.replace("flip = 0.2", "") + '[answers]\nkind = "sampled"\nwindow = "1d"\n'
)


def run(node: str, folder: Path, plan: Plan, answered: Plan, reports: int, rounds: int) -> Audit:
    """An audit of a plan, with devices that answer another one perhaps."""
    (folder / "plan.json").write_text(json.dumps(export_plan(answered)))
    command = [node, str(PACKAGE / "audit.mjs"), str(folder / "plan.json")]
    with closing(CommandClient(command)) as client:
        return audit(plan, client=client, reports=reports, rounds=rounds)


@pytest.mark.parametrize(
    "plan", [SAVES, pytest.param(SAMPLED, marks=pytest.mark.soak)], ids=["remembered", "sampled"]
)
def test_devices_in_javascript_keep_the_claims(node: str, tmp_path: Path, plan: Plan) -> None:
    found = run(node, tmp_path, plan, plan, reports=1000, rounds=2)
    assert found.problems == []
    assert sum("gives the same bytes" in check.what for check in found.checks) == 3


def test_devices_that_answer_with_another_epsilon_are_noticed(node: str, tmp_path: Path) -> None:
    louder = Plan.from_toml(
        SAVES.text.replace("epsilon = 1", "epsilon = 6").replace("flip = 0.2", "flip = 0")
    )
    assert louder.fingerprint != SAVES.fingerprint
    found = run(node, tmp_path, SAVES, louder, reports=1000, rounds=2)
    assert found.verdict == "above claim"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_devices_in_javascript_are_sound(node: str, tmp_path: Path) -> None:
    found = run(node, tmp_path, SAVES, SAVES, reports=60_000, rounds=4)
    assert found.verdict == "sound"
