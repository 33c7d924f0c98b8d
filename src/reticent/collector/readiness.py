"""Whether the store can be written, asked of it at most once a second."""

from __future__ import annotations

import time
from asyncio import Lock
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

from reticent.errors import StoreError

FRESH_SECONDS = 1.0


class Readiness:
    """
    The answer to `/readyz`.

    Asking a store whether it can be written costs a write, and anybody may ask: so an answer, good or bad,
    stands for a second, and those who ask at once share one question.
    """

    def __init__(self, ping: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._ping = ping
        self._clock = clock
        self._lock = Lock()
        self._ready = False
        self._until = float("-inf")

    async def __call__(self) -> bool:
        """Whether the store answered, now or within the last second."""
        async with self._lock:
            if self._clock() >= self._until:
                self._ready = await run_in_threadpool(self._answers)
                self._until = self._clock() + FRESH_SECONDS
            return self._ready

    def _answers(self) -> bool:
        try:
            self._ping()
        except StoreError:
            return False
        return True
