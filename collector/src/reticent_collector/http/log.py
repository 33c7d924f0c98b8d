"""
Structured logs: one JSON object per line on standard error; never an address, a body, a key or an id.

Nothing waits for the reader of standard error. A server writes from a thread of its own, and lines wait for it in a
queue; other programs, such as the supervisor of workers, have no thread and write at once if that does not block.
What finds no room is dropped and counted, and the next line that is written says how many (`log-dropped`).
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread
from traceback import walk_tb
from typing import Any

from reticent.errors import StoreError

MOST_LINES = 1_000  # that wait to be written
REPEAT_SECONDS = 10.0  # in which a store that fails whoever asks says so once, and not once per request
FLUSH_SECONDS = 1.0  # for which the end of a program waits for its last lines

quiet = False  # set by programs that print their own messages
only_json = False  # set by `take_standard_error`: what is said to people is an event, too

ERROR_EVENTS = frozenset(
    {
        "answer-failed",
        "collector-fails",
        "commits-fail",
        "internal-error",
        "keys-failed",
        "plan-refused",
        "results-failed",
        "round-damaged",
        "seal-failed",
        "start-failed",
        "step-failed",
        "store-failed",
        "store-gone",
        "worker-ended",
        "worker-not-started",
    }
)
WARNING_EVENTS = frozenset(
    {
        "clock-believed",
        "clock-jumped",
        "few-files",
        "library-warning",
        "log-dropped",
        "plan-expired",
        "public-single-reports",
        "tls-kept",
        "too-many-connections",
        "waiting-for-database",
    }
)
"""All others are "info"."""


class LogQueue:
    """Lines on their way to standard error."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begin without a thread; also in a process that was forked: the lines that wait are its parent's."""
        self._changed = Condition()
        self._lines: list[str] = []
        self._dropped = 0
        self._is_writing = False  # whether the thread is at lines that it took
        self._thread: Thread | None = None
        self._servers = 0

    def start(self) -> None:
        """Write from a thread, for one server more."""
        with self._changed:
            self._servers += 1
            if self._thread is None:
                self._thread = Thread(target=self._run, name="reticent-log", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """A server has ended; with the last one the thread does, once all lines are written."""
        self.flush()
        with self._changed:
            self._servers -= 1
            self._changed.notify_all()

    def put(self, line: str) -> None:
        """Write a line soon; never blocks."""
        with self._changed:
            if len(self._lines) >= MOST_LINES:
                self._dropped += 1
                return
            self._lines.append(line)
            if self._thread is not None:
                self._changed.notify_all()
                return
            if not _would_block():
                _write(self._take())

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until all lines are written, at most so long; whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._is_writing, seconds)

    def _take(self) -> str:
        lines = self._lines
        if self._dropped:
            lines.append(line_of("log-dropped", lines=self._dropped))
        self._lines = []
        self._dropped = 0
        return "".join(lines)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines or not self._servers)
                if not self._lines:
                    self._thread = None
                    return
                text = self._take()
                self._is_writing = True
            _write(text)


def _would_block() -> bool:
    """Whether standard error is a pipe or the like that takes no more at the moment."""
    try:
        poll = select.poll()
        poll.register(sys.stderr.fileno(), select.POLLOUT)
        return not poll.poll(0)
    except (OSError, ValueError, AttributeError):  # it is closed, or no file
        return False


def _write(text: str) -> None:
    stream = sys.stderr  # read once: another thread may replace it
    if stream is not None:
        with suppress(OSError, ValueError):  # a full disk, a pipe whose reader has gone, a closed file
            stream.write(text)
            stream.flush()


def line_of(event: str, **fields: str | int | float) -> str:
    """An event as a line."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    level = "info"
    if event in ERROR_EVENTS:
        level = "error"
    elif event in WARNING_EVENTS:
        level = "warning"
    return json.dumps({"time": stamp, "level": level, "event": event, **fields}) + "\n"


log_queue = LogQueue()


class _Repeats:
    """When which reason was last logged: anybody may ask again and again while a database is away."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def take(self, reason: str) -> bool:
        """Note that a reason comes up, and whether it has to be logged."""
        now = self._clock()
        self._until = {known: until for known, until in self._until.items() if until > now}
        if reason in self._until or len(self._until) >= MOST_LINES:
            return False
        self._until[reason] = now + REPEAT_SECONDS
        return True


_repeats = _Repeats()


def log(event: str, **fields: str | int | float) -> None:
    """Write an event if possible: commits and seals go on without a log, which may be on the disk that is full."""
    if not quiet:
        log_queue.put(line_of(event, **fields))


def log_fault(event: str, error: BaseException, **fields: str | int | float) -> None:
    """
    Write an error as an event.

    The messages of a store quote nothing of a request; others might. Of those the log has the type, and the last
    line of reticent in the traceback, such as `reticent_collector/http/api.py:120`.
    """
    if isinstance(error, StoreError):
        if event != "store-failed" or _repeats.take(str(error)):
            log(event, reason=str(error), **fields)
    else:
        # Walked without reading any source: a place is worth little when the disk is what failed.
        places = [
            f"{module.replace('.', '/')}.py:{line}"
            for frame, line in walk_tb(error.__traceback__)
            if (module := str(frame.f_globals.get("__name__"))).startswith(("reticent.", "reticent_"))
        ]
        log(event, kind=type(error).__name__, at=places[-1] if places else "elsewhere", **fields)


def announce(event: str, text: str, **fields: str | int | float) -> None:
    """Say something to the people who started a program; as an event where standard error has nothing else."""
    if only_json:
        log(event, **fields)
    elif sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


class _LibraryLines(logging.Handler):
    """Warnings of libraries, as events. Their text is left out: it may quote a request or an address."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        log("library-warning", of=record.name, kind=kind or record.levelname)


def take_standard_error() -> None:
    """From now on, write nothing but JSON objects: no traceback, and no line of a library either."""
    global only_json  # noqa: PLW0603  one standard error, one switch
    only_json = True
    logging.captureWarnings(True)
    logging.getLogger().addHandler(_LibraryLines(logging.WARNING))

    def log_uncaught(kind: type[BaseException], error: BaseException, trace: object) -> None:
        log_fault("internal-error", error)
        log_queue.flush()

    def log_of_thread(failure: Any) -> None:
        if failure.exc_value is not None:
            log_fault("internal-error", failure.exc_value)

    sys.excepthook = log_uncaught
    sys.unraisablehook = log_of_thread
    threading.excepthook = log_of_thread
