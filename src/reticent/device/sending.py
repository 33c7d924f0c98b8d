"""Sending what is due: each report is claimed in the file before a byte leaves, and its outcome entered after."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from reticent.device import outbox, plans
from reticent.device.schema import device_row
from reticent.device.transport import Accepted, Rejected, Retry
from reticent.reports import to_json

if TYPE_CHECKING:
    from reticent.device.faults import Faults
    from reticent.device.statefile import StateFile
    from reticent.device.transport import Outcome, Transport

LONGEST_SEND = 10.0
"""How long one attempt to send a report may take, s."""


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
        paused, me = plans.is_paused(connection), device_row(connection)
        waiting = [] if paused else outbox.due(connection, me.plan, now, early=early)
    accepted = 0
    for kept in waiting:
        timeout = min(deadline - time.monotonic(), LONGEST_SEND)
        if timeout <= 0:
            break
        # Claimed on the disk before a byte leaves: no other process sends it now, and after a crash the
        # receipt lists what may have been told.
        with state.transaction(durable=True, patience=2.0) as connection:
            until = now + 2 * LONGEST_SEND
            claimed = not plans.is_paused(connection) and outbox.claim(connection, kept, until)
        if not claimed:
            continue
        try:
            outcome: Outcome = transport.send(to_json(kept.report), timeout)
        except Exception:  # a transport of the host's own may raise anything
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
