"""`reticent audit`, as a person and as a script meets it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.shared.plans import SAVES

from reticent_collector.cli.root import reticent as command

SILENT = """
import json, os, sys
from reticent_lab.audit.clients import CoreParticipant
from reticent.plan import Plan
plan, devices = Plan.load(sys.argv[1]), {}
for line in sys.stdin:
    ask = json.loads(line)
    sent = b"true"
    if ask["do"] == "start":
        devices[ask["device"]] = CoreParticipant(plan, os.urandom(32))
    elif ask["do"] == "copy":
        sent = b"null"
    elif ask["do"] == "answer":
        values = ask["values"]
        sent = devices[ask["device"]].answer(ask["round"], values) if values["saves"] else b"null"
    print(sent.decode(), flush=True)
"""


@pytest.fixture(autouse=True, scope="module")
def _alone() -> Iterator[None]:
    """One process, and devices that may answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DO_NOT_TRACK", raising=False)
        patch.setattr("os.cpu_count", lambda: 1)
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "plan.toml"
    path.write_text(SAVES)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["audit", *(str(argument) for argument in arguments)])


SMALL = ("--reports", 5000, "--sdk-devices", 2, "--rounds", 2)


@pytest.fixture(scope="module")
def shown(path: Path) -> Result:
    """A sound plan, for a person."""
    return run(path, *SMALL, "--seed", 1, "--out", path.parent / "out")


@pytest.fixture(scope="module")
def answered(path: Path) -> Result:
    """The same audit, for a script."""
    return run(path, *SMALL, "--seed", 1, "--json")


def test_a_sound_plan_ends_with_0_and_a_picture(shown: Result, path: Path) -> None:
    assert shown.exit_code == 0, shown.output
    assert "ok: nothing is above its claim;" in shown.output
    assert "this run detects an epsilon that is larger by: saves" in shown.output
    assert "saves: one round, reticent.Device" in shown.output
    assert "0.5695" in shown.output  # 0.56944, rounded up
    assert "once in a million" in shown.output
    assert {file.name for file in (path.parent / "out").iterdir()} == {"audit.png", "audit.svg"}


def test_no_figure_is_printed_on_the_wrong_side_of_itself(shown: Result, answered: Result) -> None:
    """Claims and the power are rounded up, bounds down: the same run as numbers and as text."""
    text, answer = shown.output, json.loads(answered.stdout)
    rows = {line.split("  ")[0]: line.split() for line in text[text.index("black box") :].splitlines()}
    for attack in answer["attacks"]:
        if "Device" not in attack["what"]:  # whole devices draw their own secrets
            name = f"{attack['subject']}: {attack['what']}"
            claim, lower = float(rows[name][len(name.split())]), float(rows[name][-3])
            assert attack["claim"] * (1 - 1e-14) <= claim <= attack["claim"] + 1e-3
            assert attack["lower"] - 1e-4 <= lower <= attack["lower"]
    [excess] = re.findall(r"its claim; ([0-9.]+) % too much", text)
    assert answer["notices"] <= float(excess) / 100 <= answer["notices"] + 1.001e-3
    for what, share in answer["faults"].items():
        [part] = re.findall(rf"{what} +(\S+)", text)
        assert (part == "needs") if share is None else (share <= float(part) / 100 + 1e-12)


def test_a_program_that_breaks_a_promise_ends_with_3(path: Path, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(SILENT)
    command = f"{sys.executable} {tmp_path / 'client.py'} {path}"
    result = run(path, *SMALL, "--client", command, "--json")
    answer = json.loads(result.stdout)
    assert result.exit_code == 3
    assert (answer["verdict"], answer["sound"]) == ("above claim", False)
    assert any(problem.startswith("report, silence") for problem in answer["problems"])
    silence = next(attack for attack in answer["attacks"] if attack["what"] == "silence")
    assert silence["above"] is True
    assert silence["lower"] > 1
    assert {check["what"] for check in answer["checks"] if check["holds"] is None} >= {
        "other values change only the bits"
    }


def test_the_json_twin_has_every_figure(answered: Result) -> None:
    answer = json.loads(answered.stdout)
    assert answered.exit_code == 0
    assert {(loss["subject"], loss["what"]) for loss in answer["exact"]} >= {
        ("saves", "one round"), ("saves", "constant, 2 rounds"), ("saves", "same pattern, width 2"),
    }  # fmt: skip
    assert answer["false_alarm"] == 1e-6
    assert answer["clients"] == ["SDK core", "reticent.Device"]
    assert 4980 <= answer["reports"] <= 5020
    assert answer["verdict"] == "sound"
    assert answer["power"] == {"saves": answer["notices"]}


def test_too_few_reports_end_with_4_and_a_warning(path: Path) -> None:
    result = run(path, "--reports", 1000, "--sdk-devices", 2, "--rounds", 2)
    assert result.exit_code == 4
    assert "NOT ENOUGH REPORTS" in result.output
    assert "ok:" not in result.output


@pytest.mark.parametrize(
    "wrong", [["--reports", "10"], ["--rounds", "0"], ["--client", " "], ["--client", "'me"]]
)
def test_wrong_usage_ends_with_2(path: Path, wrong: list[str]) -> None:
    assert run(path, *wrong).exit_code == 2
