"""
What a device does, on its state file: record, answer, send, pause, forget, account.

Everything here may raise; `Device` is the quiet shell around it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from math import floor, inf
from os import PathLike, urandom
from pathlib import Path
from typing import TYPE_CHECKING

from reticent.device import ledger, outbox, plans, totals, windows
from reticent.device.answers import answer
from reticent.device.clamp import Value, taken
from reticent.device.faults import Faults
from reticent.device.policy import Policy
from reticent.device.prf import SECRET_BYTES, SecretDraws, checksum
from reticent.device.quarantine import Identity
from reticent.device.schema import DeviceRow, device_row
from reticent.device.statefile import Opened, StateFile
from reticent.device.totals import Change, Pending
from reticent.reports import to_json

if TYPE_CHECKING:
    import sqlite3

    from reticent.device.outbox import Kept
    from reticent.device.plans import HeldPlan
    from reticent.device.receipt import Receipt, Status
    from reticent.device.transport import Transport
    from reticent.plan import Metric, Plan
    from reticent.reports import Report

MOST_ROUNDS_AT_ONCE = 64
"""How many missed rounds are answered at most, the latest ones."""
LONGEST_SEND = 10.0
"""How long one attempt to send a report may take, s."""


class Engine:
    """A device without its manners. `plan` None: whatever the state file holds."""

    def __init__(
        self,
        plan: Plan | None,
        path: str | PathLike[str],
        segment: Mapping[str, object],
        policy: Policy | None,
        clock: Callable[[], float],
        faults: Faults,
    ) -> None:
        self._plan = plan
        self._asked = (plan.version, plan.fingerprint) if plan else None
        self._segment = dict(segment)
        self._policy = policy or Policy()
        self._clock = clock
        self._faults = faults
        self._pending = Pending()
        self._timeline: list[tuple[int, Plan]] = []
        self._draws: tuple[tuple[bytes, int | None], SecretDraws] | None = None
        self.round_seconds = plan.round_seconds if plan else 0
        self.refused: tuple[str, ...] = ()
        """Why the plan was not taken up."""
        self.answers = True
        """Whether some plan is held that the policy allows: a refused one changes nothing."""
        self.untracked = False
        """Whether DO_NOT_TRACK is set; the state file knows."""
        self.state = StateFile(Path(path), self._identity if plan else None, self._take_up)

    def _identity(self) -> Identity:
        """What a state file is made for, if one has to be."""
        plan, most = self._plan, self._policy.max_lifetime
        name = plan.name if plan else ""
        return Identity(name, self.round_seconds, self.current_round, inf if most is None else most)

    @property
    def plan(self) -> Plan | None:
        """The plan this device was made with, or the newest it holds."""
        return self._plan or (self._timeline[0][1] if self._timeline else None)

    @property
    def current_round(self) -> int:
        """The round under way."""
        return floor(self._clock() / self.round_seconds)

    # Values

    def record(self, name: str, amount: object, round_number: int | None, *, replaces: bool) -> None:
        """Add to a total or set it; returns once it is in the file, or safe in memory."""
        current = self.current_round
        number = current if round_number is None else round_number
        if not self._has_begun(number, current):
            return
        metric = self._metric(name, number) if isinstance(name, str) else None
        if metric is None:
            if self.plan is None or not isinstance(name, str) or name not in self.plan.by_name:
                self._faults.add("unknown-metric")
            return
        value, fault = taken(metric, amount)
        if fault:
            self._faults.add(fault)
        if value is not None:
            is_choice = bool(metric.labels)
            first = is_choice and metric.pick == "first"
            self._pending.put(number, name, Change(value, metric.max_value, replaces or is_choice, first))
            self.write_pending()

    def _has_begun(self, number: object, current: int) -> bool:
        """Whether this is the number of a round that has begun; what is not is noted."""
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
            self._faults.add("bad-round")
            return False
        self._faults.add("future-round", number > current)
        return number <= current

    def write_pending(self) -> None:
        """Bring what waits in memory into the file."""
        if len(self._pending):
            with self._writing():
                pass

    def values(self, round_number: int) -> dict[str, Value]:
        """The totals of a round that is not answered yet, for `reticent.testing`."""
        self.write_pending()
        with self.state.view() as connection:
            return totals.read(connection, round_number)

    # Answers

    def report(self, round_number: int | None) -> Report | None:
        """The report of a round, made now unless it was made before; None where there is none to make."""
        current = self.current_round
        number = current - 1 if round_number is None else round_number
        if not self._has_begun(number, current):
            return None
        with self._writing(durable=True, patience=2.0) as connection:
            me = device_row(connection)
            if plans.is_paused(connection):
                return None
            absent = me.enrolled_from is None or number < me.enrolled_from
            if round_number is None and absent and not outbox.answered(connection, number, number):
                return None
            report = self._answer(connection, me, number, told=True)
        self.state.wipe_log()
        return report

    def answer_due(self) -> None:
        """
        Answer every finished round that is still open at the collector, also those nothing was recorded in.

        A device answers each round from the first full one after it was enrolled: whether a program was
        used must not show in whether it answers.
        """
        now = self._clock()
        with self.state.view() as connection:  # a look first: usually there is nothing to write
            me = device_row(connection)
            expired = "SELECT EXISTS (SELECT 1 FROM reports WHERE state = 'waiting' AND closes <= ?)"
            [(is_stale,)] = connection.execute(expired, (now,))
            [(oldest,)] = connection.execute("SELECT min(round) FROM totals")
            is_left = oldest is not None and oldest <= self._last_closed(connection, me, now)
            is_free = plans.sample(connection) and windows.free_from(connection) <= now
            if not (is_stale or is_left or is_free or self._due(connection, me, now)):
                return
        with self._writing(durable=True, patience=2.0) as connection:
            me, now = device_row(connection), self._clock()
            for number in self._due(connection, me, now):
                self._answer(connection, me, number, told=False)
            # Too late: reports that no collector takes any more, and values that will not be answered.
            outbox.expire(connection, now)
            totals.erase(connection, -1, self._last_closed(connection, me, now))
        self.state.wipe_log()

    def next_due(self) -> float:
        """When the round under way ends or a report is to be sent, whichever is first; unix seconds."""
        with self.state.view() as connection:
            send_at = outbox.next_time(connection)
        end_of_round = (self.current_round + 1) * self.round_seconds
        return end_of_round if send_at is None else min(end_of_round, send_at)

    def _due(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> list[int]:
        if me.enrolled_from is None or plans.is_paused(connection):
            return []
        last = floor(now / me.round_seconds) - 1
        first = max(
            me.enrolled_from,
            me.silent_through + 1,
            self._last_closed(connection, me, now) + 1,
            last + 1 - MOST_ROUNDS_AT_ONCE,
        )
        done = outbox.answered(connection, first, last)
        return [
            number
            for number in range(first, last + 1)
            if number not in done
            and not plans.is_paused_in(connection, number)
            and self._draws_for(connection, me, number, now) is not None
        ]

    def _last_closed(self, connection: sqlite3.Connection, me: DeviceRow, now: float) -> int:
        """The latest round for which no collector takes reports any more."""
        plan = self._plan_for(connection, floor(now / me.round_seconds))
        grace = plan.grace_seconds if plan else 0
        return floor((now - grace) / me.round_seconds) - 1

    def _answer(
        self, connection: sqlite3.Connection, me: DeviceRow, number: int, *, told: bool
    ) -> Report | None:
        kept = outbox.get(connection, me.plan, number)
        if kept is not None and not kept.intact:
            self._faults.add("report-damaged")
            return None
        if kept is not None:
            if told:
                outbox.mark_told(connection, number)
            return kept.report
        if number <= me.silent_through or plans.is_paused_in(connection, number):
            return None
        plan = self._plan_for(connection, number)
        draws = self._draws_for(connection, me, number, self._clock())
        if plan is None or draws is None:
            self._faults.add("plan-unreadable", plan is None)
            return None
        self.state.epoch = me.epoch  # another process may have begun it
        report, visited = answer(draws, plan, number, totals.read(connection, number), self._segment)
        span, window = plan.round(number), plan.window_of(number)
        send_at = (
            span.end + draws.delay(number) * (min(plan.round_seconds, plan.grace_seconds) * 3 // 4) / 2**64
        )
        # One transaction holds all three: the report, the end of its values, and what it may have told.
        outbox.put(connection, report, me.epoch, send_at, span.closes, told=told)
        totals.erase(connection, number, number)
        if window is None:
            ledger.visit(connection, plan, me.epoch, visited)
        else:
            held = plans.for_round(connection, number)
            windows.answer_in(connection, window, number, held.round_loss if held else inf)
            ledger.seal(connection)
        return report

    def _draws_of(self, me: DeviceRow, window: int | None) -> SecretDraws:
        """Kept between reports, for as long as secret and window are the same (another process may forget)."""
        key = me.secret, window  # each epoch has a secret of its own
        if self._draws is None or self._draws[0] != key:
            self._draws = key, SecretDraws(me.secret, me.plan, me.epoch, window)
        return self._draws[1]

    def _draws_for(
        self, connection: sqlite3.Connection, me: DeviceRow, number: int, now: float
    ) -> SecretDraws | None:
        """What a round is answered with; None where it is not answered. Never a matter of values."""
        plan = self._plan_for(connection, number)
        today = datetime.fromtimestamp(now, UTC).date()
        if plan is None or (plan.expires and today > plan.expires):
            return None
        if not plan.answers.sampled:
            # Nothing is answered that is not counted: the policy may not allow one more epoch.
            return self._draws_of(me, None) if ledger.holds(connection, plan, me.epoch) else None
        if number >= floor(now / me.round_seconds):
            return None  # it is not over
        return self._picks(connection, me, plan, number)

    # Windows

    def _picks(
        self, connection: sqlite3.Connection, me: DeviceRow, plan: Plan, number: int
    ) -> SecretDraws | None:
        """The draws of a round's window, if this is the round that is answered in it and none was yet."""
        window = plan.window_of(number)
        if window is None or window.first <= me.silent_through or not windows.is_open(connection, window):
            return None
        if plans.is_paused_in(connection, window.first, number, "DO_NOT_TRACK"):
            return None
        draws = self._draws_of(me, window.start)
        return draws if draws.picked_round(window) == number else None

    def _hold_windows(self, connection: sqlite3.Connection) -> None:
        """
        Hold each window, in order, that has begun since the last one held and can still be answered.

        It must have begun after the device was enrolled, after `forget` and after DO_NOT_TRACK, all of it
        under one length of window; and the policy must have room for what it may lose.
        """
        me, now = device_row(connection), self._clock()
        if me.enrolled_from is None or not self.answers:
            return
        earliest = max(me.enrolled_from, me.silent_through + 1)
        current = floor(now / me.round_seconds)
        number = max(earliest, self._last_closed(connection, me, now) + 1, current - MOST_ROUNDS_AT_ONCE)
        while number <= current:
            plan, version = self._plan_for(connection, number), plans.for_round(connection, number)
            window = plan.window_of(number) if plan else None
            if plan is None or version is None or window is None:
                number += 1
                continue
            first = self._plan_for(connection, window.first)
            room = self._policy.max_lifetime
            if (
                window.first >= earliest
                and window.start >= windows.free_from(connection)
                and first is not None
                and first.answers.window == plan.answers.window
                and not plans.is_paused_in(connection, window.first, current, "DO_NOT_TRACK")
                and (room is None or ledger.lifetime(connection, window=version.round_loss) <= room)
            ):
                windows.hold(connection, window, me.round_seconds, version.round_loss)
                ledger.seal(connection)
            number = window.first + window.rounds

    def _wanted(self, connection: sqlite3.Connection, changes: totals.Changes) -> totals.Changes:
        """Without values that nobody will ask for: those of rounds that are not picked stay out of the file."""
        if not changes:
            return changes
        me, wanted = device_row(connection), {}
        for (number, name), change in changes.items():
            plan = self._plan_for(connection, number)
            if plan is None or not plan.answers.sampled or self._picks(connection, me, plan, number):
                wanted[number, name] = change
        return wanted

    # Sending

    def send_due(self, transport: Transport, deadline: float, *, early: bool) -> int:
        """
        Send what is due, in the order of rounds, until `deadline` (of `time.monotonic`).

        `early`: also reports that wait for their place in the round. Returns how many were accepted.
        """
        now = self._clock()
        with self.state.view() as connection:
            paused, plan = plans.is_paused(connection), device_row(connection).plan
            waiting = [] if paused else outbox.due(connection, plan, now, early=early)
        accepted = 0
        for kept in waiting:
            timeout = min(deadline - time.monotonic(), LONGEST_SEND)
            if timeout <= 0:
                break
            # Claimed on the disk before a byte leaves: no other process sends it now, and after a crash the
            # receipt lists what may have been told.
            with self.state.transaction(durable=True, patience=2.0) as connection:
                until = now + 2 * LONGEST_SEND
                claimed = not plans.is_paused(connection) and outbox.claim(connection, kept, until)
            if claimed:
                accepted += self._send(transport, kept, timeout)
        return accepted

    def _send(self, transport: Transport, kept: Kept, timeout: float) -> bool:
        """Hand a report to the transport and enter what came of it; returns whether it was accepted."""
        from reticent.device.transport import Accepted, Outcome, Rejected, Retry

        try:
            outcome: Outcome = transport.send(to_json(kept.report), timeout)
        except Exception:  # a transport of the host's own may raise anything
            self._faults.add("transport")
            outcome = Retry()
        with self.state.transaction(patience=2.0) as connection:
            if isinstance(outcome, Accepted):
                outbox.settle(connection, kept, "accepted")
            elif isinstance(outcome, Rejected):
                outbox.settle(connection, kept, "rejected", outcome.code)
            else:
                wait = outbox.back_off(kept.attempts, self.round_seconds, outcome.after)
                outbox.postpone(connection, kept, self._clock() + wait)
        return isinstance(outcome, Accepted)

    # Plans

    def _take_up(self, opened: Opened) -> None:
        """The state file was opened: take up the plan, or find out why not."""
        connection = opened.connection
        me = device_row(connection)
        self.round_seconds = me.round_seconds
        if opened.tightened:
            self._faults.add("state-tightened")
        waiting = outbox.waiting(connection, me.plan)
        self._faults.add("report-damaged", sum(not kept.intact for kept in waiting))
        self._faults.add("state-lost", opened.replaces_another)
        if self._plan is not None:
            if self.untracked:
                plans.pause(connection, self.current_round, "DO_NOT_TRACK")
            else:  # rounds that began under it, in this program's last run for instance, stay unanswered
                plans.resume(connection, self.current_round, "DO_NOT_TRACK")
            self._consider(connection, self._plan)
        # The plans held, newest first, with the round each begins in: to find a metric without the file.
        rows = connection.execute("SELECT from_round FROM plans ORDER BY version DESC LIMIT 4").fetchall()
        timeline = [(first, self._plan_for(connection, first)) for (first,) in rows]
        self._timeline = [(first, plan) for first, plan in timeline if plan is not None]

    def _consider(self, connection: sqlite3.Connection, plan: Plan) -> None:
        """
        Hold the plan from the next round on, unless something speaks against it.

        A plan that is refused changes nothing: the version held goes on, if the policy allows that one.
        """
        me, newest = device_row(connection), plans.latest(connection)
        problems: list[str] = []
        if newest is None or plan.version > newest.version:
            problems = self._take_over(connection, me, plan)
            newest = plans.latest(connection)
        elif plan.version < newest.version:
            problems = [
                f"version {plan.version} is older than version {newest.version}, which this device holds"
            ]
        elif plan.fingerprint != newest.fingerprint:
            problems = [f"version {plan.version} is not the version {plan.version} this device holds"]
        else:
            plans.refresh_text(connection, plan)
        beyond = self._go_on(connection, me, newest) if newest else []
        self.refused = tuple(dict.fromkeys([*problems, *beyond]))
        self.answers = newest is not None and not beyond

    def _go_on(self, connection: sqlite3.Connection, me: DeviceRow, newest: HeldPlan) -> list[str]:
        """Answer the version held in this epoch; returns what speaks against it: a limit may be lower now."""
        plan = self._plan_for(connection, newest.from_round)
        if plan is None:
            return [f"version {newest.version}, which this device holds, cannot be read any more"]
        is_counted = ledger.holds(connection, plan, me.epoch)  # not so after `forget`
        window = 0.0
        if plan.answers.sampled and windows.free_from(connection) <= self._clock():
            window = newest.round_loss  # there must be room for the next one
        lifetime = ledger.lifetime(connection, None if is_counted else plan, me.epoch, window)
        problems = self._policy.problems(plan, newest.round_loss, lifetime)
        if not problems and not is_counted:
            ledger.hold(connection, plan, me.epoch)
        return problems

    def _take_over(self, connection: sqlite3.Connection, me: DeviceRow, plan: Plan) -> list[str]:
        """Hold a version that was not held before; returns what speaks against it instead."""
        from reticent.plan import privacy_card

        first, round_loss = self.current_round + 1, privacy_card(plan).round
        lifetime = ledger.lifetime(connection, plan, me.epoch, round_loss * plan.answers.sampled)
        newest = plans.latest(connection)
        if newest is not None and (newest.window or plan.answers.window):
            # Another way of answering waits for the end of the window: windows never overlap.
            first = max(first, newest.from_round)
            if newest.window != plan.answers.window:
                first = max(first, -(-windows.free_from(connection) // me.round_seconds))
        is_change = me.changed_in is not None and plans.asks_anew(connection, plan)
        problems = self._policy.problems(
            plan,
            round_loss,
            lifetime,
            first - me.changed_in if is_change and me.changed_in is not None else None,
        )
        if not problems:
            # In one transaction: nothing is ever answered that the ledger does not count.
            plans.take_up(connection, plan, first, round_loss)
            ledger.hold(connection, plan, me.epoch)
        return problems

    def _plan_for(self, connection: sqlite3.Connection, number: int) -> Plan | None:
        held = plans.for_round(connection, number)
        if held is None:
            return None
        return self._plan if held[:2] == self._asked else plans.parse(held.text)

    def _metric(self, name: str, number: int) -> Metric | None:
        for first, plan in self._timeline:
            if first <= number:
                return plan.by_name.get(name)
        return self._timeline[-1][1].by_name.get(name) if self._timeline else None

    # The person's wishes

    def pause(self, reason: plans.Reason = "asked") -> None:
        """Record and send nothing; the round under way will not be answered, and its values go."""
        with self._writing(durable=True, patience=2.0) as connection:
            plans.pause(connection, self.current_round, reason)
            totals.erase(connection, self.current_round, self.current_round)
        self.state.wipe_log()

    def resume(self, reason: plans.Reason = "asked") -> None:
        """Go on, from the next round."""
        with self._writing(durable=True, patience=2.0) as connection:
            plans.resume(connection, self.current_round, reason)

    def heed_do_not_track(self, is_set: bool) -> None:
        """Make the state file know of DO_NOT_TRACK: a round that overlaps it is never answered."""
        if is_set != self.untracked:
            (self.pause if is_set else self.resume)("DO_NOT_TRACK")
            self.untracked = is_set

    def forget(self) -> None:
        """A new secret: no remembered answer survives, and no round that had begun is answered any more."""
        with self._writing(durable=True, patience=2.0) as connection:
            me, current = device_row(connection), self.current_round
            secret = urandom(SECRET_BYTES)
            connection.execute(
                "UPDATE device"
                " SET secret = ?, epoch = ?, checksum = ?, silent_through = max(silent_through, ?)",
                (
                    secret,
                    me.epoch + 1,
                    checksum(secret, me.plan, me.round_seconds, me.epoch + 1, me.held),
                    current,
                ),
            )
            connection.execute("DELETE FROM totals")
            outbox.drop_waiting(connection)
            connection.execute("INSERT INTO epochs VALUES (?, ?, 'forgotten')", (me.epoch + 1, current))
            if self._plan is not None:
                self._consider(connection, self._plan)
        self.state.epoch = me.epoch + 1
        self.state.wipe_log()

    # Accounts

    def receipt(self) -> Receipt:
        """Everything told, and what it may have told."""
        from reticent.device.receipt import read_receipt

        with self.state.view() as connection:
            return read_receipt(connection)

    def status(self, *, do_not_track: bool) -> Status:
        """How things stand."""
        from reticent.device.receipt import Status

        with self.state.view() as connection:
            me, newest = device_row(connection), plans.latest(connection)
            states = outbox.count_by_state(connection)
            return Status(
                plan=me.plan,
                version=newest.version if newest else None,
                paused=plans.is_paused(connection, "asked"),
                do_not_track=do_not_track or plans.is_paused(connection, "DO_NOT_TRACK"),
                refused=self.refused,
                answers=self.answers,
                epoch=me.epoch,
                current_round=self.current_round,
                answers_from=None
                if me.enrolled_from is None
                else max(me.enrolled_from, me.silent_through + 1),
                notes=self._faults.all(connection),
                waiting=states.get("waiting", 0),
                accepted=states.get("accepted", 0),
                rejected=states.get("rejected", 0),
                expired=states.get("expired", 0),
            )

    def after_fork_in_child(self) -> None:
        """See `fork`."""
        self.state.after_fork_in_child()
        self._pending.after_fork_in_child()

    @contextmanager
    def _writing(self, *, durable: bool = False, patience: float = 0.25) -> Iterator[sqlite3.Connection]:
        """A transaction that takes along what waits in memory."""
        changes = self._pending.take()
        try:
            with self.state.transaction(durable=durable, patience=patience) as connection:
                if plans.sample(connection):
                    self._hold_windows(connection)
                    late = totals.write(connection, self._wanted(connection, changes))
                else:
                    late = totals.write(connection, changes)
                noted = self._faults.write(connection)
                yield connection
        except BaseException:
            self._pending.put_back(changes)
            raise
        self._faults.written(noted)
        self._faults.add("late-value", late)
