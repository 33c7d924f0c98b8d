"""The reports of a device: waiting, on their way, or kept as receipts of what it has told."""

from __future__ import annotations

import json
import os
from hashlib import blake2b
from typing import TYPE_CHECKING

from reticent.frozen import frozen

if TYPE_CHECKING:
    import sqlite3

    from reticent.reports import Report

_COLUMNS = "round, version, epoch, id, cohort, asked, bits, segment, checksum, state, code, attempts, next_try, closes"

MOST_RECEIPTS = 512
"""So many reports are kept one by one."""
FIRST_BACK_OFF = 15.0
LONGEST_BACK_OFF = 3600.0
LONGEST_DELAY = 1e9
"""What a collector can ask for at most, s: a report is given up long before."""


@frozen()
class Kept:
    """A report and what became of it."""

    report: Report
    epoch: int
    state: str
    """waiting, accepted, rejected or expired."""
    code: str
    """Why it was rejected."""
    attempts: int
    next_try: float
    closes: int
    intact: bool
    """Whether it is what was written. What is not is never sent: its id may have gone out with other bits."""


def put(
    connection: sqlite3.Connection,
    report: Report,
    epoch: int,
    send_at: float,
    closes: int,
    *,
    told: bool,
    state: str = "waiting",
) -> None:
    """Keep a new report, to be sent at a time; with the state "local", to be shown and never sent."""
    connection.execute(
        f"INSERT INTO reports (told, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, ?, ?)",  # noqa: S608
        (
            told,
            report.round,
            report.version,
            epoch,
            report.id,
            report.cohort,
            report.asked,
            report.bits,
            json.dumps(dict(report.segment)),
            _checksum(report),
            state,
            send_at,
            closes,
        ),
    )


def get(connection: sqlite3.Connection, plan: str, round_number: int) -> Kept | None:
    """The report of a round."""
    return next(iter(_select(connection, plan, "WHERE round = ?", round_number)), None)


def everything(connection: sqlite3.Connection, plan: str) -> list[Kept]:
    """Every report, oldest round first."""
    return _select(connection, plan, "")


def waiting(connection: sqlite3.Connection, plan: str) -> list[Kept]:
    """What is still to be sent, oldest round first."""
    return _select(connection, plan, "WHERE state = 'waiting'")


def answered(connection: sqlite3.Connection, first: int, last: int) -> set[int]:
    """Which rounds from `first` to `last` have a report."""
    rows = connection.execute("SELECT round FROM reports WHERE round BETWEEN ? AND ?", (first, last))
    return {number for (number,) in rows}


def due(connection: sqlite3.Connection, plan: str, now: float, *, early: bool) -> list[Kept]:
    """
    What to send now, in the order of rounds.

    `early`: also what was never tried and would be spread over the round; a retry waits for its time always.
    """
    untried = "OR attempts = 0" if early else ""
    clause = f"WHERE state = 'waiting' AND closes > ? AND (next_try <= ? {untried})"
    return [kept for kept in _select(connection, plan, clause, now, now) if kept.intact]


def next_time(connection: sqlite3.Connection) -> float | None:
    """When the next report is to be sent."""
    [(earliest,)] = connection.execute("SELECT min(next_try) FROM reports WHERE state = 'waiting'")
    return None if earliest is None else float(earliest)


def mark_told(connection: sqlite3.Connection, round_number: int) -> None:
    """Its bytes are about to be handed out."""
    connection.execute("UPDATE reports SET told = 1 WHERE round = ?", (round_number,))


def claim(connection: sqlite3.Connection, kept: Kept, until: float) -> bool:
    """Take a report for sending, unless somebody else has; nobody else tries it before `until`."""
    cursor = connection.execute(
        "UPDATE reports SET told = 1, attempts = attempts + 1, next_try = ?"
        " WHERE round = ? AND id = ? AND state = 'waiting' AND attempts = ?",
        (until, kept.report.round, kept.report.id, kept.attempts),
    )
    return cursor.rowcount == 1


def settle(connection: sqlite3.Connection, kept: Kept, state: str, code: str = "") -> None:
    """It was accepted or rejected."""
    connection.execute(
        "UPDATE reports SET state = ?, code = ? WHERE round = ? AND id = ?",
        (state, code, kept.report.round, kept.report.id),
    )


def postpone(connection: sqlite3.Connection, kept: Kept, until: float) -> None:
    """It will be tried again."""
    connection.execute(
        "UPDATE reports SET next_try = ? WHERE round = ? AND id = ? AND state = 'waiting'",
        (until, kept.report.round, kept.report.id),
    )


def note_attempt(connection: sqlite3.Connection, now: float, outcome: str) -> None:
    """Enter what came of an attempt: accepted, rejected, or the fault that stood in its way."""
    connection.execute(
        "INSERT INTO attempts VALUES (?, 1, ?)"
        " ON CONFLICT (outcome) DO UPDATE SET count = count + 1, latest = excluded.latest",
        (outcome, now),
    )


