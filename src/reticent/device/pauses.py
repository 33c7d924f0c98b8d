"""Pauses: while one lasts nothing is recorded or sent, and rounds it overlaps are never answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


def begin(connection: sqlite3.Connection, current_round: int) -> None:
    """Pause, from the round under way on; a pause that lasts already goes on."""
    if not is_paused(connection):
        connection.execute("INSERT OR REPLACE INTO pauses VALUES (?, NULL)", (current_round,))


def end(connection: sqlite3.Connection, current_round: int) -> None:
    """Go on; the first round answered is the next one."""
    connection.execute(
        "UPDATE pauses SET through_round = max(from_round, ?) WHERE through_round IS NULL", (current_round,)
    )


def is_paused(connection: sqlite3.Connection) -> bool:
    """Whether a pause lasts."""
    [(paused,)] = connection.execute("SELECT EXISTS (SELECT 1 FROM pauses WHERE through_round IS NULL)")
    return bool(paused)


def overlaps(connection: sqlite3.Connection, round_number: int) -> bool:
    """Whether some pause overlaps a round."""
    [(found,)] = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pauses WHERE from_round <= ?1"
        " AND (through_round IS NULL OR through_round >= ?1))",
        (round_number,),
    )
    return bool(found)
