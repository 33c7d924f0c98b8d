"""The device: a quiet guest in another program."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from math import floor
from threading import Thread
from typing import TYPE_CHECKING

from reticent.device.pending import kind_of
from reticent.device.process import LONGEST_CLOSE, Hosted, Settings, absolute, default_state
from reticent.device.receipt import Receipt, Status
from reticent.device.state import CONSENTS, records
from reticent.errors import ParameterError, UsageError
from reticent.frozen import replace

if TYPE_CHECKING:
    from reticent.device.policy import Policy
    from reticent.device.preview import Preview
    from reticent.device.session import Session
    from reticent.device.state import Consent
    from reticent.device.totals import Call, Value
    from reticent.device.transport import Transport
    from reticent.plan import Plan
    from reticent.reports import Report

_LONGEST_FLUSH = 86_400.0  # the most that `flush` waits, s: Python's threads cannot wait forever


class Device(Hosted):
    """
    Answers a plan on behalf of one device: values in, at most one report per round out.

    `state` is a file of the device's own, made if it is not there; without one, `reticent/PLAN.db` in the folder that
    the platform has for such files (`default_state`). Without a `policy`, `RETICENT_POLICY` in the environment changes
    limits of `Policy()` by name. Construction raises for a mistake of the program
    (`PlanError`, `ParameterError`); nothing else does. Where the state cannot be used (a folder that is missing or
    read-only, a full disk, another program's file) the device is silent, `status()` says why, and later calls try
    again. Whatever goes wrong after that is noted in the file. The host is never made to wait for the network.

    `consent` holds until the person has chosen with `set_consent`: unset, granted, denied or local (see
    `Consent`). A choice of granted or local lapses to unset when a plan asks for more than it was made for, unless
    `ask_again` is False. With `debug`, mistakes of the program (an unknown metric, segment or label, an expired or
    refused plan) raise `UsageError`, and a state that cannot be used raises `StateError` at construction; without, they
    are noted.

    With an `endpoint` (or a `transport`) and used as a context manager, or after `start()`, a daemon thread
    answers each round when it is over and sends the report at a moment of the next round that the device's
    secret picks. Without, the host calls `report()` and takes the bytes where it wants.

    A new version of the plan is answered from the next round on; the round under way is finished under the
    version it began with. A plan is refused when it asks for more than the `policy` allows (`Policy()` unless
    the host raises a limit), when its version is lower than one held before, and when it is another plan under
    a version held before. A refused plan changes nothing: the version held goes on, if there is one that the
    policy allows, and `status()` says why.

    >>> import tempfile
    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> plan = Plan("app-usage", 1, 3600, 3600, (Metric("saves", OneBitMean(1, max_value=100), Flip(0.2)),))
    >>> with tempfile.TemporaryDirectory() as folder, Device(plan, f"{folder}/state", consent="granted") as device:
    ...     device.add("saves")
    ...     device.add("saves", 2)
    ...     len(device.report(device.current_round).bits)
    1
    """

    _leaves_log = False

    def __init__(
        self,
        plan: Plan | str | os.PathLike[str],
        state: str | os.PathLike[str] | None = None,
        *,
        consent: Consent = "unset",
        ask_again: bool = True,
        debug: bool = False,
        endpoint: str | None = None,
        key: str | None = None,
        segment: Mapping[str, object] | None = None,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.time,
        transport: Transport | None = None,
    ) -> None:
        from reticent.device.policy import Policy
        from reticent.plan import Plan

        _check_arguments(consent, clock, plan, segment, policy)
        asked = plan if isinstance(plan, Plan) else Plan.load(plan)
        if transport is None and endpoint is not None:
            from reticent.device.transport import HttpTransport

            transport = HttpTransport(endpoint, key)
        rules = None
        if policy is None:
            try:  # a variable of the environment does not decide whether a program starts
                text = os.environ.get("RETICENT_POLICY", "")
                rules = Policy.from_text("RETICENT_POLICY", text) if text else Policy()
            except ParameterError:
                if debug:
                    raise
        settings = Settings(
            plan=asked,
            state=default_state(asked.name) if state is None else absolute(state),
            segment=segment or {},
            policy=policy or rules or Policy(),
            clock=clock,
            default_consent=consent,
            makes_folder=state is None,
            ask_again=ask_again,
            leaves_log=self._leaves_log,
        )
        super().__init__(settings, transport, debug=debug)
        if rules is None and policy is None:
            self._faults.add("bad-policy")
        if debug:
            self._check_start(asked, settings.segment)

    @classmethod
    def open(cls, state: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> Device:
        """
        A device from its state file alone, for looking at it and for `pause`, `resume` and `forget`.

        Raises `StateError` where there is no readable state file: nothing is created, replaced or set aside.
        """
        from reticent.device.policy import Policy

        device = cls.__new__(cls)
        # The program may run elsewhere; its file knows the rules that silence it.
        elsewhere = Policy(silent_in_ci=False, silent_in_containers=False)
        settings = Settings(
            plan=None,
            state=absolute(state),
            segment={},
            policy=elsewhere,
            clock=clock,
            default_consent=None,
            makes_folder=False,
            ask_again=True,
        )
        Hosted.__init__(device, settings, transport=None)
        return device

    def __repr__(self) -> str:
        return f"Device(plan={self._plan_name!r})"

    @property
    def _plan_name(self) -> str:
        return self._settings.plan.name if self._settings.plan else ""

    @property
    def plan(self) -> Plan | None:
        """The plan this device was made with; from a state file alone, the newest plan in it."""
        return self._session.newest if self._session else self._settings.plan

    @property
    def current_round(self) -> int:
        """The number of the current round; -1 where the clock fails."""
        with self._faults:
            if self._session is not None:
                return self._session.current_round
            plan = self._settings.plan
            return plan.round_at(self._settings.clock()) if plan else -1
        return -1

    # Values

    def add(self, metric: str, amount: object = 1, *, round: int | None = None) -> None:  # noqa: A002
        """
        Add to a metric's total in a round, by default the current one.

        Totals stop at the metric's max_value. What is not a number, or negative, counts as 0.
        """
        self._record(metric, amount, round, "add")

    def set(self, metric: str, value: object, *, round: int | None = None) -> None:  # noqa: A002
        """Set a metric's total in a round, by default the current one."""
        self._record(metric, value, round, "set")

    def max(self, metric: str, value: object, *, round: int | None = None) -> None:  # noqa: A002
        """Raise a metric's total in a round to a value, if it is lower: the largest value of the round counts."""
        self._record(metric, value, round, "max")

    def choose(self, metric: str, label: str, *, round: int | None = None) -> None:  # noqa: A002
        """Choose a label in a round, by default the current one; of several, the plan's `pick` counts."""
        self._record(metric, label, round, "set")

    def _record(self, metric: str, amount: object, number: int | None, call: Call) -> None:
        """In memory only, without waiting for a lock: the host may be in a signal handler."""
        session = self._session
        if self._debug:
            self._check(metric, amount, number)
        try:
            if session is None or not session.takes_values:
                return
            if self._closed:
                self._faults.add("closed")
                return
            if not session.run.silenced_by:
                session.record(metric, amount, number, call)
            elif self._settings.policy.silenced_by():
                return
            self._writer.wake()
        except Exception as error:
            self._faults.add(kind_of(error))

    def _check(self, metric: object, amount: object, number: object) -> None:
        """
        In debug mode: raise `UsageError` for a call that records nothing, with or without consent.

        Messages quote what the program wrote (a metric, a segment, a label, a limit), never a measured number.
        """
        from reticent.device.totals import taken

        plan = self._settings.plan
        if self._closed:
            raise UsageError("the device is closed.")
        if plan is not None:
            known = plan.recorded.get(metric) if isinstance(metric, str) else None
            if known is None:
                raise UsageError(f"metric {metric!r}: plan {plan.name} has {', '.join(plan.recorded)}.")
            _, fault = taken(known, amount)
            if fault == "unknown-label":
                labels = ", ".join(known.labels)
                raise UsageError(f"metric {metric}: {amount!r} is none of its labels {labels}.")
            if fault == "not-a-number":
                raise UsageError(f"metric {metric}: expected a number, got a {type(amount).__name__}.")
            self._check_expiry(plan)
        if number is not None and (type(number) is not int or not 0 <= number <= self.current_round):
            raise UsageError(f"round {number!r}: expected the number of a round that has begun.")

    def _check_start(self, plan: Plan, segment: Mapping[str, object]) -> None:
        """In debug mode: raise `UsageError` for an unknown segment or tag, and for an expired or refused plan."""
        known = {one.name: one.values for one in plan.segments}
        for name, tag in segment.items():
            if name not in known:
                raise UsageError(
                    f"segment {name!r}: plan {plan.name} has {', '.join(known) or 'no segments'}."
                )
            if tag not in known[name]:
                raise UsageError(f"segment {name} = {tag!r}: plan {plan.name} has {', '.join(known[name])}.")
        self._check_expiry(plan)
        reasons = self._settings.policy.problems(plan)
        if reasons := reasons or list(self._session.run.refused if self._session else ()):
            raise UsageError(f"plan {plan.name} version {plan.version} is refused: {'; '.join(reasons)}.")

    def _check_expiry(self, plan: Plan) -> None:
        if plan.has_expired(self._settings.clock()):
            raise UsageError(
                f"plan {plan.name} version {plan.version} expired on {plan.expires}: it is not answered."
            )

    def save(self, timeout: float = 0.25) -> bool:
        """
        Write pending values now; returns whether all of them are in the file.

        They are written within a second anyway, before a round is answered, before a fork, by `close` and when
        the program ends; only a process that is killed loses the last second. `timeout`: how long to wait where
        another process has locked the file, s.
        """
        with self._faults:
            return self._write_pending(timeout)
        return False

    def _recorded(self, number: int) -> dict[str, Value]:
        """The totals of a round not answered yet, for `reticent.testing`."""
        self.save()
        return self._session.values(number) if self._session else {}

    # Reports

    def report(self, round: int | None = None) -> Report | None:  # noqa: A002
        """
        The report of a round: the latest finished one, unless another is given.

        It is on disk before it is returned. A round is answered once: asked again, the same bytes come back,
        and values that arrive later are dropped. Asking for the current round ends it for this device; a future
        one is refused.

        None: there is no report (a pause, a refused or expired plan, a round that had begun before `forget`, a
        round before the device was enrolled unless asked for by number), or the state cannot be used at the moment.
        """
        with self._faults:
            self._refresh_consent()
            session = self._keep_rules()
            if session is not None:
                return session.report(round)
        return None

    def flush(self, timeout: float = 5.0) -> int:
        """
        Answer what is due and try to send what waits, in `timeout` seconds; returns how many were accepted.

        Untried reports are sent now instead of spread out; one that failed before waits for its time.
        """
        accepted: list[int] = []
        with self._faults:
            deadline = time.monotonic() + min(max(0.0, timeout), _LONGEST_FLUSH)
            session, transport = self._work_on_state(), self._transport
            if session is None or transport is None:
                return 0

            def send() -> None:
                with self._faults:
                    accepted.append(session.send_due(transport, deadline, early=True))

            # Neither name resolution nor a dripping server can be timed out from within.
            worker = Thread(target=send, name="reticent-flush", daemon=True)
            worker.start()
            worker.join(max(0.0, deadline - time.monotonic()))
        return sum(accepted)

    # The person's choice

    @property
    def consent(self) -> Consent:
        """
        Whether the person lets this device report: unset, granted, denied or local.

        It is what this device goes by. Another process may have entered a choice since: see `refresh_consent`.
        """
        return self._session.consent if self._session else self._settings.default_consent or "unset"

    def refresh_consent(self) -> Consent:
        """
        Adopt a choice that another process has entered in the state file; returns what is in force now.

        A device that records or sends does so by itself. One that has no consent yet has no reason to look.
        """
        with self._faults:
            self._refresh_consent()
        return self.consent

    def should_ask(self, *, terminal: bool = True) -> bool:
        """
        Whether to ask the person now: there is no answer yet, and a place to ask in.

        False where an answer is stored or the program has a default of its own, where a rule silences the device, where
        the plan has expired or the state cannot be used; and, unless the program has a window of its own
        (`terminal=False`), where it does not run in a terminal.
        """
        with self._faults:
            session, plan = self._session, self.plan
            consent = session.stored_consent() if session and not self._closed else self.consent
            is_silent = self._closed or self._faults.problem or self._settings.policy.silenced_by()
            if consent != "unset" or is_silent or (plan and plan.has_expired(self._settings.clock())):
                return False
            streams = (sys.stdin, sys.stderr) if terminal else ()
            return all(stream is not None and stream.isatty() for stream in streams)
        return False

    def set_consent(self, choice: Consent) -> bool:
        """
        Keep the person's choice; returns whether it is on disk and in effect.

        It wins over the `consent` that the program was started with, in every process on this state file. After
        "denied" nothing leaves any more: a report on its way is waited for, 12 s at most; if that is not
        enough, False is returned and the choice is kept. "denied" and "unset" wipe what was not sent; answers
        given under "local" are never sent.
        """
        if self._debug and choice not in CONSENTS:
            raise UsageError(f"consent {choice!r}: expected {', '.join(CONSENTS)}.")
        with self._faults:
            if choice not in CONSENTS or self._closed:
                return False
            if self._session is None and choice != "granted":  # a no holds here, also where it cannot be kept
                self._settings = replace(self._settings, default_consent=choice)
            session = self._find_session(makes=True)
            if session is not None:
                session.keep_rules(self._settings.policy.silenced_by())
                done = session.set_consent(choice)
                self._keep_running()
                return done
        return False

    def pause(self) -> bool:
        """
        Record and send nothing from now on, and keep the remembered answers; returns whether it is done.

        Rounds that the pause overlaps are never answered. A report on its way is waited for, as in
        `set_consent`.
        """
        return self._do(lambda session: session.pause(), makes=True)

    def resume(self) -> bool:
        """End a pause, from the next round on; returns whether it is done."""
        return self._do(lambda session: session.resume())

    def forget(self) -> bool:
        """
        Wipe the remembered answers, the values and unsent reports; returns whether it is done.

        A new secret is drawn, which is a new epoch in the ledger: receipts and past losses stay, because the
        collector has not forgotten. No round that had begun is answered. A report on its way is waited for, as
        in `set_consent`, and stays on the receipt.
        """
        return self._do(lambda session: session.forget())

    def _do(self, wish: Callable[[Session], bool], *, makes: bool = False) -> bool:
        with self._faults:
            if not self._closed:
                session = self._find_session(makes=makes)
                return session is None or wish(session)  # none: there is nothing to end or to wipe
        return False

    # Accounts

    def receipt(self) -> Receipt:
        """Every report of this device, and a bound on what they have revealed."""
        with self._faults:
            if self._session is not None and not self._closed:
                return self._session.receipt()
        why = ", ".join(self._settings.policy.silenced_by()) or f"consent is {self.consent}"
        nothing_kept = f"nothing is kept, and no state file is read: {why}"
        return Receipt(self._plan_name, problem=self._problem() or nothing_kept)

    def preview(self) -> Preview | None:
        """
        The report that would be sent next: its exact bytes, and the meaning of each bit in words.

        Where nothing is kept, an example. None: nothing more is sent in the current window, or the state file
        cannot be read.
        """
        with self._faults:
            from reticent.device.preview import example, previewed

            self._refresh_consent()
            self.save()
            status = self.status()
            session, plan = self._session, self.plan
            if plan is None:
                return None
            if session is None or not records(session.consent) or not session.run.answers:
                return example(plan, self._settings.clock(), dict(self._settings.segment), status.reasons)
            following = session.next_report()
            if following is None:
                return None
            return previewed(*following, status.reasons, tags_unknown=self._settings.plan is None)
        return None

    def status(self) -> Status:
        """Whether it answers and why not, what waits to be sent, and what went wrong."""
        with self._faults:
            if self._session is not None and not self._closed:
                sends = None if self._settings.plan is None else self._transport is not None
                return self._session.status(self._settings.policy.silenced_by(), sends)
        return Status(
            self._plan_name,
            silenced_by=self._settings.policy.silenced_by(),
            consent=self.consent,
            refused=self._session.run.refused if self._session else (),
            answers=self._session is not None and self._session.run.answers,
            current_round=self.current_round,
            plan_expired=self._expired_on(),
            notes=self._faults.all({}),
            problem=self._problem(),
        )

    def _expired_on(self) -> str:
        plan = self._settings.plan
        with self._faults:
            return str(plan.expires) if plan and plan.has_expired(self._settings.clock()) else ""
        return ""

    def _problem(self) -> str:
        """Why the state cannot be used; empty: it can, or nothing is kept."""
        if self._closed and self._session is not None and self._session.has_pending:
            return f"the device is closed, and has values that it could not write: {self._faults.problem}"
        return "the device is closed" if self._closed else self._faults.problem

    # Life

    def _begin_log(self) -> None:
        """Leave the state file so that the next program need not sync it."""
        with self._faults:
            if self._session is not None:
                self._session.file.begin_log()

    def start(self) -> None:
        """Answer and send in the background from now on; without an endpoint or a transport, do nothing."""
        with self._faults:
            self._started = True
            self._keep_running()

    def close(self) -> bool:
        """
        Stop the background thread, write pending values and close the file.

        Returns whether all values are in the file. Where another process has locked it for two seconds they are
        not: they stay in memory, and are written as soon as it is free or, at the latest, when the program
        ends. Waiting reports are sent at the next start.
        """
        done = True
        with self._faults:
            self._started = False
            self._sender.stop()
            if not self._closed:
                with self._faults:
                    if self._session is not None:
                        self._session.note_presence()
                self._closed = True
                done = self.save(LONGEST_CLOSE)
                if not done:
                    self._writer.wake()
                elif self._session is not None:
                    self._session.file.close()
        return done

    def __enter__(self) -> Device:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _check_arguments(
    consent: object, clock: Callable[[], float], plan: object, segment: object, policy: object
) -> None:
    """What a device is made with, by kind; a plan, an endpoint and a state file say more when they are opened."""
    from reticent.device.policy import Policy
    from reticent.plan import Plan

    if consent not in CONSENTS:
        raise ParameterError("consent", "unset, granted, denied or local", consent)
    try:
        tells_time = abs(floor(clock())) < 2**53
    except Exception:
        tells_time = False
    if not tells_time:
        raise ParameterError("clock", "a function that returns unix seconds", "something else")
    if not isinstance(plan, Plan | str | os.PathLike):  # a number would be an open file of the host's
        raise ParameterError("plan", "a Plan, or the path of a plan.toml", type(plan).__name__)
    if segment is not None and not isinstance(segment, Mapping):
        raise ParameterError("segment", "a mapping such as {'os': 'linux'}", type(segment).__name__)
    if policy is not None and not isinstance(policy, Policy):
        raise ParameterError("policy", "a Policy", type(policy).__name__)
