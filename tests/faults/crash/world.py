"""The plans and values of a device that dies, where it lives, and what is seen of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from tests.shared.devices import HERE, SECONDS, Identity
from tests.shared.plans import APP_USAGE, EDITOR_HOURS, EDITOR_SECONDS
from tests.shared.state_files import what_is_in

from reticent.device import Accepted, Device, Outcome, Policy, Transport
from reticent.plan import Plan
from reticent.reports import from_json
from reticent.testing import ManualClock

R = HERE
"""The round in which the device is enrolled; the first it answers by itself is the next."""
MARKER = Fraction(12_345_678_901, 2_000_003)
"""A value that is easily found in a file."""

TEXT = (
    APP_USAGE
    + EDITOR_SECONDS
    + """
[metrics.browser_seconds]
kind = "mean"
max_value = 1000
epsilon = 20.0
"""
    + EDITOR_HOURS
)
MORE = """
[metrics.saves]
kind = "histogram"
max_value = 64
buckets = 8
mechanism = "hadamard-bit"
epsilon = 2.0
"""
ONE = Plan.from_toml(TEXT)
TWO = Plan.from_toml(TEXT.replace("version = 1", "version = 2") + MORE)
PLANS = {1: ONE, 2: TWO}

VALUES: dict[str, int | Fraction] = {"editor_seconds": MARKER, "editor_hours": 7_000}
ADDED = (0, 1, 21, 321)
"""What a device that adds 1, 20 and 300 may have added up to when it dies."""
LATE = {"browser_seconds": 1_000}
"""Comes after the restart. At ε = 20 it turns the bit of its metric all but certainly (e⁻²⁰ is 2 in 10⁹)."""


class World(NamedTuple):
    """Where a device lives, and what it is heard to say."""

    folder: Path
    clock: ManualClock
    say: Callable[[str, bytes], None]

    def device(self, plan: Plan = ONE, transport: Transport | None = None) -> Device:
        return Device(
            plan,
            self.folder / "state",
            consent="granted",
            clock=self.clock,
            transport=transport,
            policy=Policy.unlimited(),
        )

    def goto(self, number: int, seconds: float = 60.0) -> None:
        """Let time pass to so many seconds into a round; a restart takes place after that."""
        self.clock.now = number * SECONDS + seconds
        self.say("clock", str(self.clock.now).encode())


@dataclass
class Wire:
    """A transport that says what it carries before anybody acknowledges it."""

    say: Callable[[str, bytes], None]
    outcomes: list[Outcome] = field(default_factory=list)

    def send(self, body: bytes, timeout: float) -> Outcome:
        self.say("told", body)
        return self.outcomes.pop(0) if self.outcomes else Accepted()


class Kept(NamedTuple):
    """What a state file holds about its device."""

    identity: Identity
    reasons: tuple[str, ...]


def kept_in(folder: Path) -> Kept | None:
    state = folder / "state"
    if not state.exists():
        return None
    held = what_is_in(state)
    return Kept(Identity(held.secret, held.epoch), tuple(epoch.reason for epoch in held.epochs.values()))


@dataclass
class Seen:
    """One crash: what was told before it and after it, and what was in the file."""

    folder: Path
    power: bool
    before: Kept | None
    said: list[tuple[str, bytes]]
    after: Kept
    recorded: dict[str, int | Fraction]
    paused: bool
    told_again: list[bytes]

    def heard(self, kind: str) -> list[bytes]:
        return [body for said, body in self.said if said == kind]

    @property
    def bodies(self) -> set[bytes]:
        return {*self.heard("told"), *self.told_again}

    @property
    def rounds(self) -> set[int]:
        return {from_json(body).round for body in self.bodies}
