"""`reticent audit` as a command: what it prints, and its exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from click.testing import CliRunner

from reticent_lab.cli.audit import audit

PLAN = """
[plan]
name = "app"
version = 1
round = "6h"
grace = "12h"

[metrics.saves]
kind = "mean"
max_value = 10
epsilon = 1
flip = 0.2
"""


def run(folder: Path, program: str, *options: str) -> tuple[int, str]:
    (folder / "plan.toml").write_text(PLAN)
    (folder / "client.py").write_text(program)
    command = f"{sys.executable} {folder / 'client.py'}"
    arguments = [str(folder / "plan.toml"), "--client", command, "--lives", "1", "--rounds", "2", *options]
    done = CliRunner().invoke(audit, arguments)
    return done.exit_code, done.output


SILENT = "import sys\nfor line in sys.stdin:\n    print('true', flush=True)\n"
SECRETLESS = SILENT.replace("true", "null")


def test_a_silent_client_differs(tmp_path: Path) -> None:
    code, shown = run(tmp_path, SILENT)
    assert code == 3
    assert "what leaves differs from the rules" in shown
    assert "observed: {'sent': []}" in shown
    assert "Not covered" in shown


def test_a_client_without_a_secret_is_not_decided(tmp_path: Path) -> None:
    code, shown = run(tmp_path, SECRETLESS)
    assert code == 4
    assert "NOT DECIDED" in shown


def test_as_json(tmp_path: Path) -> None:
    code, shown = run(tmp_path, SECRETLESS, "--json", "--quiet")
    assert code == 4
    assert json.loads(shown)["verdict"] == "not decided"


def test_a_client_that_ends_is_an_error(tmp_path: Path) -> None:
    code, _ = run(tmp_path, "")
    assert code != 0
