"""
The state file: one SQLite database per device and plan, whose rows are a `DeviceState`. All SQL about them is here.
Every column says what it holds and in which unit.

Rounds are numbered as on the wire: floor(unix seconds / round length).

A layout, once released, is opened by every later version. To change the tables, change `TABLES` and append to
`STEPS` what makes the new layout of the one before; a released step is never changed. `PRAGMA user_version` is the
number of the layout. The application id, the table `device` and its checksum stay as they are in every layout:
they tell what is ours, and whether it is whole, before a step is run.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from reticent.device.prf import SECRET_BYTES, checksum
from reticent.device.state import (
    CONSENTS,
    Consent,
    DeviceState,
    Epoch,
    HeldAnswers,
    HeldPlan,
    HeldWindow,
    KeptReport,
    LossLimits,
    Past,
    Pause,
    StoredConsent,
)
from reticent.errors import NewerStateError, ReticentError

APPLICATION_ID = 0x72657469

TABLES = {
    "device": """
        CREATE TABLE device (                   -- one row
            only           INTEGER PRIMARY KEY CHECK (only = 1),
            plan           TEXT    NOT NULL,    -- the plan's name; a file serves one plan
            round_seconds  INTEGER NOT NULL,    -- length of a round, s; fixed for the life of the file
            secret         BLOB    NOT NULL,    -- 32 bytes from the operating system; never leaves the file
            epoch          INTEGER NOT NULL,    -- memo epoch; 1 more after each forget or quarantine
            held           REAL    NOT NULL,    -- sum of `lifetime` in the ledger, nats: what the policy limits
            checksum       BLOB    NOT NULL,    -- of the five above: a flipped bit is another device
            silent_through INTEGER NOT NULL,    -- no round up to this one is answered: the secret is younger
            enrolled_from  INTEGER,             -- first full round after the first plan was taken up
            changed_in     INTEGER              -- round in which the remembered answers last changed by plan
        )""",
    "consent": """
        CREATE TABLE consent (                  -- one row
            only        INTEGER PRIMARY KEY CHECK (only = 1),
            choice      TEXT,                   -- the person's: unset, granted, denied or local; NULL: none yet
            chosen_at   INTEGER,                -- when, unix seconds
            questions   TEXT    NOT NULL,       -- JSON: what granted or local was chosen for, with its losses
            in_force    TEXT                    -- what held last: the choice or the program's default
        )""",
    "epochs": """
        CREATE TABLE epochs (
            epoch       INTEGER PRIMARY KEY,    -- its number
            began_in    INTEGER NOT NULL,       -- round under way when it began
            reason      TEXT    NOT NULL        -- "enrolled", "forgotten" or "quarantined: ..."
        )""",
    "plans": """
        CREATE TABLE plans (                    -- every version this device has held
            version     INTEGER PRIMARY KEY,    -- the plan's version
            fingerprint BLOB    NOT NULL,       -- SHA-256 of all that decides what a report means
            from_round  INTEGER NOT NULL,       -- first round answered under it
            window      INTEGER NOT NULL,       -- rounds of a window of sampled answers; 0: remembered
            round_loss  REAL    NOT NULL,       -- bound on the loss of one round or window, nats
            layout      TEXT    NOT NULL,       -- JSON: [[metric, answer bits, digest], ...] in plan order
            text        TEXT    NOT NULL        -- plan.toml, or empty for a plan built by hand
        )""",
    "pauses": """
        CREATE TABLE pauses (                   -- rounds that a pause overlapped are not answered
            from_round    INTEGER NOT NULL,     -- round under way when it began
            reason        TEXT    NOT NULL,     -- "asked", "silent", "DO_NOT_TRACK", "CI" or "container"
            through_round INTEGER,              -- round under way when it ended; NULL: still paused
            PRIMARY KEY (from_round, reason)
        ) WITHOUT ROWID""",
    "windows": """
        CREATE TABLE windows (                  -- sampled answers: those held; they never overlap
            start       INTEGER PRIMARY KEY,    -- when it begins, unix seconds
            ends        INTEGER NOT NULL,       -- when it ends, unix seconds; the next begins then or later
            loss        REAL    NOT NULL,       -- bound on what its report may tell, nats
            round       INTEGER UNIQUE          -- the round answered in it; NULL: none
        )""",
    "presence": """
        CREATE TABLE presence (                 -- rounds in which the program ran; they depend on no value
            first_round INTEGER PRIMARY KEY,    -- the first of neighbouring rounds
            last_round  INTEGER NOT NULL        -- the last of them
        )""",
    "limits": """
        CREATE TABLE limits (                   -- one row: what a lost file can have told at most
            only         INTEGER PRIMARY KEY CHECK (only = 1),
            max_lifetime REAL    NOT NULL,      -- the largest limit that was ever in force, nats
            max_year     REAL    NOT NULL,      -- the largest limit that was ever in force, nats
            sampled      INTEGER NOT NULL,      -- 1: answers were sampled under some plan
            lost_year    REAL,                  -- the `max_year` of a file that was lost; NULL: none was
            lost_at      INTEGER                -- when it was found lost, unix seconds
        )""",
    "totals": """
        CREATE TABLE totals (                   -- raw values; deleted when their round is answered
            round       INTEGER NOT NULL,       -- the round they belong to
            metric      TEXT    NOT NULL,       -- the metric's name
            value       TEXT    NOT NULL,       -- the total so far, exact: "3" or "1/2", in the metric's unit
            PRIMARY KEY (round, metric)
        ) WITHOUT ROWID""",
    "reports": """
        CREATE TABLE reports (                  -- outbox and receipts
            round       INTEGER PRIMARY KEY,    -- the round answered; there is one report per round
            version     INTEGER NOT NULL,       -- the plan's version
            epoch       INTEGER NOT NULL,       -- the memo epoch
            id          BLOB    NOT NULL,       -- 16 bytes
            cohort      INTEGER,                -- 0..255, NULL when the plan has no use for it
            asked       BLOB,                   -- which metrics it answers, packed; NULL: all of them
            bits        BLOB    NOT NULL,       -- the answers in plan order, packed
            segment     TEXT    NOT NULL,       -- JSON: the public tags
            checksum    BLOB    NOT NULL,       -- of all above but the epoch: a flipped bit is not sent
            state       TEXT    NOT NULL CHECK (state IN ('waiting', 'accepted', 'rejected', 'expired', 'local')),
            code        TEXT    NOT NULL,       -- why the collector rejected it, or empty
            told        INTEGER NOT NULL,       -- 1 once its bytes may have left: handed out, or sent
            attempts    INTEGER NOT NULL,       -- how often it was sent
            next_try    REAL    NOT NULL,       -- when to send it (again), unix seconds
            closes      INTEGER NOT NULL        -- when the collector stops taking it, unix seconds
        )""",
    "past": """
        CREATE TABLE past (                     -- receipts that were summed up: so many are kept one by one
            version     INTEGER NOT NULL,       -- the plan's version
            epoch       INTEGER NOT NULL,       -- the memo epoch
            state       TEXT    NOT NULL,       -- what became of them, as in `reports`
            count       INTEGER NOT NULL,       -- how many reports
            told        INTEGER NOT NULL,       -- of how many the bytes may have left
            first_round INTEGER NOT NULL,       -- the earliest of their rounds
            last_round  INTEGER NOT NULL,       -- the latest of their rounds
            PRIMARY KEY (version, epoch, state)
        ) WITHOUT ROWID""",
    "attempts": """
        CREATE TABLE attempts (                 -- what came of sending, by outcome; stays on the device
            outcome     TEXT    PRIMARY KEY,    -- "accepted", "rejected", or the fault of a `Retry`
            count       INTEGER NOT NULL,       -- how often
            latest      REAL    NOT NULL        -- when last, unix seconds
        ) WITHOUT ROWID""",
    "ledger": """
        CREATE TABLE ledger (                   -- what was held, from the moment it is held
            metric      TEXT    NOT NULL,       -- the metric's name; empty for a state file that was lost
            digest      BLOB    NOT NULL,       -- digest of its privacy parameters
            epoch       INTEGER NOT NULL,       -- the memo epoch
            classes     TEXT    NOT NULL,       -- JSON: remembered answers used so far; stays on the device
            loss        REAL    NOT NULL,       -- bound on the loss so far, nats
            lifetime    REAL    NOT NULL,       -- bound on the loss whatever happens, nats
            lost        INTEGER NOT NULL,       -- 1: its file was lost, so all of `lifetime` is counted
            PRIMARY KEY (metric, digest, epoch)
        ) WITHOUT ROWID""",
    "notes": """
        CREATE TABLE notes (                    -- what went wrong, by kind; stays on the device
            kind        TEXT    PRIMARY KEY,
            count       INTEGER NOT NULL        -- how often
        ) WITHOUT ROWID""",
}


def _to_layout_2(connection: sqlite3.Connection) -> None:
    """When the program ran, which is not known of earlier rounds; and the largest limits, as far as they are known."""
    from math import inf

    from reticent.losses import compose

    for name in ("presence", "limits"):
        connection.execute(TABLES[name])
    [(lifetime,)] = connection.execute("SELECT held FROM device")
    [(year,)] = connection.execute("SELECT coalesce(sum(loss), 0.0) * 1.000001 FROM windows")
    [(sampled,)] = connection.execute("SELECT EXISTS (SELECT 1 FROM plans WHERE window > 0)")
    [(lost_at,)] = connection.execute(
        "SELECT (SELECT round_seconds FROM device) * max(began_in) FROM epochs"
        " WHERE EXISTS (SELECT 1 FROM ledger WHERE lost = 1)"
    )
    connection.execute(
        "INSERT INTO limits VALUES (1, ?, ?, ?, ?, ?)",
        (float(lifetime), float(year), sampled, None if lost_at is None else inf, lost_at),
    )
    # Windows are not counted for life any more.
    held = compose(loss for (loss,) in connection.execute("SELECT lifetime FROM ledger"))
    columns = "plan, round_seconds, secret, epoch"
    [(plan, seconds, secret, epoch)] = connection.execute(f"SELECT {columns} FROM device")  # noqa: S608
    kept = checksum(secret, plan, seconds, epoch, held)
    connection.execute("UPDATE device SET held = ?, checksum = ?", (held, kept))


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_to_layout_2,)
"""The first makes layout 2 of layout 1, the second layout 3 of layout 2, and so on."""


def known_layout() -> int:
    """The number of the layout above."""
    return 1 + len(STEPS)


def layout_of(connection: sqlite3.Connection) -> int:
    """The number of a file's layout."""
    [(layout,)] = connection.execute("PRAGMA user_version")
    return int(layout)


