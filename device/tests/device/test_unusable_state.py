"""A state that cannot be used makes a silent device: telemetry does not decide whether a program starts."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from reticent.device import Device, Policy
from reticent.device.statefile import StateFile
from reticent.errors import StateError
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport

Trouble = Callable[[Path], "Iterator[Path]"]


@contextmanager
def a_missing_folder(folder: Path) -> Iterator[Path]:
    yield folder / "missing" / "state"


@contextmanager
def a_folder_in_its_place(folder: Path) -> Iterator[Path]:
    (folder / "state").mkdir()
    yield folder / "state"


@contextmanager
def another_programs_file(folder: Path) -> Iterator[Path]:
    (folder / "state").write_text("[server]\nport = 8000\n")
    yield folder / "state"


@contextmanager
def a_lock_of_another_program(folder: Path) -> Iterator[Path]:
    Device(folder / "plan.toml", folder / "state", consent="granted", policy=Policy.unlimited()).close()
    with closing(sqlite3.connect(folder / "state", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield folder / "state"


@contextmanager
def a_name_that_no_file_can_have(folder: Path) -> Iterator[Path]:
    yield folder / ("x" * 300)


@contextmanager
def no_sqlite(folder: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "reticent.device.session", None)
        yield folder / "state"


TROUBLES = {
    trouble.__name__: trouble
    for trouble in (
        a_missing_folder,
        a_folder_in_its_place,
        another_programs_file,
        a_lock_of_another_program,
        a_name_that_no_file_can_have,
        no_sqlite,
    )
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateFile.__init__, "__defaults__", (0.1,))  # seconds to wait for a lock


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_the_program_goes_on(
    trouble: Callable[..., Trouble], plan_text: str, tmp_path: Path, clock: ManualClock
) -> None:
    plan = Plan.from_toml(plan_text)
    (tmp_path / "plan.toml").write_text(plan_text)
    transport = RecordingTransport()
    with trouble(tmp_path) as state:  # type: ignore[attr-defined]

        def device(debug: bool = False) -> Device:
            policy = Policy.unlimited()
            return Device(
                plan, state, consent="granted", clock=clock, transport=transport, policy=policy, debug=debug
            )

        with pytest.raises((StateError, ImportError)):
            device(debug=True)
        with device() as silent:
            silent.add("editor_seconds", 5)
            clock.advance(3 * 21_600)
            status = silent.status()
            assert not status.active
            assert status.problem in status.reasons
            assert status.problem
            assert silent.receipt().problem == status.problem
            assert silent.report() is None
            assert silent.flush() == 0
            assert silent.save()
            assert not silent.pause()
            assert not silent.forget()
            assert not silent.set_consent("granted")
    assert transport.bodies == []


def test_a_device_comes_back_when_its_folder_does(plan_text: str, tmp_path: Path, clock: ManualClock) -> None:
    transport, state = RecordingTransport(), tmp_path / "later" / "state"
    plan = Plan.from_toml(plan_text)
    device = Device(
        plan, state, consent="granted", clock=clock, transport=transport, policy=Policy.unlimited()
    )
    assert "expected a folder" in device.status().problem
    state.parent.mkdir()
    device.flush()
    assert device.status().problem == ""
    assert device.status().active
    clock.advance(2 * 21_600)
    assert device.flush() == 1
    device.close()


def test_a_no_that_cannot_be_kept_holds_in_this_program(
    plan_text: str, tmp_path: Path, clock: ManualClock
) -> None:
    state = tmp_path / "later" / "state"
    plan = Plan.from_toml(plan_text)
    device = Device(plan, state, consent="granted", clock=clock, policy=Policy.unlimited())
    assert not device.set_consent("denied"), "it is not on disk"
    assert device.consent == "denied"
    state.parent.mkdir()
    device.flush()
    assert not state.exists()
    device.add("editor_seconds", 5)
    assert not device.status().active
    device.close()


def test_a_lock_on_the_folder_is_nothing_to_a_device(
    plan_text: str, tmp_path: Path, clock: ManualClock
) -> None:
    """Another user, who can read the folder, can lock it, but not a file that only its owner can open."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        plan = Plan.from_toml(plan_text)
        device = Device(plan, tmp_path / "state", consent="granted", clock=clock, policy=Policy.unlimited())
        assert device.status().active
        device.close()
    finally:
        os.close(descriptor)
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())


PROGRAM = """
import sys
from reticent.device import Device, Policy
sys.stdin.readline()
device = Device("plan.toml", "state", consent="granted", policy=Policy.unlimited())
device.add("editor_seconds", 1)
if device.status().problem:
    print(device.status().problem)
device.close()
"""


def started_at_once(count: int, folder: Path) -> tuple[list[str], float]:
    """What programs that start in one moment say, and how much of what they added is in the file."""
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(count)
    ]
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    said = [text for program in programs if (text := program.communicate(timeout=120)[0])]
    assert all(program.returncode == 0 for program in programs)
    with closing(Device.open(folder / "state")) as device:
        values = device._recorded(device.current_round)
    return said, float(values["editor_seconds"])


@pytest.mark.parametrize("count", [12, pytest.param(150, marks=pytest.mark.soak)])
def test_programs_that_start_at_once(count: int, plan_text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(plan_text)
    said, total = started_at_once(count, tmp_path)
    assert total == count - len(said), "who says nothing has recorded"
    assert not [text for text in said if "Traceback" in text]
    if count < 20:
        assert said == []
