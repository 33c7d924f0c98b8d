"""The connections to a SQLite file, and a watch over the file while it is in use."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from reticent.errors import StoreError
from reticent_collector.stores.backend import StoreGoneError
from reticent_collector.stores.transactions import SqlRow, Transaction

PLACE_SECONDS = 20.0  # to wait for a free connection
PATIENCE = 10.0  # seconds to wait for another process that writes
PRAGMAS = (
    "synchronous = FULL",
    "foreign_keys = ON",
    "wal_autocheckpoint = 1000",
    "journal_size_limit = 67108864",
)
_NEW_FILE = "page_size = 16384"  # a large group takes half the time of one in pages of 4096 bytes
_LOG_HEAD_BYTES = 32
_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # https://www.sqlite.org/fileformat.html#walformat
_PAGE_ONE = ("page_count", "freelist_count", "schema_version")  # the content of the first page, by pragma


class SqliteConnections:
    """
    Up to `most` connections to one file, each used by one transaction at a time; with one, transactions queue up.

    The wait for a free connection is bounded. A connection that is left in a transaction is thrown away.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], begin: str, most: int) -> None:
        self._connect = connect
        self._begin = begin
        self._idle: list[sqlite3.Connection] = []
        self._places = threading.BoundedSemaphore(most)
        self._is_closed = False

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction: committed at the end, undone when an exception leaves it."""
        if not self._places.acquire(timeout=PLACE_SECONDS):
            raise StoreError(f"busy: no connection became free within {PLACE_SECONDS:g} s")
        try:
            connection = self._idle_or_new()
            try:
                self.begin(connection)
                yield Transaction(partial(_execute, connection))
                self.commit(connection)
            finally:
                _roll_back(connection)
                self._give_back(connection)
        finally:
            self._places.release()

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction."""
        connection.execute(self._begin)

    def commit(self, connection: sqlite3.Connection) -> None:
        """Make the transaction durable."""
        # A reader has nothing to keep; and COMMIT would repeat the error of a page that cannot be read.
        connection.execute("ROLLBACK" if self._begin == "BEGIN" else "COMMIT")

    def close(self) -> None:
        """Close every connection: at once, or when its transaction ends."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def _idle_or_new(self) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreError("the store was closed")
        try:
            return self._idle.pop()
        except IndexError:  # another thread may take the last one at any time
            return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction or self._is_closed:
            connection.close()
        else:
            self._idle.append(connection)


class WatchedConnections(SqliteConnections):
    """The connection to write with: nothing that it commits is acknowledged unless the files are in place."""

    files: DatabaseFiles | None = None

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction, unless another program has touched the files."""
        super().begin(connection)
        if self.files is not None:
            self.files.check_unchanged(connection)

    def commit(self, connection: sqlite3.Connection) -> None:
        """Make the transaction durable in the files that the names lead to."""
        super().commit(connection)
        if self.files is not None:
            self.files.check_committed(connection)


def _execute(connection: sqlite3.Connection, sql: str, *parameters: object) -> list[SqlRow]:
    return connection.execute(sql, parameters).fetchall()


