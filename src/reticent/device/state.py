"""
The state file in use: transactions, threads, several processes, forks, and what happens when it goes away.

Values are added with `synchronous = NORMAL`: a power cut may lose the last of them. A report is committed
with `synchronous = FULL`, in one transaction with the deletion of its values and its entry in the ledger,
before its bytes are handed to anybody. So after a crash at any point a device sends the same bytes, or none.

What a backup can and cannot do. A report is a function of the secret, the plan, the round and the values, so
a file restored from a backup answers as it did before, under the same id, wherever the values are the same.
Where they are not (the backup was taken in the middle of a round that was answered later), the round may be
answered a second time with other remembered bits. It has the same id, so it is counted once; but a collector
that keeps both versions sees which bits differ, without the protection of the flip. Nothing in the file can
tell that it has been restored. Leave state files out of backups and images: a clone, too, shares the
answers of its original, and the two can be compared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reticent.device.opening import Identity, Opened, as_state_error, connect, open_state

if TYPE_CHECKING:
    import sqlite3

_abandoned: list[object] = []
"""Connections of a parent process: closing them here would undo the parent's log."""


class BusyError(Exception):
    """Another thread or process holds the state file for longer than the caller would wait."""


class Self(NamedTuple):
    """The one row about the device itself."""

    plan: str
    round_seconds: int
    secret: bytes
    epoch: int
    silent_through: int
    enrolled_from: int | None
    changed_in: int | None

    def __repr__(self) -> str:
        return f"Self(plan={self.plan!r}, epoch={self.epoch})"


class State:
    """
    One state file, shared by the threads of this process and by other processes.

    `identity` is asked for when a file has to be made; None means that it must exist. `opened` is called
    within a transaction each time the file was opened, also when it was found replaced in between.
    """

    def __init__(
        self,
        path: Path,
        identity: Callable[[], Identity] | None,
        opened: Callable[[sqlite3.Connection, Opened], None],
        patience: float = 2.0,
    ) -> None:
        self.path = path
        self._identity = identity
        self._opened = opened
        self._lock = threading.RLock()
        self._depth = 0
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._pid = os.getpid()
        self.epoch: int | None = None
        self._closed = False
        self._log_to_wipe = False
        self._begin(patience)

    def _begin(self, patience: float) -> None:
        """Open the file for the first time: the host hears of what stands against it, as a `StateError`."""
        import sqlite3

        try:
            with self.transaction(patience=patience):
                pass
        except sqlite3.Error as error:
            raise as_state_error(self.path, error) from None

    @contextmanager
    def transaction(self, *, durable: bool = False, patience: float = 0.25) -> Iterator[sqlite3.Connection]:
        """All or nothing; with `durable`, on the disk when the block is left."""
        with self._hold(patience) as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise

    @contextmanager
    def view(self, patience: float = 2.0) -> Iterator[sqlite3.Connection]:
        """A consistent picture, for reading."""
        with self._hold(patience) as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                self._roll_back(connection)

    def wipe_log(self) -> None:
        """
        Copy the log into the file and cut it to nothing, so that deleted values do not linger in it.

        A reader in another process can hold this up, and so can a full disk; it is then tried again before
        each transaction.
        """
        self._log_to_wipe = True
        with suppress(Exception), self._hold(0.25):
            pass

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def __del__(self) -> None:
        with suppress(Exception):
            self._disconnect()

    def before_fork(self) -> None:
        """Hold the lock, and no connection: SQLite's must not be carried across a fork."""
        if self._lock.acquire(timeout=1.0) and not self._depth:
            self._disconnect()

    def after_fork_in_parent(self) -> None:
        """The next transaction connects again."""
        with suppress(RuntimeError):
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """A lock of our own; the next transaction connects."""
        self._lock = threading.RLock()
        self._depth = 0

    @contextmanager
    def _hold(self, patience: float) -> Iterator[sqlite3.Connection]:
        if not self._lock.acquire(timeout=patience):
            raise BusyError
        self._depth += 1
        try:
            yield self._connected(patience)
        finally:
            self._depth -= 1
            self._lock.release()

    def _connected(self, patience: float) -> sqlite3.Connection:
        if self._closed:
            raise BusyError
        if self._pid != os.getpid():
            self._disconnect()
            self._pid = os.getpid()
        if self._connection is not None and self._file != _identity_of(self.path):
            self._disconnect()
            self._file = None
        if self._connection is None:
            self._connection = self._reconnect(patience)
        if self._log_to_wipe and self._depth == 1:
            self._try_to_wipe(self._connection)
        return self._connection

    def _reconnect(self, patience: float) -> sqlite3.Connection:
        """Connect to the file we know, or open whatever is there now as if for the first time."""
        if self._file is not None and self._file == _identity_of(self.path):
            return connect(self.path, patience)
        identity = self._identity() if self._identity else None
        opened = open_state(self.path, identity, patience, self.epoch)
        try:
            opened.connection.execute("BEGIN IMMEDIATE")
            self._opened(opened.connection, opened)
            self.epoch = myself(opened.connection).epoch
            opened.connection.execute("COMMIT")
            self._file = _identity_of(self.path)
        except BaseException:
            opened.connection.close()
            raise
        self._log_to_wipe = True  # whoever had the file before may have died between an answer and the wiping
        return opened.connection

    def _try_to_wipe(self, connection: sqlite3.Connection) -> None:
        with suppress(Exception):
            connection.execute("PRAGMA busy_timeout = 50")
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._log_to_wipe = bool(busy)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except Exception:  # the connection is of no more use; the next transaction makes another
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._pid != os.getpid():
            _abandoned.append(connection)
            return
        with suppress(Exception):
            connection.close()


def myself(connection: sqlite3.Connection) -> Self:
    """The device's own row."""
    row = connection.execute(
        "SELECT plan, round_seconds, secret, epoch, silent_through, enrolled_from, changed_in FROM device"
    ).fetchone()
    return Self(*row)


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Which file is at a path, as far as the file system can tell one from another."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
