"""
Lives of a real device, each ended by SIGKILL or by a power cut at one more call that touches its files.

A program of its own, run by `test_crash_matrix.py` with `crash_points.c` loaded before the C library, from
the root of the repository:

    python -m tests.faults.crash_driver SCENARIO FOLDER kill|middle|twice|power [--stride N] [--sabotage NAME]

It prints how many calls there were and how many lives ended, and fails at the first broken promise. Its parts
are in `crash/`: what happens to a device (`scenarios`), how it dies (`deaths`, `disk`) and comes back
and
what must hold then (`laboratory`). Devices that break the law, to show that the laboratory would see it, are
here.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

from tests.faults.crash.deaths import MODES
from tests.faults.crash.laboratory import Laboratory
from tests.faults.crash.scenarios import SCENARIOS
from tests.faults.crash.world import ONE
from tests.shared.devices import identity

from reticent.device import Device, process, quarantine
from reticent.reports import Report


def tells_too_early() -> None:
    """Bytes leave before they are in the file."""

    def report(self: Device, number: int) -> Report:
        assert self._session is not None
        return identity(self._session.file.path).law(ONE, number, self._recorded(number))

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
    quarantine.set_aside = lambda path, epoch: os.unlink(path)


SABOTAGE = {"tells-too-early": tells_too_early, "never-syncs": never_syncs, "draws-anew": draws_anew}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--sabotage", choices=SABOTAGE)
    options = parser.parse_args()
    process.WRITE_AFTER = 3600.0  # values are written by calls of the scenario only: always the same calls
    if options.sabotage:
        SABOTAGE[options.sabotage]()
    laboratory = Laboratory(SCENARIOS[options.scenario], options.folder)
    sys.stdout.write(json.dumps(MODES[options.mode](laboratory, options.stride)))


if __name__ == "__main__":
    main()
