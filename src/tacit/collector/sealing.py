"""Sealing rounds whose time is over, in the background; several collectors may do it at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tacit.collector.log import log
from tacit.errors import StoreError
from tacit.stores import RoundKey, Store

EVERY_SECONDS = 2.0
MARGIN_SECONDS = 2.0
"""Between the end of the grace and the seal: what was accepted just in time is committed by then."""


def seal_due(store: Store, now: float, margin: float = MARGIN_SECONDS) -> list[RoundKey]:
    """Seal every round whose grace is over at unix time `now`; returns those sealed here."""
    return [key for key in due(store, now, margin) if store.seal(key)]


def due(store: Store, now: float, margin: float = MARGIN_SECONDS) -> list[RoundKey]:
    """The rounds that are not sealed, and whose grace is over at unix time `now`."""
    by_key = {(plan.name, plan.version): plan for plan in store.plans()}
    return [
        key
        for key in store.unsealed()
        if now >= by_key[key.plan, key.version].round(key.round).closes + margin
    ]


class Sealer:
    """A thread that seals what is due, every few seconds."""

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.time, every: float = EVERY_SECONDS
    ) -> None:
        self._store = store
        self._clock = clock
        self._every = every
        self._stop = threading.Event()
        self.sealed = 0
        self._thread = threading.Thread(target=self._run, name="tacit-seal", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the round being sealed."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                keys = due(self._store, self._clock())
            except Exception as error:  # the thread must live on
                log("seal-failed", reason=_reason(error))
                continue
            for key in keys:
                if not self._stop.is_set():
                    self._seal(key)

    def _seal(self, key: RoundKey) -> None:
        """Seal a round; one that cannot be sealed does not keep others from it."""
        where: dict[str, Any] = {"plan": key.plan, "version": key.version, "round": key.round}
        try:
            if self._store.seal(key):
                self.sealed += 1
                log("sealed", **where)
        except Exception as error:
            log("seal-failed", reason=_reason(error), **where)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, StoreError) else type(error).__name__
