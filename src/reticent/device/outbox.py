"""The reports of a device: waiting, being sent, or kept as receipts."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING

from reticent.frozen import frozen

if TYPE_CHECKING:
    import sqlite3

    from reticent.reports import Report

_COLUMNS = "round, version, epoch, id, cohort, asked, bits, segment, checksum, state, code, attempts, next_try, closes"

MOST_RECEIPTS = 512  # this many reports are kept one by one


@frozen()
class Kept:
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


def waiting(connection: sqlite3.Connection, plan: str) -> list[Kept]:
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


def drop_waiting(connection: sqlite3.Connection) -> None:
    """Delete waiting reports. What may have left the device already stays, as a receipt."""
    connection.execute("DELETE FROM reports WHERE state = 'waiting' AND told = 0")
    connection.execute("UPDATE reports SET state = 'expired' WHERE state = 'waiting'")


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


def select(connection: sqlite3.Connection, plan: str, clause: str = "", *parameters: object) -> list[Kept]:
    """Reports, oldest round first."""
    columns = _COLUMNS.removesuffix(", next_try, closes")
    rows = connection.execute(f"SELECT {columns} FROM reports {clause} ORDER BY round", parameters)  # noqa: S608
    selected = []
    for number, version, epoch, name, cohort, asked, bits, segment, checksum, *rest in rows:
        from reticent.reports import Report  # loaded when there is one: a host waits for the first start

        tags = json.loads(segment)
        report = Report(plan, version, number, bytes(name), bytes(bits), cohort, tags, asked)
        state, code, attempts = rest
        selected.append(Kept(report, epoch, state, code, attempts, checksum == _checksum(report)))
    return selected


def _checksum(report: Report) -> bytes:
    from reticent.reports import to_json

    return blake2b(to_json(report), digest_size=8).digest()
