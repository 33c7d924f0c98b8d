"""
Work for readers, on a few threads beside the event loop, with a short queue; beyond it clients get 503.

Python runs one thread at a time. While one computes, the switch interval is a tenth of the usual one (`ShortTurns`):
the threads that take reports would otherwise wait up to five milliseconds for each turn.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import ClassVar, TypeVar

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
    """The threads for readers, and their queue. Work whose reader has gone leaves the queue; begun work is finished."""

    threads: ClassVar[int] = 2
    most_waiting: ClassVar[int] = 16
    most_public: ClassVar[int] = 8
    """Of these, without a key: a crowd on public pages leaves room for readers with one."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.threads, "reticent-reader")
        self._lock = Lock()
        self._present = self._public = 0

    async def run(self, work: Callable[..., Answer], *arguments: object, public: bool = False) -> Answer:
        """Run blocking work; raises `ProblemError` (503) when too much is queued."""
        with self._lock:
            is_full = self._present >= self.threads + self.most_waiting
            if is_full or (public and self._public >= self.most_public):
                raise ProblemError(
                    503, "busy", "Too many readers at once; try again soon.", retry_after=RETRY_SECONDS
                )
            self._present += 1
            self._public += public
        try:
            future = self._threads.submit(self._compute, work, *arguments)
        except BaseException:
            self._leave(public)
            raise
        future.add_done_callback(lambda future: self._leave(public))
        return await asyncio.wrap_future(future)

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
