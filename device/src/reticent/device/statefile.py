"""
The state file: how it is opened, and how threads, processes and forks share it.

    absent or empty                       fresh: a new secret
    ours and whole                        opened; its mode is tightened to 0600
    ours, whole, of an older layout       upgraded in place, in one transaction, then opened
    another program's file                StateError, untouched: neither its content nor its mode
    another plan's, or a newer layout     StateError, untouched, also where it becomes newer while we run
    an upgrade that fails                 StateError, untouched: never a new secret for want of a step
    locked, read-only, not a file         StateError
    ours and broken (corrupt, truncated,  quarantined: renamed beside, a new secret, a new epoch
    tables missing), or nothing but zeros

A file is ours by its header, or by the text of our tables in any of its pages. What is not distinguishable from another
program's file is treated as one, also where it takes the place of ours while a device is running.

Programs that start at once open a whole file side by side. A file is made or set aside by one of them alone, under a
lock, so that all agree on one secret.

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
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from reticent.device.locks import ProcessLock
from reticent.device.pending import StateBusyError
from reticent.device.quarantine import (
    COMPANIONS,
    Identity,
    check_header,
    check_owner,
    folder_of,
    is_absent,
    make_file,
    write_limits,
)
from reticent.device.schema import (
    BrokenError,
    check_content,
    check_identity,
    check_layout,
    known_layout,
    layout_of,
    load,
    run_missing_steps,
    save,
)
from reticent.errors import StateError

if TYPE_CHECKING:
    from reticent.device.state import DeviceState

AResult = TypeVar("AResult")

_CHECKPOINT_PAGES = 48  # pages of 4 kB in the log, at which it is copied into the file, with a sync
_LEFT_PAGES = 256  # the same where the log is left to another process: this one does not wait for a disk

_abandoned: list[object] = []  # a parent's connections: closing them would undo the parent's log


class StateFile:
    """
    One state file, shared by the threads of this process and by other processes.

    `identity` is called when a file has to be made; None: it must exist, and nothing is ever replaced.
    `opened` is an event, each time the file was opened, also when it was found replaced in between. It comes with the
    faults to note: others could read the file, or it was made in place of one that is broken or gone.
    `after_fork` is called in the child of a fork. `leaves_log`: values are written without a sync, and the log is left
    to a process that sends: it copies and wipes it.
    """

    def __init__(
        self,
        path: str,
        identity: Callable[[], Identity] | None,
        opened: Callable[[DeviceState, list[str]], DeviceState],
        after_fork: Callable[[], None],
        patience: float = 2.0,
        *,
        leaves_log: bool = False,
    ) -> None:
        self.path = path
        self._leaves_log = leaves_log
        self.epoch: int | None = None
        self._identity = identity
        self._opened = opened
        self._after_fork = after_fork
        self._lock = threading.RLock()
        self._depth = 0
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._known: tuple[int, DeviceState] | None = None  # what the file held, and its `data_version` then
        self._pid = os.getpid()
        self._closed = False
        self._log_to_wipe = False
        try:
            with self.transaction(patience=patience):
                pass
        except sqlite3.Error as error:  # found whole, but locked or full when the plan was to be taken up
            unreadable = StateError(f"{path}: cannot be read as a state file (corrupt).")
            raise _momentary(path, error) or unreadable from None

    @staticmethod
    def connect(path: str, patience: float) -> sqlite3.Connection:
        """A connection set up as every connection to a state file must be."""
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def update(
        self,
        event: Callable[[DeviceState], tuple[DeviceState, AResult]],
        *,
        durable: bool = False,
        patience: float = 0.25,
        committed: Callable[[DeviceState], None] = lambda state: None,
    ) -> AResult:
        """
        Replace the state by what an event makes of it, all or nothing; `durable`: on disk when this returns.

        `committed` is called with the new state before any other event.
        """
        with self.transaction(durable=durable, patience=patience) as connection:
            before = self._state_in(connection)
            after, result = event(before)
            if (before.limits, before.epoch) != (after.limits, after.epoch) and self._identity is not None:
                write_limits(self.path, after.limits, after.epoch)
            save(connection, before, after)
            connection.execute("COMMIT")
            self._know(connection, after)
            committed(after)
        return result

    def read(self, patience: float = 2.0) -> DeviceState:
        """What the file holds now."""
        with self._hold(patience) as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            try:
                connection.execute("BEGIN")
                check_layout(self.path, layout_of(connection))
                return self._state_in(connection)
            finally:
                self._roll_back(connection)

    @contextmanager
    def transaction(self, *, durable: bool = False, patience: float = 0.25) -> Iterator[sqlite3.Connection]:
        """Alone with the file; what is not committed inside is undone."""
        with self._hold(patience) as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            # Before BEGIN: within a transaction SQLite does not change it.
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            try:  # BEGIN too: interrupted, it may have begun
                connection.execute("BEGIN IMMEDIATE")
                check_layout(self.path, layout_of(connection))
                yield connection
            finally:
                self._roll_back(connection)

    def _state_in(self, connection: sqlite3.Connection) -> DeviceState:
        """What the file holds, within a transaction: read again where another connection has changed it."""
        [(version,)] = connection.execute("PRAGMA data_version")
        if self._known is None or self._known[0] != version:
            self._known = version, load(connection)
        return self._known[1]

    def _know(self, connection: sqlite3.Connection, state: DeviceState) -> None:
        """What was committed just now; another connection's commit since then would show."""
        self.epoch = state.epoch
        if self._known is not None:
            self._known = self._known[0], state

    def stamp(self) -> tuple[int, ...]:
        """What changes with every transaction, of another process too: times and sizes of the file and its log."""
        stamp: list[int] = []
        for path in (self.path, self.path + "-wal"):
            with suppress(OSError):
                status = os.stat(path)
                stamp += (status.st_ino, status.st_mtime_ns, status.st_size)
        return tuple(stamp)

    # After "denied" nothing leaves, not even what is on its way in another thread or process

    @contextmanager
    def sending(self) -> Iterator[bool]:
        """
        Held by a sender from its claim until its bytes are sent, or its process ends; False: a choice is being
        made.
        """
        try:
            lock = ProcessLock(f"{self.path}-sending")
        except OSError:  # too many open files, for instance: taking consent back could not wait for this one
            yield False
            return
        with closing(lock):
            yield lock.take(shared=True)

    def wait_for_senders(self, seconds: float) -> bool:
        """Wait until nothing is being sent that began before now; returns whether that was in time."""
        try:
            lock = ProcessLock(f"{self.path}-sending")
        except OSError:
            return False
        with closing(lock):
            return lock.wait(seconds)

    def wipe_log(self) -> None:
        """Truncate the log, so that deleted values do not linger; where that fails, before the next transaction."""
        self._log_to_wipe = True
        with suppress(Exception), self._hold(0.25):
            pass

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._closed = True
            # The last connection copies the log into the file, with two syncs, unless it may only read.
            reader = self._reader() if self._leaves_log and self._connection is not None else None
            self._disconnect()
            if reader is not None:
                reader.close()

    def _reader(self) -> sqlite3.Connection | None:
        path = self.path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        with suppress(sqlite3.Error):
            reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0, check_same_thread=False)
            reader.execute("SELECT count(*) FROM consent").fetchone()  # only now does it hold the file open
            return reader
        return None

    def begin_log(self) -> None:
        """Leave a log that has begun, with a sync: the next program that leaves it need not do that."""
        self._leaves_log = True
        with suppress(sqlite3.Error), self._hold(0.25) as connection:
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA user_version = {known_layout()}")

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
        self._start_over()

    def _start_over(self) -> None:
        """In a child. There is a connection where another thread held it for too long before the fork."""
        self._disconnect()
        self._pid = os.getpid()
        self._after_fork()

    @contextmanager
    def _hold(self, patience: float) -> Iterator[sqlite3.Connection]:
        """The lock of this process, and a connection to the file that is at the path now."""
        if not self._lock.acquire(timeout=patience):
            raise StateBusyError
        self._depth += 1
        try:
            if self._closed or self._depth > 1:  # a signal handler, in the middle of another transaction
                raise StateBusyError
            if self._pid != os.getpid():  # a fork that Python's hooks did not see
                self._start_over()
            if self._connection is not None and self._inode != _inode(self.path):
                self._disconnect()
                self._inode = None
            connection = self._connection = self._connection or self._reconnect(patience)
            if self._log_to_wipe:
                with suppress(Exception):
                    connection.execute("PRAGMA busy_timeout = 50")
                    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    self._log_to_wipe = bool(busy)
            yield connection
        finally:
            self._depth -= 1
            self._lock.release()

    def _reconnect(self, patience: float) -> sqlite3.Connection:
        """Connect to the known file, or open whatever is there now as if for the first time."""
        if self._inode is not None and self._inode == _inode(self.path):
            return self.connect(self.path, patience)
        connection, notes = self._open(self._identity() if self._identity else None, patience)
        try:
            connection.execute("BEGIN IMMEDIATE")
            before = self._state_in(connection)
            after = self._opened(before, notes)
            if self._identity is not None:
                write_limits(self.path, after.limits, after.epoch)
            save(connection, before, after)
            connection.execute("COMMIT")
            self._know(connection, after)
            self._inode = _inode(self.path)
        except BaseException:
            connection.close()
            raise
        # Its last user may have died between an answer and the wiping; and an older version that meets an upgraded
        # file looks into the file first, not into the log.
        self._log_to_wipe = not self._leaves_log
        if self._leaves_log:
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LEFT_PAGES}")
        return connection

    def _open(self, identity: Identity | None, patience: float) -> tuple[sqlite3.Connection, list[str]]:
        """Open, create or replace the file; see the table above. Returns what to note too."""
        path = self.path
        _check_place(path)
        try:
            # Before anything touches the folder: a file of another program gets no lock file beside it.
            if not is_absent(path):
                check_header(path)
            elif identity is None:
                raise StateError(f"{path}: there is no state file here.")
        except BrokenError:
            pass  # looked into again below
        except OSError as error:
            raise StateError(f"{path}: cannot be read: {error.strerror}.") from None
        with _opening_lock(path, patience, shared=True):
            opened = self._open_whole(identity, patience)
        if not isinstance(opened, str):
            return opened
        with _opening_lock(path, patience):
            opened = self._open_whole(identity, patience)  # another program may have been first
            if not isinstance(opened, str):
                return opened
            if identity is None:
                raise StateError(
                    f"{path}: cannot be read as a state file ({opened or 'it is gone'}).\n"
                    "  Hint: the program that owns it sets it aside at its next start."
                )
            _tighten(path)
            try:
                epoch = make_file(path, identity, opened, self.epoch)
                return self.connect(path, patience), ["state-lost"] if epoch else []
            except (sqlite3.Error, OSError) as error:
                raise StateError(f"{path}: cannot be created ({error}).") from None

    def _open_whole(
        self, identity: Identity | None, patience: float
    ) -> tuple[sqlite3.Connection, list[str]] | str:
        """Open a file that is whole, and say what to note; or what is wrong with it, empty where there is none."""
        path = self.path
        try:
            if is_absent(path):
                return ""
            # Before anything touches the file, SQLite included.
            check_header(path)
            notes = ["state-tightened"] if _tighten(path) else []
            connection = self.connect(path, patience)
            try:
                # One picture: another process may take up a plan between two looks at the file.
                connection.execute("BEGIN")
                layout = layout_of(connection)  # of the log too, which the header is not
                check_layout(path, layout)
                if layout == known_layout():
                    check_owner(path, check_content(connection), identity)
                connection.execute("ROLLBACK")
                if layout < known_layout():
                    _upgrade(path, connection, identity)
            except BaseException:
                connection.close()
                raise
            return connection, notes
        except BrokenError as broken:
            return str(broken)
        except OSError as error:
            raise StateError(f"{path}: cannot be read: {error.strerror}.") from None
        except (sqlite3.Error, ValueError) as error:
            # A `ValueError`: SQLite quotes damaged text in its messages, which Python then cannot decode.
            momentary = _momentary(path, error)
            if momentary is not None:
                raise momentary from None
            return "corrupt"

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except Exception:  # the connection is of no more use; the next transaction makes another
            self._disconnect()

    def _disconnect(self) -> None:
        connection = self._connection
        self._connection = None
        self._known = None
        if connection is None:
            return
        if self._pid != os.getpid():
            _abandoned.append(connection)
            return
        with suppress(Exception):
            connection.close()


