"""Sending what is due: each report is claimed in the file before a byte leaves, and its outcome entered after."""

from __future__ import annotations

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
    Send what is due, in the order of rounds, until `deadline` (of `time.monotonic`).

    `early`: also reports that wait for their place in the round. Returns how many were accepted.
    """
    now = clock()
    with state.view() as connection:
        me = device_row(connection)
        waiting = outbox.due(connection, me.plan, now, early=early) if _may_send(connection) else []
    accepted = 0
    for kept in waiting:
        timeout = min(deadline - time.monotonic(), LONGEST_SEND)
        if timeout <= 0:
            break
        # From before the claim until the bytes are through: who takes consent back waits for it.
        with consent.sending(state.path) as is_free:
            # Claimed on the disk before a byte leaves: no other process sends it now, and after a crash the
            # receipt lists what may have been told.
            with state.transaction(durable=True, patience=2.0) as connection:
                until = now + 2 * LONGEST_SEND
                claimed = is_free and _may_send(connection) and outbox.claim(connection, kept, until)
            if not claimed:
                continue
            try:
                outcome: Outcome = transport.send(to_json(kept.report), timeout)
            except Exception:  # a transport of the host's own may raise anything
                faults.add("transport")
                outcome = Retry(fault="transport")
            if not isinstance(outcome, Accepted | Rejected | Retry):
                faults.add("transport")
                outcome = Retry(fault="transport")
        with state.transaction(patience=2.0) as connection:
            if isinstance(outcome, Retry):
                wait = outbox.back_off(kept.attempts, me.round_seconds, outcome.after)
                outbox.postpone(connection, kept, clock() + wait)
                result = outcome.fault or "retry"
            else:
                result = "accepted" if isinstance(outcome, Accepted) else "rejected"
                outbox.settle(connection, kept, result, outcome.code if isinstance(outcome, Rejected) else "")
            outbox.note_attempt(connection, clock(), result)
        accepted += isinstance(outcome, Accepted)
    return accepted


def _may_send(connection: sqlite3.Connection) -> bool:
    return consent.read(connection).in_force == "granted" and not plans.is_paused(connection)
