"""Upgrades are a promise: every layout ever written is opened, and what it holds survives, also a crash half-way."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.shared import layouts
from tests.shared.state_files import ANYWHERE, LIVES, account, damage

from reticent.device import Device, schema
from reticent.device.statefile import StateFile
from reticent.errors import StateError
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport

HERE = Path(__file__).parent / "fixtures"
STEPS = schema.STEPS
OLD = [folder / name for folder in sorted(HERE.glob("layout-*")) for name in LIVES]


@pytest.fixture(params=OLD, ids=lambda path: f"{path.parent.name}-{path.name}")
def old(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def unpack(old: Path, state: Path) -> bytes:
    content = gzip.decompress(old.with_name(f"{old.name}.db.gz").read_bytes())
    state.write_bytes(content)
    state.chmod(0o600)
    return content


def told(old: Path) -> dict[str, Any]:
    """What a device on it said, sent and answered when the file was made."""
    noted: dict[str, Any] = json.loads(old.with_name(f"{old.name}.json").read_text())
    return noted


def plan_of(old: Path) -> str:
    return old.with_name(f"{told(old)['plan']}.toml").read_text()


def assert_kept(before: object, after: object, place: str = "") -> None:
    """Everything that was told is told again; a later version may have more to say."""
    if isinstance(before, dict):
        assert isinstance(after, dict), place
        for key, value in before.items():
            assert_kept(value, after.get(key), f"{place}.{key}")
    else:
        assert after == before, place


def assert_same_device(old: Path, state: Path) -> None:
    noted = told(old)
    again = account(state, plan_of(old), noted["now"])
    assert_kept({key: noted[key] for key in again}, again)
    assert not [file.name for file in state.parent.iterdir() if "quarantined" in file.name]


@pytest.fixture
def later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, *layouts.STEPS))
    for name, table in layouts.TABLES.items():
        monkeypatch.setitem(schema.TABLES, name, table)


def layout(state: Path) -> int:
    with closing(sqlite3.connect(state)) as connection:
        return schema.layout_of(connection)


def content(state: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(state)) as connection:
        return layouts.content(connection)


def open_device(
    old: Path, state: Path, transport: RecordingTransport | None = None, debug: bool = False
) -> Device:
    plan, clock = Plan.from_toml(plan_of(old)), ManualClock(told(old)["now"])
    segment = {"os": "linux"}
    return Device(
        plan, state, clock=clock, policy=ANYWHERE, segment=segment, transport=transport, debug=debug
    )


# What was written before


def test_this_layout_has_its_files() -> None:
    """Without them, nothing would show that a later version opens what this one writes."""
    folders = [HERE / f"layout-{number}" for number in range(1, schema.known_layout() + 1)]
    assert sorted(HERE.glob("layout-*")) == folders
    for folder in folders:
        assert {file.name.split(".")[0] for file in folder.glob("*.db.gz")} >= LIVES.keys()


def test_the_files_hold_what_they_are_for(tmp_path: Path) -> None:
    """A secret, consent of four kinds, a pause, a ledger of two epochs, unsent reports, windows."""
    for folder in HERE.glob("layout-*"):
        noted = {name: told(folder / name) for name in LIVES}
        assert [noted[name]["consent"] for name in LIVES] == [
            "granted",
            "granted",
            "denied",
            "local",
            "granted",
        ]
        assert noted["paused"]["status"]["paused"]
        assert {entry["epoch"] for entry in noted["granted"]["receipt"]["losses"]} == {0, 1}
        assert noted["granted"]["status"]["waiting"] == len(noted["granted"]["sent"]) == 2
        assert [window["round"] is None for window in noted["windows"]["receipt"]["windows"]] == [False] * 3
        for one in noted.values():
            assert any(one["answers"]), "the secret shows in what is answered"


def test_a_file_is_opened_and_the_device_goes_on_as_it_would_have(old: Path, tmp_path: Path) -> None:
    unpack(old, tmp_path / "state")
    assert_same_device(old, tmp_path / "state")


@pytest.mark.parametrize(
    ("name", "change", "consent"),
    [
        ("granted", ("version = 1", "version = 2"), "granted"),
        ("granted", ("flip = 0.2", "flip = 0.3"), "granted"),
        ("granted", ("flip = 0.2", "flip = 0.15"), "unset"),
        ("granted", ("epsilon = 1.0", "epsilon = 1.5"), "unset"),
        ("windows", ("version = 1", "version = 2"), "unset"),
    ],
)
@pytest.mark.parametrize("folder", ["layout-1", "layout-2"])
def test_a_choice_with_the_figures_that_were_first_written_holds_for_a_plan_that_asks_no_more(
    folder: str, name: str, change: tuple[str, str], consent: str, tmp_path: Path
) -> None:
    """How long a window was is not in it: people are asked again."""
    old, state = HERE / folder / name, tmp_path / "state"
    unpack(old, state)
    text = plan_of(old).replace("version = 1", "version = 2")
    assert change[0] in plan_of(old)
    later = Plan.from_toml(text.replace(*change))
    with Device(later, state, clock=ManualClock(told(old)["now"]), policy=ANYWHERE) as device:
        assert device.consent == consent


def test_a_file_is_upgraded_by_a_later_version(old: Path, tmp_path: Path, later_version: None) -> None:
    state = tmp_path / "state"
    unpack(old, state)
    before = content(state)
    open_device(old, state).close()
    assert layout(state) == schema.known_layout() == 4
    assert content(state) == before
    with closing(sqlite3.connect(state)) as connection:
        assert connection.execute("SELECT count(*) FROM sizes").fetchone() == (len(before["reports"]),)
    assert_same_device(old, state)


def test_a_new_file_of_a_later_version_has_its_layout(tmp_path: Path, later_version: None) -> None:
    state = tmp_path / "state"
    old = HERE / "layout-1" / "granted"
    device = Device(Plan.from_toml(plan_of(old)), state, consent="granted", policy=ANYWHERE)
    device.close()
    assert layout(state) == 4
    open_device(old, state).close()


def test_looking_at_a_file_upgrades_it_too(tmp_path: Path, later_version: None) -> None:
    state = tmp_path / "state"
    old = HERE / "layout-1" / "granted"
    unpack(old, state)
    with Device.open(state, clock=ManualClock(told(old)["now"])) as device:
        assert_kept(told(old)["receipt"], json.loads(json.dumps(device.receipt().to_dict())))
    assert layout(state) == 4


def test_an_upgrade_is_synced_and_in_the_file_itself_at_once(
    tmp_path: Path, later_version: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only in the log: an older version looks at the file's header before it connects."""
    modes = []

    def ask(connection: sqlite3.Connection) -> None:
        layouts.STEPS[0](connection)
        modes.extend(connection.execute("PRAGMA synchronous").fetchall())

    monkeypatch.setattr(schema, "STEPS", (*STEPS, ask, layouts.STEPS[1]))
    old, state = HERE / "layout-1" / "granted", tmp_path / "state"
    unpack(old, state)
    device = open_device(old, state)
    assert modes == [(2,)]
    assert int.from_bytes(state.read_bytes()[60:64], "big") == 4
    device.close()


