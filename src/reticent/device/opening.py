"""
Opening a state file: what is fresh, what is ours, what is somebody else's, and what is broken.

    absent or empty                       fresh: a new secret
    ours and whole                        opened; its mode is tightened to 0600
    another program's database            StateError, untouched
    another plan's, or a newer layout     StateError, untouched
    locked, read-only, not a file         StateError
    anything else (corrupt, truncated,    quarantined: renamed beside, a new secret, a new epoch
    no database, tables missing)

A new secret is a new set of remembered answers, which costs privacy anew. So none is ever drawn in silence:
a quarantined file stays beside the new one as `.quarantined-N`, where N is the number of the epoch that
replaced it, and is counted for as long as it is there.

Whoever opens holds a lock on the folder meanwhile, so that two processes agree on one secret.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reticent.device import held, ledger, outbox
from reticent.device.prf import SECRET_BYTES, checksum
from reticent.device.schema import APPLICATION_ID, LAYOUT, TABLES
from reticent.errors import ReticentError, StateError

if TYPE_CHECKING:
    import sqlite3

_MAGIC = b"SQLite format 3\x00"
_COMPANIONS = ("-wal", "-shm", "-journal")
_CHECKPOINT_PAGES = 48
"""The log is copied into the file, which costs a sync, when it has grown to so many pages of 4 kB."""


class Identity(NamedTuple):
    """What a fresh state file is for."""

    plan: str
    round_seconds: int
    current_round: int


class Opened(NamedTuple):
    """An open state file."""

    connection: sqlite3.Connection
    lost_epochs: range
    """Epochs that went with their files, when this file was made just now: all before its own."""
    tightened: bool
    """Whether others could read the file before."""


class _BrokenError(Exception):
    """The file cannot be read as a state file."""


def open_state(
    path: Path, identity: Identity | None, patience: float, lost_epoch: int | None = None
) -> Opened:
    """
    Open, create or replace the state file at `path`; see the table above.

    Without an `identity` the file must exist, and nothing is ever replaced. `lost_epoch` says that a file
    of this epoch was in use until just now, so that its absence is not a fresh start.
    """
    with _folder_lock(path.parent, patience):
        _check_place(path)
        tightened = _tighten(path)
        try:
            if _is_absent(path):
                if identity is None:
                    raise StateError(f"{path}: there is no state file here.")
                return _make(path, identity, patience, "", lost_epoch)
            return Opened(_open_existing(path, identity, patience), range(0), tightened)
        except _BrokenError as fault:
            if identity is None:
                raise StateError(
                    f"{path}: cannot be read as a state file ({fault}).\n"
                    "  Hint: the program it belongs to sets it aside at its next start."
                ) from None
            return _make(path, identity, patience, str(fault), lost_epoch)


@contextmanager
def _folder_lock(folder: Path, patience: float) -> Iterator[None]:
    """One opener at a time. Where folders cannot be locked (Windows, some network disks), without."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except ImportError:
        yield
        return
    except OSError as error:
        raise StateError(f"{folder}: expected a folder for the state file: {error.strerror}.") from None
    try:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StateError(f"{folder}: locked by another process for {patience:g} s.") from None
                time.sleep(0.005)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)


