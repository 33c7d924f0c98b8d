"""
The sending path of two processes at every interleaving, and at every sync.

Each statement that one device runs on the state file is a place at which another process may act, before or
after it. SQLite lets one writer in at a time, so between `BEGIN IMMEDIATE` and `COMMIT` the other one is
refused; everywhere else it does all of its work at once.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.shared.devices import HERE, SECONDS, InFile, Make, clock_in
from tests.shared.state_files import damage, what_is_in

from reticent.device import Accepted, Device, Outcome, Policy, Rejected, Retry, StateFile
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport

Act = Callable[[Device], object]

POLICY = Policy.unlimited()


class Stepping:
    """Counts the statements of one device's connections, and calls `step` before the n-th."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[str] = []
        self.place, self.step = -1, lambda: None
        self.watching = False
        plain = StateFile.connect

        def connect(path: str, patience: float) -> Any:
            return Watched(plain(path, patience), self if self.watching else None)

        monkeypatch.setattr(StateFile, "connect", staticmethod(connect))

    def before(self, statement: str) -> None:
        self.statements.append(statement)
        if len(self.statements) == self.place:
            step, self.step, self.watching = self.step, lambda: None, False
            step()
            self.watching = True


class Watched:
    """A connection whose statements are counted. It never waits: the one it would wait for is in this thread."""

    def __init__(self, connection: sqlite3.Connection, stepping: Stepping | None) -> None:
        self._connection, self._stepping = connection, stepping

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if self._stepping is not None:
            self._stepping.before(sql)
        if sql.startswith("PRAGMA busy_timeout"):
            sql = "PRAGMA busy_timeout = 0"
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def prepare(plan: Plan, state: Path) -> None:
    """A state file with a report that waits and was not told."""
    clock = clock_in(HERE)
    with Device(plan, state, consent="granted", clock=clock, policy=POLICY) as device:
        clock.now = clock_in(HERE + 2).now
        device.flush()
    state.chmod(0o600)


class Scene:
    """A state file with a report that waits, a device that sends it, and another one that acts meanwhile."""

    def __init__(self, plan: Plan, folder: Path, stepping: Stepping, outcome: Outcome | None = None) -> None:
        base = folder.parent / "base"
        if not base.exists():
            prepare(plan, base)
        self.state, self.stepping = folder / "state", stepping
        shutil.copy(base, self.state)
        self.clock = clock_in(HERE + 2)
        self.sent: list[bytes] = []
        self.wires = [Wire(self, outcome), Wire(self, None)]
        self.devices = []
        for watched, wire in zip((True, False), self.wires, strict=True):
            stepping.watching = watched
            self.devices.append(
                Device(plan, self.state, consent="granted", clock=self.clock, transport=wire, policy=POLICY)
            )
        stepping.watching, stepping.statements = True, []

    def close(self) -> None:
        for device in self.devices:
            device.close()


class Wire(RecordingTransport):
    """Looks into the file, from outside, at the moment that bytes would leave."""

    def __init__(self, scene: Scene, outcome: Outcome | None) -> None:
        super().__init__(outcomes=[outcome] if outcome else [])
        self.scene = scene
        self.seen: list[tuple[object, ...]] = []

    def send(self, body: bytes, timeout: float) -> Outcome:
        self.scene.sent.append(body)
        held = what_is_in(self.scene.state)
        lasting = sum(pause.through_round is None for pause in held.pauses.values())
        self.seen += [(kept.told, kept.attempts, lasting) for kept in held.waiting]
        return super().send(body, timeout)


@contextmanager
def scene(plan: Plan, folder: Path, stepping: Stepping, outcome: Outcome | None = None) -> Iterator[Scene]:
    folder.mkdir()
    made = Scene(plan, folder, stepping, outcome)
    try:
        yield made
    finally:
        stepping.watching = False
        made.close()


def send(device: Device) -> int:
    """What `flush` does, in this thread: what interleaves is chosen by the test alone."""
    assert device._session is not None
    transport = device._transport
    assert transport is not None
    with device._faults:
        device._session.answer_due()
        return device._session.send_due(transport, float("inf"), early=True)
    return 0


@pytest.fixture
def stepping(monkeypatch: pytest.MonkeyPatch) -> Stepping:
    """Sender and other act in one thread: it would wait for itself."""
    monkeypatch.setattr("reticent.device.session.LONGEST_SEND", -2.0)
    return Stepping(monkeypatch)


def every_place(plan: Plan, folder: Path, stepping: Stepping) -> int:
    stepping.place = -1
    with scene(plan, folder, stepping) as it:
        assert send(it.devices[0]) == 1
        return len(stepping.statements)


