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

import os
import re
import sqlite3
import sys
from contextlib import closing, suppress
from math import inf

from reticent.device import ledger
from reticent.device.prf import SECRET_BYTES
from reticent.device.schema import APPLICATION_ID, BrokenError, check_layout, create, epoch_of_remains
from reticent.device.state import ASKED, Consent, DeviceState, Epoch, LossLimits, Pause, StoredConsent
from reticent.errors import StateError
from reticent.frozen import frozen, replace
from reticent.hashes import blake2b

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
    choice: Consent | None = None  #: The person's choice of consent
    paused: bool = False  #: Whether the person has asked for a pause


def folder_of(path: str) -> str:
    """The folder that a file is in."""
    return os.path.dirname(path) or "."


def make_file(path: str, identity: Identity, fault: str, lost_epoch: int | None) -> int:
    """
    Make a file with a new secret; with a `fault`, set aside what was there before. Returns its epoch.

    The epoch is later than every one that is known to be lost: those of the files set aside, that of the broken
    file as far as it or its second copy can be read, and `lost_epoch`.
    """
    pattern = re.compile(re.escape(os.path.basename(path)) + r"\.quarantined-(\d{1,9})")
    matches = (pattern.fullmatch(name) for name in os.listdir(folder_of(path)))
    aside = [int(match[1]) for match in matches if match]
    epoch = max([*aside, -1 if lost_epoch is None else lost_epoch + 1, 0])
    if fault:
        identity = replace(identity, choice="unset", paused=False)  # the person is asked again
        _, known = read_limits(path) or (None, 0)
        epoch = max(epoch, known, epoch_of_remains(path)) + 1
        set_aside(path, epoch)
    reason = "enrolled"
    if epoch:
        reason = f"quarantined: {fault or 'the state file was lost'}"
        reason += "; what it held is unknown, so all that the policy ever allowed is counted"
    _create(path, identity, epoch, reason)
    return epoch


LIMITS = "-limits"  # the name of the second copy of the limits, after that of the state file


def read_limits(path: str) -> tuple[LossLimits, int] | None:
    """The second copy of the limits and of the epoch; None: there is none that can be trusted."""
    try:
        with open(path + LIMITS, encoding="ascii") as file:
            text, _, kept = file.read(256).rstrip("\n").rpartition(" ")
        lifetime, year, sampled, *epoch = text.split(" ")
        if kept != blake2b(text.encode(), digest_size=8).hexdigest():
            return None
        return LossLimits(float(lifetime), float(year), sampled == "1"), int(*epoch)
    except (OSError, ValueError, TypeError):
        return None


def write_limits(path: str, limits: LossLimits, epoch: int) -> None:
    """Keep the limits and the epoch a second time, before the change that raises them is committed."""
    if read_limits(path) == (limits, epoch):
        return
    text = f"{limits.max_lifetime!r} {limits.max_year!r} {int(limits.sampled)} {epoch}"
    draft = f"{path}{LIMITS}{DRAFT}"
    descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, f"{text} {blake2b(text.encode(), digest_size=8).hexdigest()}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(draft, path + LIMITS)
    _sync_folder(folder_of(path))  # a power cut that damages the file must not leave an earlier, lower copy


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
    now = identity.current_round
    state = DeviceState(
        identity.plan,
        identity.round_seconds,
        os.urandom(SECRET_BYTES),
        epoch,
        silent_through=now if epoch else -1,
        consent=StoredConsent(identity.choice, None, "", None),
        epochs={epoch: Epoch(epoch, now, reason)},
        pauses={(now, ASKED): Pause(now, ASKED, None)} if identity.paused else {},
    )
    if epoch:
        limits, _ = read_limits(path) or (LossLimits(inf, inf, sampled=True), 0)
        state = ledger.count_lost(state, limits, identity.now)
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
        create(connection, state)
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


def check_owner(path: str, me: DeviceState, identity: Identity | None) -> None:
    """Raise where a file is that of another plan or round length."""
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
