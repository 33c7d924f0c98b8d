"""A town of people with real devices on state files, a clock that is moved by hand, and a real store behind them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from reticent import Device
from reticent.device import Accepted, Consent, Outcome, Policy, Rejected
from reticent.plan import Plan
from reticent.reports import from_json
from reticent.testing import ManualClock
from reticent_collector.cli.root import reticent as command
from reticent_collector.stores import RoundKey, open_store
from reticent_collector.stores.records import Layout

DAY = 86_400
START = 20_000 * DAY


class Town:
    """What people do with their programs, and what is concluded from it."""

    def __init__(self, folder: Path, plan: str) -> None:
        self.folder = folder
        self.plan = Plan.from_toml(plan)
        self.clock = ManualClock(float(START))
        self.url = f"sqlite:///{folder / 'reticent.db'}"
        self.store = open_store(self.url)
        self.store.register(self.plan)
        self._layout = Layout(self.plan)

    def send(self, body: bytes, timeout: float) -> Outcome:
        """The way of a report: into the store, while its round takes reports."""
        report = from_json(body)
        if self.plan.round(report.round).closes <= self.clock.now:
            return Rejected("round-closed")
        key = RoundKey(self.plan.name, report.version, report.round)
        self.store.append({key: self._layout.pack(report)})
        return Accepted()

    def open(self, name: str, consent: Consent = "granted") -> Device:
        """A person's program starts."""
        return Device(
            self.plan,
            self.folder / name,
            consent=consent,
            clock=self.clock,
            transport=self,
            policy=Policy.unlimited(),
        )

    def use(
        self, name: str, when: float, act: Callable[[Device], None], consent: Consent = "granted"
    ) -> None:
        """A person runs the program once."""
        self.clock.now = when
        with self.open(name, consent) as device:
            act(device)
            device.flush(timeout=30.0)

    def seal(self, rounds: range) -> None:
        """The graces of these rounds are over."""
        for number in rounds:
            self.store.seal(RoundKey(self.plan.name, self.plan.version, number))
        self.store.close()

    def estimates(self, *arguments: str) -> list[dict[str, Any]]:
        """What `reticent estimate` says."""
        done = CliRunner().invoke(command, ["estimate", "--store", self.url, "--json", *arguments])
        assert done.exit_code == 0, done.output
        rows: list[dict[str, Any]] = json.loads(done.stdout)["estimates"]
        return rows
