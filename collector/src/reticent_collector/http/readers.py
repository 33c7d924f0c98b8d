"""
Work for readers, on a few threads beside the event loop, with a short queue; beyond it clients get 503.

Python runs one thread at a time. While one computes, the switch interval is a tenth of the usual one (`ShortTurns`):
the threads that take reports would otherwise wait up to five milliseconds for each turn.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, ClassVar, TypeVar

from reticent_collector.http.problems import ProblemError

RETRY_SECONDS = 5
TURN_SECONDS = 0.0005
_USUAL_TURN = sys.getswitchinterval()

Answer = TypeVar("Answer")


class ShortTurns:
    """A `with` block that computes beside the threads that take reports. Blocks may overlap, on any threads."""

    _lock = Lock()
    _blocks = 0

    def __enter__(self) -> None:
        with self._lock:
            ShortTurns._blocks += 1
            sys.setswitchinterval(min(TURN_SECONDS, _USUAL_TURN))

    def __exit__(self, *error: object) -> None:
        with self._lock:
            ShortTurns._blocks -= 1
            if not ShortTurns._blocks:
                sys.setswitchinterval(_USUAL_TURN)


class Readers:
    """
    The threads for readers, and their queue.

    Work whose reader has gone leaves the queue at once; begun work is finished.
    """

    threads: ClassVar[int] = 2
    most_waiting: ClassVar[int] = 16
    most_public: ClassVar[int] = 8
    """Of these, without a key: a crowd on public pages leaves room for readers with one."""

    def __init__(self, name: str = "reticent-reader") -> None:
        self._threads = ThreadPoolExecutor(self.threads, name)
        self._lock = Lock()
        self._present = 0
        self._public = 0

    async def run(
        self,
        work: Callable[..., Answer],
        *arguments: object,
        public: bool = False,
        gone: Callable[[], Coroutine[Any, Any, object]] | None = None,
    ) -> Answer:
        """
        Run blocking work; raises `ProblemError` (503) when too much is queued.

        `gone` returns when the reader has gone, or at least sends no more: then work that still waits is refused in the
        same way, in case the answer is read.
        """
        future = self._submit(public, work, *arguments)
        answer = asyncio.wrap_future(future)
        if gone is not None:
            leaving = asyncio.create_task(gone())
            leaving.add_done_callback(lambda _: future.cancel())
            answer.add_done_callback(lambda _: leaving.cancel())
        try:
            return await answer
        except asyncio.CancelledError:
            if not future.cancelled() or is_being_cancelled():
                raise
            raise too_many_readers() from None

    def _submit(self, public: bool, work: Callable[..., Answer], *arguments: object) -> Future[Answer]:
        with self._lock:
            is_full = self._present >= self.threads + self.most_waiting
            if is_full or (public and self._public >= self.most_public):
                raise too_many_readers()
            self._present += 1
            self._public += public
        try:
            future = self._threads.submit(self._compute, work, *arguments)
        except BaseException:
            self._leave(public)
            raise
        future.add_done_callback(lambda future: self._leave(public))
        return future

    @staticmethod
    def _compute(work: Callable[..., Answer], *arguments: object) -> Answer:
        with ShortTurns():
            return work(*arguments)

    def _leave(self, public: bool) -> None:
        with self._lock:
            self._present -= 1
            self._public -= public

    def close(self) -> None:
        """Start no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def too_many_readers() -> ProblemError:
    """The problem of a reader who finds no place."""
    return ProblemError(503, "busy", "Too many readers at once; try again soon.", retry_after=RETRY_SECONDS)


def is_being_cancelled() -> bool:
    """Whether the current task itself is cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
