"""
A new state file, what a broken one is, and what becomes of it: it is set aside, never removed.

A new secret is a new set of remembered answers, which costs privacy again. So none is ever drawn silently:
a quarantined file stays beside the new one as `.quarantined-N`, where N is the number of the epoch that
replaced it, and is counted for as long as it is there.

What the broken file may have told is entered in the ledger of the new one, in the same moment that this one appears:
the largest limits that were ever in force. They are kept a second time beside the file, for the day on which it is
damaged. Where that copy is gone too, there is no bound.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from contextlib import closing, suppress
from hashlib import blake2b
from math import inf

from reticent.device import consent, ledger, outbox, plans
from reticent.device.ledger import LossLimits
from reticent.device.prf import SECRET_BYTES, checksum
from reticent.device.schema import (
    APPLICATION_ID,
    TABLES,
    DeviceRow,
    check_layout,
    create_tables,
    device_row,
    has_misfits,
)
from reticent.errors import ReticentError, StateError
from reticent.frozen import frozen, replace

_LARGEST_SEARCHED = 1 << 24  # of a file that is no database so many bytes are searched for what makes it ours

COMPANIONS = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database

_LOG_BEGINS = {
    "-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", bytes(4)),
    "-journal": (b"\xd9\xd5\x05\xf9", bytes(4)),
    "-shm": ((3_007_000).to_bytes(4, sys.byteorder), bytes(4)),
}
"""How the companions begin, by suffix."""

DRAFT = ".reticent-new"  # the name of a new file until it is complete; leftovers are removed


@frozen()
class Identity:
    """What a fresh state file is for."""

    plan: str
    round_seconds: int
    current_round: int
    now: int  #: Unix seconds
    choice: str | None = None  #: The person's choice of consent
    paused: bool = False  #: Whether the person has asked for a pause


def folder_of(path: str) -> str:
    """The folder that a file is in."""
    return os.path.dirname(path) or "."


def make_file(path: str, identity: Identity, fault: str, lost_epoch: int | None) -> int:
    """
    Make a file with a new secret; with a `fault`, set aside what was there before. Returns its epoch.

    The epoch is later than every one that is known to be lost: those of the files set aside, that of the broken
    file as far as it can be read, and `lost_epoch`.
    """
    pattern = re.compile(re.escape(os.path.basename(path)) + r"\.quarantined-(\d{1,9})")
    matches = (pattern.fullmatch(name) for name in os.listdir(folder_of(path)))
    aside = [int(match[1]) for match in matches if match]
    epoch = max([*aside, -1 if lost_epoch is None else lost_epoch + 1, 0])
    if fault:
        known_epoch, paused = _read_remains(path)
        identity = replace(identity, choice="unset", paused=paused)  # the person is asked again
        epoch = max(epoch, known_epoch) + 1
        set_aside(path, epoch)
    reason = "enrolled"
    if epoch:
        reason = f"quarantined: {fault or 'the state file was lost'}"
        reason += "; what it held is unknown, so all that the policy ever allowed is counted"
    _create(path, identity, epoch, reason)
    return epoch


LIMITS = "-limits"  # the name of the second copy of the limits, after that of the state file


def read_limits(path: str) -> LossLimits | None:
    """The second copy of the limits; None: there is none that can be trusted."""
    try:
        with open(path + LIMITS, encoding="ascii") as file:
            text, _, kept = file.read(256).rstrip("\n").rpartition(" ")
        lifetime, year, sampled = text.split(" ")
        if kept != blake2b(text.encode(), digest_size=8).hexdigest():
            return None
        return LossLimits(float(lifetime), float(year), sampled == "1")
    except (OSError, ValueError):
        return None


def write_limits(path: str, limits: LossLimits) -> None:
    """Keep the limits a second time, before the change that raises them is committed."""
    if read_limits(path) == limits:
        return
    text = f"{limits.max_lifetime!r} {limits.max_year!r} {int(limits.sampled)}"
    draft = f"{path}{LIMITS}{DRAFT}"
    descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, f"{text} {blake2b(text.encode(), digest_size=8).hexdigest()}\n".encode())
    finally:
        os.close(descriptor)
    os.replace(draft, path + LIMITS)


def _read_remains(path: str) -> tuple[int, bool]:
    """What can be read of a broken file: its epoch, and whether the person paused it."""
    from urllib.parse import quote

    paused = False
    try:
        address = "file:" + quote(os.path.abspath(path)) + "?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as connection:
            with suppress(sqlite3.Error, ValueError):
                paused = plans.is_paused(connection, plans.ASKED)
            [(plan, round_seconds, secret, epoch, held, kept, latest)] = connection.execute(
                "SELECT plan, round_seconds, secret, epoch, held, checksum, (SELECT max(epoch) FROM epochs)"
                " FROM device"
            )
    except (sqlite3.Error, ValueError):
        return 0, paused
    try:
        if kept == checksum(secret, plan, round_seconds, epoch, held):
            return epoch, paused
    except (TypeError, ValueError, AttributeError):
        pass
    # A number that is damaged itself must not be a huge one.
    numbers = [number for number in (epoch, latest) if isinstance(number, int)]
    known = min(numbers) if len(numbers) == 2 and 0 <= min(numbers) < 10**8 else 0
    return known, paused


def set_aside(path: str, epoch: int) -> None:
    """Rename a broken file and its companions, the file first."""
    aside = f"{path}.quarantined-{epoch}"
    os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))  # its log may be all there is
    os.rename(path, aside)
    # Cut off here, the next start finds a log without its database, and quarantines that too.
    for suffix in COMPANIONS:
        with suppress(FileNotFoundError):
            os.rename(path + suffix, aside + suffix)
    # On the disk before the new file is: without the old name, nothing would tell of the first secret.
    _sync_folder(folder_of(path))


def _create(path: str, identity: Identity, epoch: int, reason: str) -> None:
    """Write the whole file under another name, then rename it: it is never seen half made."""
    draft = path + DRAFT
    for suffix in ("", *COMPANIONS):
        with suppress(FileNotFoundError):
            os.unlink(draft + suffix)
    # Made with mode 0600 before SQLite opens it, whatever the umask is.
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        create_tables(connection)
        plan, round_seconds, now = identity.plan, identity.round_seconds, identity.current_round
        secret = os.urandom(SECRET_BYTES)
        connection.execute(
            "INSERT INTO device VALUES (1, ?, ?, ?, ?, 0.0, ?, ?, NULL, NULL)",
            (
                plan,
                round_seconds,
                secret,
                epoch,
                checksum(secret, plan, round_seconds, epoch, 0.0),
                now if epoch else -1,
            ),
        )
        connection.execute("INSERT INTO consent VALUES (1, ?, NULL, '', NULL)", (identity.choice,))
        if identity.paused:
            plans.pause(connection, now, plans.ASKED)
        connection.execute("INSERT INTO epochs VALUES (?, ?, ?)", (epoch, now, reason))
        limits = (
            (read_limits(path) or LossLimits(inf, inf, sampled=True))
            if epoch
            else LossLimits(0.0, 0.0, sampled=False)
        )
        connection.execute(
            "INSERT INTO limits VALUES (1, ?, ?, ?, NULL, NULL)",
            (limits.max_lifetime, limits.max_year, limits.sampled),
        )
        if epoch:
            ledger.count_lost(connection, epoch - 1, limits, identity.now)
        connection.execute("COMMIT")
    # The connection is closed, so that the log is in the file; only then may the file take its name.
    os.replace(draft, path)
    _sync_folder(folder_of(path))


def _sync_folder(folder: str) -> None:
    """Names are durable only once their folder is."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# What is broken


