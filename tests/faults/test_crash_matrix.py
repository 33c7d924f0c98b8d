"""
A device killed, or without power, at every call that changes its files: the same bytes afterwards, or none.

The lives are led by `crash_driver.py`, a program of its own; `crash_points.c` counts the calls and kills.
Here the long scenarios are taken in strides; `pytest -m soak` dies at every single call in every way.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.processes import tracked_environment

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SCENARIOS = {
    "first-start": 11,
    "add": 2,
    "close": 2,
    "answer": 1,
    "send": 2,
    "retry": 3,
    "upgrade": 9,
    "forget": 1,
    "pause": 2,
    "deny": 3,
    "resume": 2,
    "layout": 5,
    "quarantine": 11,
    "quarantine-log": 17,
}
"""The stride of each: how many calls there are between two deaths in the quick run."""

Lead = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`crash_points.c`, compiled."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and a C compiler (gcc or cc): calls are counted by a library loaded first")
    made = tmp_path_factory.mktemp("shim") / "crash_points.so"
    source = FOLDER / "crash_points.c"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.fixture
def lead(shim: Path, tmp_path: Path) -> Lead:
    """Leads the lives of a scenario in a process of its own."""

    def run(scenario: str, mode: str, *options: str) -> subprocess.CompletedProcess[str]:
        place = tmp_path / f"{scenario}-{mode}"
        place.mkdir()
        program = [sys.executable, "-W", "error", "-m", "tests.faults.crash_driver"]
        return subprocess.run(
            [*program, scenario, place, mode, *options],
            env={**tracked_environment(), "LD_PRELOAD": str(shim)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def found(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    assert done.returncode == 0, done.stderr
    result: dict[str, int] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(("scenario", "stride"), SCENARIOS.items())
def test_killed_before_a_call(lead: Lead, scenario: str, stride: int) -> None:
    """The run that comes to its end proves that there was no further call to die at."""
    result = found(lead(scenario, "kill", "--stride", str(stride)))
    assert result["calls"] >= 12, "the calls are counted"
    assert result["killed"] == -(-result["calls"] // stride)


@pytest.mark.parametrize("scenario", ["answer", "forget"])
def test_killed_in_the_middle_of_a_call(lead: Lead, scenario: str) -> None:
    """Half of a write has been done."""
    assert found(lead(scenario, "middle", "--stride", "3"))["killed"] >= 5


@pytest.mark.parametrize("scenario", ["answer", "forget"])
def test_killed_again_after_the_restart(lead: Lead, scenario: str) -> None:
    assert found(lead(scenario, "twice", "--stride", "6"))["killed"] >= 4


@pytest.mark.parametrize("scenario", ["first-start", "answer", "forget"])
def test_the_power_is_cut(lead: Lead, scenario: str) -> None:
    """After every sync and every word: nothing unsynced survives, or a part of it by a fixed seed."""
    assert found(lead(scenario, "power", "--stride", "1000"))["cuts"] >= 10


@pytest.mark.parametrize(
    ("sabotage", "scenario", "mode", "complaint"),
    [
        ("tells-too-early", "answer", "kill", "two payloads for one round"),
        ("never-syncs", "answer", "power", "two payloads for one round"),
        ("draws-anew", "quarantine", "kill", "a silent redraw"),
    ],
)
def test_a_device_that_breaks_the_law_is_caught(
    lead: Lead, sabotage: str, scenario: str, mode: str, complaint: str
) -> None:
    done = lead(scenario, mode, "--stride", "1000" if mode == "power" else "1", "--sabotage", sabotage)
    assert done.returncode == 1
    assert complaint in done.stderr, done.stderr


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["kill", "middle", "twice", "power"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_whole_matrix(lead: Lead, scenario: str, mode: str) -> None:
    if (scenario, mode) == ("add", "twice"):
        pytest.skip("a second life would add the values a second time")
    result = found(lead(scenario, mode))
    if mode in ("kill", "middle"):
        assert result["killed"] == result["calls"]
    else:
        assert max(result.get("killed", 0), result.get("cuts", 0)) >= result["calls"]