# A crash


def die_at(number: int, opening: Callable[[], object]) -> bool:
    """Whether a process that opens a file died before its statement of this number."""
    child = os.fork()
    if child == 0:
        statements = 0

        def count(_: str) -> None:
            nonlocal statements
            if statements == number:
                os._exit(9)
            statements += 1

        connect = StateFile.connect

        def watched(path: str, patience: float) -> sqlite3.Connection:
            connection = connect(path, patience)
            connection.set_trace_callback(count)
            return connection

        StateFile.connect = staticmethod(watched)  # type: ignore[method-assign]
        try:
            opening()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def die_at_each_statement(old: Path, state: Path) -> list[int]:
    """The layout after each death; what the file holds is whole each time."""
    original = unpack(old, state)
    before, old_tables = content(state), tables(state)
    found: list[int] = []
    for number in range(1000):
        for file in state.parent.glob("state*"):
            file.unlink()
        state.write_bytes(original)
        if not die_at(number, lambda: open_device(old, state)):
            break
        after = layout(state)
        found.append(after)
        assert after in (1, 4), "half an upgrade"
        assert tables(state).keys() == (
            old_tables.keys() if after == 1 else {*old_tables, "presence", "limits", "sizes"}
        )
        assert (tables(state) == old_tables) == (after == 1), "half an upgrade"
        assert content(state)["device"][0][:4] == before["device"][0][:4], "another secret"
        for table in ("ledger", "epochs", "consent", "windows", "reports", "totals"):
            assert content(state)[table] == before[table], table
        assert not list(state.parent.glob("*quarantined*"))
    return found


