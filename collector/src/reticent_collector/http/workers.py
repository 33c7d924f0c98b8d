"""
Several processes that share one port: a supervisor and its workers.

The supervisor holds the listening sockets and nothing else: no store, no thread, only the standard library, so it
can fork at any time. A worker that dies is restarted; clients meanwhile wait in the sockets, which outlive it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from reticent_collector.http.log import log

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0  # seconds before a restart; doubled each time the worker ended soon
STEADY_SECONDS = 10.0  # of serving, after which earlier failures no longer count
FORK_PAUSE = 1.0  # seconds before another attempt when the system makes no process
FOLDER = "reticent-workers-"
LOCK = "lock"  # a file in it that the supervisor and its workers hold
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True)
class Worker:
    """What a worker process is given."""

    number: int
    listeners: Sequence[socket.socket]
    lifeline: int  # the end of a pipe that is closed when the supervisor is gone
    secret: bytes  # of the dashboard's sessions: any worker may get a browser's request
    folder: Path  # of the workers' published figures
    _tell: int

    def ready(self) -> None:
        """Tell the supervisor that it takes reports."""
        os.write(self._tell, b".")

    def publish(self, figures: bytes) -> None:
        """Publish its figures for the other workers; a reader sees them whole, or the ones before."""
        part = self.folder / f"{self.number}.part"
        with suppress(OSError):  # a full disk: the others see what was published before
            part.write_bytes(figures)
            part.replace(self.folder / str(self.number))

    def published(self) -> dict[int, bytes]:
        """The published figures by worker."""
        figures = {}
        for name in filter(str.isdecimal, os.listdir(self.folder)):
            with suppress(OSError):  # it has just ended
                figures[int(name)] = (self.folder / name).read_bytes()
        return figures


@dataclass
class _Child:
    """A worker as its supervisor sees it."""

    process: int = 0  # 0: not running
    told: int = -1  # the end of a pipe in which it reports that it is ready
    is_ready: bool = False
    began: float = 0.0
    failures: int = 0
    due: float = field(default=float("inf"))  # when it is started next


class Supervisor:
    """
    Starts and restarts workers, forwards signals, and ends with them.

    `work` runs in each worker's process and returns its exit code. When the first worker ends before it was ready,
    nothing is restarted: there is a fault to correct. SIGTERM and SIGINT stop all workers in order; SIGHUP is
    forwarded.
    """

    def __init__(
        self,
        count: int,
        listeners: Sequence[socket.socket],
        work: Callable[[Worker], int],
        started: Callable[[], None],
    ) -> None:
        self._children = [_Child() for _ in range(count)]
        self._listeners = listeners
        self._work = work
        self._on_start = started
        self._secret = secrets.token_bytes(32)
        self._was_ready = self._is_started = self._is_stopping = False
        self._code = 0

    def run(self) -> int:
        """Run until a signal ends it; returns the exit code."""
        remove_left_folders()
        self._folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        lock = os.open(self._folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)  # the workers inherit it
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._lifeline = os.pipe()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        before = {number: signal.signal(number, _note) for number in SIGNALS}
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        try:
            self._children[0].due = 0.0  # the others when it is ready: they would all have the same complaint
            while self._step():
                pass
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            for end in (self._woken, self._wake):
                end.close()
            for pipe_end in self._lifeline:
                os.close(pipe_end)
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(lock)
        return self._code

    def _step(self) -> bool:
        """Wait for something to happen, and see to it; False when all is over."""
        now = time.monotonic()
        for number, child in enumerate(self._children):
            if child.due <= now:
                self._start(number, child)
        due = min(child.due for child in self._children)
        waiting = {child.told: child for child in self._children if child.told >= 0}
        woken = self._woken.fileno()
        patience = None if due == float("inf") else max(0.0, due - now)
        for end in select.select([woken, *waiting], [], [], patience)[0]:
            if end == woken:
                for number in self._woken.recv(4096):
                    if number in (signal.SIGTERM, signal.SIGINT):
                        self._stop()
                    elif number == signal.SIGHUP:
                        self._signal(signal.SIGHUP)
            else:
                self._heard(waiting[end])
        for number, child in enumerate(self._children):
            self._reap(number, child)
        return not self._is_stopping or any(child.process for child in self._children)

    def _stop(self) -> None:
        self._is_stopping = True
        for child in self._children:
            child.due = float("inf")
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for child in self._children:
            if child.process:
                os.kill(child.process, number)

    def _heard(self, child: _Child) -> None:
        """A worker is ready, or has ended."""
        child.is_ready = os.read(child.told, 1) != b""
        os.close(child.told)
        child.told = -1
        if child.is_ready and not self._was_ready:
            self._was_ready = True
            for other in self._children[1:]:
                other.due = 0.0
        if all(other.is_ready for other in self._children) and not self._is_started:
            self._is_started = True
            self._on_start()

    def _reap(self, number: int, child: _Child) -> None:
        if not child.process:
            return
        process, status = os.waitpid(child.process, os.WNOHANG)
        if not process:
            return
        code, now = os.waitstatus_to_exitcode(status), time.monotonic()
        was_ready, child.process, child.is_ready = child.is_ready, 0, False
        if child.told >= 0:
            os.close(child.told)
            child.told = -1
        (self._folder / str(number)).unlink(missing_ok=True)
        if self._is_stopping:
            self._code = max(self._code, int(was_ready and code != 0))
        elif not self._was_ready:
            self._code = code if code > 0 else 1
            self._stop()
        else:
            child.failures = 0 if now - child.began > STEADY_SECONDS else child.failures + 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**child.failures)
            child.due = now + pause
            log("worker-ended", worker=number, code=code, again_seconds=round(pause, 1))

    def _start(self, number: int, child: _Child) -> None:
        told, tell = os.pipe()
        _flush()
        # A signal in between would be handled by neither of the two, or by both.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process = os.fork()
        except OSError as error:  # no memory is left: the other workers go on
            process = -1
            log("worker-not-started", worker=number, reason=error.strerror or "", again_seconds=FORK_PAUSE)
        if process == 0:
            code = 1
            try:
                os.close(told)
                self._be_worker()
                code = self._work(
                    Worker(number, self._listeners, self._lifeline[0], self._secret, self._folder, tell)
                )
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            except BaseException:
                sys.excepthook(*sys.exc_info())  # prints a traceback, or logs
            finally:
                _flush()
                os._exit(code)  # what comes after the supervisor's own call is not the worker's
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(tell)
        if process < 0:
            os.close(told)
            child.due = time.monotonic() + FORK_PAUSE
        else:
            child.process, child.told, child.began, child.due = process, told, time.monotonic(), float("inf")

    def _be_worker(self) -> None:
        """In the worker's process: release what belongs to the supervisor."""
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can do something about it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self._woken.close()
        self._wake.close()
        os.close(self._lifeline[1])
        for child in self._children:
            if child.told >= 0:
                os.close(child.told)


def remove_left_folders() -> None:
    """Remove the folders of supervisors that were killed: those that no process has locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # another user's, or one that is being made
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # in use
            continue
        finally:
            os.close(lock)


def _flush() -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # a full disk, a pipe whose reader has gone
            stream.flush()


def _note(number: int, frame: FrameType | None) -> None:
    """Python writes the number of a signal to the wake-up socket if the signal has a handler."""
