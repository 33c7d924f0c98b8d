"""Sealing rounds whose time is over, in the background; several collectors may do it at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from reticent.collector.log import log, log_fault
from reticent.stores import RoundKey, Store

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
        self._failing: set[RoundKey | None] = set()
        """The rounds that could not be sealed the last time; None: which are due could not be read."""
        self._thread = threading.Thread(target=self._run, name="reticent-seal", daemon=True)
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
                self._failed(None, error)
                continue
            self._failing.discard(None)
            for key in keys:
                if self._stop.is_set():
                    return
                try:
                    if self._store.seal(key):
                        self.sealed += 1
                        log("sealed", **key._asdict())
                    self._failing.discard(key)
                except Exception as error:  # one that cannot be sealed does not keep others from it
                    self._failed(key, error)

    def _failed(self, key: RoundKey | None, error: Exception) -> None:
        """One line for each fault that lasts, not one for each try."""
        if key not in self._failing:
            self._failing.add(key)
            log_fault("seal-failed", error, **(key._asdict() if key else {}))