def check_layout(path: str, layout: int) -> None:
    """Raise `NewerStateError` for a layout that this version does not know."""
    if layout > known_layout():
        raise NewerStateError(
            f"{path}: this file was written by a newer version of reticent (layout {layout}; this version knows "
            f"{known_layout()}); nothing was changed.\n"
            "  Hint: update reticent in this program."
        )


def run_missing_steps(connection: sqlite3.Connection) -> None:
    """Bring a file of an older layout to this one, within the caller's transaction."""
    for step in STEPS[layout_of(connection) - 1 :]:
        step(connection)
    connection.execute(f"PRAGMA user_version = {known_layout()}")


# Between the tables and the document


def _columns(table: str) -> list[str]:
    """The names of a table's columns, without those that number its only row."""
    lines = (line.split("--")[0].replace(",", " ").split() for line in TABLES[table].splitlines())
    return [words[0] for words in lines if len(words) > 1 and words[1] in _KINDS and words[0] != "only"]


_KINDS = ("INTEGER", "REAL", "TEXT", "BLOB")


class _TableRows(NamedTuple):
    """How the rows of a table are a mapping of a `DeviceState`."""

    columns: list[str]
    key: list[str]
    of: Callable[..., Any] | None  #: The class of a row; None: what is not in the key, as it is

    def load(self, connection: sqlite3.Connection, table: str) -> Mapping[Any, Any]:
        order = ", ".join(self.key)
        rows = connection.execute(f"SELECT {', '.join(self.columns)} FROM {table} ORDER BY {order}")  # noqa: S608
        places = [self.columns.index(name) for name in self.key]
        loaded: dict[Any, Any] = {}
        for row in rows:
            key = row[places[0]] if len(places) == 1 else tuple(row[place] for place in places)
            rest = row[len(places) :]
            loaded[key] = self.of(*row) if self.of else rest[0] if len(rest) == 1 else rest
        return loaded

    def save(
        self, connection: sqlite3.Connection, table: str, before: Mapping[Any, Any], after: Mapping[Any, Any]
    ) -> None:
        found = " AND ".join(f"{name} = ?" for name in self.key)
        for key in before.keys() - after.keys():
            connection.execute(f"DELETE FROM {table} WHERE {found}", _tuple(key))  # noqa: S608
        others = ", ".join(f"{name} = excluded.{name}" for name in self.columns if name not in self.key)
        put = (
            f"INSERT INTO {table} ({', '.join(self.columns)}) VALUES ({', '.join('?' * len(self.columns))})"  # noqa: S608
            f" ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {others}"
        )
        for key, value in after.items():
            if key not in before or before[key] != value:
                row = (
                    [vars(value)[name] for name in value.__match_args__]
                    if self.of
                    else [*_tuple(key), *_tuple(value)]
                )
                connection.execute(put, row)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


