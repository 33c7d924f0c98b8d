"""
The files of a SQLite store are removed, replaced or overwritten under a running collector.

SQLite would go on writing to files that nobody can open any more. The collector stops acknowledging instead: what
it has acknowledged up to then, and what the hand left in place, is all there when it is started again.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.shared.collectors import Service, in_thread, make_keys, make_reports, usage

from reticent.plan import Plan
from reticent.reports import Report, to_ndjson
from reticent_collector.http import Collector
from reticent_collector.stores import Layout, RoundKey, StoreGoneError, create_key, open_store

PLAN = Plan.from_toml(usage())


def reports(count: int, seed: object = 0) -> list[Report]:
    return make_reports(PLAN, PLAN.round_at(time.time()), count, seed)


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def remove_all(path: Path) -> None:
    for file in (path, log_of(path), index_of(path)):
        file.unlink()


def move_the_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replace_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def replace_the_log(path: Path) -> None:
    shutil.copy(log_of(path), path.with_name("copy"))
    path.with_name("copy").rename(log_of(path))


def empty_the_file(path: Path) -> None:
    os.truncate(path, 0)


def cut_the_file(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def copy_a_backup_over_it(path: Path) -> None:
    """`cp` keeps the file and changes what is in it; the backup was made before the last reports came."""
    shutil.copyfile(path.with_name("backup.db"), path)


def copy_another_store_over_it(path: Path) -> None:
    other = path.with_name("other.db")
    store = open_store(f"sqlite:///{other}")
    for _ in range(200):
        store.add_key(create_key("reader", "x" * 500, 1)[1])
    store.close()
    shutil.copyfile(other, path)


def copy_text_over_it(path: Path) -> None:
    path.write_text("remember the milk\n" * 3000)


def empty_the_log(path: Path) -> None:
    """`: > store.db-wal`, as people do on a full disk."""
    os.truncate(log_of(path), 0)


def cut_the_log(path: Path) -> None:
    os.truncate(log_of(path), log_of(path).stat().st_size // 2)


def write_zeros_into_the_log(path: Path) -> None:
    with log_of(path).open("r+b") as file:
        file.write(bytes(4096))


HANDS: list[Callable[[Path], None]] = [
    remove_all,
    Path.unlink,
    lambda path: log_of(path).unlink(),
    lambda path: index_of(path).unlink(),
    move_the_folder,
    replace_by_a_copy,
    replace_the_log,
    empty_the_file,
    cut_the_file,
    copy_a_backup_over_it,
    copy_another_store_over_it,
    copy_text_over_it,
    empty_the_log,
    cut_the_log,
    write_zeros_into_the_log,
]
NAMES = ["all files", "database", "log", "index", "folder", "replaced", "log replaced", "emptied", "cut",
         "backup", "another store", "text", "log emptied", "log cut", "zeros in the log"]  # fmt: skip


OVERWRITERS = (copy_a_backup_over_it, copy_another_store_over_it, copy_text_over_it)


def read_after_kill_9(path: Path) -> int:
    """How many reports are found in the files as they are now."""
    left = path.parent.with_name("left")
    shutil.copytree(path.parent, left)
    store = open_store(f"sqlite:///{left / path.name}")
    try:
        return store.stored_reports()
    finally:
        store.close()


@pytest.mark.parametrize("is_log_empty", [False, True], ids=["", "log empty"])
@pytest.mark.parametrize("hand", HANDS, ids=NAMES)
def test_nothing_is_acknowledged_once_the_files_are_not_those_that_were_opened(
    tmp_path: Path,
    hand: Callable[[Path], None],
    is_log_empty: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    path = tmp_path / "data" / "store.db"
    store = open_store(f"sqlite:///{path}")
    with in_thread(Collector([PLAN], store)) as service:
        assert service.send(reports(1)[0]).status == 202
        store.backend.backup(path.with_name("backup.db"))
        for report in reports(20, "more"):
            assert service.send(report).status == 202
        if is_log_empty:
            with closing(sqlite3.connect(path)) as outside:
                outside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            assert service.send(reports(1, "after")[0]).status == 202, "an empty log is no harm"
        hand(path)
        answers = [service.send(report).status for report in reports(3, "last")]
        if hand in (*OVERWRITERS, cut_the_file) and not is_log_empty:
            # Every page is in the log: nothing in the file was of use, and a start reads what was acknowledged.
            assert read_after_kill_9(path) == 21 + answers.count(202)
            return
        assert answers == [503] * 3
        assert service.get("/readyz").status == 503
        assert service.get("/healthz").status == 200
    log = capsys.readouterr().err
    assert log.count('"event": "store-gone"') == 1
    assert "no more reports are acknowledged" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("point", ["before the commit", "after the commit"])
@pytest.mark.parametrize("place", [*range(7), 12], ids=[*NAMES[:7], NAMES[12]])
def test_a_commit_is_not_acknowledged_when_the_files_go_during_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, place: int
) -> None:
    """Between the last look before a commit and the answer there is one more."""
    path = tmp_path / "data" / "store.db"
    store, key = open_store(f"sqlite:///{path}"), RoundKey(PLAN.name, PLAN.version, 7)
    records = [b"".join(map(Layout(PLAN).pack, make_reports(PLAN, 7, 5, seed))) for seed in range(3)]
    store.register(PLAN)
    store.append({key: records[0]})
    connections, hands = type(store.backend._writer).__mro__[1], [HANDS[place]]
    execute = connections.commit

    def commit(self: object, connection: sqlite3.Connection) -> None:
        hand = hands.pop() if hands else None
        if hand is not None and point == "before the commit":
            hand(path)
        execute(self, connection)
        if hand is not None and point == "after the commit":
            hand(path)

    monkeypatch.setattr(connections, "commit", commit)
    for group in records[1:]:
        with pytest.raises(StoreGoneError, match="no more reports are acknowledged"):
            store.append({key: group})
    store.close()


def test_reports_on_a_round_whose_table_was_dropped_are_not_acknowledged(tmp_path: Path) -> None:
    path, earlier = tmp_path / "store.db", PLAN.round_at(time.time()) - 1
    with in_thread(Collector([PLAN], open_store(f"sqlite:///{path}"))) as service:
        assert service.send(reports(1)[0]).status == 202
        with closing(sqlite3.connect(path)) as database:
            database.execute("DROP TABLE records_1")
        assert [service.send(report).status for report in reports(2, "new")] == [503] * 2
        assert service.send(make_reports(PLAN, earlier, 1)[0]).status == 202, "other rounds are served"
        both = [*reports(2, "batch"), *make_reports(PLAN, earlier, 2)]
        assert service.post(to_ndjson(both), "application/x-ndjson").status == 503


def test_files_that_are_back_do_not_make_it_go_on(tmp_path: Path) -> None:
    """Between the two looks anything may have happened; only a start reads what is there."""
    path = tmp_path / "data" / "store.db"
    with in_thread(Collector([PLAN], open_store(f"sqlite:///{path}"))) as service:
        assert service.send(reports(1)[0]).status == 202
        move_the_folder(path)
        assert service.get("/readyz").status == 503
        path.parent.with_name("elsewhere").rename(path.parent)
        assert service.send(reports(1, "last")[0]).status == 503
        time.sleep(1.1)  # an answer to /readyz stands for a second
        assert service.get("/readyz").status == 503
    with in_thread(Collector([PLAN], open_store(f"sqlite:///{path}"))) as service:
        assert service.send(reports(1, "last")[0]).status == 202


def checkpoint(path: Path) -> None:
    with closing(sqlite3.connect(path)) as outside:
        outside.execute("PRAGMA wal_checkpoint(FULL)").fetchall()


def vacuum(path: Path) -> None:
    with closing(sqlite3.connect(path)) as outside:
        outside.execute("VACUUM")
        outside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def back_up(path: Path) -> None:
    opened = open_store(f"sqlite:///{path}")
    opened.backend.backup(path.with_name("backup.db"))
    opened.close()


@pytest.mark.parametrize(
    "hand",
    [checkpoint, vacuum, Path.touch, back_up, lambda path: make_keys(f"sqlite:///{path}", "reader")],
    ids=["checkpoint", "vacuum", "touch", "backup", "key"],
)
def test_what_an_operator_may_do_does_not_stop_it(tmp_path: Path, hand: Callable[[Path], None]) -> None:
    path = tmp_path / "store.db"
    with in_thread(Collector([PLAN], open_store(f"sqlite:///{path}"))) as service:
        for turn in range(3):
            assert all(service.send(report).status == 202 for report in reports(5, turn))
            hand(path)
            path.with_name("backup.db").unlink(missing_ok=True)
    store = open_store(f"sqlite:///{path}")
    assert store.stored_reports() == 15
    assert store.verify() == []
    store.close()


def test_what_was_acknowledged_before_the_log_was_removed_outlives_kill_9(tmp_path: Path) -> None:
    """A real process: the log is still open, and goes into the file as soon as its name is missed."""
    service = Service(tmp_path, usage()).start()
    path = tmp_path / "store.db"
    acknowledged = sum(service.send(report).status == 202 for report in reports(10))
    log_of(path).unlink()
    acknowledged += sum(service.send(report).status == 202 for report in reports(10, "after"))
    assert acknowledged == 10
    service.stop(signal.SIGKILL)
    service.start()
    assert service.get("/readyz").status == 200
    service.stop()
    store = open_store(service.store)
    assert store.verify() == []
    assert store.stored_reports() >= acknowledged
    store.close()
