"""What a device does on its state file: record, answer, send, pause, forget. It may raise; `Device` catches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import floor, inf
from typing import TYPE_CHECKING, Literal

from reticent.device import consent, ledger, outbox, plans, totals
from reticent.device.backlog import Backlog
from reticent.device.clamp import Value, taken
from reticent.device.consent import LONGEST_SEND, records
from reticent.device.faults import Faults
from reticent.device.plans import HeldPlans
from reticent.device.quarantine import Identity, write_limits
from reticent.device.receipt import Receipt, Status, read_receipt
from reticent.device.schema import DeviceRow, device_row
from reticent.device.statefile import StateFile
from reticent.device.totals import Call, Place, TotalChange, change_by, merge_changes
from reticent.times import round_at, start_of

if TYPE_CHECKING:
    import sqlite3

    from reticent.device.consent import Consent, StoredConsent
    from reticent.device.process import Settings
    from reticent.device.rounds import RoundsToAnswer
    from reticent.device.transport import Transport
    from reticent.plan import Plan
    from reticent.reports import Report


class Engine:
    """A device that may raise."""

    def __init__(self, settings: Settings, faults: Faults) -> None:
        plan, segment = settings.plan, settings.segment
        self.plans = HeldPlans(settings)
        self._segment = segment
        self._path = settings.state
        self._clock = settings.clock
        self._faults = faults
        self._pending: Backlog[Place, TotalChange] = Backlog(merge_changes)
        self.round_seconds = plan.round_seconds if plan else 0
        self.silenced_by: tuple[str, ...] = settings.policy.silenced_by() if plan else ()
        self._on_since: int | None = None  # the round since which this program is known to run
        self._default = settings.default_consent
        self.consent: Consent = "unset"  # what is in force, as this process last saw it
        self._choice: str | None = None  # what the person chose, and whether they paused it, for
        self._paused = False  # a new file where this one is lost
        self.state = StateFile(
            settings.state, self._identity if plan else None, self._after_opening, self._after_fork
        )
        known = {declared.name: declared.values for declared in plan.segments} if plan else {}
        for name, tag in segment.items() if plan else ():
            if name not in known:
                faults.add("unknown-segment", name=str(name))
            elif tag not in (*known[name], "other"):
                faults.add("unknown-tag", name=name)

    @cached_property
    def _rounds(self) -> RoundsToAnswer:
        """Loaded when a round is to be answered: the host waits for the device's start."""
        from reticent.device.rounds import RoundsToAnswer

        return RoundsToAnswer(self.plans, self._segment, self._clock, self._faults)

    def _identity(self) -> Identity:
        name = self.plans.plan.name if self.plans.plan else ""
        now = floor(self._clock())
        return Identity(name, self.round_seconds, self.current_round, now, self._choice, self._paused)

    @property
    def current_round(self) -> int:
        """The round under way."""
        return round_at(self._clock(), self.round_seconds)

    # Values

    def record(self, name: str, amount: object, round_number: int | None, call: Call) -> None:
        """Add to a total, set or raise it, in memory: the host may be in a signal handler, and must not wait."""
        number = self.current_round
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
        most = metric.max_value if top < 0 else top
        self._pending.put((number, name), change_by(call, metric, value, most))

    def _has_begun(self, number: object, current: int) -> bool:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
            self._faults.add("bad-round")
            return False
        self._faults.add("future-round", number > current)
        return number <= current

    @property
    def records_values(self) -> bool:
        """Whether values are recorded and rounds answered, as this process last saw it."""
        return records(self.consent) and self.plans.answers and not self.silenced_by

    @property
    def has_pending(self) -> bool:
        """Whether values wait in memory."""
        return bool(self._pending)

    def write_pending(self, patience: float) -> None:
        """Bring what waits in memory into the file, what went wrong too."""
        if self._pending or self._faults:
            with self._writing(patience, durable=False, is_call=False):
                pass

    def values(self, round_number: int) -> dict[str, Value]:
        """The totals of a round that is not answered yet, for `reticent.testing`."""
        with self.state.view() as connection:
            return totals.read(connection, round_number)

    # Answers

    def report(self, round_number: int | None) -> Report | None:
        """The report of a round, made now unless it exists; None where there is none."""
        current = self.current_round
        number = current - 1 if round_number is None else round_number
        if not self._has_begun(number, current):
            return None
        with self._writing() as connection:
            me = device_row(connection)
            if self.consent != "granted" or plans.is_paused(connection):
                return None
            is_absent = me.enrolled_from is None or number < me.enrolled_from
            if not outbox.answered(connection, number, number):
                if is_absent and round_number is None:
                    return None
                if not is_absent and not self._rounds.is_due(connection, me, number, self._clock()):
                    return None
            return self._rounds.answer(connection, me, number, told=True)

    def answer_due(self) -> None:
        """
        Answer every finished round that is still open at the collector, with or without values.

        A device answers each round from the first full one after it was enrolled: whether a program was used
        must not show in whether it answers.
        """
        now = self._clock()
        with self.state.view() as connection:  # a look first: usually there is nothing to write
            me = device_row(connection)
            expired = "SELECT EXISTS (SELECT 1 FROM reports WHERE state = 'waiting' AND closes <= ?)"
            [(is_stale,)] = connection.execute(expired, (now,))
            [(oldest,)] = connection.execute("SELECT min(round) FROM totals")
            is_left = oldest is not None and oldest <= self._rounds.last_closed(connection, me, now)
            is_known = not self._presence_to_note(connection)
            if is_known and not (is_stale or is_left or self._rounds.due(connection, me, now)):
                return
        with self._writing() as connection:
            me, now = device_row(connection), self._clock()
            for number in self._rounds.due(connection, me, now):
                self._rounds.answer(connection, me, number, told=False)
            # Too late: reports that no collector takes any more, and values that will not be answered.
            expire = "UPDATE reports SET state = 'expired' WHERE state = 'waiting' AND closes <= ?"
            connection.execute(expire, (now,))
            totals.erase(connection, -1, self._rounds.last_closed(connection, me, now))

    def next_due(self) -> float:
        """When the current round ends or a report is to be sent, whichever is first; unix seconds."""
        with self.state.view() as connection:
            send_at = outbox.next_time(connection)
        end_of_round = start_of(self.current_round + 1, self.round_seconds)
        return end_of_round if send_at is None else min(end_of_round, send_at)

    def send_due(self, transport: Transport, deadline: float, *, early: bool) -> int:
        """Send what is due until `deadline`; see `outbox`. Returns how many were accepted."""
        return outbox.send_due(self.state, transport, deadline, self._clock, self._faults, early=early)

    def _after_opening(self, connection: sqlite3.Connection, notes: list[str]) -> None:
        """The state file was opened, for the first time or because another is in its place."""
        me = device_row(connection)
        self.round_seconds = me.round_seconds
        for note in notes:
            self._faults.add(note)
        waiting = outbox.waiting(connection, me.plan)
        self._faults.add("report-damaged", sum(not kept.intact for kept in waiting))
        policy = self.plans.policy
        if self.plans.plan is not None:
            self._keep_rules(connection, self.silenced_by)
            lifetime = inf if policy.max_lifetime is None else policy.max_lifetime
            year = inf if policy.max_year is None else policy.max_year
            ledger.raise_limits(connection, lifetime, year, sampled=False)
        self._on_since = None
        self.consent = self._bring_into_force(connection)
        self._take_up(connection)
        self._note_presence(connection)

    def _presence_to_note(self, connection: sqlite3.Connection) -> tuple[int, int] | None:
        """The rounds in which this program has run since the last call, unless the file knows of them."""
        if self.plans.plan is None or not records(self.consent) or plans.latest(connection) is None:
            return None
        current = self.current_round
        first = current if self._on_since is None else min(self._on_since, current)
        is_known = plans.was_present(connection, first, current) and self._on_since == current
        return None if is_known else (first, current)

    def _note_presence(self, connection: sqlite3.Connection) -> None:
        """
        The program runs now. Every call does this, and a recorded value never does.

        So presence depends on when the program ran, never on what it measured; windows are held here and nowhere else.
        """
        rounds = self._presence_to_note(connection)
        if rounds is None:
            return
        self._on_since = rounds[1]
        plans.note_presence(connection, *rounds)
        plan = self.plans.newest
        is_active = self.plans.answers and plan is not None and not plan.has_expired(self._clock())
        if plans.is_paused(connection):
            return
        if not is_active:
            plans.mark_silent(connection, *rounds)
        elif plans.has_sampled(connection):
            self._rounds.hold_windows(connection)

    def _take_up(self, connection: sqlite3.Connection) -> None:
        """Hold the plan, if there is consent to what it asks; under a rule nothing is begun."""
        begins = not self.silenced_by or plans.latest(connection) is not None
        self.plans.refresh(connection, considers=records(self.consent) and begins)
        if self.plans.plan is not None:
            write_limits(self._path, ledger.limits(connection))
        if self.plans.asks_more:
            consent.enter(connection, "unset", self._clock(), None)
            self.consent = self._bring_into_force(connection)

    # The person's choice

    def note_presence(self) -> None:
        """The program ends: it ran until now."""
        with self.state.view() as connection:
            rounds = self._presence_to_note(connection)
        if rounds is not None:
            with self._writing(0.25, durable=False):
                pass

    def set_consent(self, choice: Consent) -> bool:
        """Enter the person's choice; False where a report that is being sent is not through in time."""
        plan = self.plans.newest
        if records(choice) and plan is None:
            return False  # there is nothing to agree to
        with self._writing() as connection:
            consent.enter(connection, choice, self._clock(), plan)
            before = self.consent
            self._adopt_consent(connection)
            if self.consent == before:
                self._take_up(connection)
            self._note_presence(connection)
        return choice == "granted" or self._wait_until_silent()

    def _wait_until_silent(self) -> bool:
        """Whether nothing leaves any more: later senders see the commit, earlier ones are waited for."""
        return consent.wait_for_senders(self.state.path, LONGEST_SEND + 2.0)

    def refresh_consent(self) -> Consent:
        """What is in force now: another process may have entered a choice."""
        if self.stored_consent() != self.consent:
            with self._writing():
                pass
        return self.consent

    def stored_consent(self) -> Consent:
        """What the file and the program say now; nothing is adopted or written."""
        with self.state.view() as connection:
            return self._consent_by(consent.read(connection))

    def _consent_by(self, chosen: StoredConsent) -> Consent:
        return chosen.choice or self._default or chosen.in_force or "unset"

    def _bring_into_force(self, connection: sqlite3.Connection) -> Consent:
        """Read what holds now, and bring it into force."""
        chosen = consent.read(connection)
        self._choice, self._paused = chosen.choice, plans.is_paused(connection, plans.ASKED)
        consent.bring_into_force(connection, self._consent_by(chosen), self.current_round)
        return self._consent_by(chosen)

    def _adopt_consent(self, connection: sqlite3.Connection) -> None:
        """Adopt the consent that the file has now."""
        before, self.consent = self.consent, self._bring_into_force(connection)
        if self.consent != before:
            self._on_since = None
            self._pending = Backlog(merge_changes)  # what waits was recorded under another consent
            self._take_up(connection)

    def pause(self) -> bool:
        """Record and send nothing; the round under way will not be answered, and its values go."""
        with self._writing() as connection:
            plans.pause(connection, self.current_round, plans.ASKED)
            totals.erase(connection, self.current_round, self.current_round)
        self._paused = True
        return self._wait_until_silent()

    def resume(self) -> bool:
        """Go on, from the next round."""
        with self._writing() as connection:
            plans.resume(connection, self.current_round, plans.ASKED)
        self._paused = False
        return True

    def keep_rules(self, silenced_by: tuple[str, ...]) -> None:
        """Enter the rules that silence the device: a round that overlaps one is never answered."""
        if silenced_by != self.silenced_by:
            with self._writing() as connection:
                self._keep_rules(connection, silenced_by)
                self.silenced_by = silenced_by
                self._take_up(connection)

    def _keep_rules(self, connection: sqlite3.Connection, silenced_by: tuple[str, ...]) -> None:
        current = self.current_round
        for rule in plans.silenced_by(connection):
            if rule not in silenced_by:  # rounds that began under it, in an earlier run too, stay unanswered
                plans.resume(connection, current, rule)
        for rule in silenced_by:
            plans.pause(connection, current, rule)
            totals.erase(connection, current, current)

    def forget(self) -> bool:
        """A new secret: no remembered answer survives, and no round that had begun is answered any more."""
        with self._writing() as connection:
            current = self.current_round
            connection.execute("UPDATE device SET silent_through = max(silent_through, ?)", (current,))
            ledger.begin_epoch(connection, current, "forgotten")
            connection.execute("DELETE FROM totals")
            connection.execute("DELETE FROM presence")
            self._on_since = None
            consent.drop_waiting(connection)
            self._take_up(connection)
            self._note_presence(connection)
        return self._wait_until_silent()

    # Accounts

    def receipt(self) -> Receipt:
        """Every report, and a bound on what they reveal."""
        with self.state.view() as connection:
            return read_receipt(connection)

    def next_report(self) -> tuple[Plan, Report, Literal["waiting", "under way"]] | None:
        """The oldest waiting report, or that of the current round as it stands."""
        with self.state.view() as connection:
            me = device_row(connection)
            waiting = [kept.report for kept in outbox.waiting(connection, me.plan) if kept.intact]
            report = waiting[0] if waiting else self._rounds.next_report(connection, me, self._clock())
            plan = self.plans.plan_for(connection, report.round) if report else None
            if report is None or plan is None:
                return None
            return plan, report, "waiting" if waiting else "under way"

    def status(self, silenced_by: tuple[str, ...], sends: bool | None) -> Status:
        """How things stand."""
        with self.state.view() as connection:
            me, newest = device_row(connection), plans.latest(connection)
            states, attempts = outbox.count_by_state(connection), outbox.attempts(connection)
            last_outcome = next(iter(attempts), "")
            plan = self.plans.newest
            has_expired = plan is not None and plan.has_expired(self._clock())
            chosen, enrolled = consent.read(connection), me.enrolled_from
            return Status(
                plan=me.plan,
                version=newest.version if newest else None,
                consent=self._consent_by(chosen),
                chosen_at=chosen.chosen_at,
                paused=plans.is_paused(connection, plans.ASKED),
                silenced_by=tuple(dict.fromkeys([*silenced_by, *plans.silenced_by(connection)])),
                refused=self.plans.refused,
                answers=self.plans.answers,
                epoch=me.epoch,
                current_round=self.current_round,
                answers_from=enrolled if enrolled is None else max(enrolled, me.silent_through + 1),
                notes=self._faults.all(connection),
                waiting=states.get("waiting", 0),
                accepted=states.get("accepted", 0),
                rejected=states.get("rejected", 0),
                expired=states.get("expired", 0),
                plan_expired=str(plan.expires) if plan and has_expired else "",
                sends=sends,
                attempts={outcome: count for outcome, (count, _) in attempts.items()},
                last_attempt=attempts[last_outcome][1] if last_outcome else None,
                last_outcome=last_outcome,
                next_try=outbox.next_time(connection),
                next_answer=self._next_answer(connection, me, silenced_by),
            )

    def _next_answer(
        self, connection: sqlite3.Connection, me: DeviceRow, silenced_by: tuple[str, ...]
    ) -> int | None:
        plan = self.plans.newest
        is_silent = silenced_by or plans.is_paused(connection) or not self.plans.answers
        if plan is None or is_silent or not records(self.consent) or plan.has_expired(self._clock()):
            return None
        return self._rounds.next_answer(connection, me, self._clock())

    def _after_fork(self) -> None:
        """Pending values are the parent's to write."""
        self._pending = Backlog(merge_changes)

    @contextmanager
    def _writing(
        self, patience: float = 2.0, *, durable: bool = True, is_call: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """
        A transaction that also writes pending values and faults; if durable, what it deletes leaves the log too.

        `is_call`: not only values are written, so the program is present.
        """
        with self.state.transaction(
            durable=durable, patience=patience, committed=self._drop_written
        ) as connection:
            self._adopt_consent(connection)
            if is_call:
                self._note_presence(connection)
            changes = self._pending.take()
            if plans.has_sampled(connection):
                changes = self._rounds.wanted(connection, changes)
            late = totals.write(connection, changes)
            self._faults.write(connection, late)
            yield connection
        if durable:
            self.state.wipe_log()

    def _drop_written(self) -> None:
        self._pending.drop_taken()
        self._faults.drop_written()
