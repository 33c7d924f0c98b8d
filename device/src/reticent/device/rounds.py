"""Which finished rounds are answered, with which draws; and which windows of sampled answers are held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor, inf
from typing import TYPE_CHECKING

from reticent.device import consent, ledger, outbox, plans, totals
from reticent.device.faults import Faults
from reticent.device.plans import HeldPlans
from reticent.device.prf import SecretDraws
from reticent.device.schema import DeviceRow, device_row

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Plan
    from reticent.reports import Report

MOST_ROUNDS_AT_ONCE = 64  # how many missed rounds are answered at most, the latest ones


class RoundsToAnswer:
    """Rounds of one state file. Only bits depend on a value: which rounds are answered, and when, never does."""

    def __init__(
        self, held: HeldPlans, segment: Mapping[str, object], clock: Callable[[], float], faults: Faults
    ) -> None:
        self._held = held
        self._segment = dict(segment)
        self._clock = clock
        self._faults = faults

    def due(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> list[int]:
        """The finished rounds to answer now."""
        if me.enrolled_from is None or plans.is_paused(connection) or not consent.allows(connection):
            return []
        last = floor(now / me.round_seconds) - 1
        first = max(
            me.enrolled_from,
            me.silent_through + 1,
            self.last_closed(connection, me, now) + 1,
            last + 1 - MOST_ROUNDS_AT_ONCE,
        )
        done = outbox.answered(connection, first, last)
        return [
            number
            for number in range(first, last + 1)
            if number not in done
            and not plans.is_paused_in(connection, number, number)
            and self._draws_for(connection, me, number, now) is not None
        ]

    def next_report(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> Report | None:
        """The answer to the next unanswered round as it stands, not kept; None: none is picked, or no plan held."""
        from reticent.device.answers import answer

        current = floor(now / me.round_seconds)
        number = max(current, me.silent_through + 1, me.enrolled_from or 0)
        plan = self._held.plan_for(connection, number)
        if plan is None:
            return None
        window = plan.window_of(number)
        draws = SecretDraws(me.secret, me.plan, me.epoch, window.start if window else None)
        picked = draws.picked_round(window) if window else number
        if picked < number:
            return None
        return answer(draws, plan, picked, totals.read(connection, picked), self._segment).report

    def last_closed(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> int:
        """The latest round for which no collector takes reports any more."""
        plan = self._held.plan_for(connection, floor(now / me.round_seconds))
        grace = plan.grace_seconds if plan else 0
        return floor((now - grace) / me.round_seconds) - 1

    def answer(
        self, connection: sqlite3.Connection, me: DeviceRow, number: int, *, told: bool
    ) -> Report | None:
        """The report of a round, made now unless it exists; None where there is none."""
        for kept in outbox.select(connection, me.plan, "WHERE round = ?", number):
            self._faults.add("report-damaged", not kept.intact)
            if not kept.intact or kept.state == "local":
                return None
            if told:  # its bytes are about to be handed out
                connection.execute("UPDATE reports SET told = 1 WHERE round = ?", (number,))
            return kept.report
        if number <= me.silent_through or plans.is_paused_in(connection, number, number):
            return None
        plan = self._held.plan_for(connection, number)
        draws = self._draws_for(connection, me, number, self._clock())
        if plan is None or draws is None:
            self._faults.add("plan-unreadable", plan is None)
            return None
        from reticent.device.answers import answer

        report, visited = answer(draws, plan, number, totals.read(connection, number), self._segment)
        span, window = plan.round(number), plan.window_of(number)
        send_at = (
            span.end + draws.delay(number) * (min(plan.round_seconds, plan.grace_seconds) * 3 // 4) / 2**64
        )
        # One transaction holds all three: the report, the end of its values, and its loss.
        is_local = consent.read(connection).in_force != "granted"
        state = "local" if is_local else "waiting"
        outbox.put(connection, report, me.epoch, send_at, span.closes, told=told, state=state)
        totals.erase(connection, number, number)
        # Not beyond the start of a window that may still be answered.
        open_window = "SELECT coalesce(min(start), 1 << 62) FROM windows WHERE ends > ?"
        [(window_start,)] = connection.execute(open_window, (span.start,))
        outbox.sum_up(connection, before=window_start // me.round_seconds)
        if window is not None:
            held = plans.for_round(connection, number)
            loss = 0.0 if is_local else held.round_loss if held else inf
            ledger.answer_in(connection, window, number, loss)
        elif not is_local:
            ledger.visit(connection, plan, me.epoch, visited)
        return report

    def _draws_for(
        self, connection: sqlite3.Connection, me: DeviceRow, number: int, now: float
    ) -> SecretDraws | None:
        """What a round is answered with; None where it is not answered. Independent of values."""
        plan = self._held.plan_for(connection, number)
        if plan is None or plan.has_expired(now):
            return None
        if not plan.answers.sampled:
            # Nothing is answered that is not counted: the policy may not allow one more epoch.
            is_counted = ledger.holds(connection, plan, me.epoch)
            return SecretDraws(me.secret, me.plan, me.epoch) if is_counted else None
        if number >= floor(now / me.round_seconds):
            return None  # it is not over
        return self._picks(connection, me, plan, number)

    def _picks(
        self, connection: sqlite3.Connection, me: DeviceRow, plan: Plan, number: int
    ) -> SecretDraws | None:
        """The draws of a round's window, if the round is the one picked in it and none was answered yet."""
        window = plan.window_of(number)
        if window is None or window.first <= me.silent_through:
            return None
        is_open = "SELECT 1 FROM windows WHERE start = ? AND round IS NULL"
        if connection.execute(is_open, (window.start,)).fetchone() is None:
            return None
        if plans.is_paused_in(connection, window.first, number, plans.ASKED):
            return None
        draws = SecretDraws(me.secret, me.plan, me.epoch, window.start)
        return draws if draws.picked_round(window) == number else None

    def hold_windows(self, connection: sqlite3.Connection) -> None:
        """
        Hold each window, in order, that has begun since the last one held and can still be answered.

        It must have begun after the device was enrolled, after `forget` and after DO_NOT_TRACK, all of it under
        one length of window; and the policy must have room for what it may lose.
        """
        me, now = device_row(connection), self._clock()
        if me.enrolled_from is None or not self._held.answers or not consent.allows(connection):
            return
        earliest = max(me.enrolled_from, me.silent_through + 1)
        current = floor(now / me.round_seconds)
        number = max(earliest, self.last_closed(connection, me, now) + 1, current - MOST_ROUNDS_AT_ONCE)
        while number <= current:
            plan, version = self._held.plan_for(connection, number), plans.for_round(connection, number)
            window = plan.window_of(number) if plan else None
            if plan is None or version is None or window is None:
                number += 1
                continue
            first = self._held.plan_for(connection, window.first)
            room = self._held.policy.max_lifetime
            if (
                window.first >= earliest
                and window.start >= ledger.free_from(connection)
                and first is not None
                and first.answers.window == plan.answers.window
                and not plans.is_paused_in(connection, window.first, current, plans.ASKED)
                and (room is None or ledger.lifetime(connection, window=version.round_loss) <= room)
            ):
                is_local = consent.read(connection).in_force == "local"  # then nothing of it is ever sent
                loss = 0.0 if is_local else version.round_loss
                end = window.start + window.rounds * me.round_seconds
                connection.execute("INSERT INTO windows VALUES (?, ?, ?, NULL)", (window.start, end, loss))
                ledger.seal(connection)
            number = window.first + window.rounds

    def wanted(self, connection: sqlite3.Connection, changes: totals.TotalChanges) -> totals.TotalChanges:
        """Without the values of rounds that are not picked: they stay out of the file."""
        if not changes:
            return changes
        me, wanted = device_row(connection), {}
        for (number, name), change in changes.items():
            plan = self._held.plan_for(connection, number)
            if plan is None or not plan.answers.sampled or self._picks(connection, me, plan, number):
                wanted[number, name] = change
        return wanted
