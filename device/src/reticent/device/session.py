"""A running program on its state file: what waits in memory, and each event on its way to the disk. It may raise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from math import floor
from typing import TYPE_CHECKING, Literal, TypeVar

from reticent.device import consent, engine, ledger, outbox, plans
from reticent.device.engine import Moment
from reticent.device.outbox import LONGEST_SEND
from reticent.device.pending import Backlog, Faults
from reticent.device.prf import SECRET_BYTES
from reticent.device.quarantine import Identity
from reticent.device.state import ASKED, DeviceState, Place, RunFacts, records
from reticent.device.statefile import StateFile
from reticent.device.totals import Call, TotalChange, Value, change_by, merge_changes, taken
from reticent.device.transport import Accepted, Rejected, Retry
from reticent.frozen import replace
from reticent.times import round_at, start_of

if TYPE_CHECKING:
    from reticent.device.process import Settings
    from reticent.device.receipt import Receipt, Status
    from reticent.device.state import Consent, KeptReport
    from reticent.device.transport import Outcome, Transport
    from reticent.plan import Metric, Plan
    from reticent.reports import Report

    Question = tuple[Value, Metric]
    """The top of a metric's range, up to which a whole number is taken as it is (-1: none is), and the metric."""

AResult = TypeVar("AResult")


