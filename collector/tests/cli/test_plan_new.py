"""`reticent plan new`: every plan to start from is one that ships as it is."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reticent.device import Policy
from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.plans.starters import STARTERS, starter_plan

EXAMPLES = Path(__file__).parents[3] / "examples" / "plans"
OWNER = ["--owner", "telemetry@example.org"]


def run(*arguments: str, answers: str | None = None) -> Result:
    return CliRunner().invoke(command, ["plan", *arguments], input=answers)


@pytest.mark.parametrize("kind", STARTERS)
def test_a_plan_to_start_from_has_no_problem_and_devices_take_it_up(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    assert run("new", "--kind", kind, "--name", "mine", *OWNER, "--out", str(file)).exit_code == 0
    checked = json.loads(run("check", str(file), "--json").output)
    assert checked["problems"] == []
    plan = Plan.load(file)
    assert {metric.kind for metric in plan.metrics} >= {"mean", "flag", "choice", "histogram"}
    assert not Policy().problems(plan)
    assert plan.expires is not None
    assert plan.expires >= datetime.now(UTC).date() + timedelta(days=364)
    for metric in plan.metrics:
        size = float(metric.max_value) if metric.kind == "mean" else 1.0
        assert checked["metrics"][metric.name]["half_width"] < 0.05 * size


@pytest.mark.parametrize("kind", STARTERS)
def test_the_examples_are_what_it_writes(kind: str) -> None:
    text = starter_plan(kind, f"{kind}-sample", "telemetry@example.org", date(2027, 11, 1))
    assert (EXAMPLES / f"{kind}.toml").read_text() == text
    assert {path.stem for path in EXAMPLES.iterdir()} == {*STARTERS}


def test_it_asks_for_what_is_not_given() -> None:
    result = run("new", answers="web\nmy-shop\nsomeone@example.org\n")
    assert result.exit_code == 0
    for words in ("Kind of program", "Name of the plan", "Contact", 'name = "my-shop"', "[metrics.visits]"):
        assert words in result.output


def test_some_metrics_only() -> None:
    result = run(
        "new", "--kind", "web", "--name", "one", *OWNER, "--metric", "checkout", "--expires", "2030-01-01"
    )
    plan = Plan.from_toml(result.output)
    assert ([metric.name for metric in plan.metrics], plan.asked, plan.expires) == (
        ["checkout"],
        1,
        date(2030, 1, 1),
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kind", "toaster", "--name", "a"], "toaster"),
        (["--kind", "web", "--name", "A b"], "name"),
        (["--kind", "web", "--name", "a", "--expires", "2020-01-01"], "future"),
        (["--kind", "web", "--name", "a", "--metric", "nothing"], "one of visits"),
    ],
)
def test_what_does_not_suit_is_said(arguments: list[str], says: str) -> None:
    result = run("new", *arguments, *OWNER)
    assert result.exit_code == 2
    assert says in result.output + str(result.exception)


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text("mine")
    assert run("new", "--kind", "web", "--name", "a", *OWNER, "--out", str(file)).exit_code == 2
    assert file.read_text() == "mine"