def attempts(connection: sqlite3.Connection) -> dict[str, tuple[int, float]]:
    """How often sending came to each outcome, and when last (unix seconds), the latest outcome first."""
    rows = connection.execute("SELECT outcome, count, latest FROM attempts ORDER BY latest DESC")
    return {outcome: (count, latest) for outcome, count, latest in rows}


def expire(connection: sqlite3.Connection, now: float) -> None:
    """Give up what no collector would take any more."""
    connection.execute("UPDATE reports SET state = 'expired' WHERE state = 'waiting' AND closes <= ?", (now,))


def keep_here(connection: sqlite3.Connection) -> None:
    """Never send what waits, and go on showing it. What may have left the device already is given up."""
    connection.execute("UPDATE reports SET state = 'local' WHERE state = 'waiting' AND told = 0")
    connection.execute("UPDATE reports SET state = 'expired' WHERE state = 'waiting'")


def drop_waiting(connection: sqlite3.Connection) -> None:
    """Send nothing of what waits. What may have left the device already stays, as a receipt."""
    connection.execute("DELETE FROM reports WHERE state = 'waiting' AND told = 0")
    connection.execute("UPDATE reports SET state = 'expired' WHERE state = 'waiting'")


def sum_up(connection: sqlite3.Connection, before: int) -> None:
    """
    Keep the latest receipts one by one, and of earlier ones, of rounds before `before`, only how many there were.

    A state file opens in the same time after years. What the reports may have told is in the ledger, which
    nothing is taken out of. Rounds that are summed up are never answered again.
    """
    [(count,)] = connection.execute("SELECT count(*) FROM reports")
    if count < MOST_RECEIPTS + 64:  # not at every report
        return
    latest = "SELECT round FROM reports ORDER BY round DESC LIMIT 1 OFFSET ?"
    [(cut,)] = connection.execute(latest, (MOST_RECEIPTS - 1,))
    cut = min(cut, before)
    connection.execute(
        "INSERT INTO past"
        " SELECT version, epoch, state, count(*), sum(told), min(round), max(round) FROM reports"
        " WHERE round < ? AND state != 'waiting' GROUP BY version, epoch, state"
        " ON CONFLICT DO UPDATE SET count = count + excluded.count, told = told + excluded.told,"
        " first_round = min(first_round, excluded.first_round),"
        " last_round = max(last_round, excluded.last_round)",
        (cut,),
    )
    connection.execute("DELETE FROM reports WHERE round < ? AND state != 'waiting'", (cut,))
    connection.execute("UPDATE device SET silent_through = max(silent_through, ?)", (cut - 1,))
    connection.execute("DELETE FROM pauses WHERE through_round < ?", (cut,))


@frozen()
class Past:
    """Reports that are not listed one by one any more."""

    version: int
    epoch: int
    state: str
    reports: int
    """How many."""
    told: int
    """Of how many the bytes may have left."""
    first_round: int
    last_round: int


def summed_up(connection: sqlite3.Connection) -> list[Past]:
    """What is known of reports that are not listed any more, the earliest first."""
    return [Past(*row) for row in connection.execute("SELECT * FROM past ORDER BY first_round, state")]


def count_by_state(connection: sqlite3.Connection) -> dict[str, int]:
    """How many reports are in each state, those that are summed up included."""
    rows = connection.execute(
        "SELECT state, sum(count) FROM (SELECT state, count(*) AS count FROM reports GROUP BY state"
        " UNION ALL SELECT state, count FROM past) GROUP BY state"
    )
    return dict(rows.fetchall())


def _select(connection: sqlite3.Connection, plan: str, clause: str, *parameters: object) -> list[Kept]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM reports {clause} ORDER BY round", parameters)  # noqa: S608
    selected = []
    for number, version, epoch, name, cohort, asked, bits, segment, checksum, *rest in rows:
        from reticent.reports import Report  # loaded when there is one: a host waits for the first start

        tags = json.loads(segment)
        report = Report(plan, version, number, bytes(name), bytes(bits), cohort, tags, asked)
        state, code, attempts, next_try, closes = rest
        intact = checksum == _checksum(report)
        selected.append(Kept(report, epoch, state, code, attempts, next_try, closes, intact))
    return selected


def _checksum(report: Report) -> bytes:
    from reticent.reports import to_json

    return blake2b(to_json(report), digest_size=8).digest()


def back_off(attempts: int, round_seconds: int, after: float | None = None) -> float:
    """
    Seconds to the next attempt: uniform in [0, ceiling], where the ceiling doubles ("full jitter").

    It starts at 15 s (a sixteenth of a round, if that is shorter) and ends at an hour. Never sooner than the
    collector asked for. The jitter is the operating system's, not the device's secret: it may be redrawn.
    """
    if not isinstance(after, int | float) or not after >= 0:  # a transport of the host's own may say anything
        after = None
    ceiling = min(min(FIRST_BACK_OFF, round_seconds / 16) * (1 << min(attempts, 20)), LONGEST_BACK_OFF)
    jitter = ceiling * int.from_bytes(os.urandom(8), "big") / 2**64
    return jitter if after is None else min(after, LONGEST_DELAY) + jitter
