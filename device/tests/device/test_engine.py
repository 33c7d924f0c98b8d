"""The device as functions of its state: what they depend on, and that the file holds what they return."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, InFile, Make
from tests.shared.state_files import LIVES, PLANS, Life, what_is_in

import reticent.device
from reticent.device import engine
from reticent.device.engine import Moment
from reticent.device.quarantine import read_limits
from reticent.device.state import DeviceState, RunFacts
from reticent.testing import ManualClock

PURE = ("state", "engine", "consent", "plans", "rounds", "ledger", "outbox", "totals")
OUTSIDE = {
    "os",
    "io",
    "time",
    "datetime",
    "random",
    "secrets",
    "threading",
    "sqlite3",
    "pathlib",
    "socket",
    "fcntl",
}
IMPURE = {
    "session",
    "statefile",
    "schema",
    "quarantine",
    "locks",
    "process",
    "device",
    "exchange",
    "faults",
    "backlog",
}


@pytest.mark.parametrize("name", PURE)
def test_what_happens_to_a_state_has_no_clock_file_lock_or_thread(name: str) -> None:
    tree = ast.parse((Path(reticent.device.__file__).parent / f"{name}.py").read_text())
    types_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in types_only:
            imported.add(node.module.split(".")[0])
            parts = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            imported |= {part.removeprefix("reticent.device.") for part in parts}
    assert imported & (OUTSIDE | IMPURE) == set()


def moment_of(device: reticent.device.Device, round_number: int, secret: bytes = bytes(range(32))) -> Moment:
    return Moment(device._settings, (round_number + 0.5) * SECONDS, secret)


def test_an_event_changes_nothing_but_what_it_returns(device_of: Make, in_file: InFile) -> None:
    device = device_of()
    device.add("editor_seconds", 5)
    device.save()
    before = replace(in_file(), run=RunFacts(consent="granted"))
    again = replace(in_file(), run=RunFacts(consent="granted"))
    later = moment_of(device, HERE + 2)
    for event in (engine.answered_due, engine.forgotten, engine.paused, engine.begun):
        assert event(before, later) == event(again, later) != before or event is engine.begun
        assert before == again, event


def test_a_new_secret_comes_with_the_moment(device_of: Make, in_file: InFile) -> None:
    device = device_of()
    state = replace(in_file(), run=RunFacts(consent="granted"))
    forgotten = engine.forgotten(state, moment_of(device, HERE + 1, b"new" + bytes(29)))
    assert forgotten.secret == b"new" + bytes(29)
    assert (forgotten.epoch, forgotten.silent_through) == (1, HERE + 1)
    assert state.secret != forgotten.secret


@pytest.mark.parametrize("life", LIVES)
def test_the_file_holds_what_the_events_returned(life: str, tmp_path: Path) -> None:
    """After each flush: what the program goes by is what is read from the file."""
    plan, lead = LIVES[life]
    state = tmp_path / "state"
    one = Life(PLANS[plan], state)
    seen: list[DeviceState] = []
    flush = one.device.flush

    def looked(timeout: float = 5.0) -> int:
        sent = flush(timeout)
        assert one.device._session is not None
        seen.append(one.device._session.file.read())
        assert replace(seen[-1], run=RunFacts()) == what_is_in(state)
        return sent

    one.device.flush = looked  # type: ignore[method-assign]
    lead(one)
    assert one.device.close()
    assert len(seen) >= 3
    assert len({len(state.reports) for state in seen}) > 1


def test_a_change_by_another_program_is_seen(device_of: Make, clock: ManualClock, in_file: InFile) -> None:
    """What is read is kept for the next look, until another connection has written."""
    one, other = device_of(), device_of()
    assert one._session is not None
    held = one._session.file.read()
    assert one._session.file.read() is held
    other.add("editor_seconds", 5)
    assert other.save()
    assert one._session.file.read().totals == in_file().totals == {(HERE, "editor_seconds"): "5"}


def test_the_second_copy_of_the_limits_knows_a_choice_for_sampled_answers(tmp_path: Path) -> None:
    """It is what is counted where the file is damaged, so it is written before the change that raises it."""
    life = Life(PLANS["sampled"], tmp_path / "state")
    assert life.device.set_consent("granted")
    copy, _ = read_limits(str(tmp_path / "state")) or (None, 0)
    assert copy == what_is_in(tmp_path / "state").limits
    assert copy is not None
    assert copy.sampled
    life.device.close()


def test_a_window_answered_under_local_is_wiped_with_its_report(tmp_path: Path) -> None:
    state = tmp_path / "state"
    life = Life(PLANS["sampled"], state)
    assert life.device.set_consent("local")
    while not what_is_in(state).reports:
        life.use()
    assert any(window.round is not None for window in what_is_in(state).windows.values())
    assert life.device.set_consent("denied")
    assert what_is_in(state).windows == what_is_in(state).reports == {}
    life.device.close()
