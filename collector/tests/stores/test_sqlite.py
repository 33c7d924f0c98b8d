"""The embedded store: its file, its schema, full disks, kill -9, two processes, backups."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.shared.writers import KEY, check_written, group, killed_writers

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores import SqliteBackend, Store, open_store

Open = Callable[[str], Store]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.db"


@pytest.fixture
def store(path: Path, plan: Plan, opened: Open) -> Store:
    made = opened(f"sqlite:///{path}")
    made.register(plan)
    return made


def test_the_file_and_what_is_beside_it_are_for_their_owner_alone(store: Store, path: Path) -> None:
    old = os.umask(0)
    try:
        store.append({KEY: group(0, 10)})
        store.backend.backup(path.with_name("copy.db"))
    finally:
        os.umask(old)
    names = {file.name for file in path.parent.iterdir()}
    assert names == {"store.db", "store.db-wal", "store.db-shm", "copy.db"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_no_time_of_arrival_is_stored(store: Store, path: Path) -> None:
    """The tables of rounds and reports have no column that could hold one: those of a round are the plan's."""
    store.append({KEY: group(0, 10)})
    with store.backend.reading() as transaction:
        columns = {
            (table, row[1])
            for (table,) in transaction.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for row in transaction.execute(f"PRAGMA table_info({table})")
        }
    assert {name for table, name in columns if table.startswith("records")} == {"number", "records"}
    assert {name for table, name in columns if table == "rounds"} == {
        "id", "plan", "version", "round", "start_time", "end_time", "state", "reports",
    }  # fmt: skip


def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE photo (id INTEGER)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"photos\.db: is not a database of reticent; it was not changed"):
        open_store(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="is not a database of reticent; it was not changed"):
        open_store(f"sqlite:///{path}", readonly=True)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n" * 100)
    with pytest.raises(StoreError, match="cannot be opened: file is not a database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == "remember the milk\n" * 100
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize(
    ("version", "age"), [(2, "a version of reticent before 0.1.0"), (99, "a newer version of reticent")]
)
@pytest.mark.parametrize("readonly", [False, True])
def test_another_schema_version_is_refused_and_left_as_it_is(
    store: Store, path: Path, version: int, age: str, readonly: bool
) -> None:
    store.close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"was written by {age}: its schema is number {version}, "):
        open_store(f"sqlite:///{path}", readonly=readonly)
    assert path.read_bytes() == before


def test_a_full_disk_stores_nothing_half_and_recovers(store: Store, path: Path, opened: Open) -> None:
    """RLIMIT_FSIZE: no file may grow beyond a limit, so that writes fail as on a full disk."""
    store.append({KEY: group(0, 100)})
    with full_disk(path):
        for number in range(1, 4):
            with pytest.raises(StoreError, match=r"store\.db: .*(full|I/O error)"):
                store.append({KEY: group(1000 * number, 1000), KEY._replace(round=8): group(0, 1000)})
    assert [(info.key, info.reports) for info in store.rounds()] == [(KEY, 100)]
    assert opened(f"sqlite:///{path}").stored_reports() == 100
    store.ping()
    for number in range(1, 4):
        assert store.append({KEY: group(1000 * number, 1000)})[KEY].accepted == 1000
    with full_disk(path), pytest.raises(StoreError):
        store.seal(KEY)
    assert store.verify() == []
    assert store.counts(KEY)[()]["minutes"].devices == 3100
    assert store.seal(KEY)
    assert [(info.key, info.reports) for info in store.rounds()] == [(KEY, 3100)]


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Two more pages can be written, and no third one."""
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.with_name("store.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 9000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def test_what_was_acknowledged_outlives_kill_9(store: Store, path: Path, opened: Open) -> None:
    """A writer is killed at random moments; each group whose append returned is there, and none twice."""
    last = killed_writers(store.url, kills=6, longest=0.08)
    check_written(opened(store.url), last)


def test_two_processes_on_one_file_count_each_report_once(store: Store, path: Path) -> None:
    """Each knows its own ids only, so some are stored twice; the seal counts them once."""
    script = """
    import sys
    from reticent_collector.stores import RoundKey, open_store
    store, place = open_store("sqlite:///" + sys.argv[1]), int(sys.argv[2])
    sys.stdin.readline()
    for number in range(50):
        shared, own = 100 * number, 10**6 * place + 10 * number
        ids = [*range(shared, shared + 100), *range(own, own + 10)]
        store.append({RoundKey("small", 1, 7): b"".join(each.to_bytes(16) + b"\\x80" for each in ids)})
    store.close()
    """
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), str(path), str(place)], stdin=subprocess.PIPE
        )
        for place in (1, 2)
    ]
    time.sleep(0.5)
    for worker in workers:
        worker.communicate(b"\n", timeout=100)
        assert worker.returncode == 0
    assert store.counts(KEY)[()]["minutes"].devices == 50 * 100 + 2 * 50 * 10
    assert store.seal(KEY)
    assert store.rounds()[0].reports == 6000
    assert store.verify() == []


def test_a_store_that_is_made_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version, whose it is and its tables are those of one moment, before it was made or after."""
    path, connect, makers = tmp_path / "new.db", sqlite3.connect, []

    class Slow(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            cursor = super().execute(sql, *parameters)
            if sql == "SELECT count(*) FROM sqlite_master" and not makers:
                makers.append(threading.Thread(target=lambda: open_store(f"sqlite:///{path}").close()))
                makers[0].start()
                makers[0].join(0.5)  # it waits for who looks, or is done
            return cursor

    monkeypatch.setattr(sqlite3, "connect", lambda *place, **how: connect(*place, **how, factory=Slow))
    open_store(f"sqlite:///{path}").close()
    makers[0].join()


def test_many_processes_make_one_store(tmp_path: Path) -> None:
    """All start at once on a file that is not there."""
    path = tmp_path / "new.db"
    script = """
    import sys
    from reticent_collector.stores import open_store
    sys.stdin.readline()
    open_store(sys.argv[1]).close()
    """
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), f"sqlite:///{path}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    time.sleep(0.7)
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    for worker in workers:
        _, told = worker.communicate(timeout=100)
        assert worker.returncode == 0, told
    assert open_and_verify(path) == []


