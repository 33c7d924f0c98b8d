"""An open round in memory: the groups of reports seen, their ids, and their counts so far."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import numpy as np

from reticent.reports import ID_BYTES
from reticent_collector.stores.id_set import IdSet, Missing
from reticent_collector.stores.records import CountsByTags, Layout, Records, add_counts, batches

_COUNT_AT = 1 << 20  # bytes of answers counted at once: efficient, and no commit waits long for it


class GroupRange(NamedTuple):
    """Commit groups that are stored as one: `first` to `last` of a writer's groups, numbered from 1."""

    writer: str
    first: int
    last: int


class Seen:
    """
    The commit groups that were seen, as runs of numbers per writer.

    Several collectors may take numbers from one sequence and commit in any order, or not at all: a number
    that stays missing while `patience` later ones come is skipped. If its group is stored after all, it is
    counted when the round is sealed.

    >>> seen = Seen()
    >>> for number in (1, 2, 4): seen.add(GroupRange("", number, number))
    >>> seen.floor(""), GroupRange("", 3, 3) in seen, GroupRange("", 1, 2) in seen, GroupRange("", 2, 4) in seen
    (2, False, True, False)
    """

    patience: ClassVar[int] = 1000

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[int, int]]] = {}

    def __contains__(self, span: GroupRange) -> bool:
        runs = self._runs.get(span.writer, [(0, 0)])
        return runs[bisect_right(runs, span.first, key=lambda run: run[0]) - 1][1] >= span.last

    def add(self, span: GroupRange) -> None:
        """Mark all groups of a span as seen."""
        runs = self._runs.setdefault(span.writer, [(0, 0)])
        start = bisect_left(runs, span.first - 1, key=lambda run: run[1])
        stop = bisect_right(runs, span.last + 1, key=lambda run: run[0])
        touched = [(span.first, span.last), *runs[start:stop]]
        runs[start:stop] = [(min(first for first, _ in touched), max(last for _, last in touched))]
        if len(runs) > 1 and sum(last - first + 1 for first, last in runs[1:]) > self.patience:
            runs[:2] = [(0, runs[1][1])]

    def floor(self, writer: str) -> int:
        """The number up to which all groups of a writer were seen, or skipped."""
        return self._runs.get(writer, [(0, 0)])[0][1]


class Fresh(NamedTuple):
    """Records that an open round does not hold yet."""

    records: Records
    ids: Missing


class OpenRound:
    """
    The ids of an open round, and its counts so far.

    It is a cache, rebuilt from the stored records when a collector starts. `missing`, `add`, `take` and
    `release` are for one thread at a time; another one may call `counts` meanwhile.
    """

    def __init__(self, layout: Layout, expected: int = 0) -> None:
        self.layout = layout
        self.seen = Seen()  # which commit groups are in
        self.released = False  # whether the ids were dropped: the round is closing and takes nothing more
        self._ids = IdSet(expected=expected)
        self._length = 0
        self._waiting = bytearray()  # answers end to end that are not counted yet
        self._counted: CountsByTags = {}
        self._swapping, self._counting = threading.Lock(), threading.Lock()

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Memory taken, approximately."""
        return self._ids.nbytes + len(self._waiting)

    def missing(self, records: Records) -> Fresh:
        """The records whose id is not in the round yet, each once."""
        missing = self._ids.missing(records[:, :ID_BYTES])
        all_are = np.count_nonzero(missing.fresh) == len(records)
        return Fresh(records if all_are else records[missing.fresh], missing)

    def add(self, fresh: Fresh) -> None:
        """Add records that were `missing` and are durable now."""
        self._ids.add(fresh.ids)
        self._length += len(fresh.records)
        answers = fresh.records[:, ID_BYTES:].tobytes()
        with self._swapping:
            self._waiting += answers
        if len(self._waiting) >= _COUNT_AT:
            self.counts()

    def take(self, groups: Iterable[tuple[GroupRange, Records]]) -> None:
        """Add stored groups, each once; nothing after `release`."""
        if not self.released:
            new = [(span, records) for span, records in groups if span not in self.seen]
            for records in batches(records for _, records in new):
                self.add(self.missing(records))
            for span, _ in new:
                self.seen.add(span)

    def counts(self) -> CountsByTags:
        """The counts of all records so far."""
        # `_counting` lets one thread count at a time; `_swapping` alone is what `add` ever waits for.
        with self._counting:
            with self._swapping:
                waiting, self._waiting = self._waiting, bytearray()
            if waiting:
                answers = np.frombuffer(waiting, dtype=np.uint8).reshape(-1, self.layout.width - ID_BYTES)
                self._counted = add_counts(self._counted, self.layout.count(answers))
            return dict(self._counted)

    def release(self) -> None:
        """Drop the ids; counts and length stay."""
        self.released = True
        self._ids = IdSet()
