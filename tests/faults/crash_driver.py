"""
Lives of a real device, each ended by SIGKILL or by a power cut at one more call that touches its files.

A program of its own, run by `test_crash_matrix.py` with `crash_points.c` loaded before the C library, from
the root of the repository:

    python -m tests.faults.crash_driver SCENARIO FOLDER kill|middle|twice|power [--stride N] [--sabotage NAME]

It prints how many calls there were and how many lives ended, and fails at the first broken promise. Its parts
are in `crash/`: what happens to a device (`scenarios`), how it dies (`deaths`, `disk`) and comes back
(`laboratory`), what must hold then (`promises`), and devices that break it (`sabotage`).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.faults.crash.deaths import MODES
from tests.faults.crash.laboratory import Laboratory
from tests.faults.crash.sabotage import SABOTAGE
from tests.faults.crash.scenarios import SCENARIOS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--sabotage", choices=SABOTAGE)
    options = parser.parse_args()
    if options.sabotage:
        SABOTAGE[options.sabotage]()
    laboratory = Laboratory(SCENARIOS[options.scenario], options.folder)
    sys.stdout.write(json.dumps(MODES[options.mode](laboratory, options.stride)))


if __name__ == "__main__":
    main()