def _upgrade(path: str, connection: sqlite3.Connection, identity: Identity | None) -> None:
    """
    Run the missing steps in one durable transaction: after a crash the file has the old layout or the new one.

    A file that was broken before is quarantined like any other. One that was whole stays as it is where a step
    fails: a new secret would cost privacy.
    """
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")  # whoever closes the connection undoes it
    check_identity(connection)
    try:
        run_missing_steps(connection)
        check_owner(path, check_content(connection), identity)
    except StateError:
        raise
    except Exception as error:
        momentary = _momentary(path, error)
        raise momentary or StateError(
            f"{path}: cannot be upgraded to layout {known_layout()} ({type(error).__name__}); nothing was changed.\n"
            "  Hint: this is a fault of reticent: go back to the version before, and report it."
        ) from error
    connection.execute("COMMIT")
    connection.execute("PRAGMA synchronous = NORMAL")


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _opening_lock(path: str, patience: float, *, shared: bool = False) -> Iterator[None]:
    """Held by those who open a whole file, or by the one that makes a file."""
    try:
        lock = ProcessLock(f"{path}-opening")
    except OSError as error:
        raise StateError(
            f"{folder_of(path)}: expected a folder for the state file: {error.strerror}."
        ) from None
    with closing(lock):
        if not lock.wait(patience, shared=shared):
            raise StateError(f"{path}: locked by another process for {patience:g} s.")
        yield