class BrokenError(Exception):
    """The file cannot be read as a state file."""

    pass


def is_absent(path: str) -> bool:
    """Absent, or empty; but an empty file with a log beside it has lost something."""
    if _first_bytes(path):
        return False
    logs = {suffix: _first_bytes(path + suffix) for suffix in COMPANIONS}
    for suffix, content in logs.items():
        if content and content[:4] not in _LOG_BEGINS[suffix]:
            raise StateError(
                f"{path}{suffix}: this is another program's file, with a name that SQLite would use.\n"
                "  Hint: give the device a file with another name."
            )
    if logs["-wal"] or logs["-journal"]:
        raise BrokenError("the database is missing, but its log exists")
    return True


def _first_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except FileNotFoundError:
        return b""


def check_header(path: str) -> None:
    """Tell our files from those of other programs."""
    with open(path, "rb") as file:
        header = file.read(100)
        is_whole = len(header) == 100 and header[:16] == b"SQLite format 3\x00"
        is_ours = int.from_bytes(header[68:72], "big") == APPLICATION_ID
        if not is_ours and not is_whole:
            content = header + file.read(_LARGEST_SEARCHED)
            # A page of a database has zeros in it; a text that quotes our tables has none.
            is_ours = not any(content) or (b"CREATE TABLE device (" in content and b"\0" in content)
    if not is_ours:
        raise StateError(
            f"{path}: this is another program's file; it was not changed.\n"
            "  Hint: give the state file of a device, or a new name."
        )
    if not is_whole or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise BrokenError("not a database")
    layout = int.from_bytes(header[60:64], "big")
    check_layout(path, layout)
    if layout < 1:
        raise BrokenError("corrupt")
    if not {header[18], header[19]} <= {1, 2}:  # SQLite would open it, for reading only
        raise BrokenError("corrupt")