def meanwhile(
    plan: Plan, folder: Path, stepping: Stepping, act: Act, outcome: Outcome | None = None
) -> Iterator[Scene]:
    """One scene for each statement of sending, in the middle of which the other device has acted."""
    for place in range(1, every_place(plan, folder / "count", stepping) + 1):
        stepping.place = place
        with scene(plan, folder / f"at-{place}", stepping, outcome) as it:
            stepping.step = lambda it=it: act(it.devices[1])  # type: ignore[misc]
            send(it.devices[0])
            stepping.watching = False
            yield it


def states(it: Scene) -> list[tuple[str, int]]:
    return [(told.state, told.round) for told in it.devices[1].receipt().reports]


def test_two_processes_never_send_one_report_twice(plan: Plan, tmp_path: Path, stepping: Stepping) -> None:
    """The other one tries to send as well: whichever claims first, one copy leaves."""
    senders = set()
    for it in meanwhile(plan, tmp_path, stepping, send):
        assert len(it.sent) == 1
        assert states(it) == [("accepted", HERE + 1)]
        senders.add(len(it.wires[0].bodies))
    assert senders == {0, 1}, "each of them is first, somewhere"


def test_what_another_process_has_tried_waits_for_its_time(
    plan: Plan, tmp_path: Path, stepping: Stepping
) -> None:
    """Both saw it due. The other one claimed it first and did not get through: it is not tried again at once."""

    def try_in_vain(device: Device) -> None:
        transport = device._transport
        assert isinstance(transport, RecordingTransport)
        transport.outcomes = [Retry(None, "refused")]
        send(device)

    for it in meanwhile(plan, tmp_path, stepping, try_in_vain):
        assert len(it.sent) == 1


def test_a_report_is_claimed_before_a_byte_leaves(plan: Plan, tmp_path: Path, stepping: Stepping) -> None:
    for it in meanwhile(plan, tmp_path, stepping, lambda device: device.status()):
        assert it.wires[0].seen == [(1, 1, 0)], "told, tried once, and not paused"


def test_a_pause_that_returned_before_the_claim_keeps_the_report(
    plan: Plan, tmp_path: Path, stepping: Stepping
) -> None:
    """
    Once `pause` has said that it is done, no byte leaves; one that left before is in the receipt.

    It does not say so where it comes between the lock that a sender holds and the sender's last byte.
    """
    outcomes = set()
    answers: list[bool] = []
    for it in meanwhile(plan, tmp_path, stepping, lambda device: answers.append(device.pause())):
        done = answers[-1]
        left = bool(it.sent)
        assert all(seen[2] == 0 for seen in it.wires[0].seen), "sent in spite of a pause that was there"
        assert left or it.devices[1].status().paused
        assert states(it) == [("accepted" if left else "waiting", HERE + 1)]
        outcomes.add((done, left))
    assert {(True, False), (True, True)} <= outcomes


@pytest.mark.parametrize(
    "outcome", [Accepted(), Rejected("late"), Retry(None, "refused")], ids=lambda it: type(it).__name__
)
def test_what_left_is_in_the_receipt_after_forget(
    plan: Plan, tmp_path: Path, stepping: Stepping, outcome: Outcome
) -> None:
    """`forget` drops what was not told. Whatever may have been told stays, and is never sent again."""
    answers: list[bool] = []
    for it in meanwhile(plan, tmp_path, stepping, lambda device: answers.append(device.forget()), outcome):
        assert len(it.sent) <= 1
        assert [number for _, number in states(it)] == [HERE + 1] * len(it.sent)
        if answers[-1]:
            assert all(state != "waiting" for state, _ in states(it))
            it.clock.advance(120)
            send(it.devices[1])
            assert len(it.sent) <= 1, "forgotten, and sent all the same"
    assert set(answers) == {True, False}, "it was let in, and refused while the other one wrote"


def test_an_outcome_is_entered_for_the_report_that_it_is_of(
    plan: Plan, tmp_path: Path, stepping: Stepping
) -> None:
    """After `forget` another report may stand in the same round: an old answer does not settle it."""

    def forget_and_answer(device: Device) -> None:
        if device.forget():
            state = device._session.file.path  # type: ignore[union-attr]
            damage(state, "reports", {"id": "zeroblob(16)", "state": "'waiting'", "attempts": "0"})

    for it in meanwhile(plan, tmp_path, stepping, forget_and_answer):
        others = [kept.state for kept in what_is_in(it.state).reports.values() if kept.id == bytes(16)]
        assert others in ([], ["waiting"])


def test_values_recorded_anywhere_in_sending_are_kept_once(
    plan: Plan, tmp_path: Path, stepping: Stepping
) -> None:
    """The one that sends writes its own values along; those of the other are added, never replaced."""
    for it in meanwhile(
        plan, tmp_path, stepping, lambda device: (device.add("editor_seconds", 100), device.save())
    ):
        it.devices[0].add("editor_seconds", 5)
        it.devices[0].save()
        assert it.devices[1]._recorded(HERE + 2) == {"editor_seconds": 105}


# Syncs


