"""A Node program with a device that is killed at every point, and two of them at once."""

from __future__ import annotations

import json
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.javascript.conftest import HERE
from tests.javascript.test_units import USAGE

from reticent.plan import Plan
from reticent_collector.plans import export_plan

HOUR = 3600
FIRST = 500_000
"""The round in which the device is enrolled."""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "plan.json").write_text(json.dumps(export_plan(Plan.from_toml(USAGE))))
    return {"plan": str(tmp_path / "plan.json"), "folder": str(tmp_path / "state"), "values": {"minutes": 7}}


def start(node: str, settings: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [node, str(HERE / "program.mjs"), json.dumps(settings)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def run(node: str, settings: dict[str, Any]) -> dict[str, Any]:
    done = start(node, settings)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def enrol(node: str, settings: dict[str, Any]) -> None:
    """Enrolled, and with values of the first full round in the state."""
    run(node, settings | {"now": [FIRST * HOUR, (FIRST + 1) * HOUR, (FIRST + 1) * HOUR + 1]})


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.soak)], ids=["some", "every"])
def test_a_program_killed_at_any_point_sends_the_same_bytes_ever_after(
    node: str, settings: dict[str, Any], step: int
) -> None:
    """
    Values are recorded, the round is answered and sent, and the program is killed before each file system call.

    Every byte that left, in any life of the program, belongs to one report; what a later life hands out is it.
    """
    enrol(node, settings)
    folder = Path(settings["folder"])
    backup = subprocess.run(
        ["tar", "-cf", "-", "-C", str(folder), "."], capture_output=True, check=True
    ).stdout
    after = {"now": [(FIRST + 1) * HOUR + 2, (FIRST + 2) * HOUR], "round": FIRST + 1}
    whole = run(node, settings | after)
    assert whole["calls"] > 40

    def killed_at(point: int) -> set[str]:
        own = settings | {"folder": f"{folder}-{point}"}
        Path(own["folder"]).mkdir()
        subprocess.run(["tar", "-xf", "-", "-C", own["folder"]], input=backup, check=True)
        dead = start(node, own | after | {"die": point})
        assert dead.returncode == -signal.SIGKILL, dead.stderr
        alive = start(node, own | after | {"values": {}, "now": [after["now"][1] + 60] * 2})
        sent = (dead.stderr + alive.stderr).splitlines()
        bodies = {line.removeprefix("sent ") for line in sent if line.startswith("sent ")}
        return bodies | {json.loads(alive.stdout)["body"]}

    with ThreadPoolExecutor(2) as pool:
        lives = list(pool.map(killed_at, range(0, whole["calls"], step)))
    assert all(len(bodies) == 1 for bodies in lives)
    reports = [json.loads(next(iter(bodies))) for bodies in lives]
    assert len({report["id"] for report in reports}) == 1  # the same secret throughout


def test_two_programs_on_one_state_answer_once_and_lose_no_value(node: str, settings: dict[str, Any]) -> None:
    enrol(node, settings)
    both = settings | {"now": [(FIRST + 1) * HOUR + 2, (FIRST + 1) * HOUR + 3]}
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: run(node, both), range(3)))
        text = next(Path(settings["folder"]).glob("state-*/text")).read_text()
        assert json.loads(text.partition("\n")[2])["totals"][str(FIRST + 1)] == {"minutes": str(7 * 4)}
        over = settings | {"now": [(FIRST + 2) * HOUR] * 2, "round": FIRST + 1}
        answers = list(pool.map(lambda _: start(node, over), range(3)))
    bodies = {json.loads(done.stdout)["body"] for done in answers}
    sent = [line for done in answers for line in done.stderr.splitlines() if line.startswith("sent ")]
    assert len(bodies) == 1
    assert sent == [f"sent {bodies.pop()}"]  # claimed by one of them
