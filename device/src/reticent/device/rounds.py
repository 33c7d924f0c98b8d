"""Which finished rounds are answered, with which draws; and which windows of sampled answers are held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from reticent.device import consent, ledger, outbox, plans, totals
from reticent.device.faults import Faults
from reticent.device.ledger import HeldWindow
from reticent.device.plans import HeldPlans
from reticent.device.policy import YEAR
from reticent.device.prf import SecretDraws
from reticent.device.schema import DeviceRow, device_row
from reticent.times import round_at, start_of

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Plan, Window
    from reticent.reports import Report


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
        """The finished rounds to answer now: all that the collector still takes, whole spells only."""
        if me.enrolled_from is None or plans.is_paused(connection) or not consent.allows(connection):
            return []
        last = round_at(now, me.round_seconds) - 1
        first = max(me.enrolled_from, me.silent_through + 1, self._first_open(connection, me, now))
        done = outbox.answered(connection, first, last)
        return [
            number
            for number in range(first, last + 1)
            if number not in done
            and self.is_due(connection, me, number, now)
            and self._draws_for(connection, me, number, now) is not None
        ]

    def is_due(self, connection: sqlite3.Connection, me: DeviceRow, number: int, now: float) -> bool:
        """
        Whether a round can still be answered, and the last round up to it in which the program ran.

        That round and the gap after it are a spell: it is answered whole or not at all. So a program that is used now
        and then is never reported as unused.
        """
        last = plans.last_presence(connection, number)
        return last is not None and all(
            self._is_answerable(connection, me, each, now) for each in {number, last}
        )

    def _is_answerable(self, connection: sqlite3.Connection, me: DeviceRow, number: int, now: float) -> bool:
        plan = self._held.plan_for(connection, number)
        return (
            plan is not None
            and me.enrolled_from is not None
            and number >= me.enrolled_from
            and number > me.silent_through
            and not plans.is_paused_in(connection, number, number)
            and plan.round(number).closes > now
        )

    def _first_open(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> int:
        """The first round that collectors still take, under any version held."""
        firsts = [first for (first,) in connection.execute("SELECT from_round FROM plans")]
        held = [plan for first in firsts if (plan := self._held.plan_for(connection, first)) is not None]
        grace = max((plan.grace_seconds for plan in held), default=0)
        return round_at(now - grace, me.round_seconds)

    def next_report(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> Report | None:
        """The answer to the next unanswered round as it stands, not kept; None: none is picked, or no plan held."""
        from reticent.device.answers import answer

        current = round_at(now, me.round_seconds)
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
        plan = self._held.plan_for(connection, round_at(now, me.round_seconds))
        grace = plan.grace_seconds if plan else 0
        return round_at(now - grace, me.round_seconds) - 1

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
        outbox.sum_up(connection, before=round_at(window_start, me.round_seconds))
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
        if number >= round_at(now, me.round_seconds):
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
        if plans.is_paused_in(connection, window.first, number, by_rule=True):
            return None
        draws = SecretDraws(me.secret, me.plan, me.epoch, window.start)
        return draws if draws.picked_round(window) == number else None

    def hold_windows(self, connection: sqlite3.Connection) -> None:
        """
        Hold each window, in order, that has begun since the last one held and can still be answered.

        It must have begun after the device was enrolled, after `forget` and after DO_NOT_TRACK, all of it under
        one length of window; and the limit of a year must have room for what it may lose.
        """
        me, now = device_row(connection), self._clock()
        if me.enrolled_from is None:
            return
        earliest = max(me.enrolled_from, me.silent_through + 1)
        current = round_at(now, me.round_seconds)
        number = max(earliest, self._first_open(connection, me, now))
        is_local = consent.read(connection).in_force == "local"  # then nothing of it is ever sent
        while number <= current:
            plan = self._held.plan_for(connection, number)
            window = plan.window_of(number) if plan else None
            if plan is None or window is None or plan.round(number).closes <= now:
                number += 1
                continue
            held = ledger.windows(connection)
            is_free = not plans.is_paused_in(connection, window.first, current, by_rule=True)
            if window.first >= earliest and is_free:
                new = self._next_window(connection, me, held, window.first)
                if new is not None:
                    loss = 0.0 if is_local else new.loss
                    connection.execute(
                        "INSERT INTO windows VALUES (?, ?, ?, NULL)", (new.start, new.end, loss)
                    )
            number = window.first + window.rounds

    def _next_window(
        self, connection: sqlite3.Connection, me: DeviceRow, held: Sequence[HeldWindow], first: int
    ) -> HeldWindow | None:
        """The window that begins with a round, if it can be held after those that are held."""
        version = plans.for_round(connection, first)
        plan = self._held.plan_for(connection, first)
        window = plan.window_of(first) if plan else None
        if version is None or window is None or window.first != first or version.from_round > first:
            return None
        # All of it under one length of window, and after the one before.
        end = window.start + window.rounds * me.round_seconds
        most = self._held.policy.max_year
        if window.start < ledger.free_from(held):
            return None
        if not ledger.has_room(connection, held, window.start, version.round_loss, most):
            return None
        return HeldWindow(window.start, end, version.round_loss, None)

    def next_answer(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> int | None:
        """When the next answer is given if nothing changes, unix seconds; None: not within three years."""
        if me.enrolled_from is None:
            return None
        current = round_at(now, me.round_seconds)
        number = max(me.enrolled_from, current)
        held = ledger.windows(connection)
        while number < current + 3 * YEAR // me.round_seconds:
            plan = self._held.plan_for(connection, number)
            end = start_of(number + 1, me.round_seconds)
            if plan is None or plan.has_expired(end):
                return None
            window = plan.window_of(number)
            if window is None:
                is_free = number > me.silent_through and not plans.is_paused_in(connection, number, number)
                is_asked = not outbox.answered(connection, number, number)
                if is_free and is_asked and ledger.holds(connection, plan, me.epoch):
                    return end
                number += 1
                continue
            if number == window.first and window.first > me.silent_through:
                new = self._next_window(connection, me, held, number)
                held = held if new is None else [*held, new]
            picked = self._picked_ahead(connection, me, held, window)
            end = start_of(picked + 1, me.round_seconds) if picked is not None else 0
            if picked is not None and picked >= number and not plan.has_expired(end):
                return end
            number = window.first + window.rounds
        return None

    def _picked_ahead(
        self, connection: sqlite3.Connection, me: DeviceRow, held: Sequence[HeldWindow], window: Window
    ) -> int | None:
        """The round that will be answered in a window; None: none will be."""
        if not any(one.start == window.start and one.round is None for one in held):
            return None
        picked = SecretDraws(me.secret, me.plan, me.epoch, window.start).picked_round(window)
        is_paused = plans.is_paused_in(connection, window.first, picked, by_rule=True)
        if window.first <= me.silent_through or is_paused or plans.is_paused_in(connection, picked, picked):
            return None
        return picked

    def wanted(self, connection: sqlite3.Connection, changes: totals.TotalChanges) -> totals.TotalChanges:
        """
        Without the values of rounds that are not picked: they stay out of the file.

        Whether their window is held does not count yet: a value must not depend on when a call was made.
        """
        if not changes:
            return changes
        me, wanted = device_row(connection), {}
        for (number, name), change in changes.items():
            plan = self._held.plan_for(connection, number)
            window = plan.window_of(number) if plan else None
            enrolled = inf if me.enrolled_from is None else me.enrolled_from
            if window is not None and window.first > me.silent_through and window.first >= enrolled:
                draws = SecretDraws(me.secret, me.plan, me.epoch, window.start)
                if draws.picked_round(window) == number:
                    wanted[number, name] = change
            elif plan is None or not plan.answers.sampled:
                wanted[number, name] = change
        return wanted
