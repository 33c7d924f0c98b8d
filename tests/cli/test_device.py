"""`reticent device …` on a real state file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reticent import Device
from reticent.cli import command
from reticent.device import Policy

PLAN = Path(__file__).parents[2] / "examples" / "plan.toml"


def run(*arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(command(), ["device", *(str(argument) for argument in arguments)], input=answer)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with Device(PLAN, state=tmp_path / "state.db", consent="granted", policy=Policy.unlimited()) as device:
        device.set("editor_seconds", 12345)
        assert device.report(device.current_round) is not None
    return tmp_path / "state.db"


def test_the_receipt_shows_bits_and_losses_but_no_value(state: Path) -> None:
    answer = json.loads(run("receipt", state, "--json").stdout)
    (report,) = answer["reports"]
    assert set(report["bits"]) == {"editor_seconds", "browser_seconds", "editor_hours"}
    assert all(bits in ("0", "1") for bits in report["bits"].values())
    assert answer["total_loss"] == pytest.approx(3, rel=1e-9)
    shown = run("receipt", state)
    assert shown.exit_code == 0
    assert "together: 3.0 / 6.0" in shown.output
    assert "12345" not in shown.output + json.dumps(answer)


def test_pause_resume_and_status(state: Path) -> None:
    assert json.loads(run("status", state, "--json").stdout)["active"] is True
    assert json.loads(run("pause", state, "--json").stdout)["paused"] is True
    assert "silent" in run("status", state).output
    assert json.loads(run("resume", state, "--json").stdout)["paused"] is False


def test_forget_asks_first_and_starts_an_epoch(state: Path) -> None:
    before = json.loads(run("status", state, "--json").stdout)["epoch"]
    refused = run("forget", state, answer="n\n")
    assert refused.exit_code == 1
    assert json.loads(run("status", state, "--json").stdout)["epoch"] == before
    assert run("forget", state, "--yes").exit_code == 0
    assert json.loads(run("status", state, "--json").stdout)["epoch"] == before + 1
    assert len(json.loads(run("receipt", state, "--json").stdout)["reports"]) == 1


def test_a_file_that_is_no_state_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("shopping list")
    result = run("receipt", tmp_path / "notes.txt")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert (tmp_path / "notes.txt").read_text() == "shopping list"
    assert run("status", tmp_path / "none").exit_code == 2
