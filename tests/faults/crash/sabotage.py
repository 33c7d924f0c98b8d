"""Devices that break the law, to show that the laboratory would see it."""

from __future__ import annotations

import sqlite3
from typing import Any

from tests.faults.crash.world import ONE

from reticent.device import core, opening, totals
from reticent.device.answer import answer
from reticent.device.state import myself
from reticent.reports import Report


def tells_too_early() -> None:
    """Bytes leave before they are in the file."""

    def report(self: core.Core, number: int) -> Report:
        with self.state.view() as connection:
            draws = self._draws_of(myself(connection))
            return answer(draws, ONE, number, totals.read(connection, number)).report

    core.Core.report = report  # type: ignore[assignment,method-assign]


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
    opening._set_aside = lambda path, epoch: path.unlink()


SABOTAGE = {"tells-too-early": tells_too_early, "never-syncs": never_syncs, "draws-anew": draws_anew}
