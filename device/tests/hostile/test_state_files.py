"""State files that are another's, damaged, or gone; device/README.md has the list."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.shared.devices import HERE
from tests.shared.hostile import picture
from tests.shared.state_files import what_is_in

from reticent.device import Device
from reticent.device.statefile import StateFile
from reticent.errors import StateError
from reticent.testing import ManualClock

Make = Callable[..., Device]

TABLES = "# Tables\n\n    CREATE TABLE device (\n        only INTEGER\n    )\n"


def database(file: Path) -> Path:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.execute("CREATE TABLE device (name TEXT)")
    file.chmod(0o664)
    return file


def beside(suffix: str) -> Callable[[Path], object]:
    return lambda state: state.with_name(state.name + suffix).write_text("Dear diary")


def make_newer(state: Path) -> None:
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("PRAGMA user_version = 99")


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a folder": lambda state: state.mkdir(),
    "a FIFO": os.mkfifo,
    "a link to nowhere": lambda state: state.symlink_to(state.with_name("nowhere")),
    "another program's database": database,
    "a link to another program's database": lambda state: state.symlink_to(
        database(state.with_name("theirs"))
    ),
    "a config file": lambda state: state.write_text("[server]\nport = 8000\n"),
    "a page that quotes our tables": lambda state: state.write_text(TABLES),
    "nothing, beside another program's -journal": beside("-journal"),
    "nothing, beside another program's -wal": beside("-wal"),
    "nothing, beside another program's -shm": beside("-shm"),
    "nothing, beside a folder named -wal": lambda state: state.with_name(state.name + "-wal").mkdir(),
}


def refuses(make: Make, state: object) -> None:
    with pytest.raises(StateError):
        make(path=state, debug=True)
    assert make(path=state).status().problem
    with pytest.raises(StateError):
        Device.open(state)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_not_ours_stays_as_it_is(make: Make, state: Path, kind: str) -> None:
    FOREIGN[kind](state)
    before = picture(state.parent)
    refuses(make, state)
    verdict = subprocess.run(
        [sys.executable, "-m", "reticent", "device", "status", state],
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )
    assert verdict.returncode in (1, 2)
    assert "Traceback" not in verdict.stderr
    assert picture(state.parent) == before


def test_a_hard_link_to_a_config_file(make: Make, state: Path) -> None:
    theirs = state.with_name("config.toml")
    theirs.write_text("[server]\nport = 8000\n")
    os.link(theirs, state)
    before = picture(state.parent)
    refuses(make, state)
    assert picture(state.parent) == before


def test_names_that_no_file_can_have(make: Make, state: Path) -> None:
    for place in ("/dev/null", f"{state}\0", f"{state}{'x' * 300}", state.with_name("nowhere") / "state.db"):
        refuses(make, place)
    assert picture(state.parent) == {}
    assert os.stat("/dev/null").st_mode & 0o777 == 0o666


def test_a_newer_layout(make: Make, state: Path) -> None:
    make().close()
    make_newer(state)
    before = picture(state.parent)
    refuses(make, state)
    assert picture(state.parent) == before


def test_a_file_that_another_program_has_locked(
    make: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make().close()
    monkeypatch.setattr(StateFile.__init__, "__defaults__", (0.1,))  # seconds to wait for it
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert "locked" in make().status().problem
    assert make().status().epoch == 0


# Ours, and damaged


def halve(state: Path) -> None:
    state.write_bytes(state.read_bytes()[: state.stat().st_size // 2])


def flip_the_secret(state: Path) -> None:
    secret = what_is_in(state).secret
    content = state.read_bytes()
    state.write_bytes(content.replace(secret, bytes([secret[0] ^ 1]) + secret[1:]))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut in half": halve,
    "a bit of the secret flipped": flip_the_secret,
    "nothing but zeros": lambda state: state.write_bytes(bytes(state.stat().st_size)),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_set_aside(make: Make, state: Path, kind: str) -> None:
    make().close()
    DAMAGE[kind](state)
    damaged = state.read_bytes()
    with pytest.raises(StateError):
        Device.open(state)
    assert state.read_bytes() == damaged
    device = make()
    assert device.status().epoch == 1
    assert device.status().notes["state-lost"] == 1
    assert device.report(HERE) is None, "a new secret answers no round that had begun"
    assert state.with_name("state.db.quarantined-1").read_bytes() == damaged


def test_an_empty_file(make: Make, state: Path) -> None:
    state.touch()
    assert make().status().epoch == 0


def test_files_beside_a_new_one(make: Make, state: Path) -> None:
    for suffix in (".new", ".new-wal", "-sending", ".quarantined", ".bak"):
        state.with_name(state.name + suffix).write_text("Dear diary")
    before = picture(state.parent)
    device = make()
    device.set_consent("denied")
    device.close()
    after = picture(state.parent)
    assert {name: after[name] for name in before} == before


def test_a_log_left_by_a_kill(make: Make, state: Path, clock: ManualClock, tmp_path: Path) -> None:
    device = make()
    device.add("saves", 7)
    assert device.save()
    (tmp_path / "copy").mkdir()
    for file in tmp_path.glob("state.db*"):
        shutil.copy(file, tmp_path / "copy")  # as it is on the disk when the process is killed
    killed = make(path=tmp_path / "copy" / "state.db")
    assert killed.report(HERE) == device.report(HERE)
    assert killed.status().epoch == 0


def test_a_hard_link_to_ours(make: Make, state: Path) -> None:
    device = make()
    device.add("saves", 7)
    report = device.report(HERE)
    device.close()
    os.link(state, state.with_name("second.db"))
    assert make(path=state.with_name("second.db")).report(HERE) == report


# While a device runs


def test_a_file_that_is_deleted(make: Make, state: Path) -> None:
    device = make()
    state.unlink()
    device.add("saves")
    assert device.save()
    status = device.status()
    assert (status.epoch, status.notes["state-lost"]) == (1, 1)
    assert device.report(HERE) is None


@pytest.mark.parametrize("kind", ["another program's file", "a folder"])
def test_a_file_that_is_replaced(make: Make, state: Path, kind: str) -> None:
    device = make()
    theirs = state.with_name("theirs")
    state.unlink()
    if kind == "a folder":
        state.mkdir()
        (state / "file").write_text("Dear diary")
    else:
        theirs.write_text("Dear diary")
        theirs.rename(state)
    before = {
        name: seen for name, seen in picture(state.parent).items() if not name.endswith(("-wal", "-shm"))
    }
    device.add("saves", 3)
    assert not device.save()
    assert device.report(HERE) is None
    assert device.status().notes.keys() == {"state-broken"}
    after = picture(state.parent)
    assert {name: after[name] for name in before} == before
