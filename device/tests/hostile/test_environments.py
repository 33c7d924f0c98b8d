"""Processes in which little works; device/README.md has the list."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, clock_in
from tests.shared.processes import tracked_environment

from reticent.device import Device
from reticent.errors import ParameterError
from reticent.testing import ManualClock, RecordingTransport

Make = Callable[..., Device]

PRELUDE = """
import os, sys
from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport

def device(**options):
    clock = ManualClock(80_000 * 21_600 + 60.0)
    options = {"consent": "granted", "policy": Policy.unlimited(), "clock": clock, **options}
    return Device(Plan.from_toml(PLAN), sys.argv[1], **options)
"""

SCRIPTS = {
    "no file descriptors left": """
        import resource, shutil
        device().close()
        shutil.copy(sys.argv[1], "copy")
        made = device()
        made.status()  # loads its code, which needs a descriptor too
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        lowest = os.dup(0)
        os.close(lowest)
        for left in range(3):
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + left, most))
            closed = device()
            assert closed.status().problem, left
            closed.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
        os.replace("copy", sys.argv[1])  # it has to be opened again
        made.add("saves", 7)
        assert not made.save()
        assert made.status().problem
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
        assert made.save()
        assert made.status().notes.keys() == {"state-broken"}
        assert not [name for name in os.listdir(".") if "quarantined" in name]
        """,
    "values from an exit handler": """
        import atexit
        made = device()
        atexit.register(lambda: made.add("saves", 7))
        """,
    "a fork": """
        made = device()
        made.add("saves", 3)
        child = os.fork()
        made.add("saves", 2)
        if child == 0:
            sys.exit()
        os.waitpid(child, 0)
        """,
    "near the recursion limit": """
        made = device()
        worked = raised = 0
        def deeper(left):
            if left:
                return deeper(left - 1)
            made.add("saves", 1)
            made.status()
            made.flush(0)
        limit = sys.getrecursionlimit()
        for left in range(limit - 120, limit):
            try:
                deeper(left)
                worked += 1
            except RecursionError:
                raised += 1
        assert worked and raised, (worked, raised)
        made.set("saves", 7)
        """,
}
TOTALS = {
    "values from an exit handler": 7,
    "a fork": 7,
    "near the recursion limit": 7,
    "no file descriptors left": 7,
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_process(make: Make, state: Path, text: str, kind: str) -> None:
    script = f"PLAN = '''{text}'''\n{PRELUDE}{textwrap.dedent(SCRIPTS[kind])}"
    run([sys.executable, "-W", "error", "-c", script, state], cwd=state.parent)
    device = make()
    assert device._recorded(HERE) == {"saves": TOTALS[kind]}
    assert device.status().epoch == 0


def run(
    command: list[str | Path], cwd: Path, succeeds: bool = True, **options: object
) -> subprocess.CompletedProcess[str]:
    options = {"env": tracked_environment(), **options}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=cwd, check=False, **options
    )  # type: ignore[call-overload]
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0 or not succeeds, done.stderr
    return done  # type: ignore[no-any-return]


def test_no_environment_at_all(state: Path, text: str) -> None:
    script = f"PLAN = '''{text}'''\n{PRELUDE}\nmade = device()\nmade.add('saves')\nassert made.close()"
    run([sys.executable, "-c", script, state], cwd=Path("/"), env={})


@pytest.fixture
def noted(make: Make, state: Path) -> Path:
    """A state file whose status has something beyond ASCII."""
    device = make()
    device.add("nothing")
    device.report(HERE)
    device.close()
    return state


def test_standard_output_is_closed(noted: Path) -> None:
    for redirection in (">&-", ">&- 2>&-", "| true"):
        command = f'"{sys.executable}" -m reticent device status "{noted}" {redirection}'
        run(["bash", "-c", command], cwd=noted.parent, succeeds=False)


def test_a_terminal_without_unicode(noted: Path) -> None:
    plain = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for settings in (plain, {**plain, "PYTHONIOENCODING": "ascii"}):
        for verb in ("status", "receipt"):
            command: list[str | Path] = [sys.executable, "-m", "reticent", "device", verb, noted]
            done = run(command, cwd=noted.parent, env={**tracked_environment(), **settings})
            assert "app-usage" in done.stdout


# Folders


def test_the_working_folder_is_gone(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert "give an absolute path" in make(path="state.db").status().problem
    device = make()
    device.add("saves")
    assert device.report(HERE) is not None


def test_the_host_goes_to_another_folder(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    device, asked_later = make(path="state.db"), make(path="later.db", consent="unset")
    device.add("saves", 3)
    monkeypatch.chdir(tmp_path / "there")
    device.add("saves", 4)
    assert device._recorded(HERE) == {"saves": 7}
    assert asked_later.set_consent("granted")
    assert (device.status().epoch, os.listdir(".")) == (0, [])
    assert (tmp_path / "here" / "later.db").exists()


def test_a_umask_of_zero(make: Make, state: Path, clock: ManualClock) -> None:
    before = os.umask(0)
    try:
        device = make(transport=RecordingTransport())
        device.add("saves")
        clock.advance(2 * SECONDS)
        assert device.flush() == 1
        device.set_consent("local")
        assert {file.stat().st_mode & 0o777 for file in state.parent.iterdir()} == {0o600}
    finally:
        os.umask(before)


def test_no_more_threads(make: Make, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    import threading

    from reticent.device import process

    def fail(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    transport = RecordingTransport()
    device = make(transport=transport)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        patch.setattr(process, "start_new_thread", fail)
        device.start()
        device.add("saves", 3)
        clock.advance(2 * SECONDS)
        assert device.flush() == 0
        device.add("saves", 7)
        assert device.close()
    assert make()._recorded(HERE + 2) == {"saves": 7}


def test_an_exit_that_cannot_be_watched_keeps_no_value_from_the_file(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reticent.device import process

    device = make()
    with monkeypatch.context() as patch:
        patch.setattr(process, "_watch_exit_of_child", lambda: 1 / 0)
        device.add("saves", 3)
    device.add("saves", 4)
    deadline = time.monotonic() + 10
    while device._session and device._session.has_pending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert make()._recorded(HERE) == {"saves": 7}


# Clocks


@pytest.mark.parametrize("now", [0.0, 2.0**32, 1e12], ids=["1970", "2106", "33658"])
def test_a_clock_that_stands(make: Make, now: float) -> None:
    clock = ManualClock(now)
    device = make(clock=clock, transport=RecordingTransport())
    device.add("saves")
    assert device.report(device.current_round) is not None
    clock.advance(SECONDS + 60)
    assert device.flush() == 1
    status = device.status()
    assert (status.accepted, status.notes) == (1, {})
    assert "accepted" in str(status)
    assert str(device.receipt())
    assert device.receipt().html()
    assert str(device.preview())


def test_a_clock_before_1970(make: Make) -> None:
    device = make(clock=ManualClock(-1e9))
    device.add("saves")
    assert device.save()
    assert device.report() is None
    assert device.report(device.current_round) is None
    assert device.status().notes == {"bad-round": 2, "late-value": 1}


def test_a_clock_that_goes_back(make: Make, clock: ManualClock) -> None:
    transport = RecordingTransport()
    device = make(transport=transport)
    for days in (1, -30, 2, -1000, 1001, -1):
        clock.advance(days * 86_400)
        device.add("saves")
        device.flush()
    sent = [(body.plan, body.round) for body in transport.reports]
    assert len(sent) == len(set(sent)) > 0


@pytest.mark.parametrize("now", [float("nan"), float("inf"), 1e300, None, "now"])
def test_a_clock_that_fails_at_construction(make: Make, now: object, state: Path) -> None:
    with pytest.raises(ParameterError, match="clock"):
        make(clock=lambda: now)
    assert not state.exists()


def test_a_clock_that_fails_later(make: Make) -> None:
    times: list[object] = [clock_in().now] * 50
    device = make(clock=lambda: times[0], transport=RecordingTransport())
    device.start()
    for now in (float("nan"), None, 1e300, float("-inf")):
        times[0] = now
        device.add("saves", 3)
        assert device.report() is None
        device.flush(0)
        device.pause()
        assert str(device.status())
        assert str(device.receipt())
    times[0] = clock_in().now
    assert "internal" in device.status().notes
    device.set("saves", 7)
    assert device._recorded(HERE) == {"saves": 7}
