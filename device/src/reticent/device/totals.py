"""The values of rounds that are not answered yet."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from reticent.device import plans
from reticent.device.clamp import Value, cut, whole

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Metric


Place = tuple[int, str]  # a round and a metric

Mode = Literal["add", "set", "first"]  # added to the total, replaces it, or counts only where there is none

Call = Literal["add", "set", "max"]  # what a program asks for

TotalChange = tuple[Value, Value, Mode, Value]
"""An amount, the max_value of the total, how to combine them, and the least that the total is afterwards."""

TotalChanges = dict[Place, TotalChange]


def change_by(call: Call, metric: Metric, value: Value, max_value: Value) -> TotalChange:
    """The change that a call makes."""
    if metric.labels:
        return value, max_value, "first" if metric.pick == "first" else "set", 0
    if call == "max":
        return 0, max_value, "add", value
    return value, max_value, call, 0


def merge_changes(earlier: TotalChange, later: TotalChange) -> TotalChange:
    """
    Two changes as one.

    >>> merge_changes((2, 10, "set", 0), (3, 10, "add", 0)), merge_changes((2, 10, "first", 0), (3, 10, "first", 0))
    ((5, 10, 'set', 0), (2, 10, 'first', 0))
    >>> merge_changes((2, 10, "add", 4), (3, 10, "add", 6))  # max(total + 2, 4), then max(that + 3, 6)
    (5, 10, 'add', 7)
    """
    amount, max_value, mode, least = later
    if mode != "add":
        return earlier if mode == "first" else later
    total = _sum(earlier[0], amount, max_value)
    if earlier[2] == "add":
        floor = _sum(earlier[3], amount, max_value) if earlier[3] else 0
        return total, max_value, "add", max(floor, least)
    return max(total, least), max_value, earlier[2], 0


def _sum(total: Value, amount: Value, max_value: Value) -> Value:
    total += amount
    if total >= max_value:
        return max_value
    return total if type(total) is int else cut(total)


def write(connection: sqlite3.Connection, changes: TotalChanges) -> int:
    """Apply changes; returns how many were for an answered round. Those of rounds without an answer are dropped."""
    late = 0
    for (round_number, metric), change in changes.items():
        if not 0 <= round_number < 2**53:  # by a clock that is very wrong; SQLite would not take the number
            late += 1
            continue
        [(answered, silent)] = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM reports WHERE round = :round),"
            " EXISTS (SELECT 1 FROM device WHERE silent_through >= :round)",
            {"round": round_number},
        )
        if answered or silent or plans.is_paused_in(connection, round_number, round_number):
            late += answered
            continue
        row = connection.execute(
            "SELECT value FROM totals WHERE round = ? AND metric = ?", (round_number, metric)
        ).fetchone()
        total = merge_changes((_number(row[0]), 0, "set", 0), change)[0] if row else max(change[0], change[3])
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
    """A stored total; what cannot be read counts as 0, like any value that is not a number."""
    try:
        return whole(Fraction(str(text)))
    except (ValueError, ZeroDivisionError):
        return 0
