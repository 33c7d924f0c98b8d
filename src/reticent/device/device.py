"""The device: a quiet guest in somebody else's program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import TYPE_CHECKING

from reticent.device import forking
from reticent.device.notes import Notes, kind_of

if TYPE_CHECKING:
    from types import TracebackType

    from reticent.device.core import Core
    from reticent.device.policy import Policy
    from reticent.device.receipt import Receipt, Status
    from reticent.device.sending import Background, Sender
    from reticent.device.transport import Transport
    from reticent.device.values import Value
    from reticent.plan import Plan
    from reticent.reports import Report

_LONGEST_SLEEP = 300.0
_SHORTEST_SLEEP = 0.05
_SLEEP_IN_TROUBLE = 30.0


class Device:
    """
    Answers a plan on behalf of one device: values in, at most one report per round out.

    `state` is a file of the device's own, made if it is not there. Construction raises (`PlanError`,
    `StateError`, `ParameterError`); nothing does after it. Whatever goes wrong later is noted in the file,
    and `status()` shows it. The host is never made to wait for the network.

    With an `endpoint` (or a `transport`) and used as a context manager, or after `start()`, a daemon thread
    answers each round when it is over and sends the report at a moment of the next round that the device's
    secret picks. Without, the host calls `report()` and takes the bytes where it wants.

    A new version of the plan is answered from the next round on; the round under way is finished under the
    version it began with. A plan is refused (nothing is recorded or answered, `status()` says why) when it
    asks for more than the `policy` allows, when its version is lower than one held before, and when it is
    another plan under a version held before.

    >>> import tempfile
    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> plan = Plan("app-usage", 1, 3600, 3600, (Metric("saves", OneBitMean(1, max_value=100), Flip(0.2)),))
    >>> with tempfile.TemporaryDirectory() as folder, Device(plan, state=f"{folder}/state") as device:
    ...     device.add("saves")
    ...     device.add("saves", 2)
    ...     len(device.report(device.current_round).bits)
    1
    """

    def __init__(
        self,
        plan: Plan | str | os.PathLike[str],
        state: str | os.PathLike[str],
        *,
        endpoint: str | None = None,
        key: str | None = None,
        segment: Mapping[str, object] | None = None,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.time,
        transport: Transport | None = None,
    ) -> None:
        from reticent.device.transport import HttpTransport
        from reticent.plan import Plan

        asked = plan if isinstance(plan, Plan) else Plan.load(plan)
        carrier = transport or (HttpTransport(endpoint, key) if endpoint is not None else None)
        self._set_up(asked, state, segment or {}, policy, clock, carrier)

    @classmethod
    def open(cls, state: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> Device:
        """
        A device from its state file alone, for looking at it and for `pause`, `resume` and `forget`.

        Raises `StateError` when there is no readable state file: nothing is made, replaced or set aside.
        """
        device = cls.__new__(cls)
        device._set_up(None, state, {}, None, clock, None)
        return device

    def _set_up(
        self,
        plan: Plan | None,
        state: str | os.PathLike[str],
        segment: Mapping[str, object],
        policy: Policy | None,
        clock: Callable[[], float],
        transport: Transport | None,
    ) -> None:
        self._name = plan.name if plan else ""
        self._notes = Notes()
        self._clock = clock
        self._transport = transport
        self._sender: Sender | None = None
        self._core: Core | None = None
        self._started = False
        self._closed = False
        self._background: tuple[int, Background] | None = None
        self._starting = Lock()
        if plan is None or not _do_not_track():
            from reticent.device.core import Core

            self._core = Core(plan, state, segment, policy, clock, self._notes)
            forking.watch(self)

    def __repr__(self) -> str:
        return f"Device(plan={self._name!r})"

    @property
    def plan(self) -> Plan | None:
        """The plan this device was made with; from a state file alone, the newest plan in it."""
        return self._core.plan if self._core else None

    @property
    def current_round(self) -> int:
        """The number of the round under way; -1 when the device is switched off by DO_NOT_TRACK."""
        with self._quietly():
            return self._core.current_round if self._core else -1
        return -1

    # Values

    def add(self, metric: str, amount: object = 1, *, round: int | None = None) -> None:  # noqa: A002
        """
        Add to a metric's total in a round, the one under way unless another is given.

        Totals stop at the metric's max_value. What is not a number, or negative, counts as 0.
        """
        self._record(metric, amount, round, replaces=False)

    def set(self, metric: str, value: object, *, round: int | None = None) -> None:  # noqa: A002
        """Set a metric's total in a round, the one under way unless another is given."""
        self._record(metric, value, round, replaces=True)

    def _record(self, metric: str, amount: object, number: int | None, *, replaces: bool) -> None:
        with self._quietly():
            if self._is_answering():
                self._active_core.record(metric, amount, number, replaces=replaces)
                self._keep_running()

    def _recorded(self, number: int) -> dict[str, Value]:
        """The totals of a round not answered yet, for `reticent.testing`."""
        return self._core.values(number) if self._core else {}

    # Reports

    def report(self, round: int | None = None) -> Report | None:  # noqa: A002
        """
        The report of a round: the latest finished one, unless another is given.

        It is on the disk before it is returned. A round is answered once: asked again, the same bytes come
        back, and values that arrive later are dropped. The round under way may be asked for, which ends it
        for this device; a future one may not.

        None: there is none to give (a pause, a refused or expired plan, a round that had begun before
        `forget`, a round before the device was enrolled unless it is asked for by number), or the state
        failed just now.
        """
        with self._quietly():
            if self._is_answering():
                return self._active_core.report(round)
        return None

    def flush(self, timeout: float = 5.0) -> int:
        """
        Answer what is due and try to send what waits, in `timeout` seconds; returns how many were accepted.

        Reports that have not been tried are sent now instead of spread out. A report that failed before
        waits for its time.
        """
        accepted: list[int] = []
        with self._quietly():
            if not self._is_answering():
                return 0
            deadline = time.monotonic() + max(0.0, timeout)
            self._work_on_state()
            sender = self._prepared_sender()
            if sender is not None:
                # Neither name resolution nor a dripping server can be timed out from within.
                worker = Thread(
                    target=self._send,
                    args=(sender, deadline, True, accepted),
                    name="reticent-flush",
                    daemon=True,
                )
                worker.start()
                worker.join(max(0.0, deadline - time.monotonic()))
        return sum(accepted)

    # The person's wishes

    def pause(self) -> bool:
        """
        Record and send nothing from now on, and keep the remembered answers; returns whether it is done.

        Rounds that the pause overlaps are never answered.
        """
        return self._do(lambda core: core.pause())

    def resume(self) -> bool:
        """End a pause; the first round answered is the next one. Returns whether it is done."""
        return self._do(lambda core: core.resume())

    def forget(self) -> bool:
        """
        Wipe the remembered answers, the values and what was not sent; returns whether it is done.

        A new secret is drawn, which is a new epoch in the ledger: receipts and past losses stay, because
        the collector has not forgotten. No round that had begun is answered.
        """
        return self._do(lambda core: core.forget())

    def _do(self, wish: Callable[[Core], None]) -> bool:
        with self._quietly():
            if self._core is not None and not self._closed:
                wish(self._core)
                return True
        return False

    # Accounts

    def receipt(self) -> Receipt:
        """Every report of this device and what they may have told."""
        from reticent.device.receipt import Receipt

        problem = "DO_NOT_TRACK is set; the state file was not opened"
        with self._quietly():
            if self._core is not None:
                problem = "the state file cannot be read"
                return self._core.receipt()
        return Receipt(self._name, problem=problem)

    def status(self) -> Status:
        """How the device is doing: what it answers, why not, what waits, what went wrong."""
        from reticent.device.receipt import Status

        problem = ""
        with self._quietly():
            if self._core is not None:
                problem = "the state file cannot be read"
                return self._core.status(do_not_track=_do_not_track())
        refused = self._core.refused if self._core else ()
        return Status(
            plan=self._name,
            version=None,
            paused=False,
            do_not_track=_do_not_track() or self._core is None,
            refused=refused,
            epoch=0,
            current_round=self.current_round,
            answers_from=None,
            notes=self._notes.all(None),
            problem=problem,
        )

    # Life

    def start(self) -> None:
        """Answer and send in the background from now on; without an endpoint or a transport, do nothing."""
        with self._quietly():
            self._started = True
            self._keep_running()

    def close(self) -> None:
        """Stop the background thread and let go of the file. What waits is sent at the next start."""
        with self._quietly():
            self._started = False
            background, self._background = self._background, None
            if background is not None and background[0] == os.getpid():
                background[1].stop()
            if self._core is not None and not self._closed:
                try:
                    if self._is_answering():
                        self._core.write_pending()
                finally:
                    self._closed = True
                    self._core.state.close()

    def __enter__(self) -> Device:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def before_fork(self) -> None:
        """Called by `forking`."""
        if self._core is not None:
            self._core.before_fork()

    def after_fork_in_parent(self) -> None:
        """Called by `forking`."""
        if self._core is not None:
            self._core.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Called by `forking`."""
        self._notes.after_fork_in_child()
        self._background, self._starting = None, Lock()
        if self._core is not None:
            self._core.after_fork_in_child()

    @property
    def _active_core(self) -> Core:
        if self._core is None:
            raise LookupError("switched off")
        return self._core

    def _is_answering(self) -> bool:
        """Whether values are taken and rounds answered, as far as can be told without the file."""
        return self._core is not None and not self._closed and not self._core.refused and not _do_not_track()

    def _keep_running(self) -> None:
        """Start the background thread if there should be one and there is none in this process."""
        if not self._started or self._transport is None or not self._is_answering():
            return
        with self._starting:
            if self._background is None or self._background[0] != os.getpid():
                from reticent.device.sending import Background

                self._background = os.getpid(), Background(self._work)
                self._background[1].start()

    def _work(self) -> float:
        """One turn of the background thread; returns in how many seconds the next one is due."""
        with self._quietly():
            if self._is_answering():
                self._work_on_state()
                sender = self._prepared_sender()
                if sender is not None:
                    sender.send_due(time.monotonic() + 60.0, early=False)
                return self._until_next()
            return _LONGEST_SLEEP
        return _SLEEP_IN_TROUBLE

    def _work_on_state(self) -> None:
        self._active_core.write_pending()
        self._active_core.answer_due()

    def _send(self, sender: Sender, deadline: float, early: bool, accepted: list[int]) -> None:
        with self._quietly():
            accepted.append(sender.send_due(deadline, early=early))

    def _prepared_sender(self) -> Sender | None:
        if self._sender is None and self._transport is not None:
            from reticent.device.sending import Sender

            self._sender = Sender(self._active_core.state, self._transport, self._clock, self._notes)
        return self._sender

    def _until_next(self) -> float:
        from reticent.device import outbox

        core = self._active_core
        with core.state.view() as connection:
            waiting = outbox.next_time(connection)
        end_of_round = (core.current_round + 1) * core.round_seconds
        soonest = end_of_round if waiting is None else min(end_of_round, waiting)
        return min(max(soonest - self._clock(), _SHORTEST_SLEEP), _LONGEST_SLEEP)

    def _quietly(self) -> _Quietly:
        return _Quietly(self._notes)


class _Quietly:
    """Notes what is raised inside, and goes on."""

    __slots__ = ("_notes",)

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._notes.add(kind_of(error))
        return True


def _do_not_track() -> bool:
    """DO_NOT_TRACK, as set by the person in the environment."""
    return os.environ.get("DO_NOT_TRACK", "").strip().lower() not in ("", "0", "false")
