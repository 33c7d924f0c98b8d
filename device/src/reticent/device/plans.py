"""
Which plan a round is answered under, and which rounds a pause leaves unanswered.

A round is answered under the version held when it began. A plan is taken up from the next round on, unless the
policy or an earlier version forbids it. During a pause nothing is recorded or sent, and the rounds it overlaps
are never answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from reticent.device import consent, ledger
from reticent.device.schema import DeviceRow, device_row
from reticent.errors import ReticentError
from reticent.frozen import frozen
from reticent.times import first_round_from, round_at

if TYPE_CHECKING:
    import sqlite3

    from reticent.device.clamp import Value
    from reticent.device.process import Settings
    from reticent.plan import Metric, Plan

    Question = tuple[Value, Metric]
    """The top of a metric's range, up to which a whole number is taken as it is (-1: none is), and the metric."""


MOST_SPELLS = (
    400  # spans of neighbouring rounds in which the program ran; a collector takes none that is older
)

Layout = tuple[tuple[str, int, str], ...]
"""Each metric's name, its answer bits and the digest of its privacy parameters (hex), in plan order."""


@frozen()
class HeldPlan:
    """One version of the plan, as it is kept."""

    version: int
    fingerprint: bytes
    from_round: int
    window: int  #: Rounds of a window of sampled answers; 0: answers are remembered
    round_loss: float
    text: str


def latest(connection: sqlite3.Connection) -> HeldPlan | None:
    """The newest version held."""
    return _one(connection, "ORDER BY version DESC")


def for_round(connection: sqlite3.Connection, round_number: int) -> HeldPlan | None:
    """The version held when a round began; for a round before the first plan, the first."""
    return _one(connection, "WHERE from_round <= ? ORDER BY version DESC", round_number) or _one(
        connection, "ORDER BY version"
    )


def layouts(connection: sqlite3.Connection) -> dict[int, Layout]:
    """What the bits of a report belong to, by version."""
    return {
        version: tuple((str(name), int(bits), str(digest)) for name, bits, digest in json.loads(layout))
        for version, layout in connection.execute("SELECT version, layout FROM plans")
    }


def has_sampled(connection: sqlite3.Connection) -> bool:
    """Whether some version held has sampled answers."""
    [(some,)] = connection.execute("SELECT EXISTS (SELECT 1 FROM plans WHERE window > 0)")
    return bool(some)


@lru_cache(maxsize=8)
def parse_stored(text: str) -> Plan | None:
    """The plan in a stored text; None when it is empty or no longer readable."""
    from reticent.plan import Plan

    try:
        return Plan.from_toml(text) if text else None
    except ReticentError:
        return None


def _one(connection: sqlite3.Connection, clause: str, *parameters: object) -> HeldPlan | None:
    columns = "version, fingerprint, from_round, window, round_loss, text"
    row = connection.execute(f"SELECT {columns} FROM plans {clause} LIMIT 1", parameters).fetchone()  # noqa: S608
    return HeldPlan(*row) if row else None


ASKED = "asked"  # the reason of a pause that the person asked for
SILENT = "silent"  # of rounds in which the plan was refused or had expired; all other reasons are rules of the policy


def pause(connection: sqlite3.Connection, current_round: int, reason: str) -> None:
    """Pause from the current round on, unless this pause lasts already."""
    if not is_paused(connection, reason):
        connection.execute(
            "INSERT OR REPLACE INTO pauses (from_round, reason) VALUES (?, ?)", (current_round, reason)
        )


def resume(connection: sqlite3.Connection, current_round: int, reason: str) -> None:
    """End a pause; the first round answered is the next one, unless there is another reason to pause."""
    connection.execute(
        "UPDATE pauses SET through_round = max(from_round, ?) WHERE through_round IS NULL AND reason = ?",
        (current_round, reason),
    )


def is_paused(connection: sqlite3.Connection, reason: str | None = None) -> bool:
    """Whether a pause lasts, for any reason or for this one."""
    [(paused,)] = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pauses WHERE through_round IS NULL AND reason = coalesce(?, reason))",
        (reason,),
    )
    return bool(paused)