_ROWS = {
    table: _TableRows(_columns(table), key.split(), of)
    for table, key, of in (
        ("epochs", "epoch", Epoch),
        ("plans", "version", HeldPlan),
        ("pauses", "from_round reason", Pause),
        ("windows", "start", HeldWindow),
        ("presence", "first_round", None),
        ("totals", "round metric", None),
        ("reports", "round", KeptReport),
        ("past", "version epoch state", Past),
        ("attempts", "outcome", None),
        ("ledger", "metric digest epoch", HeldAnswers),
        ("notes", "kind", None),
    )
}


def load(connection: sqlite3.Connection) -> DeviceState:
    """All that a file holds."""
    of_device = ("plan", "round_seconds", "secret", "epoch", "silent_through", "enrolled_from", "changed_in")
    fields = _only_row(connection, "device", of_device)
    of_limits = ("max_lifetime", "max_year", "sampled", "lost_year", "lost_at")
    limits = _only_row(connection, "limits", of_limits)
    lost = {"lost_year": limits.pop("lost_year"), "lost_at": limits.pop("lost_at")}
    chosen = _only_row(connection, "consent", StoredConsent.__match_args__)
    tables: dict[str, Any] = {table: rows.load(connection, table) for table, rows in _ROWS.items()}
    return DeviceState(
        **fields, **lost, **tables, limits=LossLimits(**limits), consent=StoredConsent(**chosen)
    )


