"""The last day in slots of ten minutes: counts in memory only, gone with the process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

SLOT_SECONDS = 600
SLOTS = 144


@dataclass(frozen=True, slots=True)
class HistorySlot:
    """Ten minutes of a collector: how many reports came, and what became of them."""

    start: int  # unix seconds
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    refused: int = 0  # for any reason but being late
    seal_delay: float = 0.0  # the longest time from the end of a round's grace to its seal, in seconds

    def __add__(self, other: HistorySlot) -> HistorySlot:
        """The same ten minutes of two workers."""
        counts = ("accepted", "duplicate", "late", "refused")
        added = {name: getattr(self, name) + getattr(other, name) for name in counts}
        return replace(self, **added, seal_delay=max(self.seal_delay, other.seal_delay))


class History:
    """
    Slots from totals that only grow, noted about every second.

    >>> history = History()
    >>> for now, accepted in ((0, 5), (300, 7), (600, 9), (900, 20)):
    ...     history.note(now, accepted=accepted)
    >>> [slot.accepted for slot in history.slots]
    [7, 13]
    """

    def __init__(self) -> None:
        self._done: deque[HistorySlot] = deque(maxlen=SLOTS - 1)
        self._slot: HistorySlot | None = None
        self._before: dict[str, int] = {}  # totals at the end of the slot before
        self._totals: dict[str, int] = {}

    def note(self, now: float, seal_delay: float = 0.0, **totals: int) -> None:
        """The totals by now; `seal_delay` is the longest since the last note."""
        start = int(now // SLOT_SECONDS) * SLOT_SECONDS
        # A clock that is set back adds to the current slot.
        if self._slot is None or start > self._slot.start:
            if self._slot is not None:
                self._done.append(self._slot)
            self._slot, self._before = HistorySlot(start), self._totals
        self._totals = dict(totals)
        counts = {name: total - self._before.get(name, 0) for name, total in totals.items()}
        self._slot = replace(self._slot, **counts, seal_delay=max(self._slot.seal_delay, seal_delay))

    @property
    def slots(self) -> tuple[HistorySlot, ...]:
        """The last day, oldest first."""
        return (*self._done, *([self._slot] if self._slot else []))


def merged(histories: Iterable[Iterable[HistorySlot]]) -> tuple[HistorySlot, ...]:
    """The slots of several workers as those of one collector."""
    by_start: dict[int, HistorySlot] = {}
    for history in histories:
        for slot in history:
            known = by_start.get(slot.start)
            by_start[slot.start] = slot if known is None else known + slot
    return tuple(by_start[start] for start in sorted(by_start)[-SLOTS:])