class Session:
    """A device that may raise."""

    def __init__(self, settings: Settings, faults: Faults) -> None:
        plan = settings.plan
        self._settings = settings
        self._clock = settings.clock
        self._faults = faults
        self._pending: Backlog[Place, TotalChange] = Backlog(merge_changes)
        self.round_seconds = plan.round_seconds if plan else 1
        self._origin = start_of(0, self.round_seconds)
        self.run = RunFacts(silenced_by=settings.policy.silenced_by() if plan else ())
        self.takes_values = False  # whether values are recorded, unless a rule silences the device
        self.newest: Plan | None = plan  # the plan that the program came with, or the newest that is held
        self._timeline: list[tuple[int, Mapping[str, Question]]] = []
        self._latest: DeviceState | None = (
            None  # as it was last saved or looked at: a new file where this one is lost
        )
        self.file = StateFile(
            settings.state,
            self._identity if plan else None,
            self._opened,
            self._after_fork,
            leaves_log=settings.leaves_log,
        )
        known = {declared.name: declared.values for declared in plan.segments} if plan else {}
        for name, tag in settings.segment.items() if plan else ():
            if name not in known:
                faults.add("unknown-segment", name=str(name))
            elif tag not in (*known[name], "other"):
                faults.add("unknown-tag", name=name)

    def _identity(self) -> Identity:
        plan = self._settings.plan
        latest = self._latest
        return Identity(
            plan.name if plan else "",
            self.round_seconds,
            self.current_round,
            floor(self._clock()),
            latest.consent.choice if latest else None,
            latest is not None and latest.is_paused(ASKED),
        )

    def _moment(self) -> Moment:
        return Moment(self._settings, self._clock(), os.urandom(SECRET_BYTES))

    def _opened(self, state: DeviceState, notes: list[str]) -> DeviceState:
        """The state file was opened, for the first time or because another is in its place."""
        for note in notes:
            self._faults.add(note)
        self.round_seconds = state.round_seconds
        self._origin = start_of(0, self.round_seconds)
        state = engine.opened(state, self._moment(), self.run.silenced_by)
        self._adopt(state)
        return state

    def _adopt(self, state: DeviceState) -> None:
        """Go by a state from now on."""
        is_other = state.run.consent != self.run.consent
        self.run = state.run
        self.takes_values = records(state.run.consent) and state.run.answers
        if self._latest is None or self._latest.plans is not state.plans:
            self._ask(state)
        self._latest = state
        if is_other:
            self._pending = Backlog(merge_changes)  # what waits was recorded under another consent

    def _ask(self, state: DeviceState) -> None:
        """What the latest versions held ask, for `record`."""
        held = plans.timeline(state, self._settings.plan)
        self.newest = self._settings.plan or (held[0][1] if held else None)
        self._timeline = [
            (
                first,
                {
                    name: (-1 if metric.labels else metric.max_value, metric)
                    for name, metric in plan.recorded.items()
                },
            )
            for first, plan in held
        ]

    def _look(self) -> DeviceState:
        """What the file holds now, as this program knows it; nothing is adopted or written."""
        return replace(self.file.read(), run=self.run)

    def _do(
        self,
        event: Callable[[DeviceState, Moment], tuple[DeviceState, AResult]],
        patience: float = 2.0,
        *,
        durable: bool = True,
        is_call: bool = True,
    ) -> AResult:
        """
        Save what an event makes of the state, with pending values and faults; if durable, what it deletes leaves the
        log too.

        `is_call`: not only values are written, so the program is present.
        """

        def change(state: DeviceState) -> tuple[DeviceState, AResult]:
            moment = self._moment()
            state = engine.begun(replace(state, run=self.run), moment)
            if state.run.consent != self.run.consent:
                self._pending = Backlog(merge_changes)
            if is_call:
                state = engine.note_presence(state, moment)
            state = engine.recorded(state, moment, self._pending.take(), self._faults.take())
            return event(state, moment)

        def committed(state: DeviceState) -> None:
            self._pending.drop_taken()
            self._faults.drop_written()
            self._adopt(state)

        result = self.file.update(change, durable=durable, patience=patience, committed=committed)
        if durable:
            self.file.wipe_log()
        return result

    @property
    def current_round(self) -> int:
        """The round under way."""
        return round_at(self._clock(), self.round_seconds)

    @property
    def consent(self) -> Consent:
        """What is in force, as this program last saw it."""
        return self.run.consent

    # Values

    def record(self, name: str, amount: object, round_number: int | None, call: Call) -> None:
        """Add to a total, set or raise it, in memory: the host may be in a signal handler, and must not wait."""
        number = floor((self._clock() - self._origin) / self.round_seconds)  # as `round_at`, at every call
        if round_number is not None:
            if not self._has_begun(round_number, number):
                return
            number = round_number
        question = None
        if isinstance(name, str):
            for first, questions in self._timeline:
                question = questions.get(name)
                if first <= number:
                    break
        if question is None:
            newest = self.newest
            if newest is None or not isinstance(name, str) or name not in newest.recorded:
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
        return self.takes_values and not self.run.silenced_by

    @property
    def has_pending(self) -> bool:
        """Whether values wait in memory."""
        return bool(self._pending)

    def write_pending(self, patience: float) -> None:
        """Bring what waits in memory into the file, what went wrong too."""
        if self._pending or self._faults:
            self._do(_nothing, patience, durable=False, is_call=False)

    def values(self, round_number: int) -> dict[str, Value]:
        """The totals of a round that is not answered yet, for `reticent.testing`."""
        from reticent.device import totals

        return totals.read(self._look(), round_number)

    # Answers

    def report(self, round_number: int | None) -> Report | None:
        """The report of a round, made now unless it exists; None where there is none."""
        current = self.current_round
        if not self._has_begun(current - 1 if round_number is None else round_number, current):
            return None
        return self._do(lambda state, moment: engine.reported(state, moment, round_number))

    def answer_due(self) -> None:
        """Answer every finished round that is still open at the collector, with or without values."""
        if engine.has_due(self._look(), self._moment()):  # usually there is nothing to write
            self._do(lambda state, moment: (engine.answered_due(state, moment), None))

    def next_due(self) -> float:
        """When the current round ends or a report is to be sent, whichever is first; unix seconds."""
        send_at = outbox.next_time(self._look())
        end_of_round = start_of(self.current_round + 1, self.round_seconds)
        return end_of_round if send_at is None else min(end_of_round, send_at)

    def send_due(self, transport: Transport, deadline: float, *, early: bool) -> int:
        """
        Send what is due, in the order of rounds, until `deadline` (of `time.monotonic`).

        Returns how many were accepted.

        `early`: also untried reports that would be spread over the round; a retry always waits for its time.
        """
        state = self._look()
        accepted = 0
        for kept in outbox.due(state, self._clock(), early=early):
            if not kept.is_intact(state.plan):
                self._enter(partial(_given_up, kept=kept))
                continue
            timeout = min(deadline - time.monotonic(), outbox.LONGEST_SEND)
            if timeout <= 0:
                break
            # From before the claim until the bytes are sent: taking consent back waits for it.
            with self.file.sending() as is_free:
                # Claimed on disk before a byte leaves: no other process sends it now, and after a crash the
                # receipt lists what may have been sent.
                if not is_free or not self._claim(kept):
                    continue
                outcome = self._send(transport, kept.report(state.plan), timeout)
            after = outcome.after if isinstance(outcome, Retry) else None
            jitter = int.from_bytes(os.urandom(8), "big") / 2**64
            wait = outbox.back_off(kept.attempts, self.round_seconds, after, jitter)
            settled = partial(outbox.settle, sent=kept, outcome=outcome, now=self._clock(), wait=wait)
            self._enter(settled)
            accepted += isinstance(outcome, Accepted)
        return accepted

    def _enter(self, event: Callable[[DeviceState], DeviceState]) -> None:
        self.file.update(lambda state: (event(state), None), patience=2.0)

    def _claim(self, kept: KeptReport) -> bool:
        """Enter that a report is being sent; False where it may not be, or another process was first."""

        def claim(state: DeviceState) -> tuple[DeviceState, bool]:
            claimed = outbox.claim(state, kept, self._clock())
            return claimed or state, claimed is not None

        return self.file.update(claim, durable=True, patience=2.0)

    def _send(self, transport: Transport, report: Report, timeout: float) -> Outcome:
        """What came of sending; a transport of the host's own may raise and return anything."""
        from reticent.reports import to_json

        try:
            outcome = transport.send(to_json(report), timeout)
            if isinstance(outcome, Accepted | Rejected | Retry):
                return outcome
        except Exception:  # noqa: S110  (noted below)
            pass
        self._faults.add("transport")
        return Retry(fault="transport")

    # The person's choice

    def note_presence(self) -> None:
        """The program ends: it ran until now."""
        if engine.presence_to_note(self._look(), self._moment()) is not None:
            self._do(_nothing, 0.25, durable=False)

    def set_consent(self, choice: Consent) -> bool:
        """Enter the person's choice; False where a report that is being sent is not through in time."""
        if records(choice) and self.newest is None:
            return False  # there is nothing to agree to
        self._do(lambda state, moment: (engine.chosen(state, moment, choice), None))
        return choice == "granted" or self._wait_until_silent()

    def _wait_until_silent(self) -> bool:
        """Whether nothing leaves any more: later senders see the commit, earlier ones are waited for."""
        return self.file.wait_for_senders(LONGEST_SEND + 2.0)

    def refresh_consent(self) -> Consent:
        """What is in force now: another process may have entered a choice."""
        if self.stored_consent() != self.consent:
            self._do(_nothing)
        return self.consent

    def stored_consent(self) -> Consent:
        """What the file and the program say now; nothing is adopted or written."""
        return consent.choice_of(self._look(), self._settings.default_consent)

    def pause(self) -> bool:
        """Record and send nothing; the round under way will not be answered, and its values go."""
        self._do(lambda state, moment: (engine.paused(state, moment), None))
        return self._wait_until_silent()

    def resume(self) -> bool:
        """Go on, from the next round."""
        self._do(lambda state, moment: (engine.resumed(state, moment), None))
        return True

    def keep_rules(self, silenced_by: tuple[str, ...]) -> None:
        """Enter the rules that silence the device: a round that overlaps one is never answered."""
        if silenced_by != self.run.silenced_by:
            self._do(lambda state, moment: (engine.ruled(state, moment, silenced_by), None))

    def forget(self) -> bool:
        """A new secret: no remembered answer survives, and no round that had begun is answered any more."""
        self._do(lambda state, moment: (engine.forgotten(state, moment), None))
        return self._wait_until_silent()

    # Accounts

    def receipt(self) -> Receipt:
        """Every report, and a bound on what they reveal."""
        from reticent.device.preview import bits_by_metric, question
        from reticent.device.receipt import Receipt, Told

        state = self._look()
        asked = plans.plan_of(state.newest, None)
        reports = []
        for kept in state.reports.values():
            held = state.plans.get(kept.version)
            layout = held.bits if held else []
            bits = {
                name: bits
                for name, bits, is_asked in bits_by_metric(kept.report(state.plan), layout)
                if is_asked
            }
            start = start_of(kept.round, state.round_seconds)
            end = start + state.round_seconds
            told = Told(
                kept.round, kept.version, kept.id.hex(), kept.epoch, bits, kept.state, kept.code, start, end
            )
            reports.append(told)
        return Receipt(
            state.plan,
            tuple(reports),
            tuple(ledger.entries(state)),
            tuple(state.epochs.values()),
            windows=tuple(state.windows.values()),
            earlier=tuple(sorted(state.past.values(), key=lambda past: (past.first_round, past.state))),
            owner=asked.owner if asked else "",
            questions={metric.name: question(metric) for metric in asked.metrics} if asked else {},
        )

    def next_report(self) -> tuple[Plan, Report, Literal["waiting", "under way"]] | None:
        """The oldest waiting report, or that of the current round as it stands."""
        return engine.next_report(self._look(), self._moment())

    def status(self, silenced_by: tuple[str, ...], sends: bool | None) -> Status:
        """How things stand."""
        from reticent.device.receipt import Status

        state = self._look()
        moment = self._moment()
        counts = outbox.count_by_state(state)
        latest = sorted(state.attempts.items(), key=lambda attempt: -attempt[1][1])
        last_outcome = latest[0][0] if latest else ""
        plan = self.newest
        has_expired = plan is not None and plan.has_expired(moment.now)
        enrolled = state.enrolled_from
        return Status(
            plan=state.plan,
            version=state.newest.version if state.newest else None,
            consent=consent.choice_of(state, self._settings.default_consent),
            chosen_at=state.consent.chosen_at,
            paused=state.is_paused(ASKED),
            silenced_by=tuple(dict.fromkeys([*silenced_by, *state.silenced_by])),
            refused=state.run.refused,
            answers=state.run.answers,
            epoch=state.epoch,
            current_round=self.current_round,
            answers_from=enrolled if enrolled is None else max(enrolled, state.silent_through + 1),
            notes=self._faults.all(state.notes),
            waiting=counts.get("waiting", 0),
            accepted=counts.get("accepted", 0),
            rejected=counts.get("rejected", 0),
            expired=counts.get("expired", 0),
            plan_expired=str(plan.expires) if plan and has_expired else "",
            sends=sends,
            attempts={outcome: count for outcome, (count, _) in latest},
            last_attempt=state.attempts[last_outcome][1] if last_outcome else None,
            last_outcome=last_outcome,
            next_try=outbox.next_time(state),
            next_answer=engine.next_answer(state, moment, silenced_by),
        )

    def _after_fork(self) -> None:
        """Pending values are the parent's to write."""
        self._pending = Backlog(merge_changes)


def _nothing(state: DeviceState, moment: Moment) -> tuple[DeviceState, None]:
    """The event of a program that only writes what waits."""
    return state, None


def _given_up(state: DeviceState, kept: KeptReport) -> DeviceState:
    current = state.reports.get(kept.round)
    is_waiting = current is not None and current.state == "waiting"
    return outbox.changed(state, kept.round, state="expired") if is_waiting else state
