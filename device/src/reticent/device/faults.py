"""
What went wrong, counted by kind. It stays on the device, and no note holds a value or an id.

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
from collections.abc import Mapping
from operator import add

from reticent.device.backlog import Backlog, StateBusyError
from reticent.errors import NewerStateError, StateError

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
