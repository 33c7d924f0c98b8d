"""
A new state file, and what becomes of a broken one: it is set aside, never removed.

A new secret is a new set of remembered answers, which costs privacy anew. So none is ever drawn in silence:
a quarantined file stays beside the new one as `.quarantined-N`, where N is the number of the epoch that
replaced it, and is counted for as long as it is there.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from reticent.device.prf import SECRET_BYTES, checksum
from reticent.device.schema import APPLICATION_ID, LAYOUT, TABLES

COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database."""


class Identity(NamedTuple):
    """What a fresh state file is for."""

    plan: str
    round_seconds: int
    current_round: int


def beside(path: Path, suffix: str) -> Path:
    """A file beside another, by what its name has in addition."""
    return path.with_name(path.name + suffix)


def make_file(path: Path, identity: Identity, fault: str, lost_epoch: int | None) -> int:
    """
    Make a file with a new secret; with a `fault`, what was there before is set aside. Returns its epoch.

    The epoch is later than every one that is known to be lost: those of the files set aside, that of the
    broken file as far as it can be read, and `lost_epoch`.
    """
    pattern = re.compile(re.escape(path.name) + r"\.quarantined-(\d{1,9})")
    matches = (pattern.fullmatch(name) for name in os.listdir(path.parent))
    aside = [int(match[1]) for match in matches if match]
    epoch = max([*aside, -1 if lost_epoch is None else lost_epoch + 1, 0])
    if fault:
        epoch = max(epoch, _readable_epoch(path)) + 1
        set_aside(path, epoch)
    _create(
        path, identity, epoch, f"quarantined: {fault or 'the state file was lost'}" if epoch else "enrolled"
    )
    return epoch


def _readable_epoch(path: Path) -> int:
    """The epoch of a broken file, as far as it can be read; else 0."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        ) as connection:
            # Each epoch below is counted as lost, so a number that is damaged itself must not be a huge one.
            [(epoch,)] = connection.execute("SELECT min(epoch, (SELECT max(epoch) FROM epochs)) FROM device")
            return epoch if isinstance(epoch, int) and 0 <= epoch < 10**8 else 0
    except (sqlite3.Error, ValueError):
        return 0


def set_aside(path: Path, epoch: int) -> None:
    """Rename a broken file and its companions, the file first."""
    aside = beside(path, f".quarantined-{epoch}")
    if not path.exists():
        path.touch(0o600)
    path.rename(aside)
    # Cut off here, the next start finds a log without its database, and quarantines that too.
    for suffix in COMPANIONS:
        with suppress(FileNotFoundError):
            beside(path, suffix).rename(beside(aside, suffix))
    # On the disk before the new file is: without the old name, nothing would tell of the first secret.
    _sync_folder(path.parent)


def _create(path: Path, identity: Identity, epoch: int, reason: str) -> None:
    """Write the whole file under another name, then give it its own: it is never seen half made."""
    draft = beside(path, ".new")
    for suffix in ("", *COMPANIONS):
        beside(draft, suffix).unlink(missing_ok=True)
    # Made with mode 0600 before SQLite opens it, whatever the umask is.
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
        for table in TABLES.values():
            connection.execute(table)
        plan, round_seconds, now = identity
        secret = os.urandom(SECRET_BYTES)
        connection.execute(
            "INSERT INTO device VALUES (1, ?, ?, ?, ?, ?, ?, NULL, NULL)",
            (
                plan,
                round_seconds,
                secret,
                epoch,
                checksum(secret, plan, round_seconds, epoch),
                now if epoch else -1,
            ),
        )
        connection.execute("INSERT INTO epochs VALUES (?, ?, ?)", (epoch, now, reason))
        connection.execute("COMMIT")
    # The connection is closed, so that the log is in the file; only then may the file take its name.
    draft.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Names are durable only once their folder is."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
