"""
Which plan a round is answered under, and which rounds a pause leaves unanswered.

A device answers a round under the version it held when the round began. While a pause lasts nothing is
recorded or sent, and the rounds it overlaps are never answered.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from reticent.errors import ReticentError

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Plan


Layout = tuple[tuple[str, int, str], ...]
"""Each metric's name, its answer bits and the digest of its privacy parameters (hex), in plan order."""


class HeldPlan(NamedTuple):
    """One version of the plan, as it is kept."""

    version: int
    fingerprint: bytes
    from_round: int
    window: int
    """Rounds of a window of sampled answers; 0: answers are remembered."""
    round_loss: float
    layout: Layout
    text: str


def latest(connection: sqlite3.Connection) -> HeldPlan | None:
    """The newest version held."""
    return _one(connection, "ORDER BY version DESC")


def for_round(connection: sqlite3.Connection, round_number: int) -> HeldPlan | None:
    """
    The version held when a round began.

    For a round before the first plan (which is answered only when the host asks for it by number), the first.
    """
    return _one(connection, "WHERE from_round <= ? ORDER BY version DESC", round_number) or _one(
        connection, "ORDER BY version"
    )


def layouts(connection: sqlite3.Connection) -> dict[int, Layout]:
    """What the bits of a report belong to, by version."""
    rows = connection.execute("SELECT version, layout FROM plans")
    return {version: _parse_layout(layout) for version, layout in rows}


def asks_anew(connection: sqlite3.Connection, plan: Plan) -> bool:
    """Whether a plan asks for remembered answers that no version held so far has asked for."""
    rows = connection.execute("SELECT metric, digest FROM ledger")
    known = {(name, bytes(digest)) for name, digest in rows}
    asked = () if plan.answers.sampled else plan.metrics
    return any((metric.name, metric.digest) not in known for metric in asked)


def sample(connection: sqlite3.Connection) -> bool:
    """Whether some version held has sampled answers."""
    [(some,)] = connection.execute("SELECT EXISTS (SELECT 1 FROM plans WHERE window > 0)")
    return bool(some)


def take_up(connection: sqlite3.Connection, plan: Plan, first: int, round_loss: float) -> None:
    """Hold a plan from round `first` on."""
    anew = asks_anew(connection, plan)
    layout = json.dumps(
        [[metric.name, metric.bits, metric.digest.hex()] for metric in plan.metrics], separators=(",", ":")
    )
    connection.execute(
        "INSERT INTO plans (version, fingerprint, from_round, window, round_loss, layout, text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (plan.version, plan.fingerprint, first, plan.answers.window, round_loss, layout, plan.text),
    )
    connection.execute("UPDATE device SET enrolled_from = coalesce(enrolled_from, ?)", (first,))
    if anew:
        connection.execute("UPDATE device SET changed_in = ?", (first,))


def refresh_text(connection: sqlite3.Connection, plan: Plan) -> None:
    """Keep the text of a version up to date in what the fingerprint leaves out."""
    if plan.text:
        connection.execute(
            "UPDATE plans SET text = ? WHERE version = ? AND text != ?", (plan.text, plan.version, plan.text)
        )


@lru_cache(maxsize=8)
def parse(text: str) -> Plan | None:
    """The plan in a text that was kept; None when it is empty or no longer readable."""
    from reticent.plan import Plan

    try:
        return Plan.from_toml(text) if text else None
    except ReticentError:
        return None


def _one(connection: sqlite3.Connection, clause: str, *parameters: object) -> HeldPlan | None:
    row = connection.execute(
        f"SELECT version, fingerprint, from_round, window, round_loss, layout, text"  # noqa: S608
        f" FROM plans {clause} LIMIT 1",
        parameters,
    ).fetchone()
    if row is None:
        return None
    version, digest, from_round, window, round_loss, layout, text = row
    return HeldPlan(version, bytes(digest), from_round, window, round_loss, _parse_layout(layout), text)


def _parse_layout(text: str) -> Layout:
    return tuple((str(name), int(bits), str(digest)) for name, bits, digest in json.loads(text))


Reason = Literal["asked", "DO_NOT_TRACK"]
"""Why nothing is recorded or answered: the person asked for a pause, or set DO_NOT_TRACK."""


def pause(connection: sqlite3.Connection, current_round: int, reason: Reason) -> None:
    """Pause, from the round under way on; a pause that lasts already goes on."""
    if not is_paused(connection, reason):
        connection.execute(
            "INSERT OR REPLACE INTO pauses (from_round, reason) VALUES (?, ?)", (current_round, reason)
        )


def resume(connection: sqlite3.Connection, current_round: int, reason: Reason) -> None:
    """Go on, unless there is another reason to pause; the first round answered is the next one."""
    connection.execute(
        "UPDATE pauses SET through_round = max(from_round, ?) WHERE through_round IS NULL AND reason = ?",
        (current_round, reason),
    )


def is_paused(connection: sqlite3.Connection, reason: Reason | None = None) -> bool:
    """Whether a pause lasts, for some reason or for this one."""
    [(paused,)] = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pauses WHERE through_round IS NULL AND reason = coalesce(?, reason))",
        (reason,),
    )
    return bool(paused)


def is_paused_in(
    connection: sqlite3.Connection, first: int, last: int | None = None, reason: Reason | None = None
) -> bool:
    """Whether some pause, or one for this reason, overlaps a round; or several, from `first` to `last`."""
    [(overlaps,)] = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pauses WHERE from_round <= ? AND reason = coalesce(?, reason)"
        " AND (through_round IS NULL OR through_round >= ?))",
        (first if last is None else last, reason, first),
    )
    return bool(overlaps)
