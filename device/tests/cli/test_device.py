"""`reticent device …` on a real state file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.shared.page_checks import check_page

from reticent import Device
from reticent.cli import run_device
from reticent.device import Policy
from reticent_collector.cli.root import reticent as command

ROOT = Path(__file__).parents[3]
PLAN = ROOT / "examples" / "plan.toml"


def run(*arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(command, ["device", *(str(argument) for argument in arguments)], input=answer)


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
    missing = run("status", tmp_path / "none")
    assert (missing.exit_code, "in CI or in a container" in missing.output) == (2, True)


def bare(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command on a Python that sees the standard library and this package, nothing else."""
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'device' / 'src')!r}); from reticent.cli import main; main()"
    command = [sys.executable, "-I", "-S", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "arguments",
    [
        ("preview", "STATE"),
        ("receipt", "STATE"),
        ("status", "STATE"),
        ("check", "STATE", "--plan", PLAN),
        ("consent", "STATE"),
        ("consent", "STATE", "local"),
        ("pause", "STATE"),
        ("resume", "STATE"),
        ("forget", "STATE", "--yes"),
    ],
)
def test_every_verb_works_on_a_bare_install_as_with_click(
    arguments: tuple[object, ...], state: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(state, copy)
    without = bare("device", *(state if one == "STATE" else one for one in arguments), "--json")
    with_click = run(*(copy if one == "STATE" else one for one in arguments), "--json")
    assert without.returncode == with_click.exit_code == 0, without.stderr + with_click.output
    shown, expected = json.loads(without.stdout), json.loads(with_click.stdout)
    assert shown if isinstance(shown, list) else shown.keys() == expected.keys()


def test_a_bare_install_says_what_other_verbs_need(tmp_path: Path) -> None:
    for arguments, folder in (
        (("serve", "plan.toml"), "collector"),
        (("count", "x"), "lake"),
        (("agent",), "otel[agent]"),
    ):
        done = bare(*arguments)
        assert done.returncode == 1
        assert f"Hint: pip install 'reticent-{folder}', in a clone './{folder}'\n" in done.stderr
    assert (
        "pip install 'reticent-lab', in a clone './lab'\n      audit, demo, design, simulate\n"
        in bare("--help").stdout
    )
    assert bare("devise").stderr == "Error: No such command 'devise'.\n  Hint: did you mean device?\n"
    assert bare("device", "status", tmp_path / "none").returncode == 2
    (tmp_path / "notes.txt").write_text("shopping list")
    done = bare("device", "receipt", tmp_path / "notes.txt")
    assert (done.returncode, done.stderr[:7]) == (1, "Error: ")
    assert bare("device", "dance").returncode == 2


def test_ctrl_c_at_a_question_of_a_bare_install(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=interrupted))
    assert run_device(["forget", str(state)]) == 130
    assert capsys.readouterr().err.endswith("Stopped.\n")


def test_consent_can_be_given_before_the_program_has_made_a_file(tmp_path: Path) -> None:
    state = tmp_path / "new.db"
    assert run("consent", state, "denied").exit_code == 2
    assert json.loads(run("consent", state, "denied", "--plan", PLAN, "--json").stdout)["consent"] == "denied"
    refused = run("consent", state, "granted")
    assert refused.exit_code == 1
    assert "it holds no plan yet" in refused.output
    assert json.loads(run("consent", state, "granted", "--plan", PLAN, "--json").stdout)["active"] is True


def test_pages_are_written(state: Path, tmp_path: Path) -> None:
    for verb in ("preview", "receipt"):
        page = tmp_path / f"{verb}.html"
        assert run(verb, state, "--html", page).output == f"Written to {page}.\n"
        check_page(page.read_text())


def test_check_finds_what_is_wrong(state: Path, tmp_path: Path, tools: Any) -> None:
    def findings(*arguments: object) -> tuple[int, dict[str, str]]:
        result = run("check", state, *arguments, "--json")
        return result.exit_code, {one["subject"]: one["level"] for one in json.loads(result.stdout)}

    assert findings("--plan", PLAN) == (0, {"state": "ok", "plan": "ok"})
    expired = tmp_path / "expired.toml"
    expired.write_text(PLAN.read_text().replace("2027-11-01", "2020-11-01"))
    assert findings("--plan", expired) == (3, {"state": "ok", "plan": "problem"})
    assert findings("--endpoint", "http://127.0.0.1:9") == (3, {"state": "ok", "endpoint": "problem"})
    assert findings("--endpoint", "telemetry.example.org") == (3, {"state": "ok", "endpoint": "problem"})
    service = tools.Service(tmp_path, tools.usage())
    keys = tools.make_keys(service.store, "ingest", "reader")
    service.start()
    try:
        address = f"http://127.0.0.1:{service.port}"
        assert findings("--endpoint", address, "--key", keys["ingest"])[0] == 0
        assert findings("--endpoint", address, "--key", "wrong")[0] == 3
        assert findings("--endpoint", address)[0] == 3
        assert findings("--endpoint", f"{address}/elsewhere", "--key", keys["ingest"])[0] == 3
    finally:
        service.stop()
