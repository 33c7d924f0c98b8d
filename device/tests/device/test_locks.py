"""Locks between processes, with what Linux has and with what Windows has; and a device on the latter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
Run = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(params=["as it is", "as on Windows"])
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(system: str, tmp_path: Path) -> Iterator[Run]:
    """Run a script in a folder of its own, on this system or on one that lacks what Windows lacks."""
    started = ExitStack()

    def start(script: str) -> subprocess.Popen[str]:
        windows = "from tests.shared.windows import become; become()" if "Windows" in system else ""
        head = f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); os.chdir({str(tmp_path)!r})\n{windows}\n"
        process = started.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", head + script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        started.callback(process.kill)
        return process

    with started:
        yield start


def said(process: subprocess.Popen[str], *lines: str) -> str:
    output, _ = process.communicate("".join(f"{line}\n" for line in lines), timeout=60)
    assert process.returncode == 0, output
    return output


def test_shared_holders_share_and_an_exclusive_one_is_alone(run: Run) -> None:
    script = """
from reticent.device.locks import ProcessLock
first, second, third = (ProcessLock("lock") for _ in range(3))
assert first.take(shared=True) and second.take(shared=True)
assert not third.take()
first.release()
assert not third.take(), "one of two is left"
second.release()
assert third.take()
assert not first.take(shared=True) and not first.take()
third.close()
assert first.take()
"""
    said(run(script))


def test_a_child_forked_while_a_lock_is_held_does_not_hold_on_to_it(run: Run) -> None:
    """It shares the descriptor: a lock that ends when its descriptors are closed would last as long as the child."""
    script = """
import os, sys
if not hasattr(os, "fork"):
    sys.exit()
from reticent.device.locks import ProcessLock
lock, other = ProcessLock("lock"), ProcessLock("lock")
assert lock.take()
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
lock.close()
taken = other.take()
os.close(writing)
os.waitpid(child, 0)
assert taken
"""
    said(run(script))


def test_a_lock_ends_with_its_process(run: Run) -> None:
    holder = run("""
from reticent.device.locks import ProcessLock
lock = ProcessLock("lock")
print(lock.take(shared=True), flush=True)
input()
""")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    look = "from reticent.device.locks import ProcessLock; print(ProcessLock('lock').take())"
    assert said(run(look)) == "False\n"
    holder.kill()
    holder.wait()
    assert said(run(look)) == "True\n"


DEVICE = """
from pathlib import Path
from reticent.device import Device, Policy
from reticent.testing import ManualClock, RecordingTransport
PLAN = '''
[plan]
name = "where"
version = 1
round = "6h"
owner = "a@example.org"
expires = 2099-01-01
[metrics.seconds]
kind = "mean"
max_value = 100
epsilon = 1.0
'''
Path("plan.toml").exists() or Path("plan.toml").write_text(PLAN)
clock = ManualClock(80000 * 21600 + 60.0)
policy = Policy.unlimited()
def device(transport=None):
    return Device("plan.toml", "state", consent="granted", clock=clock, transport=transport, policy=policy)
"""


def test_processes_that_start_at_once_agree_on_one_secret(run: Run) -> None:
    run(DEVICE).communicate(timeout=60)  # writes the plan
    script = (
        DEVICE
        + """
input()
mine = device()
clock.advance(21600)
clock.advance(21600)
from reticent.reports import to_json
print(to_json(mine.report(80001)))
mine.close()
"""
    )
    processes = [run(script) for _ in range(4)]
    reports = {said(process, "go") for process in processes}
    assert len(reports) == 1


def test_a_pause_waits_for_a_report_on_its_way(run: Run) -> None:
    sender = run(
        DEVICE
        + """
from reticent.device import Accepted
class Slow:
    def send(self, body, timeout):
        print("sending", flush=True)
        input()
        return Accepted()
mine = device(Slow())
clock.advance(2 * 21600)
print(mine.flush())
"""
    )
    assert sender.stdout is not None
    assert sender.stdout.readline() == "sending\n"
    pause = (
        DEVICE
        + """
from reticent.device import session
session.LONGEST_SEND = -1.95  # how long a pause waits beyond two seconds
clock.advance(2 * 21600)
print(device().pause())
"""
    )
    impatient = run(pause)
    assert said(impatient) == "False\n", "the sender is not done"
    assert said(sender, "done").endswith("1\n")
    assert said(run(pause)) == "True\n"


def test_a_broken_file_that_another_process_has_open_is_never_redrawn(run: Run, system: str) -> None:
    """Windows does not rename it: the device stays off, and starts over when the other process has let go."""
    run(DEVICE + "device().close()").communicate(timeout=60)
    script = (
        DEVICE
        + """
data = bytearray(Path("state").read_bytes())
data[4096:] = bytes(len(data) - 4096)
Path("state").write_bytes(data)
held = open("state", "rb")
first = device()
print("refused" if "cannot be created" in first.status().problem else "quarantined")
first.close()
held.close()
again = device()
print(again.receipt().epochs[-1].number)
"""
    )
    first, epoch = said(run(script)).split()
    assert first == ("refused" if "Windows" in system else "quarantined")
    assert epoch == "1"
