"""
The state file: one SQLite database per device and plan. Every column says what it holds and in which unit.

Rounds are numbered as on the wire: floor(unix seconds / round length).

A layout, once released, is opened by every later version. To change the tables, change `TABLES` and append to
`STEPS` what makes the new layout of the one before; a released step is never changed. `PRAGMA user_version` is the
number of the layout. The application id, the table `device` and its checksum stay as they are in every layout:
they tell what is ours, and whether it is whole, before a step is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.errors import StateError
from reticent.frozen import frozen

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

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

    from reticent.device.prf import checksum
    from reticent.privacy import compose

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
    me = device_row(connection)
    held = compose(loss for (loss,) in connection.execute("SELECT lifetime FROM ledger"))
    connection.execute(
        "UPDATE device SET held = ?, checksum = ?",
        (held, checksum(me.secret, me.plan, me.round_seconds, me.epoch, held)),
    )


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_to_layout_2,)
"""The first makes layout 2 of layout 1, the second layout 3 of layout 2, and so on."""


class NewerStateError(StateError):
    """The file has a layout that this version does not know; nothing in it was changed."""


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


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new file, within the caller's transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {known_layout()}")
    for table in TABLES.values():
        connection.execute(table)


def run_missing_steps(connection: sqlite3.Connection) -> None:
    """Bring a file of an older layout to this one, within the caller's transaction."""
    for step in STEPS[layout_of(connection) - 1 :]:
        step(connection)
    connection.execute(f"PRAGMA user_version = {known_layout()}")


@frozen()
class DeviceRow:
    """The one row about the device itself."""

    plan: str
    round_seconds: int
    secret: bytes
    epoch: int
    held: float
    silent_through: int
    enrolled_from: int | None
    changed_in: int | None

    def __repr__(self) -> str:
        return f"DeviceRow(plan={self.plan!r}, epoch={self.epoch})"


def device_row(connection: sqlite3.Connection) -> DeviceRow:
    """The device's own row."""
    row = connection.execute(
        "SELECT plan, round_seconds, secret, epoch, held, silent_through, enrolled_from, changed_in"
        " FROM device"
    ).fetchone()
    return DeviceRow(*row)


def has_misfits(connection: sqlite3.Connection) -> bool:
    """
    Whether a value has another type than its column, which SQLite allows and its check passes.

    A column is a line of its own: name, type, and constraints; without those it may be NULL.
    """
    for table, definition in TABLES.items():
        misfits = []
        for line in definition.splitlines():
            name, kind, *constraints = (*line.partition("--")[0].replace(",", "").split(), "", "")
            if kind in ("INTEGER", "REAL", "TEXT", "BLOB"):
                other = kind if {"NOT", "PRIMARY"}.intersection(constraints) else "NULL"
                misfits.append(f"typeof({name}) NOT IN ('{kind.lower()}', '{other.lower()}')")
        if connection.execute(f"SELECT 1 FROM {table} WHERE {' OR '.join(misfits)} LIMIT 1").fetchone():  # noqa: S608
            return True
    return False
