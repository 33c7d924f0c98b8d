"""Devices that break the law, to show that the laboratory would see it."""

from __future__ import annotations

import sqlite3
from typing import Any

from tests.faults.crash.world import ONE
from tests.shared.devices import identity

from reticent.device import Device, quarantine
from reticent.reports import Report


def tells_too_early() -> None:
    """Bytes leave before they are in the file."""

    def report(self: Device, number: int) -> Report:
        assert self._engine is not None
        return identity(self._engine.state.path).law(ONE, number, self._recorded(number))

    Device.report = report  # type: ignore[assignment,method-assign]


def never_syncs() -> None:
    """Fast, and all is well until the power goes."""

    class Careless(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            careless = sql.startswith("PRAGMA synchronous")
            return super().execute("PRAGMA synchronous = OFF" if careless else sql, *parameters)

    plain = sqlite3.connect
    sqlite3.connect = lambda *a, **o: plain(*a, factory=Careless, **o)  # type: ignore[assignment]


def draws_anew() -> None:
    """A broken file is removed, and then a new one made: between the two, nothing tells of the first."""
    quarantine.set_aside = lambda path, epoch: path.unlink()


SABOTAGE = {"tells-too-early": tells_too_early, "never-syncs": never_syncs, "draws-anew": draws_anew}
