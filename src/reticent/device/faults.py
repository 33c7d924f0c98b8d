"""
What went wrong, counted by kind. It stays on the device, and no note holds a value or an id.

    not-a-number, below-range, above-range    a value that was clamped or counted as 0
    unknown-metric, unknown-label             a call with a name that the plan does not have
    bad-round, future-round                   a call for a round that cannot be recorded in
    late-value                                a value for a round already answered
    state-busy, state-full, state-broken      the file was locked, the disk was full, the file failed
    state-lost, state-tightened               the file was replaced; others could read it
    report-damaged                            a report in the file is not what was written; it is not sent
    plan-unreadable                           a round's plan is no longer at hand
    transport, internal                       the transport or reticent itself raised
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from reticent.errors import StateError

if TYPE_CHECKING:
    import sqlite3
    from types import TracebackType


class BusyError(Exception):
    """Another thread or process holds the state file for longer than the caller would wait."""


class Faults:
    """
    Counts that are not in the file yet.

    As a context manager it counts what is raised inside, and goes on: nothing reaches the host.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.add(kind_of(error))
        return True

    def add(self, kind: str, count: int = 1) -> None:
        """Something of this kind happened."""
        if count:
            with self._lock:
                self._counts[kind] += count

    def write(self, connection: sqlite3.Connection) -> Counter[str]:
        """Add all to the file; hand the result to `written` once that is committed."""
        with self._lock:
            counts = self._counts.copy()
        for kind, count in counts.items():
            connection.execute("INSERT OR IGNORE INTO notes VALUES (?, 0)", (kind,))
            connection.execute("UPDATE notes SET count = count + ? WHERE kind = ?", (count, kind))
        return counts

    def written(self, counts: Counter[str]) -> None:
        """They are in the file; do not write them again."""
        with self._lock:
            self._counts -= counts

    def all(self, connection: sqlite3.Connection | None) -> dict[str, int]:
        """Everything ever noted."""
        total = Counter(
            dict(connection.execute("SELECT kind, count FROM notes").fetchall()) if connection else {}
        )
        with self._lock:
            return dict(sorted((total + self._counts).items()))

    def after_fork_in_child(self) -> None:
        """Start over: these are the parent's to write."""
        self.__init__()  # type: ignore[misc]


def kind_of(error: BaseException) -> str:
    """The kind of a fault that must not reach the host."""
    if isinstance(error, BusyError):
        return "state-busy"
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "state-broken" if isinstance(error, OSError | StateError) else "internal"
    return {5: "state-busy", 6: "state-busy", 13: "state-full"}.get(code & 0xFF, "state-broken")
