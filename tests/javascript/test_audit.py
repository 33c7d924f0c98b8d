"""`reticent audit --client` on whole devices in JavaScript."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.javascript.conftest import PACKAGE
from tests.shared.plans import COMMAND

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


def test_a_choice_is_answered(node: str, tmp_path: Path) -> None:
    """Labels travel as text, as numbers do that no double is; a device answers both."""
    plan = Plan.from_toml(SAVES.text + COMMAND)
    (tmp_path / "plan.json").write_text(json.dumps(export_plan(plan)))
    values = {"saves": "15/2", "command": "test"}
    requests = [
        {"do": "start", "device": 1, "first_round": 1000},
        *({"do": "answer", "device": 1, "round": 1000 + number, "values": values} for number in range(2)),
    ]
    done = subprocess.run(
        [node, str(PACKAGE / "audit.mjs"), str(tmp_path / "plan.json")],
        input="".join(f"{json.dumps(request)}\n" for request in requests),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    started, *answers = map(json.loads, done.stdout.splitlines())
    assert started is True
    assert [answer["round"] for answer in answers] == [1000, 1001]


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
