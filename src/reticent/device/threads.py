"""The threads of a device: one that writes values soon after they came, and one that answers and sends."""

from __future__ import annotations

import time
from _thread import start_new_thread
from collections.abc import Callable
from threading import Event, Lock, Thread, current_thread
from typing import TYPE_CHECKING

from reticent.device import process

if TYPE_CHECKING:
    from reticent.device.faults import Faults

WRITE_AFTER = 0.5
"""Values wait so long in memory, s, so that many of them are one write; they are in the file within a second."""
LONGEST_SLEEP = 300.0
SHORTEST_SLEEP = 0.05
SLEEP_IN_TROUBLE = 30.0


class Writer:
    """
    Calls `write` half a second after the first value came, and until it says that nothing waits any more.

    Its thread is a bare one, and ends when it has nothing to do: `threading.Thread` takes locks that the host
    may hold just now, in a signal handler.
    """

    def __init__(self, write: Callable[[], bool], faults: Faults) -> None:
        self._write = write
        self._faults = faults
        self._running = Lock()
        """Held while there is a thread."""

    def wake(self) -> None:
        """Something waits in memory."""
        if not self._running.locked() and self._running.acquire(blocking=False):
            process.watch_exit_of_child()
            try:
                start_new_thread(self._run, ())
            except BaseException:
                self._running.release()
                raise

    def _run(self) -> None:
        seconds, done = WRITE_AFTER, False
        while not done:
            time.sleep(seconds)
            seconds = min(2 * seconds, SLEEP_IN_TROUBLE)
            with self._faults:
                done = self._write()
                seconds = WRITE_AFTER
        self._running.release()
        # A value may have come after the last look and before the release, and have found this thread running.
        done = False
        with self._faults:
            done = self._write()
        if not done:
            self.wake()


class Sender:
    """Calls `work` when it is due, in a daemon thread; `work` returns for how many seconds it is not."""

    def __init__(self, work: Callable[[], float], faults: Faults) -> None:
        self._work = work
        self._faults = faults
        self._starting = Lock()
        self._running: tuple[Thread, Event] | None = None

    def start(self) -> None:
        """See that there is a thread."""
        with self._starting:
            if self._running is None:
                stop = Event()
                thread = Thread(target=self._run, args=(stop,), name="reticent", daemon=True)
                self._running = thread, stop
                thread.start()

    def stop(self) -> None:
        """Let the thread end; wait only as long as it takes when it is idle."""
        running, self._running = self._running, None
        if running is not None:
            thread, stop = running
            stop.set()
            if thread is not current_thread():
                thread.join(timeout=0.1)

    def _run(self, stop: Event) -> None:
        seconds = 0.0
        while not stop.wait(seconds):
            seconds = SLEEP_IN_TROUBLE
            with self._faults:
                seconds = min(max(self._work(), SHORTEST_SLEEP), LONGEST_SLEEP)
