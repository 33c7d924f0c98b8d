"""
What a device does, on its state file: record, answer, send, pause, forget, account.

Everything here may raise; `Device` is the quiet shell around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import floor, inf
from os import PathLike, fspath, urandom
from typing import TYPE_CHECKING

from reticent.device import ledger, outbox, plans, totals
from reticent.device.backlog import Backlog
from reticent.device.clamp import Value, taken
from reticent.device.faults import Faults
from reticent.device.plans import HeldPlans
from reticent.device.policy import Policy
from reticent.device.prf import SECRET_BYTES, checksum
from reticent.device.quarantine import Identity
from reticent.device.rounds import Rounds
from reticent.device.schema import device_row
from reticent.device.statefile import Opened, StateFile
from reticent.device.totals import Change, Mode, Place, then

if TYPE_CHECKING:
    import sqlite3

    from reticent.device.receipt import Receipt, Status
    from reticent.device.transport import Transport
    from reticent.plan import Plan
    from reticent.reports import Report


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
        self.plans = HeldPlans(plan, policy or Policy(), clock)
        self._rounds = Rounds(self.plans, segment, clock, faults)
        self._clock = clock
        self._faults = faults
        self._pending: Backlog[Place, Change] = Backlog(then)
        self.round_seconds = plan.round_seconds if plan else 0
        self.untracked = False
        """Whether DO_NOT_TRACK is set; the state file knows."""
        self.state = StateFile(fspath(path), self._identity if plan else None, self._opened, self._forked)

    def _identity(self) -> Identity:
        """What a state file is made for, if one has to be."""
        name, most = self.plans.plan.name if self.plans.plan else "", self.plans.policy.max_lifetime
        return Identity(name, self.round_seconds, self.current_round, inf if most is None else most)

    @property
    def current_round(self) -> int:
        """The round under way."""
        return floor(self._clock() / self.round_seconds)

    # Values

    def record(self, name: str, amount: object, round_number: int | None, mode: Mode) -> None:
        """Add to a total or set it, in memory: the host may be in a signal handler, and must not wait."""
        number = floor(self._clock() / self.round_seconds)
        if round_number is not None:
            if not self._has_begun(round_number, number):
                return
            number = round_number
        question = None
        if isinstance(name, str):
            for first, questions in self.plans.timeline:
                question = questions.get(name)
                if first <= number:
                    break
        if question is None:
            newest = self.plans.newest
            if newest is None or not isinstance(name, str) or name not in newest.by_name:
                self._faults.add("unknown-metric", name=name)
            return
        top, metric = question
        value: Value | None
        if type(amount) is int and 0 <= amount <= top:
            value = amount
        else:
            value, fault = taken(metric, amount)
            if fault:
                self._faults.add(fault)
            if value is None:
                return
            if metric.labels:
                mode = "first" if metric.pick == "first" else "set"
        self._pending.put((number, name), (value, metric.max_value if top < 0 else top, mode))

    def _has_begun(self, number: object, current: int) -> bool:
        """Whether this is the number of a round that has begun; what is not is noted."""
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
            self._faults.add("bad-round")
            return False
        self._faults.add("future-round", number > current)
        return number <= current

    @property
    def has_pending(self) -> bool:
        """Whether values wait in memory."""
        return bool(self._pending)

    def write_pending(self, patience: float = 0.25) -> None:
        """Bring what waits in memory into the file."""
        if self._pending:
            with self._writing(patience=patience):
                pass

    def values(self, round_number: int) -> dict[str, Value]:
        """The totals of a round that is not answered yet, for `reticent.testing`."""
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
            self.state.epoch = me.epoch  # another process may have begun it
            report = self._rounds.answer(connection, me, number, told=True)
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
            is_left = oldest is not None and oldest <= self._rounds.last_closed(connection, me, now)
            is_free = plans.sample(connection) and ledger.free_from(connection) <= now
            if not (is_stale or is_left or is_free or self._rounds.due(connection, me, now)):
                return
        with self._writing(durable=True, patience=2.0) as connection:
            me, now = device_row(connection), self._clock()
            self.state.epoch = me.epoch  # another process may have begun it
            for number in self._rounds.due(connection, me, now):
                self._rounds.answer(connection, me, number, told=False)
            # Too late: reports that no collector takes any more, and values that will not be answered.
            outbox.expire(connection, now)
            totals.erase(connection, -1, self._rounds.last_closed(connection, me, now))
        self.state.wipe_log()

    def next_due(self) -> float:
        """When the round under way ends or a report is to be sent, whichever is first; unix seconds."""
        with self.state.view() as connection:
            send_at = outbox.next_time(connection)
        end_of_round = (self.current_round + 1) * self.round_seconds
        return end_of_round if send_at is None else min(end_of_round, send_at)

    def send_due(self, transport: Transport, deadline: float, *, early: bool) -> int:
        """Send what is due until `deadline`; see `sending`. Returns how many were accepted."""
        from reticent.device.sending import send_due

        return send_due(self.state, transport, deadline, self._clock, self._faults, early=early)

    def _opened(self, opened: Opened) -> None:
        """The state file was opened, for the first time or because another is in its place."""
        connection = opened.connection
        me = device_row(connection)
        self.round_seconds = me.round_seconds
        if opened.tightened:
            self._faults.add("state-tightened")
        waiting = outbox.waiting(connection, me.plan)
        self._faults.add("report-damaged", sum(not kept.intact for kept in waiting))
        self._faults.add("state-lost", opened.replaces_another)
        if self.plans.plan is not None:
            if self.untracked:
                plans.pause(connection, self.current_round, "DO_NOT_TRACK")
            else:  # rounds that began under it, in this program's last run for instance, stay unanswered
                plans.resume(connection, self.current_round, "DO_NOT_TRACK")
        self.plans.opened(connection)

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
            if self.plans.plan is not None:
                self.plans.consider(connection, self.plans.plan)
        self.state.epoch = me.epoch + 1
        self.state.wipe_log()

    # Accounts

    def receipt(self) -> Receipt:
        """Everything told, and what it may have told."""
        from reticent.device.receipt import read_receipt

        with self.state.view() as connection:
            return read_receipt(connection)

    def status(self, *, do_not_track: bool, sends: bool | None) -> Status:
        """How things stand."""
        from reticent.device.receipt import Status

        with self.state.view() as connection:
            me, newest = device_row(connection), plans.latest(connection)
            states, attempts = outbox.count_by_state(connection), outbox.attempts(connection)
            last_outcome = next(iter(attempts), "")
            expires = self.plans.newest.expires if self.plans.newest else None
            has_expired = self.plans.newest is not None and self.plans.newest.has_expired(self._clock())
            return Status(
                plan=me.plan,
                version=newest.version if newest else None,
                paused=plans.is_paused(connection, "asked"),
                do_not_track=do_not_track or plans.is_paused(connection, "DO_NOT_TRACK"),
                refused=self.plans.refused,
                answers=self.plans.answers,
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
                plan_expired=str(expires) if has_expired else "",
                sends=sends,
                attempts={outcome: count for outcome, (count, _) in attempts.items()},
                last_attempt=attempts[last_outcome][1] if last_outcome else None,
                last_outcome=last_outcome,
                next_try=outbox.next_time(connection),
            )

    def after_fork_in_child(self) -> None:
        """See `process`."""
        self.state.after_fork_in_child()
        self._forked()

    def _forked(self) -> None:
        """What waits in memory is the parent's to write; unseen, the child's first values are among it."""
        self._pending = Backlog(then)

    @contextmanager
    def _writing(self, *, durable: bool = False, patience: float = 0.25) -> Iterator[sqlite3.Connection]:
        """A transaction that takes along what waits in memory."""
        with self.state.transaction(
            durable=durable, patience=patience, committed=self._written
        ) as connection:
            changes = self._pending.take()
            if plans.sample(connection):
                self._rounds.hold_windows(connection)
                changes = self._rounds.wanted(connection, changes)
            late = totals.write(connection, changes)
            self._faults.write(connection)
            yield connection
        self._faults.add("late-value", late)

    def _written(self) -> None:
        self._pending.written()
        self._faults.written()
