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
from tests.faults.crash.deaths import calls_of
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


COMMANDS = """
import ctypes, os, sys
from contextlib import closing
from reticent import Device, Policy
from reticent.programs import CommandLine, send

folder, plan, log = sys.argv[1:]
state, shim = f"{folder}/state", ctypes.CDLL(None)
lifted = Policy(do_not_track=False, silent_in_ci=False, silent_in_containers=False)
line = CommandLine(plan, state, endpoint="http://127.0.0.1:9", consent="granted", policy=lifted)
open(f"{state}-sent", "w").close()  # a process that sends was started just now

def command(name):
    with line.running(name):
        pass

def calls(name, work):
    record = os.open(f"{log}/{name}", os.O_CREAT | os.O_WRONLY, 0o600)
    shim.crash_arm(folder.encode(), ctypes.c_long(-1), 0, record, -1)
    work()
    shim.crash_arm(b"", ctypes.c_long(-1), 0, -1, -1)

calls("first", lambda: command("build"))
send(plan, state, "http://127.0.0.1:9", None, {}, vars(lifted), "granted")  # what that process does
calls("next", lambda: [command(name) for name in ("test", "build", "test")])
with closing(Device(plan, state, consent="granted", policy=lifted)) as device:
    print(device._recorded(device.current_round))
    device.add("builds")
    calls("closed", device.close)
"""
COMMANDS_PLAN = """
[plan]
name = "tool"
version = 1
round = "7d"

[metrics.command]
kind = "choice"
labels = ["build", "test"]
epsilon = 0.5
flip = 0.2

[metrics.builds]
kind = "mean"
max_value = 10
epsilon = 0.5
flip = 0.2
"""


def test_a_command_does_not_wait_for_the_disk(shim: Path, tmp_path: Path) -> None:
    """Only the first one syncs, which makes the file; the process that sends leaves it so that the next need not."""
    folder, logs = tmp_path / "folder", tmp_path / "logs"
    folder.mkdir()
    logs.mkdir()
    plan = tmp_path / "plan.toml"
    plan.write_text(COMMANDS_PLAN)
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, str(folder), str(plan), str(logs)],
        env={**tracked_environment(), "LD_PRELOAD": str(shim)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "{'command': 1}\n"  # the second label
    kinds = {log.name: {call.kind for call in calls_of(log.read_bytes())} for log in logs.iterdir()}
    assert "f" in kinds["first"]
    assert "w" in kinds["next"]
    assert "f" not in kinds["next"]
    assert "f" in kinds["closed"]  # the log is copied
