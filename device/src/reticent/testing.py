"""
Testing a program that has telemetry, without a network and without waiting.

>>> from reticent.mechanisms import Flip, OneBitMean
>>> from reticent.plan import Metric, Plan
>>> plan = Plan("app-usage", 1, 3600, 3600, (Metric("saves", OneBitMean(1, max_value=100), Flip(0.2)),))
>>> with sandbox(plan) as box:
...     box.device.add("saves", 3)      # what the program under test does
...     box.device.add("saves", 4)
...     before = box.values()
...     box.next_round()
...     sent = [report.round == box.round - 1 for report in box.reports]
>>> before, sent
({'saves': 7}, [True])
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reticent.device import Accepted, Consent, Device, Outcome, Policy
from reticent.errors import UsageError
from reticent.frozen import replace
from reticent.plan import Plan
from reticent.programs import IN_SANDBOX
from reticent.reports import Report, from_json

__all__ = ["ManualClock", "RecordingTransport", "Sandbox", "sandbox"]


@dataclass
class ManualClock:
    """
    A clock that stands still until it is moved.

    >>> clock = ManualClock(100.0)
    >>> clock.advance(20.0)
    >>> clock()
    120.0
    """

    now: float = 1_700_000_000.0  #: unix seconds

    def __call__(self) -> float:
        """The time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass
class RecordingTransport:
    """A transport that keeps what it is given; `outcomes` are answered in order, then all is accepted."""

    bodies: list[bytes] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def send(self, body: bytes, timeout: float) -> Outcome:
        """Keep a report."""
        self.bodies.append(body)
        return self.outcomes.pop(0) if self.outcomes else Accepted()

    @property
    def reports(self) -> list[Report]:
        """What was sent, in order, as a collector would read it."""
        return [from_json(body) for body in self.bodies]


@dataclass
class Sandbox:
    """Real devices with a clock moved by hand, a transport that only records, and a state file to lose."""

    clock: ManualClock
    transport: RecordingTransport
    state: Path
    opened: list[Device] = field(default_factory=list)  #: The devices that the program opened
    again: Callable[[], Device] | None = None  #: Opens the last one again

    @property
    def device(self) -> Device:
        """The device; of several that the program opened, the last."""
        if not self.opened:
            raise UsageError("the program has not opened a device in this sandbox yet.")
        return self.opened[-1]

    @property
    def plan(self) -> Plan:
        """The plan of the device."""
        plan = self.device.plan
        if plan is None:
            raise UsageError("the device has no plan.")
        return plan

    @property
    def round(self) -> int:
        """The round under way."""
        return self.plan.round_at(self.clock())

    @property
    def reports(self) -> list[Report]:
        """What was sent so far."""
        return self.transport.reports

    def values(self, round_number: int | None = None) -> dict[str, int | Fraction | str]:
        """
        What was recorded in a round (the one under way) not answered yet: exact, a choice by its label, and never sent.

        Also after the program has closed its device.
        """
        number = self.round if round_number is None else round_number
        self.device.save()
        if not self.state.exists():
            return {}
        with closing(Device.open(self.state, clock=self.clock)) as reader:
            recorded = reader._recorded(number)
        metrics = self.plan.recorded
        return {
            name: metrics[name].labels[int(value)] if name in metrics and metrics[name].labels else value
            for name, value in recorded.items()
        }

    def next_round(self) -> None:
        """Let the round end; the device answers it and sends, also if the program has closed it."""
        self.clock.now = float(self.plan.round(self.round).end)
        self.device.flush()
        if self.again is not None:
            with closing(self.again()) as device:
                device.flush()


@contextmanager
def sandbox(
    plan: Plan | str | os.PathLike[str] | None = None,
    *,
    consent: Consent = "granted",
    debug: bool = True,
    segment: Mapping[str, object] | None = None,
    policy: Policy | None = None,
) -> Iterator[Sandbox]:
    """
    A sandbox for a plan or the path of one, gone afterwards; without a plan, for every device that the program opens.

    Mistakes of the program raise `UsageError`, unless `debug` is False. The device is enrolled in the round
    before, so that the first round of the sandbox is answered. Nothing leaves the machine, so the rules about
    DO_NOT_TRACK, CI and containers are lifted unless a policy is given.

    Without a plan, each `Device(…)` of the program keeps its plan, and its segment and policy unless they are given
    here; its state file, clock, transport and consent are those of the sandbox, so no file and no collector of the
    program is touched. A program that opens devices with several plans needs a sandbox for each.
    """
    with TemporaryDirectory(prefix="reticent-") as folder:
        box = Sandbox(ManualClock(), RecordingTransport(), Path(folder) / "state")
        original = Device.__init__

        def enter(device: Device, plan: Plan | str | os.PathLike[str], given: Mapping[str, Any]) -> None:
            """Open a device of the sandbox; the first is enrolled in the round before."""
            asked = plan if isinstance(plan, Plan) else Plan.load(plan)
            rules = policy or given.get("policy") or Policy()
            if policy is None:
                rules = replace(rules, do_not_track=False, silent_in_ci=False, silent_in_containers=False)
            settings: dict[str, Any] = {
                "consent": consent,
                "debug": debug,
                "segment": segment if segment is not None else given.get("segment"),
                "policy": rules,
                "clock": box.clock,
                "transport": box.transport,
            }
            if not box.opened:
                box.clock.now = float(asked.round(asked.round_at(box.clock.now)).start)
            original(device, asked, box.state, **settings)
            if not box.opened:
                box.clock.advance(asked.round_seconds)
            box.opened.append(device)

            def again() -> Device:
                other = Device.__new__(Device)
                original(other, asked, box.state, **settings)
                return other

            box.again = again

        def of_program(
            device: Device, plan: Plan | str | os.PathLike[str], state: object = None, **given: Any
        ) -> None:
            enter(device, plan, given)

        before = os.environ.get(IN_SANDBOX)
        os.environ[IN_SANDBOX] = "1"
        try:
            if plan is None:
                Device.__init__ = of_program  # type: ignore[method-assign,assignment]
            else:
                enter(Device.__new__(Device), plan, {})
                box.again = None  # the test holds the device, and closes it or not
            yield box
        finally:
            Device.__init__ = original  # type: ignore[method-assign]
            for device in box.opened:
                device.close()
            if before is None:
                del os.environ[IN_SANDBOX]
            else:
                os.environ[IN_SANDBOX] = before
