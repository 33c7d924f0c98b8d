"""The values of rounds that are not answered yet: in memory until written, in the file until answered."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from reticent.device import plans
from reticent.device.clamp import Value, plus, whole

if TYPE_CHECKING:
    import sqlite3


class Change(NamedTuple):
    """
    What happens to a total: it is set to `amount`, or `amount` is added; it stops at `max_value`.

    With `first` it is set only where there is none yet.
    """

    amount: Value
    max_value: Value
    replaces: bool
    first: bool = False

    def then(self, later: Change) -> Change:
        """
        Both changes as one.

        >>> Change(2, 10, replaces=True).then(Change(3, 10, replaces=False))
        Change(amount=5, max_value=10, replaces=True, first=False)
        """
        if later.first:
            return self
        if later.replaces:
            return later
        return self._replace(
            amount=plus(self.amount, later.amount, later.max_value), max_value=later.max_value
        )

    def applied(self, total: Value | None) -> Value:
        """The total afterwards; None: there was none."""
        if total is None or (self.replaces and not self.first):
            return self.amount
        return total if self.first else plus(total, self.amount, self.max_value)


Changes = dict[tuple[int, str], Change]
"""By round and metric."""


class Pending:
    """
    Changes that are not in the file yet.

    Usually empty again at once; when the file is locked or the disk is full, they wait here. There is one
    change per round and metric however many calls there were, so this does not grow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: Changes = {}

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, round_number: int, metric: str, change: Change) -> None:
        """Remember a change."""
        with self._lock:
            self._merge((round_number, metric), change)

    def take(self) -> Changes:
        """All changes; they are the caller's now, to write or to put back."""
        with self._lock:
            changes, self._changes = self._changes, {}
            return changes

    def put_back(self, changes: Changes) -> None:
        """They could not be written; what came in meanwhile is later."""
        with self._lock:
            newer, self._changes = self._changes, changes
            for place, change in newer.items():
                self._merge(place, change)

    def after_fork_in_child(self) -> None:
        """Start over: these are the parent's to write."""
        self.__init__()  # type: ignore[misc]

    def _merge(self, place: tuple[int, str], change: Change) -> None:
        before = self._changes.get(place)
        self._changes[place] = change if before is None else before.then(change)


def write(connection: sqlite3.Connection, changes: Mapping[tuple[int, str], Change]) -> int:
    """
    Apply changes to the totals; returns how many came too late, for a round that is answered already.

    What belongs to a round that a pause overlaps is dropped without a note: that was asked for.
    """
    late = 0
    for (round_number, metric), change in changes.items():
        [(closed,)] = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM reports WHERE round = :round)"
            " OR EXISTS (SELECT 1 FROM device WHERE silent_through >= :round)",
            {"round": round_number},
        )
        if closed or plans.is_paused_in(connection, round_number):
            late += closed
            continue
        row = connection.execute(
            "SELECT value FROM totals WHERE round = ? AND metric = ?", (round_number, metric)
        ).fetchone()
        total = change.applied(_number(row[0]) if row else None)
        connection.execute(
            "INSERT OR REPLACE INTO totals (round, metric, value) VALUES (?, ?, ?)",
            (round_number, metric, str(total)),
        )
    return late


def read(connection: sqlite3.Connection, round_number: int) -> dict[str, Value]:
    """The totals of a round."""
    rows = connection.execute("SELECT metric, value FROM totals WHERE round = ?", (round_number,))
    return {metric: _number(value) for metric, value in rows}


def erase(connection: sqlite3.Connection, first: int, last: int) -> None:
    """Delete the totals of the rounds from `first` to `last`."""
    connection.execute("DELETE FROM totals WHERE round BETWEEN ? AND ?", (first, last))


def _number(text: object) -> Value:
    """A total as it was written; what cannot be read counts as 0, like any value that is not a number."""
    try:
        return whole(Fraction(str(text)))
    except (ValueError, ZeroDivisionError):
        return 0
