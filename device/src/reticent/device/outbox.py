"""
The reports of a device: waiting, being sent, or kept as receipts.

Each is claimed in the file before a byte leaves, and what came of it is entered after.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

from reticent.device import consent, plans
from reticent.device.consent import LONGEST_SEND
from reticent.device.schema import device_row
from reticent.device.transport import Accepted, Rejected, Retry
from reticent.frozen import frozen

if TYPE_CHECKING:
    import sqlite3

    from reticent.device.faults import Faults
    from reticent.device.statefile import StateFile
    from reticent.device.transport import Outcome, Transport
    from reticent.reports import Report

_COLUMNS = "round, version, epoch, id, cohort, asked, bits, segment, checksum, state, code, attempts, next_try, closes"

MOST_RECEIPTS = 512  # this many reports are kept one by one
FIRST_BACK_OFF = 15.0
LONGEST_BACK_OFF = 3600.0
LONGEST_DELAY = 1e9  # the most a collector can ask for, s: a report is given up long before


@frozen()
class StoredReport:
    """A report and its state."""

    report: Report
    epoch: int
    state: str  #: waiting, accepted, rejected or expired
    code: str  #: Why it was rejected
    attempts: int
    intact: bool  #: As it was written. A damaged one is never sent: its id may have gone out with other bits


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


def waiting(connection: sqlite3.Connection, plan: str) -> list[StoredReport]:
    """What is still to be sent, oldest round first."""
    return select(connection, plan, "WHERE state = 'waiting'")


def answered(connection: sqlite3.Connection, first: int, last: int) -> set[int]:
    """Which rounds from `first` to `last` have a report."""
    rows = connection.execute("SELECT round FROM reports WHERE round BETWEEN ? AND ?", (first, last))
    return {number for (number,) in rows}


def next_time(connection: sqlite3.Connection) -> float | None:
    """When the next report is to be sent; None: none waits, or a pause lasts."""
    [(earliest,)] = connection.execute(
        "SELECT min(next_try) FROM reports WHERE state = 'waiting'"
        " AND NOT EXISTS (SELECT 1 FROM pauses WHERE through_round IS NULL)"
    )
    return None if earliest is None else float(earliest)


def attempts(connection: sqlite3.Connection) -> dict[str, tuple[int, float]]:
    """Per outcome, how often and when last (unix seconds), the latest outcome first."""
    rows = connection.execute("SELECT outcome, count, latest FROM attempts ORDER BY latest DESC")
    return {outcome: (count, latest) for outcome, count, latest in rows}


def sum_up(connection: sqlite3.Connection, before: int) -> None:
    """
    Keep the latest receipts one by one, and of earlier ones, of rounds before `before`, only their number.

    A state file opens in the same time after years. Losses are in the ledger, from which nothing is removed.
    Rounds that are summed up are never answered again.
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
    """Reports that are no longer listed one by one."""

    version: int
    epoch: int
    state: str
    reports: int  #: How many
    told: int  #: Of how many the bytes may have left
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


def select(
    connection: sqlite3.Connection, plan: str, clause: str = "", *parameters: object
) -> list[StoredReport]:
    """Reports, oldest round first."""
    columns = _COLUMNS.removesuffix(", next_try, closes")
    rows = connection.execute(f"SELECT {columns} FROM reports {clause} ORDER BY round", parameters)  # noqa: S608
    selected = []
    for number, version, epoch, name, cohort, asked, bits, segment, checksum, *rest in rows:
        from reticent.reports import Report  # loaded when there is one: a host waits for the first start

        tags = json.loads(segment)
        report = Report(plan, version, number, bytes(name), bytes(bits), cohort, tags, asked)
        state, code, attempts = rest
        selected.append(StoredReport(report, epoch, state, code, attempts, checksum == _checksum(report)))
    return selected


def _checksum(report: Report) -> bytes:
    from reticent.reports import to_json

    return blake2b(to_json(report), digest_size=8).digest()


# Sending


