"""What one collector knows of an open round: the ids it has seen, and the segments it wrote."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from reticent.stores.lake.layout import Part
from reticent.stores.open_round import OpenRound
from reticent.stores.records import Layout, Records

MERGED_AT_ONCE = 64
"""Segments of one writer that are merged into one."""
MOST_ROWS = 1 << 20
"""Rows beyond which segments are large enough."""


class Ranges:
    """
    A set of whole numbers that come in long runs.

    >>> seen = Ranges()
    >>> for number in (1, 2, 3, 7): seen.add(number, number)
    >>> seen.has(1, 3), seen.has(3, 7)
    (True, False)
    """

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        """Put in all numbers from first to last."""
        kept = []
        for low, high in self._runs:
            if high + 1 < first or last + 1 < low:
                kept.append((low, high))
            else:
                first, last = min(first, low), max(last, high)
        self._runs = sorted([*kept, (first, last)])

    def has(self, first: int, last: int) -> bool:
        """Whether all numbers from first to last are in."""
        place = bisect_right(self._runs, first, key=lambda run: run[0]) - 1
        return place >= 0 and self._runs[place][1] >= last


class Own(NamedTuple):
    """A segment that this writer wrote."""

    segment: Part
    merges: int
    """How often what is in it was merged."""
    records: Records | None
    """What is in it, while it is small and not merged: so that merging need not read it."""


class LakeRound(OpenRound):
    """
    An open round in memory: `OpenRound`, and which segments it was read from.

    It is an aid: it keeps a collector from storing twice what it has seen, and answers provisional counts.
    What counts in the end is in the segments.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._seen: dict[str, Ranges] = {}
        self.bad: dict[str, str] = {}
        """Segments that cannot be read, with the reason: counting refuses them, appending goes on."""
        self.own: list[Own] = []
        """The latest segments of this writer, without a gap between them."""

    def has(self, segment: Part) -> bool:
        """Whether all that a segment holds is in."""
        seen = self._seen.get(segment.writer)
        return seen is not None and seen.has(segment.first, segment.last)

    def saw(self, segment: Part) -> None:
        """Note that all a segment holds is in."""
        self._seen.setdefault(segment.writer, Ranges()).add(segment.first, segment.last)

    def wrote(self, segment: Part, records: Records) -> None:
        """Note a segment that this writer wrote just now, and what is in it."""
        self.saw(segment)
        self.own.append(Own(segment, 0, records if len(records) <= MOST_ROWS // MERGED_AT_ONCE else None))

    def to_merge(self) -> list[Own]:
        """The latest segments of this writer, when they are many and small; as often merged as each other."""
        latest = self.own[-MERGED_AT_ONCE:]
        alike = len({each.merges for each in latest}) == 1 and len(latest) == MERGED_AT_ONCE
        return latest if alike and sum(each.segment.rows for each in latest) <= MOST_ROWS else []

    def merged(self, segment: Part) -> None:
        """Put a merged segment in the place of those it was made from."""
        self.saw(segment)
        self.own[-MERGED_AT_ONCE:] = [Own(segment, self.own[-1].merges + 1, None)]