def silenced_by(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The rules of the policy for which a pause lasts."""
    rows = connection.execute(
        "SELECT reason FROM pauses WHERE through_round IS NULL AND reason NOT IN ('asked', 'silent') ORDER BY reason"
    )
    return tuple(reason for (reason,) in rows)


def is_paused_in(connection: sqlite3.Connection, first: int, last: int, *, by_rule: bool = False) -> bool:
    """Whether a pause overlaps one of several rounds, for any reason or by a rule of the policy."""
    others = "AND reason NOT IN ('asked', 'silent')" if by_rule else ""
    [(overlaps,)] = connection.execute(
        f"SELECT EXISTS (SELECT 1 FROM pauses WHERE from_round <= ? {others}"  # noqa: S608
        " AND (through_round IS NULL OR through_round >= ?))",
        (last, first),
    )
    return bool(overlaps)


def mark_silent(connection: sqlite3.Connection, first: int, last: int) -> None:
    """No values were recorded in these rounds, so they have no answer."""
    extended = connection.execute(
        "UPDATE pauses SET through_round = max(through_round, ?)"
        " WHERE reason = 'silent' AND from_round <= ? AND through_round >= ?",
        (last, first, first - 1),
    )
    if not extended.rowcount:
        connection.execute("INSERT OR REPLACE INTO pauses VALUES (?, 'silent', ?)", (first, last))


# Presence: when the program ran, never what it measured


def note_presence(connection: sqlite3.Connection, first: int, last: int) -> None:
    """Enter rounds in which the program ran, joined with their neighbours."""
    near = "first_round <= ? AND last_round >= ?"
    bounds = (last + 1, first - 1)
    find = f"SELECT min(first_round), max(last_round) FROM presence WHERE {near}"  # noqa: S608
    [(begin, end)] = connection.execute(find, bounds)
    begin = first if begin is None else min(begin, first)
    end = last if end is None else max(end, last)
    connection.execute(f"DELETE FROM presence WHERE {near}", bounds)  # noqa: S608
    connection.execute("INSERT INTO presence VALUES (?, ?)", (begin, end))
    connection.execute(
        "DELETE FROM presence WHERE first_round NOT IN"
        " (SELECT first_round FROM presence ORDER BY first_round DESC LIMIT ?)",
        (MOST_SPELLS,),
    )


def was_present(connection: sqlite3.Connection, first: int, last: int) -> bool:
    """Whether the file knows that the program ran in all of these rounds."""
    sql = "SELECT EXISTS (SELECT 1 FROM presence WHERE first_round <= ? AND last_round >= ?)"
    [(known,)] = connection.execute(sql, (first, last))
    return bool(known)


def last_presence(connection: sqlite3.Connection, number: int) -> int | None:
    """The last round up to this one in which the program ran."""
    [(last,)] = connection.execute(
        "SELECT max(min(last_round, ?)) FROM presence WHERE first_round <= ?", (number, number)
    )
    return None if last is None else int(last)


class HeldPlans:
    """The plans that one state file holds, and the one that the program came with."""

    def __init__(self, settings: Settings) -> None:
        plan = settings.plan
        self.plan = plan
        self._ask_again = settings.ask_again
        self.policy = settings.policy
        self._clock = settings.clock
        self._newest: Plan | None = None
        self._asked = (plan.version, plan.fingerprint) if plan else None
        self.timeline: list[tuple[int, Mapping[str, Question]]] = []
        """The first round of each version held, the newest first, and its metrics by name."""
        self.refused: tuple[str, ...] = ()  # why the plan was not taken up
        self.answers = True  # whether some plan is held that the policy allows: a refused one changes nothing
        self.asks_more = False  # whether the plan asks for more than the person agreed to

    @property
    def newest(self) -> Plan | None:
        """The plan that the program came with, or the newest that is held."""
        return self.plan or self._newest

    def refresh(self, connection: sqlite3.Connection, *, considers: bool) -> None:
        """Take up the plan or find out why not, and read what is held: the file was opened, or consent changed."""
        self.asks_more = False
        if self.plan is not None and considers:
            self.consider(connection, self.plan)
        rows = connection.execute("SELECT from_round FROM plans ORDER BY version DESC LIMIT 4").fetchall()
        held = [(first, plan) for (first,) in rows if (plan := self.plan_for(connection, first)) is not None]

        def question(metric: Metric) -> Question:
            return -1 if metric.labels else metric.max_value, metric

        self.timeline = [
            (first, {name: question(metric) for name, metric in plan.by_name.items()}) for first, plan in held
        ]
        self._newest = held[0][1] if held else None

    def consider(self, connection: sqlite3.Connection, plan: Plan) -> None:
        """Hold the plan from the next round on. A refused one changes nothing: the version held goes on."""
        me, newest = device_row(connection), latest(connection)
        problems: list[str] = []
        if newest is None or plan.version > newest.version:
            problems = self._take_over(connection, me, plan)
            newest = latest(connection)
        elif plan.version < newest.version:
            problems = [
                f"version {plan.version} is older than version {newest.version}, which this device holds"
            ]
        elif plan.fingerprint != newest.fingerprint:
            problems = [
                f"version {plan.version} asks something else than the version {plan.version} that this device "
                "holds; a changed plan needs a higher version"
            ]
        elif plan.text:  # what the fingerprint leaves out may have changed
            newer = "UPDATE plans SET text = ? WHERE version = ? AND text != ?"
            connection.execute(newer, (plan.text, plan.version, plan.text))
        beyond = self._go_on(connection, me, newest) if newest else []
        self.refused = tuple(dict.fromkeys([*problems, *beyond]))
        self.answers = newest is not None and not beyond

    def _go_on(self, connection: sqlite3.Connection, me: DeviceRow, newest: HeldPlan) -> list[str]:
        """Answer the version held in this epoch; returns why not: a limit may be lower now."""
        plan = self.plan_for(connection, newest.from_round)
        if plan is None:
            return [f"version {newest.version}, which this device holds, cannot be read any more"]
        is_counted = ledger.holds(connection, plan, me.epoch)  # not so after `forget`
        problems = self.policy.problems(plan, newest.round_loss, ledger.lifetime(connection, plan, me.epoch))
        if not problems and not is_counted and self._check_agreement(connection, plan, me.epoch):
            ledger.hold(connection, plan, me.epoch)
        return problems

    def _check_agreement(self, connection: sqlite3.Connection, plan: Plan, epoch: int) -> bool:
        """Note whether a plan asks for more than the person agreed to; returns whether it does not."""
        self.asks_more = self._ask_again and not consent.covers(consent.read(connection), plan, epoch)
        return not self.asks_more

    def _take_over(self, connection: sqlite3.Connection, me: DeviceRow, plan: Plan) -> list[str]:
        """Hold a version that was not held before; returns why not."""
        first, round_loss = round_at(self._clock(), me.round_seconds) + 1, plan.round_loss
        lifetime = ledger.lifetime(connection, plan, me.epoch)
        newest = latest(connection)
        if newest is not None and (newest.window or plan.answers.window):
            # Another way of answering waits for the end of the window: windows never overlap.
            first = max(first, newest.from_round)
            if newest.window != plan.answers.window:
                free_from = ledger.free_from(ledger.windows(connection))
                first = max(first, first_round_from(free_from, me.round_seconds))
        asks_new = not ledger.holds(connection, plan)  # in no version and no epoch so far
        since = first - me.changed_in if asks_new and me.changed_in is not None else None
        problems = self.policy.problems(plan, round_loss, lifetime, since)
        if not problems and self._check_agreement(connection, plan, me.epoch):
            # In one transaction: nothing is ever answered that the ledger does not count.
            layout = [[metric.name, metric.bits, metric.digest.hex()] for metric in plan.metrics]
            text = json.dumps(layout, separators=(",", ":"))
            connection.execute(
                "INSERT INTO plans VALUES (?, ?, ?, ?, ?, ?, ?)",
                (plan.version, plan.fingerprint, first, plan.answers.window, round_loss, text, plan.text),
            )
            connection.execute("UPDATE device SET enrolled_from = coalesce(enrolled_from, ?)", (first,))
            if plan.answers.sampled:
                ledger.raise_limits(connection, 0.0, 0.0, sampled=True)
            if asks_new:
                connection.execute("UPDATE device SET changed_in = ?", (first,))
            ledger.hold(connection, plan, me.epoch)
        return problems

    def plan_for(self, connection: sqlite3.Connection, number: int) -> Plan | None:
        """The plan that a round is answered under; None where it is no longer available."""
        held = for_round(connection, number)
        if held is None:
            return None
        return self.plan if (held.version, held.fingerprint) == self._asked else parse_stored(held.text)
