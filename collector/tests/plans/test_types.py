"""Types of a plan: real mypy, and TypeScript's compiler where there is one, refuse misspelt names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reticent_collector.cli.plan import plan as command

ROOT = Path(__file__).parents[3]
CHOICE = """
[metrics.{name}]
kind = "choice"
labels = {labels}
mechanism = "hadamard-bit"
epsilon = 1.0
flip = 0.2
"""
TOOL = '[plan]\nname = "tool-usage"\nversion = 1\nround = "1d"\n'
SAVES = '\n[metrics.saves]\nkind = "mean"\nmax_value = 10\nepsilon = 1.0\nflip = 0.2\n'
ONE = CHOICE.format(name="command", labels='["build", "c++ 17"]')
TWO = CHOICE.format(name="shell", labels='["bash", "fish"]')

RIGHT = """
telemetry.add("saves")
telemetry.set("saves", 3.5, round=4)
telemetry.max("saves", 7)
telemetry.choose("command", "build")
telemetry.choose("command", "c++ 17")
"""
WRONG = {
    "a metric": 'telemetry.add("save")',
    "a metric that is set": 'telemetry.set("save", 1)',
    "a metric that is raised": 'telemetry.max("save", 1)',
    "a label": 'telemetry.choose("command", "biuld")',
    "a choice": 'telemetry.choose("comand", "build")',
    "a choice that is added": 'telemetry.add("command")',
    "an amount that is chosen": 'telemetry.choose("saves", "build")',
    "no number": 'telemetry.add("saves", "many")',
}


def write_types(folder: Path, plan: str) -> None:
    (folder / "plan.toml").write_text(plan)
    files = ["--python", str(folder / "telemetry_types.pyi"), "--typescript", str(folder / "telemetry.d.ts")]
    done = CliRunner().invoke(command, ["types", str(folder / "plan.toml"), *files])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "plan", [TOOL + SAVES + ONE, TOOL + SAVES + ONE + TWO], ids=["one choice", "two choices"]
)
def test_mypy_refuses_misspelt_names_and_nothing_else(plan: str, tmp_path: Path) -> None:
    write_types(tmp_path, plan)
    lines = [
        "from telemetry_types import ToolUsageMetrics",
        "from reticent import Device",
        'telemetry: ToolUsageMetrics = Device("plan.toml", "state")',
        *RIGHT.strip().splitlines(),
    ]
    first_wrong = len(lines) + 1
    wrong = list(WRONG.values())
    if "shell" in plan:
        wrong.append('telemetry.choose("shell", "build")')
    (tmp_path / "program.py").write_text("\n".join([*lines, *wrong]) + "\n")
    path = os.pathsep.join([str(ROOT / "device" / "src"), str(tmp_path)])
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
    ]
    done = subprocess.run(
        [*mypy, "program.py"], cwd=tmp_path, env={**os.environ, "MYPYPATH": path}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    errors = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert errors == set(range(first_wrong, first_wrong + len(wrong))), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("plan", "calls"), [(TOOL + SAVES, {"add", "set"}), (TOOL + ONE, {"choose"})], ids=["amounts", "choices"]
)
def test_a_call_that_fits_no_metric_is_not_there(plan: str, calls: set[str], tmp_path: Path) -> None:
    write_types(tmp_path, plan)
    for file in ("telemetry_types.pyi", "telemetry.d.ts"):
        text = (tmp_path / file).read_text()
        assert {call for call in ("add", "set", "choose") if f"{call}(" in text} == calls


def test_the_declaration_has_every_name(tmp_path: Path) -> None:
    write_types(tmp_path, TOOL + SAVES + ONE + TWO)
    text = (tmp_path / "telemetry.d.ts").read_text()
    assert 'choose(metric: "command", label: "build" | "c++ 17")' in text
    assert 'choose(metric: "shell", label: "bash" | "fish"' in text
    assert 'add(metric: "saves", amount?: ' in text


@pytest.mark.skipif(shutil.which("tsc") is None, reason="tsc is not installed")
def test_typescript_refuses_misspelt_names(tmp_path: Path) -> None:
    write_types(tmp_path, TOOL + SAVES + ONE)
    head = (
        'import type { ToolUsageMetrics } from "./telemetry";\ndeclare const telemetry: ToolUsageMetrics;\n'
    )
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "reticent").symlink_to(ROOT / "device-js")
    for wrong, line in {"nothing": 'telemetry.add("saves")', **WRONG}.items():
        (tmp_path / "program.ts").write_text(f"{head}{line};\n")
        command = ["tsc", "--noEmit", "--strict", "--skipLibCheck", "program.ts"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert (done.returncode == 0) is (wrong == "nothing"), done.stdout


def test_a_file_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(TOOL + SAVES)
    done = CliRunner().invoke(command, ["types", str(tmp_path / "plan.toml")])
    assert (done.exit_code, "--python FILE" in done.output) == (2, True)
