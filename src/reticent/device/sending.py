"""Sending what waits, in the background, spread out, and without ever standing in the host's way."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from reticent.device import outbox, pauses
from reticent.device.state import State, myself
from reticent.device.transport import Accepted, Outcome, Rejected, Retry, Transport
from reticent.reports.codec import to_json

if TYPE_CHECKING:
    from reticent.device.notes import Notes
    from reticent.device.outbox import Kept

LONGEST_SEND = 10.0
"""How long one attempt may take, s."""

FIRST_BACK_OFF = 15.0
LONGEST_BACK_OFF = 3600.0


def back_off(attempts: int, round_seconds: int, after: float | None = None) -> float:
    """
    Seconds to the next attempt: uniform in [0, ceiling], where the ceiling doubles ("full jitter").

    It starts at 15 s (a sixteenth of a round, if that is shorter) and ends at an hour. Never sooner than the
    collector asked for. The jitter is the operating system's, not the device's secret: it may be redrawn.
    """
    ceiling = min(min(FIRST_BACK_OFF, round_seconds / 16) * (1 << min(attempts, 20)), LONGEST_BACK_OFF)
    jitter = ceiling * int.from_bytes(os.urandom(8), "big") / 2**64
    return jitter if after is None else after + jitter


class Sender:
    """Takes reports from the outbox to the transport, in the order of their rounds."""

    def __init__(self, state: State, transport: Transport, clock: Callable[[], float], notes: Notes) -> None:
        self._state = state
        self._transport = transport
        self._clock = clock
        self._notes = notes

    def send_due(self, deadline: float, *, early: bool) -> int:
        """
        Send what is due until `deadline` (of `time.monotonic`); returns how many were accepted.

        `early`: also reports that wait for their place in the round.
        """
        now = self._clock()
        with self._state.view() as connection:
            me = myself(connection)
            waiting = (
                [] if pauses.is_paused(connection) else outbox.due(connection, me.plan, now, early=early)
            )
        accepted = 0
        for kept in waiting:
            timeout = min(deadline - time.monotonic(), LONGEST_SEND)
            if timeout <= 0:
                break
            if self._claim(kept, now + 2 * LONGEST_SEND):
                accepted += self._settle(kept, me.round_seconds, self._send(kept, timeout))
        return accepted

    def _claim(self, kept: Kept, until: float) -> bool:
        with self._state.transaction(durable=True, patience=2.0) as connection:
            return not pauses.is_paused(connection) and outbox.claim(connection, kept, until)

    def _send(self, kept: Kept, timeout: float) -> Outcome:
        try:
            return self._transport.send(to_json(kept.report), timeout)
        except Exception:  # a transport of the host's own may raise anything
            self._notes.add("transport")
            return Retry()

    def _settle(self, kept: Kept, round_seconds: int, outcome: Outcome) -> bool:
        with self._state.transaction(patience=2.0) as connection:
            if isinstance(outcome, Accepted):
                outbox.settle(connection, kept, "accepted")
            elif isinstance(outcome, Rejected):
                outbox.settle(connection, kept, "rejected", outcome.code)
            else:
                wait = back_off(kept.attempts, round_seconds, outcome.after)
                outbox.postpone(connection, kept, self._clock() + wait)
        return isinstance(outcome, Accepted)


class Background:
    """
    A daemon thread that works now and then.

    `work` does what is due and returns in how many seconds it wants to be called again; it must not raise.
    """

    def __init__(self, work: Callable[[], float]) -> None:
        self._work = work
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def start(self) -> None:
        """Start, unless it runs already; a forked child has to start its own."""
        if self._thread is None or not self._thread.is_alive():
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop,), name="reticent", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, and wait only as long as it takes when it is idle."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=0.1)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._work()):
            pass