def _check_place(path: Path) -> None:
    if path.is_symlink() or path.exists():
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise StateError(f"{path}: cannot be reached: {error.strerror}.") from None
        if not stat.S_ISREG(mode):
            raise StateError(f"{path}: expected a file, or nothing yet; this is something else.")
        if not os.access(path, os.R_OK | os.W_OK):
            raise StateError(f"{path}: expected a file that this program may read and write.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StateError(f"{path.parent}: expected a folder that this program may write in.")


def _tighten(path: Path) -> bool:
    """Take group's and others' rights away."""
    if os.name != "posix":
        return False
    found = False
    for name in (path, *(_beside(path, suffix) for suffix in _COMPANIONS)):
        with suppress(OSError):
            if name.stat().st_mode & 0o077:
                name.chmod(0o600)
                found = True
    return found


def _is_absent(path: Path) -> bool:
    """Absent, or empty; but an empty file with a log beside it has lost something."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = 0
    if size:
        return False
    if any(_size(_beside(path, suffix)) for suffix in ("-wal", "-journal")):
        raise _BrokenError("the database is gone, its log is not")
    return True


def _open_existing(path: Path, identity: Identity | None, patience: float) -> sqlite3.Connection:
    import sqlite3

    try:
        _check_header(path)
        connection = connect(path, patience)
    except (sqlite3.Error, ValueError) as error:
        raise _sorted(path, error) from None
    try:
        _check_content(path, connection, identity)
    except (sqlite3.Error, ValueError) as error:
        connection.close()
        raise _sorted(path, error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _check_header(path: Path) -> None:
    """Tell ours from others' before SQLite may touch it."""
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or header[:16] != _MAGIC:
        raise _BrokenError("not a database")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StateError(f"{path}: this is another program's database; give the device a file of its own.")
    if int.from_bytes(header[60:64], "big") > LAYOUT:
        raise StateError(f"{path}: written by a newer reticent; update this program.")
    if not {header[18], header[19]} <= {1, 2}:  # SQLite would open it, for reading only
        raise _BrokenError("corrupt")


def _check_content(path: Path, connection: sqlite3.Connection, identity: Identity | None) -> None:
    [(verdict,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise _BrokenError("corrupt")
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names >= TABLES.keys():
        raise _BrokenError("tables are missing")
    row = connection.execute("SELECT plan, round_seconds, secret, epoch, checksum FROM device").fetchone()
    if row is None:
        raise _BrokenError("empty tables")
    plan, round_seconds, secret, epoch, kept_checksum = row
    if not isinstance(secret, bytes) or len(secret) != SECRET_BYTES or not any(secret):
        raise _BrokenError("no valid secret")
    if not isinstance(epoch, int) or epoch < 0:
        raise _BrokenError("no valid epoch")
    if kept_checksum != checksum(secret, str(plan), round_seconds, epoch):
        raise _BrokenError("corrupt")
    _check_rows(connection, plan)
    if identity and plan != identity.plan:
        raise StateError(
            f"{path}: holds the state of plan {plan!r}, not of {identity.plan!r}.\n"
            "  Hint: one state file serves one plan; give each its own."
        )
    if identity and round_seconds != identity.round_seconds:
        raise StateError(
            f"{path}: plan {plan!r} was taken up with rounds of {round_seconds} s, not "
            f"{identity.round_seconds} s.\n"
            "  Hint: a round's number would no longer name one time; another round length needs another plan "
            "name and state file."
        )


def _check_rows(connection: sqlite3.Connection, plan: str) -> None:
    """Read once what will be read later; SQLite's own check looks neither into texts nor at their types."""
    for table, misfit in _misfits().items():
        [(found,)] = connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {misfit})")  # noqa: S608
        if found:
            raise _BrokenError("corrupt")
    try:
        held.layouts(connection)
        ledger.entries(connection)
        ledger.epochs(connection)
        outbox.waiting(connection, plan)
    except (ValueError, TypeError, ArithmeticError, LookupError, ReticentError):
        raise _BrokenError("corrupt") from None


@cache
def _misfits() -> dict[str, str]:
    """For each table, the condition for a row with a value of another type than its column's."""
    import sqlite3

    result = {}
    with closing(sqlite3.connect(":memory:")) as connection:
        for table, definition in TABLES.items():
            connection.execute(definition)
            columns = connection.execute(f"PRAGMA table_info({table})")
            result[table] = " OR ".join(
                f"typeof({name}) NOT IN ('{kind.lower()}', '{kind.lower() if required or key else 'null'}')"
                for _, name, kind, required, _, key in columns
            )
    return result


def _sorted(path: Path, error: Exception) -> Exception:
    """
    A fault of the moment is the caller's to solve; a fault of the content is quarantined.

    So is a `ValueError`: SQLite quotes damaged text in its messages, which Python then cannot decode.
    """
    import sqlite3

    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StateError(f"{path}: locked by another process.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StateError(f"{path}: cannot be written.")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM):
        return StateError(f"{path}: the disk is full or failing ({error}).")
    return _BrokenError("corrupt")


def as_state_error(path: Path, error: sqlite3.Error) -> StateError:
    """A fault after the file was found whole: locked or full when the plan was to be taken up."""
    fault = _sorted(path, error)
    if isinstance(fault, StateError):
        return fault
    return StateError(f"{path}: cannot be read as a state file ({fault}).")


def connect(path: Path, patience: float) -> sqlite3.Connection:
    """A connection set up as every connection to a state file must be."""
    import sqlite3

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


def _make(path: Path, identity: Identity, patience: float, fault: str, lost_epoch: int | None) -> Opened:
    """A new file with a new secret; what was there before is set aside and counted."""
    import sqlite3

    epoch = max([*_quarantined(path), -1 if lost_epoch is None else lost_epoch + 1, 0])
    try:
        if fault:
            epoch = max(epoch, _readable_epoch(path)) + 1
            _set_aside(path, epoch)
        reason = f"quarantined: {fault or 'the state file was lost'}" if epoch else "enrolled"
        _create(path, identity, epoch, reason)
        return Opened(connect(path, patience), range(epoch), False)
    except (sqlite3.Error, OSError) as error:
        raise StateError(f"{path}: cannot be made ({error}).") from None


def _create(path: Path, identity: Identity, epoch: int, reason: str) -> None:
    """Write the whole file under another name, then give it its own: it is never seen half made."""
    import sqlite3

    draft = _beside(path, ".new")
    for suffix in ("", *_COMPANIONS):
        _beside(draft, suffix).unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
        for table in TABLES.values():
            connection.execute(table)
        secret, now = os.urandom(SECRET_BYTES), identity.current_round
        connection.execute(
            "INSERT INTO device VALUES (1, ?, ?, ?, ?, ?, ?, NULL, NULL)",
            (
                identity.plan,
                identity.round_seconds,
                secret,
                epoch,
                checksum(secret, identity.plan, identity.round_seconds, epoch),
                now if epoch else -1,
            ),
        )
        connection.execute("INSERT INTO epochs VALUES (?, ?, ?)", (epoch, now, reason))
        connection.execute("COMMIT")
    finally:
        connection.close()
    draft.replace(path)
    _sync_folder(path.parent)


def _quarantined(path: Path) -> list[int]:
    """The numbers of the epochs that replaced the files set aside beside `path`."""
    pattern = re.compile(re.escape(path.name) + r"\.quarantined-(\d{1,9})")
    found = (pattern.fullmatch(name) for name in os.listdir(path.parent))
    return sorted(int(match[1]) for match in found if match)


def _readable_epoch(path: Path) -> int:
    """The epoch of a broken file, as far as it can be read; else 0."""
    import sqlite3

    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
    except sqlite3.Error:
        return 0
    try:
        # Each epoch below is counted as lost, so a number that is damaged itself must not be a huge one.
        [(epoch,)] = connection.execute("SELECT min(epoch, (SELECT max(epoch) FROM epochs)) FROM device")
        return epoch if isinstance(epoch, int) and 0 <= epoch < 10**8 else 0
    except (sqlite3.Error, ValueError):
        return 0
    finally:
        connection.close()


def _set_aside(path: Path, epoch: int) -> None:
    aside = _beside(path, f".quarantined-{epoch}")
    if not path.exists():
        path.touch(0o600)
    path.rename(aside)
    # Cut off here, the next start finds a log without its database, and quarantines that too.
    for suffix in _COMPANIONS:
        with suppress(FileNotFoundError):
            _beside(path, suffix).rename(_beside(aside, suffix))
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Names are durable only once their folder is."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
