"""Entries in memory that wait for the next write: merged by key, removed once committed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

FOLD_AT = 1024  # with so many entries, the call that adds one more merges them
MOST = 65_536  # with so many, a call whose entries another thread is merging waits for a millisecond


class BusyError(Exception):
    """Another thread or process holds the state for longer than the caller would wait."""


class Backlog(Generic[Key, Value]):
    """
    Entries that are not in the file yet, at most one per key once they are merged.

    `put` may be called in a signal handler or a finalizer, in the middle of any other call of this class in the
    same thread: it appends to a deque, which is atomic, and never waits for a lock. Entries are merged in the
    order of their calls, by one thread at a time. Taking and `written` belong to one writer at a time, the one
    that holds the state file.
    """

    def __init__(self, merge: Callable[[Value, Value], Value]) -> None:
        self._merge = merge
        self._entries: deque[tuple[Key, Value]] = deque()
        self._merged: dict[Key, Value] = {}
        self._taken: dict[Key, Value] = {}
        self._merging = Lock()

    def __len__(self) -> int:
        return len(self._entries) + len(self._merged) + len(self._taken)

    def put(self, key: Key, value: Value) -> None:
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

    def all(self, *, take: bool = False) -> dict[Key, Value]:
        """Everything that waits. What is taken stays until `written`, so a write that fails loses nothing."""
        if not self._merging.acquire(timeout=1.0):  # not forever: this thread may be in `put`
            raise BusyError
        try:
            self._fold()
            together = dict(self._taken)
            for key, value in self._merged.items():
                together[key] = self._merge(together[key], value) if key in together else value
            if take:
                self._taken, self._merged = together, {}
            return together
        finally:
            self._merging.release()

    def written(self) -> None:
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
