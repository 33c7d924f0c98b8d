"""
What waits in memory for the state file: values of the program, and what went wrong, counted by kind.

Faults stay on the device, and no note holds a value or an id.

    not-a-number, below-range, above-range    a value that was clamped or counted as 0
    unknown-metric, unknown-segment,          a name that the plan does not have; a metric's and a segment's
    unknown-tag, unknown-label                is kept: "unknown-metric: editor_secs"; an unknown tag is sent as "other"
    bad-policy                                RETICENT_POLICY cannot be read: the default policy holds
    bad-round, future-round, closed           a call for a round that cannot be recorded in, or after `close`
    late-value                                a value for a round already answered
    state-busy, state-full, state-broken      the file was locked, the disk was full, the file failed
    state-newer                               a newer version of reticent has upgraded the file: it is left alone
    state-lost, state-tightened               the file was replaced; others could read it
    report-damaged                            a report in the file is not what was written; it is not sent
    plan-unreadable                           a round's plan is no longer at hand
    transport, internal                       the transport or reticent itself raised
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import add
from threading import Lock
from typing import Generic, TypeVar

from reticent.errors import NewerStateError, StateError

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


_PROBLEMS = {
    "state-busy": "the state file is locked by another process",
    "state-full": "the disk is full",
    "state-broken": "the state file cannot be read or written",
    "internal": "the state file cannot be used: reticent itself failed",
}

MOST_NAMES = 16  # names kept beside their kind, per process; later ones are counted under the bare kind


class Faults:
    """Counts that are not in the file yet. As a context manager it counts and suppresses what is raised inside."""

    def __init__(self) -> None:
        self.problem = ""  #: Why the state could not be used when that last failed
        self._counts: Backlog[str, int] = Backlog(add)
        self._named: set[str] = set()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Exception):
            kind_of_fault = kind_of(error)
            self.add(kind_of_fault)
            self.problem = _PROBLEMS.get(kind_of_fault, self.problem)
            if isinstance(error, StateError):
                self.problem = str(error).splitlines()[0].rstrip(".")
        return isinstance(error, Exception)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, kind: str, count: int = 1, *, name: object = None) -> None:
        """Count a fault; `name` is what the host program called it."""
        if isinstance(name, str):
            named = f"{kind}: {re.sub(r'[^A-Za-z0-9_.-]', '?', name[:64])}"
            if named in self._named or len(self._named) < MOST_NAMES:
                self._named.add(named)
                kind = named
        if count:
            self._counts.put(kind, count)

    def take(self) -> dict[str, int]:
        """All, to be written; call `drop_written` after the commit."""
        return self._counts.take()

    def drop_written(self) -> None:
        """They are in the file; do not write them again."""
        self._counts.drop_taken()

    def all(self, written: Mapping[str, int]) -> dict[str, int]:
        """Everything ever noted, with what is in the file."""
        counts = dict(written)
        for kind, count in self._counts.all().items():
            counts[kind] = counts.get(kind, 0) + count
        return dict(sorted(counts.items()))

    def after_fork_in_child(self) -> None:
        """Start over: these are the parent's to write."""
        self._counts = Backlog(add)


def kind_of(error: BaseException) -> str:
    """The kind of a fault that must not reach the host."""
    if isinstance(error, StateBusyError):
        return "state-busy"
    if isinstance(error, NewerStateError):
        return "state-newer"
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "state-broken" if isinstance(error, OSError | StateError) else "internal"
    return {5: "state-busy", 6: "state-busy", 13: "state-full"}.get(code & 0xFF, "state-broken")
