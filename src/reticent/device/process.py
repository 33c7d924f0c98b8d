"""
When a device works in its host's process: in which threads, around a fork, and before the process ends.

One thread writes values soon after they came, another one answers and sends.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable
from threading import Event, Lock, Thread, current_thread
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

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
            _watch_exit_of_child()
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
                thread.start()  # raises where the process may have no more threads: tried again later
                self._running = thread, stop

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


# Forks, and the end


class Guest(Protocol):
    """Something that a fork would tear in two, and that has something to finish before its process ends."""

    def before_fork(self) -> None:
        """In the parent, just before: come to rest and let go of what must not be inherited."""

    def after_fork_in_parent(self) -> None:
        """Take it up again."""

    def after_fork_in_child(self) -> None:
        """Start over."""

    def before_exit(self) -> None:
        """The process is about to end."""


_guests: WeakSet[Guest] = WeakSet()
_resting: list[Guest] = []
_finalized_in: list[int] = []


def watch(guest: Guest) -> None:
    """Call the methods of `guest` around every `os.fork` and before this process ends, while it lives."""
    _guests.add(guest)


def _watch_exit_of_child() -> None:
    """
    Call `before_exit` in a child that `multiprocessing` made: it ends without what `atexit` has registered.

    Not possible before the child runs: `multiprocessing` forgets the finalizers that it inherits.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is not None and os.getpid() not in _finalized_in:
        from multiprocessing import parent_process

        if parent_process() is not None:
            _finalized_in[:] = [os.getpid()]
            util.Finalize(None, _before_exit, exitpriority=0)


def _before_fork() -> None:
    for guest in list(_guests):
        guest.before_fork()
        _resting.append(guest)


def _after_in_parent() -> None:
    while _resting:
        _resting.pop().after_fork_in_parent()


def _after_in_child() -> None:
    while _resting:
        _resting.pop().after_fork_in_child()


def _before_exit() -> None:
    for guest in list(_guests):
        guest.before_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
atexit.register(_before_exit)
