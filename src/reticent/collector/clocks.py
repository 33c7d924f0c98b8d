"""The collector's idea of the time: that of its machine, unless it jumps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from reticent.collector.log import log

TOLERANCE_SECONDS = 60.0
DOUBT_SECONDS = 900.0


def seconds_awake_or_asleep() -> float:
    """
    Seconds since some moment, which nobody can set; a machine that sleeps counts them too, where it can.

    >>> seconds_awake_or_asleep() <= seconds_awake_or_asleep()
    True
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class SteadyClock:
    """
    Unix time that does not believe a jump at once.

    A round is sealed for ever when its time is over, and a late report is refused for ever: so a clock that
    is days ahead for a minute would end every open round. This one is the clock of the machine while that
    keeps step with one that nobody can set, give or take `tolerance` seconds. When it jumps, time goes on as
    before; the jump is believed when it has lasted for `doubt` seconds.

    It cannot know that a clock was wrong from the start, nor that one is wrong for longer than that.

    >>> wall, steady = [1_000_000.0], [5.0]
    >>> clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    >>> wall[0] += 3 * 86_400 + 10; steady[0] += 10; clock()     # three days ahead: in doubt
    1000010.0
    >>> wall[0] += 900; steady[0] += 900; clock()                # still so a quarter of an hour later
    1260110.0
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = seconds_awake_or_asleep,
        tolerance: float = TOLERANCE_SECONDS,
        doubt: float = DOUBT_SECONDS,
    ) -> None:
        self._wall, self._steady = wall, steady
        self._tolerance, self._doubt = tolerance, doubt
        self._lock = threading.Lock()
        self._offset = wall() - steady()
        self._doubted: tuple[float, float] | None = None
        """Another offset, and since when the machine insists on it."""

    def __call__(self) -> float:
        """Unix time, in seconds."""
        with self._lock:
            steady = self._steady()
            self._look(self._wall() - steady, steady)
            return self._offset + steady

    def _look(self, offset: float, steady: float) -> None:
        if abs(offset - self._offset) <= self._tolerance:
            self._offset, self._doubted = offset, None
        elif self._doubted is None or abs(offset - self._doubted[0]) > self._tolerance:
            self._doubted = offset, steady
            log("clock-jumped", seconds=round(offset - self._offset))
        elif steady - self._doubted[1] >= self._doubt:
            log("clock-believed", seconds=round(offset - self._offset))
            self._offset, self._doubted = offset, None
