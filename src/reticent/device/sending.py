"""Sending what is due: each report is claimed in the file before a byte leaves, and its outcome entered after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from reticent.device import consent, outbox, plans
from reticent.device.consent import LONGEST_SEND
from reticent.device.schema import device_row
from reticent.device.transport import Accepted, Rejected, Retry
from reticent.reports import to_json

if TYPE_CHECKING:
    import sqlite3

    from reticent.device.faults import Faults
    from reticent.device.statefile import StateFile
    from reticent.device.transport import Outcome, Transport

FIRST_BACK_OFF = 15.0
LONGEST_BACK_OFF = 3600.0
LONGEST_DELAY = 1e9  # the most a collector can ask for, s: a report is given up long before


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
    now, waiting = clock(), []
    with state.view() as connection:
        me = device_row(connection)
        if _may_send(connection):
            untried = "OR attempts = 0" if early else ""
            clause = f"WHERE state = 'waiting' AND closes > ? AND (next_try <= ? {untried})"
            waiting = outbox.select(connection, me.plan, clause, now, now)
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
        key = kept.report.round, kept.report.id
        # From before the claim until the bytes are sent: taking consent back waits for it.
        with consent.sending(state.path) as is_free:
            # Claimed on disk before a byte leaves: no other process sends it now, and after a crash the
            # receipt lists what may have been sent.
            with state.transaction(durable=True, patience=2.0) as connection:
                claimed = is_free and _may_send(connection)
                if claimed:
                    cursor = connection.execute(
                        "UPDATE reports SET told = 1, attempts = attempts + 1, next_try = ?"
                        " WHERE round = ? AND id = ? AND state = 'waiting' AND attempts = ?",
                        (clock() + 2 * LONGEST_SEND, *key, kept.attempts),
                    )
                    claimed = cursor.rowcount == 1
            if not claimed:
                continue
            outcome: Outcome = Retry(fault="transport")
            try:  # a transport of the host's own may raise and return anything
                answer = transport.send(to_json(kept.report), timeout)
                if isinstance(answer, Accepted | Rejected | Retry):
                    outcome = answer
                else:
                    faults.add("transport")
            except Exception:
                faults.add("transport")
        with state.transaction(patience=2.0) as connection:
            if isinstance(outcome, Retry):
                result = outcome.fault or "retry"
                connection.execute(
                    "UPDATE reports SET next_try = ? WHERE round = ? AND id = ? AND state = 'waiting'",
                    (clock() + _back_off(kept.attempts, me.round_seconds, outcome.after), *key),
                )
            else:
                result = "accepted" if isinstance(outcome, Accepted) else "rejected"
                code = outcome.code if isinstance(outcome, Rejected) else ""
                connection.execute(
                    "UPDATE reports SET state = ?, code = ? WHERE round = ? AND id = ?", (result, code, *key)
                )
            connection.execute(
                "INSERT INTO attempts VALUES (?, 1, ?)"
                " ON CONFLICT (outcome) DO UPDATE SET count = count + 1, latest = excluded.latest",
                (result, clock()),
            )
        accepted += isinstance(outcome, Accepted)
    return accepted


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