def tables(state: Path) -> dict[str, str]:
    with closing(sqlite3.connect(state)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", ["granted", "windows"])
def test_killed_before_any_statement_it_has_the_old_layout_or_the_new_one(
    name: str, tmp_path: Path, later_version: None
) -> None:
    old, state = HERE / "layout-1" / name, tmp_path / "state"
    found = die_at_each_statement(old, state)
    assert found == sorted(found)
    assert found.count(1) > len(layouts.STEPS) + 5
    assert found.count(4) > 5
    assert_same_device(old, state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_upgrade_in_two_transactions_would_be_seen(
    tmp_path: Path, later_version: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        layouts.STEPS[1](connection)

    monkeypatch.setattr(schema, "STEPS", (*STEPS, layouts.STEPS[0], hasty))
    old = HERE / "layout-1" / "granted"
    with pytest.raises(AssertionError):
        die_at_each_statement(old, tmp_path / "state")


# What is newer, and what cannot be upgraded


def snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


def make_newer(state: Path) -> None:
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.known_layout() + 1}")
        connection.execute("ALTER TABLE device RENAME TO devices")


def test_a_newer_file_is_left_alone(old: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    unpack(old, state)
    make_newer(state)
    state.chmod(0o640)
    before = snapshot(tmp_path)
    for opening in (lambda: open_device(old, state, debug=True), lambda: Device.open(state)):
        with pytest.raises(StateError, match=r"written by a newer version of reticent .*nothing was changed"):
            opening()
    assert snapshot(tmp_path) == before
    assert state.stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_newer_by_its_log_is_left_alone(tmp_path: Path) -> None:
    """A newer version was killed before its upgrade was copied from the log into the file."""
    old, state = HERE / "layout-1" / "granted", tmp_path / "state"
    unpack(old, state)
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA user_version = {schema.known_layout() + 1}")
        assert int.from_bytes(state.read_bytes()[60:64], "big") == 1
        connection.execute("UPDATE consent SET in_force = NULL")  # opening it would bring a choice into force
        before = content(state)
        with pytest.raises(StateError, match="newer version"):
            open_device(old, state, debug=True)
        assert content(state) == before
    assert layout(state) == schema.known_layout() + 1
    assert not list(tmp_path.glob("*quarantined*"))


def test_a_device_stops_when_its_file_becomes_newer(tmp_path: Path) -> None:
    old, state = HERE / "layout-1" / "granted", tmp_path / "state"
    unpack(old, state)
    transport = RecordingTransport()
    device = open_device(old, state, transport)
    device.save()
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.known_layout() + 1}")
    before = content(state)
    device.add("saves", 3)
    assert not device.save()
    assert device.report() is None
    assert device.flush() == 0
    assert not device.forget()
    assert not device.pause()
    assert not device.set_consent("denied")
    assert "newer version of reticent" in str(device.status())
    assert device.status().notes["state-newer"] > 0
    device.close()
    assert content(state) == before
    assert transport.bodies == []


@pytest.mark.parametrize("fault", [RuntimeError("a slip"), sqlite3.IntegrityError("NOT NULL")])
def test_a_step_that_fails_changes_nothing(
    fault: Exception, tmp_path: Path, later_version: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above all it is no reason for a new secret."""

    def slip(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM ledger")
        raise fault

    monkeypatch.setattr(schema, "STEPS", (*STEPS, layouts.STEPS[0], slip))
    old, state = HERE / "layout-1" / "granted", tmp_path / "state"
    unpack(old, state)
    before = content(state)
    with pytest.raises(StateError, match=r"cannot be upgraded to layout 4 .*nothing was changed"):
        open_device(old, state, debug=True)
    assert (layout(state), content(state)) == (1, before)
    assert not list(tmp_path.glob("*quarantined*"))


def test_a_step_that_leaves_a_broken_file_changes_nothing(
    tmp_path: Path, later_version: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        schema, "STEPS", (*STEPS, lambda connection: None, layouts.STEPS[0])
    )  # "sizes" is not made
    old, state = HERE / "layout-1" / "granted", tmp_path / "state"
    unpack(old, state)
    before = content(state)
    with pytest.raises(StateError, match="cannot be upgraded"):
        open_device(old, state, debug=True)
    assert (layout(state), content(state)) == (1, before)


def test_the_file_of_another_plan_is_not_upgraded(tmp_path: Path, later_version: None) -> None:
    old, state = HERE / "layout-1" / "granted", tmp_path / "state"
    unpack(old, state)
    other = plan_of(old).replace("app-usage", "other-app")
    with pytest.raises(StateError, match="holds the state of plan 'app-usage'"):
        Device(Plan.from_toml(other), state, policy=ANYWHERE, debug=True)
    assert layout(state) == 1


def test_an_old_file_that_was_broken_before_is_quarantined(tmp_path: Path, later_version: None) -> None:
    old, state = HERE / "layout-1" / "granted", tmp_path / "state"
    unpack(old, state)
    damage(state, "device", {"epoch": "epoch + 1"})
    device = open_device(old, state)
    reasons = [epoch.reason for epoch in device.receipt().epochs]
    device.close()
    assert any(reason.startswith("quarantined: corrupt") for reason in reasons), reasons
    assert layout(state) == 4
    assert list(tmp_path.glob("state.quarantined-*"))
