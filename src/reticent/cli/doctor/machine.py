"""What the machine gives to a process: open files, and the time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from reticent.cli.doctor.check import Area, Check

AREA = Area("machine")
ENOUGH_FILES, FEW_FILES = 4096, 256
"""Each connection of a device is an open file while it lasts."""
BUILT = 1_767_225_600
"""The first second of 2026: no clock that runs behind reticent itself is set."""
_LOOK, _STEP = 0.05, 0.5
"""Seconds that the clock is watched, and by how many it may be off then: steps that matter to a round."""


def machine() -> Iterator[Check]:
    """What holds for any program here."""
    yield open_files(_file_limit())
    began = time.time(), time.monotonic()
    time.sleep(_LOOK)
    yield clock(time.time(), (time.time() - began[0]) - (time.monotonic() - began[1]))


def open_files(limit: int | None) -> Check:
    """
    How many files, and so connections, a process may have open.

    >>> [open_files(limit).state for limit in (1_048_576, 1024, 64, None)]
    ['ok', 'note', 'problem', 'note']
    """
    if limit is None:
        return AREA.note("open files", "the limit cannot be asked for here")
    if limit >= ENOUGH_FILES:
        return AREA.ok("open files", f"{limit:,} at once")
    message = f"{limit:,} at once: a collector cannot hold more connections than that"
    hint = f"ulimit -n {65_536}, or LimitNOFILE of its service"
    return (AREA.note if limit >= FEW_FILES else AREA.problem)("open files", message, hint)


def clock(now: float, stepped: float) -> Check:
    """
    Whether the clock of the wall is set, and runs as the one that is never set does.

    >>> clock(1_800_000_000, 0.0).state, clock(0, 0.0).state, clock(1_800_000_000, -3.0).state
    ('ok', 'problem', 'problem')
    """
    if now < BUILT:
        return AREA.problem("clock", "runs behind the making of this program", "set the clock, by NTP")
    if abs(stepped) > _STEP:
        return AREA.problem(
            "clock",
            f"jumped by {stepped:+.2f} s while it was watched",
            "find what sets the clock: rounds are cut by it",
        )
    return AREA.ok("clock", f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(now))} UTC, and runs evenly")


def _file_limit() -> int | None:
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:
        return None
    soft = getrlimit(RLIMIT_NOFILE)[0]
    return 2**31 if soft == RLIM_INFINITY else soft