def check_identity(connection: sqlite3.Connection) -> None:
    """Raise where a database of any layout is broken, or its row about the device is."""
    [(verdict,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise BrokenError("corrupt")
    if "device" not in _tables_in(connection):
        raise BrokenError("tables are missing")
    row = connection.execute(
        "SELECT plan, round_seconds, secret, epoch, held, checksum FROM device"
    ).fetchone()
    if row is None:
        raise BrokenError("empty tables")
    plan, round_seconds, secret, epoch, held, kept_checksum = row
    if not isinstance(secret, bytes) or len(secret) != SECRET_BYTES or not any(secret):
        raise BrokenError("no valid secret")
    if not isinstance(epoch, int) or epoch < 0:
        raise BrokenError("no valid epoch")
    try:
        is_whole = kept_checksum == checksum(secret, str(plan), round_seconds, epoch, held)
    except (TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise BrokenError("corrupt")


def _tables_in(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def check_content(path: str, connection: sqlite3.Connection, identity: Identity | None) -> None:
    """Read once all that is read later; raise where it is broken, or of another plan or round length."""
    check_identity(connection)
    if not _tables_in(connection) >= TABLES.keys():
        raise BrokenError("tables are missing")
    if has_misfits(connection):
        raise BrokenError("corrupt")
    me = device_row(connection)
    _check_texts(connection, me)
    _check_owner(path, me, identity)


def _check_texts(connection: sqlite3.Connection, me: DeviceRow) -> None:
    """Read once what will be read later: SQLite's own check does not look into texts."""
    try:
        plans.layouts(connection)
        ledger.entries(connection)
        ledger.epochs(connection)
        outbox.waiting(connection, me.plan)
        chosen = consent.read(connection)
        if not {chosen.choice, chosen.in_force} <= {None, *consent.CONSENTS}:
            raise BrokenError("corrupt")
        json.loads(chosen.questions or "{}")
        if ledger.lifetime(connection) != me.held:
            raise BrokenError("corrupt")
    except (ValueError, TypeError, ArithmeticError, LookupError, ReticentError):
        raise BrokenError("corrupt") from None


def _check_owner(path: str, me: DeviceRow, identity: Identity | None) -> None:
    if identity and me.plan != identity.plan:
        raise StateError(
            f"{path}: holds the state of plan {me.plan!r}, not of {identity.plan!r}.\n"
            "  Hint: one state file serves one plan; give each its own."
        )
    if identity and me.round_seconds != identity.round_seconds:
        raise StateError(
            f"{path}: plan {me.plan!r} was taken up with rounds of {me.round_seconds} s, not "
            f"{identity.round_seconds} s.\n"
            "  Hint: a round's number would no longer name one time; another round length needs another plan "
            "name and state file."
        )