def _only_row(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> dict[str, Any]:
    row = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchone()  # noqa: S608
    return dict(zip(columns, row, strict=True))


def save(connection: sqlite3.Connection, before: DeviceState, after: DeviceState) -> None:
    """Write what an event has changed, within the caller's transaction."""
    for table, rows in _ROWS.items():
        old = getattr(before, table)
        new = getattr(after, table)
        if old is not new:
            rows.save(connection, table, old, new)
    if before.consent != after.consent:
        of_consent = "choice = ?, chosen_at = ?, questions = ?, in_force = ?"
        connection.execute(f"UPDATE consent SET {of_consent}", tuple(vars(after.consent).values()))  # noqa: S608
    limits = _limits_row(after)
    if _limits_row(before) != limits:
        of_limits = "max_lifetime = ?, max_year = ?, sampled = ?, lost_year = ?, lost_at = ?"
        connection.execute(f"UPDATE limits SET {of_limits}", limits)  # noqa: S608
    if before.ledger is not after.ledger or (before.secret, before.epoch) != (after.secret, after.epoch):
        held = held_by(after)
        kept = checksum(after.secret, after.plan, after.round_seconds, after.epoch, held)
        changed = "secret = ?, epoch = ?, held = ?, checksum = ?"
        connection.execute(f"UPDATE device SET {changed}", (after.secret, after.epoch, held, kept))  # noqa: S608
    rounds = (after.silent_through, after.enrolled_from, after.changed_in)
    if (before.silent_through, before.enrolled_from, before.changed_in) != rounds:
        connection.execute("UPDATE device SET silent_through = ?, enrolled_from = ?, changed_in = ?", rounds)


def _limits_row(state: DeviceState) -> tuple[object, ...]:
    lifetime, year = float(state.limits.max_lifetime), float(state.limits.max_year)
    return lifetime, year, state.limits.sampled, state.lost_year, state.lost_at


def held_by(state: DeviceState) -> float:
    """The loss for life of all that is held: it is kept in the row about the device, under its checksum."""
    from reticent.losses import compose

    return compose(entry.lifetime for entry in state.ledger.values())


def create(connection: sqlite3.Connection, state: DeviceState) -> None:
    """Make the tables of a new file, with what is in it from the start, within the caller's transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {known_layout()}")
    for table in TABLES.values():
        connection.execute(table)
    empty = DeviceState(state.plan, state.round_seconds, b"", -1, state.silent_through)
    row = (state.plan, state.round_seconds, state.silent_through)
    connection.execute("INSERT INTO device VALUES (1, ?, ?, x'', -1, 0.0, x'', ?, NULL, NULL)", row)
    connection.execute("INSERT INTO consent VALUES (1, NULL, NULL, '', NULL)")
    connection.execute("INSERT INTO limits VALUES (1, 0.0, 0.0, 0, NULL, NULL)")
    save(connection, empty, state)


def choice_in(path: str) -> Consent | None:
    """The person's choice in a state file, read without a device; None: there is none, or it cannot be told."""
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        with closing(sqlite3.connect(f"file:{name}?mode=rw", uri=True, timeout=0)) as connection:
            if layout_of(connection) == known_layout():
                [(choice,)] = connection.execute("SELECT choice FROM consent")
                return choice if choice in CONSENTS else None
    except (sqlite3.Error, ValueError):
        pass
    return None


# What is broken


class BrokenError(Exception):
    """The file cannot be read as a state file."""


def check_identity(connection: sqlite3.Connection) -> None:
    """Raise where a database of any layout is broken, or its row about the device is."""
    [(verdict,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise BrokenError("corrupt")
    if "device" not in _tables_in(connection):
        raise BrokenError("tables are missing")
    columns = "plan, round_seconds, secret, epoch, held, checksum"
    row = connection.execute(f"SELECT {columns} FROM device").fetchone()  # noqa: S608
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


def check_content(connection: sqlite3.Connection) -> DeviceState:
    """What a file of this layout holds, read once as far as it is read later; raise where it is broken."""
    check_identity(connection)
    if not _tables_in(connection) >= TABLES.keys():
        raise BrokenError("tables are missing")
    if _has_misfits(connection):
        raise BrokenError("corrupt")
    try:
        state = load(connection)
        # SQLite's own check does not look into texts.
        for held in state.plans.values():
            _ = held.bits
        for entry in state.ledger.values():
            json.loads(entry.classes)
        for kept in state.waiting:
            kept.is_intact(state.plan)
        json.loads(state.consent.questions or "{}")
        is_known = {state.consent.choice, state.consent.in_force} <= {None, *CONSENTS}
        [(held_loss,)] = connection.execute("SELECT held FROM device")
        if not is_known or held_by(state) != held_loss:
            raise BrokenError("corrupt")
    except (ValueError, TypeError, ArithmeticError, LookupError, ReticentError):
        raise BrokenError("corrupt") from None
    return state


def _has_misfits(connection: sqlite3.Connection) -> bool:
    """
    Whether a value has another type than its column, which SQLite allows and its check passes.

    A column is a line of its own: name, type, and constraints; without those it may be NULL.
    """
    for table, definition in TABLES.items():
        misfits = []
        for line in definition.splitlines():
            name, kind, *constraints = (*line.partition("--")[0].replace(",", "").split(), "", "")
            if kind in _KINDS:
                other = kind if {"NOT", "PRIMARY"}.intersection(constraints) else "NULL"
                misfits.append(f"typeof({name}) NOT IN ('{kind.lower()}', '{other.lower()}')")
        if connection.execute(f"SELECT 1 FROM {table} WHERE {' OR '.join(misfits)} LIMIT 1").fetchone():  # noqa: S608
            return True
    return False


def epoch_of_remains(path: str) -> int:
    """The epoch of a broken file, as far as it can be read."""
    from os.path import abspath
    from urllib.parse import quote

    columns = "plan, round_seconds, secret, epoch, held, checksum, (SELECT max(epoch) FROM epochs)"
    try:
        address = f"file:{quote(abspath(path))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as connection:
            [row] = connection.execute(f"SELECT {columns} FROM device")  # noqa: S608
    except (sqlite3.Error, ValueError):
        return 0
    plan, round_seconds, secret, epoch, held, kept, latest = row
    try:
        if kept == checksum(secret, plan, round_seconds, epoch, held):
            return int(epoch)
    except (TypeError, ValueError, AttributeError):
        pass
    # A number that is damaged itself must not be a huge one.
    numbers = [number for number in (epoch, latest) if isinstance(number, int)]
    return min(numbers) if len(numbers) == 2 and 0 <= min(numbers) < 10**8 else 0