def send_due(
    state: StateFile,
    transport: Transport,
    deadline: float,
    clock: Callable[[], float],
    faults: Faults,
    *,
    early: bool,
) -> int:
    """
    Send what is due, in the order of rounds, until `deadline` (of `time.monotonic`); returns how many were accepted.

    `early`: also untried reports that would be spread over the round; a retry always waits for its time.
    """
    now = clock()
    waiting = []
    with state.view() as connection:
        me = device_row(connection)
        if _may_send(connection):
            untried = "OR attempts = 0" if early else ""
            clause = f"WHERE state = 'waiting' AND closes > ? AND (next_try <= ? {untried})"
            waiting = select(connection, me.plan, clause, now, now)
    accepted = 0
    for kept in waiting:
        if not kept.intact:
            with state.transaction(patience=2.0) as connection:
                give_up = "UPDATE reports SET state = 'expired' WHERE round = ? AND state = 'waiting'"
                connection.execute(give_up, (kept.report.round,))
            continue
        timeout = min(deadline - time.monotonic(), LONGEST_SEND)
        if timeout <= 0:
            break
        # From before the claim until the bytes are sent: taking consent back waits for it.
        with consent.sending(state.path) as is_free:
            # Claimed on disk before a byte leaves: no other process sends it now, and after a crash the
            # receipt lists what may have been sent.
            with state.transaction(durable=True, patience=2.0) as connection:
                claimed = is_free and _claim(connection, kept, clock())
            if not claimed:
                continue
            outcome = _send(transport, kept.report, timeout, faults)
        with state.transaction(patience=2.0) as connection:
            _settle(connection, kept, outcome, clock(), me.round_seconds)
        if isinstance(outcome, Accepted):
            accepted += 1
    return accepted


def _claim(connection: sqlite3.Connection, kept: StoredReport, now: float) -> bool:
    """Enter that a report is being sent; False where it may not be, or another process was first."""
    if not _may_send(connection):
        return False
    claimed = connection.execute(
        "UPDATE reports SET told = 1, attempts = attempts + 1, next_try = ?"
        " WHERE round = ? AND id = ? AND state = 'waiting' AND attempts = ?",
        (now + 2 * LONGEST_SEND, kept.report.round, kept.report.id, kept.attempts),
    )
    return claimed.rowcount == 1


def _send(transport: Transport, report: Report, timeout: float, faults: Faults) -> Outcome:
    """What came of sending; a transport of the host's own may raise and return anything."""
    from reticent.reports import to_json

    try:
        outcome = transport.send(to_json(report), timeout)
        if isinstance(outcome, Accepted | Rejected | Retry):
            return outcome
    except Exception:  # noqa: S110  (noted below)
        pass
    faults.add("transport")
    return Retry(fault="transport")


def _settle(
    connection: sqlite3.Connection, kept: StoredReport, outcome: Outcome, now: float, round_seconds: int
) -> None:
    """Enter what came of sending a report."""
    key = (kept.report.round, kept.report.id)
    if isinstance(outcome, Retry):
        result = outcome.fault or "retry"
        connection.execute(
            "UPDATE reports SET next_try = ? WHERE round = ? AND id = ? AND state = 'waiting'",
            (now + _back_off(kept.attempts, round_seconds, outcome.after), *key),
        )
    else:
        result = "accepted" if isinstance(outcome, Accepted) else "rejected"
        code = outcome.code if isinstance(outcome, Rejected) else ""
        # What another attempt has brought there stays accepted.
        connection.execute(
            "UPDATE reports SET state = ?, code = ? WHERE round = ? AND id = ? AND state != 'accepted'",
            (result, code, *key),
        )
    connection.execute(
        "INSERT INTO attempts VALUES (?, 1, ?)"
        " ON CONFLICT (outcome) DO UPDATE SET count = count + 1, latest = excluded.latest",
        (result, now),
    )


def _may_send(connection: sqlite3.Connection) -> bool:
    return consent.read(connection).in_force == "granted" and not plans.is_paused(connection)


def _back_off(attempts: int, round_seconds: int, after: float | None) -> float:
    """
    Seconds to the next attempt: uniform in [0, ceiling], where the ceiling doubles ("full jitter").

    It starts at 15 s (a sixteenth of a round, if that is shorter) and ends at an hour; never sooner than the
    collector asked for. The jitter is the operating system's, not the device's secret: it may be redrawn.
    """
    if not isinstance(after, int | float) or not after >= 0:  # a transport of the host's own may say anything
        after = None
    ceiling = min(min(FIRST_BACK_OFF, round_seconds / 16) * (1 << min(attempts, 20)), LONGEST_BACK_OFF)
    jitter = ceiling * int.from_bytes(os.urandom(8), "big") / 2**64
    return jitter if after is None else min(after, LONGEST_DELAY) + jitter