def _roll_back(connection: sqlite3.Connection) -> None:
    """Undo the transaction, if it is not over."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


class _LogHead(NamedTuple):
    """What tells whether a write-ahead log was cut: its size, and its head, which changes when it begins anew."""

    size: int
    head: bytes


class DatabaseFiles:
    """
    The database, its log and the index of the log, as they were when the store was opened.

    SQLite keeps them open, so it goes on writing to files that were removed, and overwrites what another program
    has put into them. After each commit, and before it is acknowledged, `check_committed` makes sure that their
    names still lead to them. Before each transaction, `check_unchanged` makes sure that nothing else wrote to
    the database: every commit goes to the log, and the database itself changes only when a commit of this or of
    another process moves the log into it.

    The log may be emptied by hand too, to make room. SQLite would go on as if its frames were there, and a start
    would find a log without a head and ignore it: `check_log` looks at its size and its head.
    """

    def __init__(self, url: str, path: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._url = url
        real = os.path.realpath(path)  # the log is beside the file that a link leads to
        self._names = (os.path.abspath(path), f"{real}-wal", f"{real}-shm")
        self._held = connect()  # while one connection is open, closing another does not remove the log
        self._held.execute("SELECT count(*) FROM sqlite_master").fetchall()
        self._identities = tuple(_identity(os.stat(name)) for name in self._names)
        self.accept()
        # Kept open: a collector that may open no more files goes on committing. The log has no locks that
        # closing it could drop.
        self._log_file = os.open(self._names[1], os.O_RDONLY)
        self._let_go = weakref.finalize(self, os.close, self._log_file)
        self._log = self._log_now()
        self._version: int | None = None

    def check_committed(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreGoneError` when a name leads to no file, or to another one, or the log was cut."""
        database, _, _ = (self._named(place) for place in range(len(self._names)))
        self.check_log(connection)
        self._stamp = _stamp(database)

    def check_unchanged(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreGoneError` when another program wrote to the file; in a transaction that may write."""
        ((version,),) = connection.execute("PRAGMA data_version")
        others_committed = version != self._version
        self._version = version
        stamp = _stamp(self._named(0))
        self.check_log(connection)
        if self._stamp == stamp:
            return
        if not others_committed and not self._is_whole(connection):
            raise self._gone(f"{self._names[0]} was overwritten by another program")
        self.accept()

    def _named(self, place: int) -> os.stat_result:
        """The file that a name leads to; raises `StoreGoneError` when it is none, or another one."""
        name = self._names[place]
        found: os.stat_result | None = None
        try:
            found = os.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            if place:
                # The log was removed and is still open: move it into the database, which is in its place.
                with suppress(sqlite3.Error):
                    self._held.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except OSError as error:
            raise StoreError(f"{self._url}: {name}: {error.strerror}") from error
        if found is None or _identity(found) != self._identities[place]:
            raise self._gone(f"{name} {'was replaced by another file' if found else 'was removed'}")
        return found

    def check_log(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreGoneError` when the log was cut or overwritten by hand."""
        before = self._log
        now = self._log_now()
        self._log = now
        if now.size and now.head[:4] not in _LOG_MAGIC:  # no process of SQLite leaves frames without a head
            raise self._gone(f"{self._names[1]} was overwritten by another program")
        if now.size >= before.size or (now.size and now.head != before.head):  # begun anew, by whoever writes
            return
        if not self._is_whole(connection):  # else it was emptied after all of it was moved into the database
            raise self._gone(f"{self._names[1]} was cut off")

    def accept(self) -> None:
        """Accept the file as it is: this process has just written to it."""
        self._stamp = _stamp(os.stat(self._names[0]))

    def close(self) -> None:
        """Let go of the files."""
        self._let_go()
        self._held.close()

    def _log_now(self) -> _LogHead:
        return _LogHead(os.fstat(self._log_file).st_size, os.pread(self._log_file, _LOG_HEAD_BYTES, 0))

    def _is_whole(self, connection: sqlite3.Connection) -> bool:
        """Whether the file, read by a new connection, holds what this process knows to be in it."""
        try:
            name = f"file:{quote(self._names[0])}?mode=ro"
            with closing(sqlite3.connect(name, uri=True, timeout=0.1)) as fresh:
                known, read = (
                    [one.execute(f"PRAGMA {name}").fetchall() for name in _PAGE_ONE]
                    for one in (connection, fresh)
                )
                return known == read and fresh.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
        except sqlite3.Error:
            return False

    def _gone(self, what: str) -> StoreGoneError:
        return StoreGoneError(
            f"{self._url}: {what} while it was in use; no more reports are acknowledged.\n"
            "  Hint: restore the original file, and start the collector again"
        )


def _stamp(status: os.stat_result) -> tuple[int, int]:
    """What changes when a file is written."""
    return status.st_mtime_ns, status.st_size


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def connect(path: str) -> sqlite3.Connection:
    """A connection that writes ahead and syncs."""
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA {_NEW_FILE}")  # a file with tables keeps its own
        mode = _write_ahead(connection)
        if mode not in ("wal", "memory"):
            raise sqlite3.OperationalError(f"expected a file system that can do WAL, got {mode}")
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_unchanged(path: str) -> sqlite3.Connection:
    """
    A connection that changes neither a file nor its folder.

    While another program has the file open, its log is beside it and is read too. Otherwise `immutable` keeps
    SQLite from making an index of a log that does not exist.
    """
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    return sqlite3.connect(
        f"file:{quote(path)}?{how}", uri=True, timeout=2.0, isolation_level=None, check_same_thread=False
    )


def _write_ahead(connection: sqlite3.Connection) -> str:
    """Turn WAL on; SQLite itself does not wait when two processes do that to a new file at once."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return str(mode)


def make_file(path: Path) -> None:
    """An empty file for its owner alone. An existing file is not opened: closing it would drop its locks."""
    made = [folder for folder in path.absolute().parents if not folder.is_dir() and os.name == "posix"]
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in made:  # SQLite syncs the folder of its file, and none above
        descriptor = os.open(folder.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
