"""State files that are fresh, ours, foreign, locked, read-only or broken."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from tests.shared.devices import HERE, InFile, Make, with_epsilon
from tests.shared.state_files import change_in, damage, drop

from reticent.device import Device, Policy
from reticent.device.locks import ProcessLock
from reticent.device.schema import known_layout
from reticent.device.statefile import StateFile
from reticent.errors import StateError
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_fresh_file_is_private_and_says_whose_it_is(device_of: Make, state: Path, in_file: InFile) -> None:
    device = device_of()
    device.add("editor_seconds")
    for file in state.parent.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file
    assert names(state.parent) == {
        "state.db",
        "state.db-wal",
        "state.db-shm",
        "state.db-limits",
        "state.db-opening",
    }
    device.close()
    assert names(state.parent) == {"state.db", "state.db-limits", "state.db-opening"}
    with closing(sqlite3.connect(state)) as connection:
        pragmas = ("application_id", "user_version", "journal_mode")
        told = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    assert told == [0x72657469, known_layout(), "wal"]
    assert len(in_file().secret) == 32


def test_an_empty_file_is_fresh(device_of: Make, state: Path) -> None:
    state.touch(0o644)
    device = device_of()
    assert device.report(HERE) is not None
    assert device.status().epoch == 0
    assert state.stat().st_mode & 0o777 == 0o600


def test_secrets_differ(plan: Plan, tmp_path: Path, clock: ManualClock) -> None:
    reports = set()
    for number in range(3):
        with Device(
            plan, tmp_path / str(number), consent="granted", clock=clock, policy=Policy.unlimited()
        ) as device:
            report = device.report(HERE)
            assert report is not None
            reports.add(report.id)
    assert len(reports) == 3


def test_a_file_others_can_read_is_tightened_and_noted(device_of: Make, state: Path) -> None:
    device_of().close()
    state.chmod(0o644)
    device = device_of()
    assert state.stat().st_mode & 0o777 == 0o600
    assert device.status().notes == {"state-tightened": 1}


def sql(state: Path, *statements: str) -> None:
    connection = sqlite3.connect(state, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def rewrite(state: Path, change: Callable[[bytes], bytes]) -> None:
    state.write_bytes(change(state.read_bytes()))


def become_a_diary(state: Path) -> None:
    """The first page, with the header."""
    rewrite(state, lambda old: (b"Dear diary, " * 400)[:4096] + old[4096:])


def leave_a_log_alone(state: Path) -> None:
    state.with_name("state.db-wal").write_bytes(b"\x37\x7f\x06\x82" + b"x" * 5000)
    state.unlink()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "zeros in the middle": lambda state: rewrite(state, lambda old: old[:4096] + bytes(8192) + old[12288:]),
    "noise": lambda state: rewrite(
        state, lambda old: old[:100] + bytes((b * 31 + 7) % 256 for b in old[100:])
    ),
    "truncated": lambda state: rewrite(state, lambda old: old[: len(old) // 2]),
    "cut to a hundred bytes": lambda state: rewrite(state, lambda old: old[:100]),
    "nothing but zeros": lambda state: rewrite(state, lambda old: bytes(len(old))),
    "not a database": become_a_diary,
    "a table is missing": lambda state: drop(state, "totals"),
    "no row": lambda state: sql(state, "DELETE FROM device"),
    "a short secret": lambda state: damage(state, "device", {"secret": "x'00112233'"}),
    "a secret of zeros": lambda state: damage(state, "device", {"secret": "zeroblob(32)"}),
    "a secret of text": lambda state: damage(state, "device", {"secret": "'secret'"}),
    "a log without its database": leave_a_log_alone,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_broken_file_is_quarantined_and_never_redrawn_in_silence(
    how: str, device_of: Make, state: Path, clock: ManualClock, plan: Plan
) -> None:
    first = device_of()
    first.add("editor_seconds", 5)
    old = first.report(HERE)
    assert old is not None
    first_receipt = first.receipt()
    first.close()
    DAMAGE[how](state)
    with pytest.raises(StateError):
        Device.open(state, clock=clock)

    transport = RecordingTransport()
    device = device_of(transport=transport)
    assert "state.db.quarantined-1" in names(state.parent)
    assert device.consent == "unset", "the person is asked again"
    assert device.set_consent("granted")
    status, receipt = device.status(), device.receipt()
    assert status.epoch == 1
    assert status.notes["state-lost"] == 1
    assert receipt.epochs[-1].reason.startswith("quarantined: ")
    [lost] = [entry for entry in receipt.losses if entry.lost]
    assert (lost.metric, lost.epoch) == ("", 0)
    assert lost.loss == lost.lifetime >= first_receipt.total_lifetime
    assert lost.lifetime == inf, "there was no limit"
    device.add("editor_seconds", 5)
    for number in (HERE - 1, HERE):
        assert device.report(number) is None, "begun before the new secret"
    clock.advance(21_600)
    device.flush()
    assert transport.reports == []
    clock.advance(21_600)
    device.flush()
    assert [report.round for report in transport.reports] == [HERE + 1]


def test_each_quarantine_is_another_epoch(device_of: Make, state: Path, clock: ManualClock) -> None:
    for epoch in (1, 2, 3):
        device_of().close()
        become_a_diary(state)
        device = device_of()
        assert device.set_consent("granted")
        assert device.status().epoch == epoch
        assert {entry.epoch for entry in device.receipt().losses} == {epoch - 1, epoch}
        device.close()
    assert {f"state.db.quarantined-{epoch}" for epoch in (1, 2, 3)} <= names(state.parent)


def test_epochs_of_a_readable_file_go_on_from_there(device_of: Make, state: Path) -> None:
    device = device_of()
    device.forget()
    device.forget()
    device.close()
    damage(state, "device", {"secret": "x'00'"})
    device = device_of()
    assert device.set_consent("granted")
    assert device.status().epoch == 3
    assert {entry.epoch for entry in device.receipt().losses} == {2, 3}


def test_what_a_broken_file_held_is_counted_with_all_its_versions(
    device_of: Make, state: Path, clock: ManualClock, plan_text: str
) -> None:
    """Ten versions and a `forget`; the damage leaves the one row that sums them up."""
    for version in range(1, 11):
        device = device_of(with_epsilon(plan_text, version, f"1.{version}"))
        assert device.report(device.current_round) is not None
        clock.advance(21_600)
        device.close()
    device = device_of(with_epsilon(plan_text, 10, "1.10"))
    device.forget()
    before = device.receipt().total_lifetime
    device.close()
    drop(state, "totals")
    device = device_of(with_epsilon(plan_text, 10, "1.10"))
    assert device.receipt().total_loss == inf > before, "there was no limit"


def test_what_cannot_be_read_is_counted_as_all_that_the_policy_allowed(
    device_of: Make, state: Path, clock: ManualClock, plan: Plan
) -> None:
    """Nothing is left to tell then; a host may raise the limit by what it wants to allow in addition."""
    policy = replace(Policy.unlimited(), max_lifetime=30)
    device_of(policy=policy).close()
    become_a_diary(state)
    device = device_of(policy=policy)
    assert device.set_consent("granted")
    assert device.receipt().total_lifetime == device.receipt().total_loss == 30
    assert "what it held is unknown, so all that the policy ever allowed is counted" in str(device.receipt())
    [reason] = device.status().refused
    assert reason.endswith("the policy allows 30 (max_lifetime)")
    clock.advance(2 * 21_600)
    assert device.report() is None
    device.close()
    device = device_of(policy=replace(policy, max_lifetime=60))
    assert device.status().refused == ()
    assert 30 < device.receipt().total_lifetime < 60


@pytest.mark.parametrize("table", ["device SET held = held", "ledger SET lifetime = lifetime"])
def test_the_sum_of_what_is_held_cannot_change_unnoticed(device_of: Make, state: Path, table: str) -> None:
    device_of().close()
    sql(state, f"UPDATE {table} / 2")
    assert device_of().status().epoch == 1


def test_a_crash_between_setting_aside_and_making_is_no_fresh_start(device_of: Make, state: Path) -> None:
    device_of().close()
    state.rename(state.with_name("state.db.quarantined-1"))
    device = device_of()
    assert device.status().epoch == 1
    assert device.report(HERE) is None


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a database": lambda file: sql(
        file, "CREATE TABLE bookmarks (url TEXT)", "INSERT INTO bookmarks VALUES ('x')"
    ),
    "a config file": lambda file: file.write_text("[server]\nport = 8000\n"),
    "a long text": lambda file: file.write_bytes(b"Dear diary, " * 1000),
    "the beginning of a database": lambda file: file.write_bytes(b"SQLite format 3\x00" + bytes(40)),
}


@pytest.mark.parametrize("linked", [False, True], ids=["", "through a link"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_another_programs_file_is_left_alone(device_of: Make, state: Path, kind: str, linked: bool) -> None:
    """Its content, its mode, its name, and the folder it is in."""
    file = state.with_name("theirs") if linked else state
    FOREIGN[kind](file)
    file.chmod(0o664)
    if linked:
        state.symlink_to(file)
    before, present = (file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns), names(state.parent)
    with pytest.raises(StateError, match="another program's file"):
        device_of(debug=True)
    with pytest.raises(StateError):
        Device.open(state)
    assert (file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns) == before
    assert names(state.parent) == present
    assert state.is_symlink() == linked


def test_another_programs_file_in_the_place_of_ours_is_left_alone(device_of: Make, state: Path) -> None:
    """Values wait in memory until it is gone; the file that was ours is lost then."""
    device = device_of()
    state.unlink()
    FOREIGN["a long text"](state)
    before = state.read_bytes()
    device.add("editor_seconds", 5)
    assert device.report(HERE) is None
    assert not device.save()
    assert device.status().notes.keys() == {"state-broken"}
    assert state.read_bytes() == before
    state.unlink()
    assert device.save()
    assert device.status().epoch == 1


def test_another_plans_state_is_left_alone(device_of: Make, state: Path, plan_text: str) -> None:
    device_of().close()
    before = state.read_bytes()
    with pytest.raises(StateError, match="holds the state of plan 'app-usage', not of 'other'"):
        device_of(Plan.from_toml(plan_text.replace('"app-usage"', '"other"')), debug=True)
    assert state.read_bytes() == before


def test_a_newer_layout_is_left_alone(device_of: Make, state: Path) -> None:
    device_of().close()
    sql(state, f"PRAGMA user_version = {known_layout() + 1}")
    with pytest.raises(StateError, match="newer version of reticent"):
        device_of(debug=True)


def test_a_locked_file_says_so(device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device_of().close()
    monkeypatch.setattr(StateFile.__init__, "__defaults__", (0.1,))  # seconds to wait for it
    connection = sqlite3.connect(state, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(StateError, match="locked by another process"):
            device_of(debug=True)
    finally:
        connection.close()
    assert device_of().status().epoch == 0


def test_a_file_is_not_opened_while_another_process_opens_one(
    device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StateFile.__init__, "__defaults__", (0.1,))  # seconds to wait for it
    with closing(ProcessLock(f"{state}-opening")) as lock:
        assert lock.take()
        with pytest.raises(StateError, match=r"locked by another process for 0\.1 s"):
            device_of(debug=True)
    assert names(state.parent) == {"state.db-opening"}
    assert device_of().status().epoch == 0


def test_a_broken_file_is_durably_set_aside_before_another_has_its_name(
    device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device_of().close()
    damage(state, "device", {"epoch": "7"})
    events: list[str] = []

    def recorded(name: str, call: Callable[..., None]) -> Callable[..., None]:
        return lambda *arguments: (events.append(name), call(*arguments))[1]

    for name in ("rename", "fsync", "replace"):
        monkeypatch.setattr(os, name, recorded(name, getattr(os, name)))
    device_of()
    of_file, of_limits = ["fsync", "replace", "fsync"], ["fsync", "replace", "fsync"]
    assert [event for event in events if event != "rename"] == [*of_file, *of_limits]
    assert events[0] == "rename"


def test_a_place_that_cannot_be_a_file(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(StateError, match="expected a regular file"):
        Device(plan, folder, consent="granted", policy=Policy.unlimited(), debug=True)
    with pytest.raises(StateError, match="expected a folder"):
        Device(plan, tmp_path / "missing" / "state", consent="granted", policy=Policy.unlimited(), debug=True)
    with pytest.raises(StateError, match="expected a regular file"):
        Device(plan, "/dev/null", consent="granted", policy=Policy.unlimited(), debug=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StateError):
        Device(plan, tmp_path / "dangling", consent="granted", policy=Policy.unlimited(), debug=True)


def test_a_file_deleted_under_a_device_is_a_new_epoch(
    device_of: Make, state: Path, clock: ManualClock
) -> None:
    device = device_of()
    device.add("editor_seconds", 5)
    for file in list(state.parent.iterdir()):
        file.unlink()
    device.add("editor_seconds", 6)
    assert device.status().epoch == 1
    assert device.receipt().epochs[-1].reason.startswith("quarantined: the state file was lost")
    assert device.report(HERE) is None
    clock.advance(2 * 21_600)
    assert device.report() is not None


def test_a_file_replaced_under_a_device_is_used_as_it_is(
    device_of: Make, state: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """A restored backup has the same secret: the same round is answered with the same bytes."""
    device = device_of()
    device.add("editor_seconds", 5)
    device.close()
    backup = tmp_path / "backup"
    shutil.copy(state, backup)
    device = device_of()
    first = device.report(HERE)
    for suffix in ("-wal", "-shm"):
        state.with_name(state.name + suffix).unlink()
    backup.rename(state)
    assert device.report(HERE) == first
    assert device.status().epoch == 0


def test_a_backup_from_the_middle_of_a_round_answers_under_the_same_id(
    device_of: Make, state: Path, tmp_path: Path
) -> None:
    """The limit the docs name: the bits may differ, the id does not, so a collector counts one of them."""
    device = device_of()
    device.close()
    shutil.copy(state, tmp_path / "backup")
    device = device_of()
    device.set("editor_seconds", 21_600)
    first = device.report(HERE)
    device.close()
    shutil.copy(tmp_path / "backup", state)
    second = device_of().report(HERE)
    assert first is not None
    assert second is not None
    assert (first.id, first.cohort) == (second.id, second.cohort)


def test_a_report_that_was_damaged_in_the_file_never_leaves(
    device_of: Make, clock: ManualClock, state: Path, in_file: InFile, transport: RecordingTransport
) -> None:
    device = device_of()
    clock.advance(2 * 21_600)
    device.flush()  # makes the report of the round before
    [(number, kept)] = in_file().reports.items()
    turned = replace(kept, bits=bytes([kept.bits[0] ^ 128]) + kept.bits[1:])
    change_in(state, lambda held: replace(held, reports={number: turned}))
    assert device.report() is None
    device = device_of(transport=transport)
    assert device.flush() == len(transport.bodies) == 0
    assert device.report() is None
    assert device.status().notes["report-damaged"]
    assert (device.status().waiting, device.status().expired) == (0, 1)


def test_receipts_are_summed_up_and_the_file_stays_small(
    plan: Plan, state: Path, clock: ManualClock, in_file: InFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Years in a few seconds: the count, the ledger and what was answered stay; what is opened does not grow."""
    monkeypatch.setattr("reticent.device.outbox.MOST_RECEIPTS", 20)
    transport = RecordingTransport()
    policy = Policy.unlimited()
    device = Device(plan, state, consent="granted", clock=clock, policy=policy, transport=transport)
    sizes = []
    for number in range(300):
        device.add("editor_seconds", 5_400 * (number % 5))
        clock.advance(21_600)
        if not number % 7:
            device.pause()
            device.resume()
        device.flush(timeout=30)
        sizes.append(len(in_file().reports) + len(in_file().pauses))
    assert max(sizes) < 20 + 64 + 20
    receipt, status = device.receipt(), device.status()
    accepted = len(transport.bodies)
    assert accepted > 200
    assert status.accepted == accepted == len({report.round for report in transport.reports})
    [past] = receipt.earlier
    assert past.reports + len(receipt.reports) == accepted
    assert (past.state, past.told, past.last_round < receipt.reports[0].round) == (
        "accepted",
        past.reports,
        True,
    )
    assert f"{past.reports:,} accepted" in str(receipt)
    assert f"{accepted} reports" in str(receipt)
    assert receipt.total_lifetime == device.receipt().total_lifetime > 0
    for number in (past.first_round, past.last_round, HERE):
        assert device.report(number) is None, "a round that is summed up is never answered again"
    device.add("editor_seconds", 9, round=past.first_round)
    device.save()
    assert past.first_round not in {number for number, _ in in_file().totals}
    losses = receipt.losses
    device.close()
    again = Device(plan, state, consent="granted", clock=clock, policy=policy)
    assert again.receipt().losses == losses
    assert again.receipt().earlier == receipt.earlier
    again.close()


def test_the_secret_is_not_shown_by_what_is_read_of_a_file(device_of: Make) -> None:
    """A traceback with local variables, or a log of them, would show it."""
    device = device_of()
    assert device._session is not None
    state = device._session.file.read()
    assert len(state.secret) == 32
    assert repr(state) == f"DeviceState(plan={state.plan!r}, epoch={state.epoch})"
