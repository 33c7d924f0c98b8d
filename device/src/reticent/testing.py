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

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from reticent.device import Accepted, Consent, Device, Outcome, Policy
from reticent.plan import Plan
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


@dataclass(frozen=True)
class Sandbox:
    """A real device with a clock moved by hand, a transport that only records, and a state file to lose."""

    device: Device
    clock: ManualClock
    transport: RecordingTransport
    plan: Plan
    state: Path

    @property
    def round(self) -> int:
        """The round under way."""
        return self.plan.round_at(self.clock())

    @property
    def reports(self) -> list[Report]:
        """What was sent so far."""
        return self.transport.reports

    def values(self, round_number: int | None = None) -> dict[str, int | Fraction]:
        """What was recorded in a round (the one under way) not answered yet: exact, and never sent."""
        return self.device._recorded(self.round if round_number is None else round_number)

    def next_round(self) -> None:
        """Let the round end; the device answers it and sends."""
        self.clock.now = float(self.plan.round(self.round).end)
        self.device.flush()


@contextmanager
def sandbox(
    plan: Plan,
    *,
    consent: Consent = "granted",
    debug: bool = True,
    segment: Mapping[str, object] | None = None,
    policy: Policy | None = None,
) -> Iterator[Sandbox]:
    """
    A sandbox for a plan, gone afterwards.

    Mistakes of the program raise `UsageError`, unless `debug` is False. The device is enrolled in the round
    before, so that the first round of the sandbox is answered. Nothing leaves the machine, so the rules about
    DO_NOT_TRACK, CI and containers are lifted unless a policy is given.
    """
    with TemporaryDirectory(prefix="reticent-") as folder:
        clock = ManualClock()
        clock.now = float(plan.round(plan.round_at(clock.now)).start)
        transport, state = RecordingTransport(), Path(folder) / "state"
        anywhere = Policy(do_not_track=False, silent_in_ci=False, silent_in_containers=False)
        device = Device(
            plan,
            state,
            consent=consent,
            debug=debug,
            segment=segment,
            policy=anywhere if policy is None else policy,
            clock=clock,
            transport=transport,
        )
        clock.advance(plan.round_seconds)
        try:
            yield Sandbox(device, clock, transport, plan, state)
        finally:
            device.close()
