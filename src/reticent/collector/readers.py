"""
What readers ask for is worked out beside the event loop, which takes reports meanwhile, and only so much at once.

Python runs one thread at a time. So there are few threads for readers, a short queue before them, and who comes when
that is full is asked to come again. While they work, threads take turns ten times as often as Python lets them by
itself: those that take reports would otherwise wait five milliseconds for each turn.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import ClassVar, TypeVar

from reticent.collector.problems import ProblemError

RETRY_SECONDS = 5
TURN_SECONDS = 0.0005
"""For which a thread keeps others waiting, while readers are worked for."""
_USUAL_TURN = sys.getswitchinterval()

Answer = TypeVar("Answer")


class Readers:
    """
    Threads that work for readers, and the queue before them.

    Work whose reader has gone is taken out of the queue; what has begun is finished, and counts until then.
    """

    threads: ClassVar[int] = 2
    most_waiting: ClassVar[int] = 16
    most_public: ClassVar[int] = 8
    """Of these, for anybody: a crowd on public pages leaves room for those who have a key."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.threads, "reticent-reader")
        self._lock = Lock()
        self._present = self._public = 0

    async def run(self, work: Callable[..., Answer], *arguments: object, public: bool = False) -> Answer:
        """Do some work that blocks; raises `ProblemError` (503) when too much is waiting."""
        with self._lock:
            is_full = self._present >= self.threads + self.most_waiting
            if is_full or (public and self._public >= self.most_public):
                raise ProblemError(
                    503, "busy", "Too many readers at once; ask again soon.", retry_after=RETRY_SECONDS
                )
            self._present += 1
            self._public += public
            sys.setswitchinterval(min(TURN_SECONDS, _USUAL_TURN))
        try:
            future = self._threads.submit(work, *arguments)
        except BaseException:
            self._leave(public)
            raise
        future.add_done_callback(lambda future: self._leave(public))
        return await asyncio.wrap_future(future)

    def _leave(self, public: bool) -> None:
        with self._lock:
            self._present -= 1
            self._public -= public
            if not self._present:
                sys.setswitchinterval(_USUAL_TURN)

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