def _check_place(path: str) -> None:
    if not os.path.isabs(path):
        raise StateError(f"{path}: the current folder is gone, or there is no home; give an absolute path.")
    for name in (path, *(path + suffix for suffix in COMPANIONS)):
        try:
            mode = os.stat(name).st_mode
        except FileNotFoundError:
            if os.path.islink(name):
                raise StateError(f"{name}: is a broken symbolic link.") from None
            continue
        except (OSError, ValueError) as error:
            raise StateError(f"{name}: is not accessible: {getattr(error, 'strerror', error)}.") from None
        if not stat.S_ISREG(mode):
            raise StateError(f"{name}: expected a regular file.")
        if not os.access(name, os.R_OK | os.W_OK):
            raise StateError(f"{name}: expected a file with read and write permission.")
    if not os.access(folder_of(path), os.W_OK | os.X_OK):
        raise StateError(f"{folder_of(path)}: expected a folder with write permission.")


def _tighten(path: str) -> bool:
    """Remove the rights of group and others; returns whether there were any."""
    tightened = False
    for name in (path, *(path + suffix for suffix in COMPANIONS)) if os.name == "posix" else ():
        with suppress(OSError):
            if os.stat(name).st_mode & 0o077:
                os.chmod(name, 0o600)
                tightened = True
    return tightened


def _momentary(path: str, error: Exception) -> StateError | None:
    """A temporary fault, for the caller to solve; None for one of the content, which is quarantined."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StateError(f"{path}: locked by another process.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StateError(f"{path}: cannot be written.")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM):
        return StateError(f"{path}: the disk is full or failing ({error}).")
    return None
