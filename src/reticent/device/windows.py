"""
The windows of sampled answers: one timeline per state file, at most one report in each.

A window is held from the first moment that the device is up in it, or up while its report can still be sent.
Windows that are held never overlap, whatever versions of the plan ask for: each begins when the one before
has ended, or later. Nothing here depends on a value: holding is a matter of times, plans and limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Window


class HeldWindow(NamedTuple):
    """A window that a device may answer, or has answered."""

    start: int
    """Unix seconds."""
    end: int
    """Unix seconds; the next one begins then or later."""
    loss: float
    """Bound on what its report may tell."""
    round: int | None
    """The round that was answered; None: none was."""


def held(connection: sqlite3.Connection) -> list[HeldWindow]:
    """Every window that was ever held, the oldest first."""
    rows = connection.execute("SELECT start, ends, loss, round FROM windows ORDER BY start")
    return [HeldWindow(*row) for row in rows]


def free_from(connection: sqlite3.Connection) -> int:
    """When the latest window held ends, unix seconds: none that begins earlier is held any more."""
    [(end,)] = connection.execute("SELECT coalesce(max(ends), 0) FROM windows")
    return int(end)


def hold(connection: sqlite3.Connection, window: Window, round_seconds: int, loss: float) -> None:
    """Enter a window that may be answered."""
    end = window.start + window.rounds * round_seconds
    connection.execute("INSERT INTO windows VALUES (?, ?, ?, NULL)", (window.start, end, loss))


def is_open(connection: sqlite3.Connection, window: Window) -> bool:
    """Whether a window is held and has no report yet."""
    row = connection.execute("SELECT round IS NULL FROM windows WHERE start = ?", (window.start,)).fetchone()
    return row is not None and bool(row[0])


def answer_in(connection: sqlite3.Connection, window: Window, round_number: int, loss: float) -> None:
    """
    Enter the report of a window, of a version that may lose more than the one it was held under.

    Raises `RuntimeError`, which undoes the report, where the window is not held or has one already.
    """
    entered = connection.execute(
        "UPDATE windows SET round = ?, loss = max(loss, ?) WHERE start = ? AND round IS NULL",
        (round_number, loss, window.start),
    )
    if entered.rowcount != 1:
        raise RuntimeError("a window has one report")
