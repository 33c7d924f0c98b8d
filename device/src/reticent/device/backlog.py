"""Entries in memory that wait for the next write: merged by key, removed once committed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, TypeVar

AKey = TypeVar("AKey")
AnEntry = TypeVar("AnEntry")

FOLD_AT = 1024  # with so many entries, the call that adds one more merges them
MOST = 65_536  # with so many, a call whose entries another thread is merging waits for a millisecond


class StateBusyError(Exception):
    """Another thread or process holds the state for longer than the caller would wait."""


class Backlog(Generic[AKey, AnEntry]):
    """
    Entries that are not in the file yet, at most one per key once they are merged.

    `put` may be called in a signal handler or a finalizer, in the middle of any other call of this class in the
    same thread: it appends to a deque, which is atomic, and never waits for a lock. Entries are merged in the
    order of their calls, by one thread at a time. `take` and `drop_taken` belong to one writer at a time, the one
    that holds the state file.
    """

    def __init__(self, merge: Callable[[AnEntry, AnEntry], AnEntry]) -> None:
        self._merge = merge
        self._entries: deque[tuple[AKey, AnEntry]] = deque()
        self._merged: dict[AKey, AnEntry] = {}
        self._taken: dict[AKey, AnEntry] = {}
        self._merging = Lock()

    def __len__(self) -> int:
        return len(self._entries) + len(self._merged) + len(self._taken)

    def put(self, key: AKey, value: AnEntry) -> None:
        """Remember an entry."""
        entries = self._entries
        entries.append((key, value))
        if len(entries) >= FOLD_AT:
            if self._merging.acquire(blocking=False):
                try:
                    self._fold()
                finally:
                    self._merging.release()
            elif len(entries) >= MOST:
                time.sleep(0.001)

    def all(self) -> dict[AKey, AnEntry]:
        """Everything that waits."""
        with self._merged_with_taken() as waiting:
            return waiting

    def take(self) -> dict[AKey, AnEntry]:
        """Everything that waits, to be written. It stays until `drop_taken`, so a write that fails loses nothing."""
        with self._merged_with_taken() as waiting:
            self._taken = waiting
            self._merged = {}
            return waiting

    @contextmanager
    def _merged_with_taken(self) -> Iterator[dict[AKey, AnEntry]]:
        if not self._merging.acquire(timeout=1.0):  # not forever: this thread may be in `put`
            raise StateBusyError
        try:
            self._fold()
            waiting = dict(self._taken)
            for key, value in self._merged.items():
                waiting[key] = self._merge(waiting[key], value) if key in waiting else value
            yield waiting
        finally:
            self._merging.release()

    def drop_taken(self) -> None:
        """What was taken is committed."""
        self._taken = {}

    def _fold(self) -> None:
        entries, merged, merge = self._entries, self._merged, self._merge
        while entries:
            key, value = entries[0]
            before = merged.get(key)
            # A signal handler may raise between two calls: nothing is called from here to `popleft`.
            after = value if before is None else merge(before, value)
            merged[key] = after
            entries.popleft()