def open_and_verify(path: Path) -> list[str]:
    store = open_store(f"sqlite:///{path}")
    try:
        return store.verify()
    finally:
        store.close()


def test_commits_are_synced_before_they_are_acknowledged(store: Store) -> None:
    with store.backend.writing() as transaction:
        assert transaction.execute("PRAGMA synchronous") == [(2,)]
        assert transaction.execute("PRAGMA journal_mode") == [("wal",)]


def test_the_names_of_new_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    open_store(f"sqlite:///{tmp_path / 'new' / 'newer' / 'store.db'}").close()
    assert synced == {tmp_path.stat().st_ino, (tmp_path / "new").stat().st_ino}


def test_the_log_beside_the_file_does_not_grow_without_end(store: Store, path: Path) -> None:
    wal, sizes = path.with_name("store.db-wal"), []
    for number in range(40):
        store.append({KEY: group(100_000 * number, 50_000)})
        sizes.append(wal.stat().st_size)
    assert 40 * 50_000 * 17 > 32 << 20
    assert max(sizes) < 24 << 20


def test_a_backup_made_while_writing_is_a_whole_store(store: Store, path: Path, tmp_path: Path) -> None:
    store.append({KEY._replace(round=6): group(0, 10)})
    store.seal(KEY._replace(round=6))
    done, acknowledged = threading.Event(), [0]

    def write() -> None:
        for number in range(10_000):
            store.append({KEY: group(100 * number, 100)})
            acknowledged[0] = 100 * (number + 1)
            if done.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    copies = []
    for number in range(3):
        before = acknowledged[0]
        copy = tmp_path / f"copy-{number}.db"
        store.backend.backup(copy)
        copies.append((copy, before, acknowledged[0] + 100))
        time.sleep(0.02)
    done.set()
    writer.join()
    for copy, least, most in copies:
        assert open_and_verify(copy) == []
        found = open_store(f"sqlite:///{copy}")
        assert least <= found.stored_reports() <= most
        assert found.counts(KEY._replace(round=6)) == store.counts(KEY._replace(round=6))
        found.close()
    with pytest.raises(StoreError, match="already exists; a backup never overwrites"):
        store.backend.backup(copies[0][0])


def test_a_backup_that_fails_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="backup failed"):
        store.backend.backup("/proc/no-such-place/copy.db")
    with pytest.raises(StoreError, match="memory: has no file to copy"):
        SqliteBackend(":memory:").backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append({KEY: group(0, 1)})
    with pytest.raises(StoreError, match="closed"):
        store.rounds()


def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StoreError, match=r"expected SQLite 3\.35 or newer"):
        open_store(f"sqlite:///{tmp_path / 'new.db'}")


@pytest.mark.parametrize("url", ["", "sqlite:///", "mysql://root:secret@host/db", "reticent.db"])
def test_other_addresses_are_refused_without_their_password(url: str) -> None:
    for readonly in (False, True):
        with pytest.raises(StoreError, match="store: expected sqlite:///path") as refused:
            open_store(url, readonly=readonly)
        assert "secret" not in str(refused.value)


def test_a_transaction_that_fails_is_undone_and_the_connection_goes_on(plan: Plan) -> None:
    """A store in memory lives in its one connection."""
    store = open_store("memory:")
    store.register(plan)

    def fail() -> None:
        with store.backend.writing() as transaction:
            transaction.execute("DELETE FROM plans")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.plans() == [plan]
    store.close()
