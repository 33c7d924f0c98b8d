"""What waits in memory for the next write: put there from anywhere, merged by key, gone once it is committed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

FOLD_AT = 1024
"""So many entries are merged by the call that brings one more."""
MOST = 65_536
"""From so many entries on, a call whose entries another thread is merging waits for a millisecond."""


class BusyError(Exception):
    """Another thread or process holds the state for longer than the caller would wait."""


class Backlog(Generic[Key, Value]):
    """
    Entries that are not in the file yet, at most one per key once they are merged.

    `put` may be called in a signal handler or a finalizer, in the middle of any other call of this class in the
    same thread: it appends to a deque, which nobody sees half done, and never waits for a lock. Entries
    are merged in the order of their calls, by one thread at a time.

    `take` and `written` belong to one writer at a time, the one that holds the state file.
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

    def peek(self, patience: float = 1.0) -> dict[Key, Value]:
        """Everything that waits."""
        if not self._merging.acquire(timeout=patience):  # not for ever: this thread may be in `put`
            raise BusyError
        try:
            return self._together()
        finally:
            self._merging.release()

    def take(self, patience: float = 1.0) -> dict[Key, Value]:
        """Everything that waits. It stays here until `written`, so a write that fails loses nothing."""
        if not self._merging.acquire(timeout=patience):
            raise BusyError
        try:
            self._taken, self._merged = self._together(), {}
            return self._taken
        finally:
            self._merging.release()

    def written(self) -> None:
        """What was taken is committed."""
        self._taken = {}

    def _together(self) -> dict[Key, Value]:
        self._fold()
        together = dict(self._taken)
        for key, value in self._merged.items():
            together[key] = self._merge(together[key], value) if key in together else value
        return together

    def _fold(self) -> None:
        entries, merged, merge = self._entries, self._merged, self._merge
        while entries:
            key, value = entries[0]
            before = merged.get(key)
            # A signal handler may raise between two calls: nothing is called from here to `popleft`.
            after = value if before is None else merge(before, value)
            merged[key] = after
            entries.popleft()