class Syncs:
    """What is on the disk for certain when a report leaves: the statements that a durable commit covers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        plain = StateFile.connect

        def connect(path: str, patience: float) -> sqlite3.Connection:
            connection = plain(path, patience)
            connection.set_trace_callback(self.log.append)
            return connection

        monkeypatch.setattr(StateFile, "connect", staticmethod(connect))

    def send(self, body: bytes, timeout: float) -> Outcome:
        self.log.append("bytes leave")
        return Accepted()

    def check(self) -> None:
        """Report and claim are each committed under `synchronous = FULL` before the bytes leave."""
        end = self.log.index("bytes leave")
        changes = [at for at, line in enumerate(self.log[:end]) if line.startswith("INSERT INTO reports")]
        assert len(changes) >= 2, "the report, then that its bytes may have left"
        for at in changes:
            modes = [line for line in self.log[:at] if line.startswith("PRAGMA synchronous")]
            assert modes[-1] == "PRAGMA synchronous = FULL"
            assert "COMMIT" in self.log[at:end]


@pytest.mark.parametrize("way", ["flush", "background", "report"])
def test_a_report_and_its_claim_are_synced_before_it_leaves(
    device_of: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    syncs = Syncs(monkeypatch)
    device = device_of(transport=None if way == "report" else syncs)
    device.add("editor_seconds", 5)
    clock.advance(2.85 * SECONDS)  # the report of the round before last is due, wherever its place is
    if way == "report":
        device.flush()  # makes it, and has no way to send it
        assert device.report(HERE + 1) is not None
        syncs.send(b"", 0)  # by the host
    elif way == "flush":
        assert device.flush() == 1
    else:
        device._send_soon()
    syncs.check()


def test_this_would_see_a_claim_that_is_not_synced(
    device_of: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    device = device_of(transport=syncs)
    clock.advance(2 * SECONDS)
    device.flush()
    syncs.log = [line.replace("FULL", "NORMAL") for line in syncs.log]
    with pytest.raises(AssertionError):
        syncs.check()


def test_the_folder_is_synced_after_a_new_file_has_its_name(
    device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rename is followed by a sync of the folder before the next, and before the file is used."""
    calls: list[str] = []

    def watch(name: str) -> None:
        plain = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if name != "fsync":
                calls.append(name)
            elif os.path.isdir(f"/proc/self/fd/{arguments[0]}"):
                calls.append("sync")
            return plain(*arguments, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("rename", "replace", "fsync"):
        watch(name)
    plain = StateFile.connect

    def connect(path: str, patience: float) -> sqlite3.Connection:
        calls.append("use")
        return plain(path, patience)

    monkeypatch.setattr(StateFile, "connect", staticmethod(connect))
    device_of().close()
    assert calls == ["replace", "sync", "use", "replace", "sync"], (
        "the last two are for the copy of the limits"
    )
    calls.clear()
    state.write_bytes(bytes(len(state.read_bytes())))
    device_of().close()
    assert [call for call in calls if call != "rename"] == [
        "sync",
        "replace",
        "sync",
        "use",
        "replace",
        "sync",
    ]
    assert calls[0] == "rename"


# Time


def test_a_pause_keeps_its_rounds_when_the_clock_goes_back(
    device_of: Make, clock: ManualClock, in_file: InFile
) -> None:
    """Paused in one round, resumed "before" it: the round in which it was paused is not answered."""
    device = device_of()
    clock.advance(2 * SECONDS)
    device.pause()
    clock.advance(-SECONDS)
    device.resume()
    assert [(pause.from_round, pause.through_round) for pause in in_file().pauses.values()] == [
        (HERE + 2, HERE + 2)
    ]
    clock.advance(2 * SECONDS)
    assert device.report(HERE + 2) is None
    clock.advance(SECONDS)
    assert device.report(HERE + 3) is not None


def test_a_second_pause_in_an_earlier_round_keeps_the_first(device_of: Make, clock: ManualClock) -> None:
    device = device_of()
    clock.advance(3 * SECONDS)
    device.pause()
    device.resume()
    clock.advance(-2 * SECONDS)
    device.pause()
    device.resume()
    clock.advance(2 * SECONDS)
    assert device.report(HERE + 1) is None
    assert device.report(HERE + 3) is None
    assert device.report(HERE + 2) is not None


def test_two_devices_told_to_come_later_do_not_come_together(
    device_of: Make, clock: ManualClock, in_file: InFile
) -> None:
    """`Retry-After` has jitter on top: of 20 draws from 2⁶⁴, two are equal with a chance of 10⁻¹⁷."""
    device = device_of(transport=RecordingTransport(outcomes=[Retry(600.0, "too-busy")] * 20))
    waits = set()
    for _ in range(20):
        clock.advance(SECONDS)
        device.flush()
        waits |= {
            kept.next_try - clock.now for kept in in_file().reports.values() if kept.next_try > clock.now
        }
    assert len(waits) >= 18
    assert all(600 <= wait <= 615 for wait in waits)
