"""An open round in memory: which ids it holds, and its counts so far."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

from reticent.stores.id_set import IdSet
from reticent.stores.records import Answers, CountsByTags, Layout, Records, add_counts

_COUNT_AT = 1 << 25
"""Bytes of answers that may wait to be counted until somebody asks."""


_COUNTED_AT_ONCE = 1 << 20
"""Answers counted in one step: few steps, and little memory for each."""


class OpenRound:
    """
    The ids of an open round and, counted when somebody asks, its counts so far.

    It is rebuilt from the store's groups when a collector starts; nothing is lost with it. `missing`, `add`
    and `release` are for one thread at a time; `counts` may be asked by another meanwhile.
    """

    def __init__(self, layout: Layout, number: int = 0) -> None:
        self.layout = layout
        self.number = number
        """The round's number in the store, which names its table."""
        self.groups = GroupNumbers()
        """Which groups of that table are in."""
        self.released = False
        """Whether ids were let go of, because the round is closing and takes nothing more."""
        self._ids = IdSet()
        self._length = 0
        self._waiting: list[Answers] = []
        self._waiting_bytes = 0
        self._counted: CountsByTags = {}
        self._swapping, self._counting = threading.Lock(), threading.Lock()

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Memory held, but for small change."""
        return self._ids.nbytes + self._waiting_bytes

    def missing(self, records: Records) -> Records:
        """Those records whose id is not in the round yet, each once."""
        fresh = self._ids.missing(self.layout.ids(records))
        return records if fresh.all() else records[fresh]

    def add(self, records: Records) -> None:
        """Take in records that were `missing` and are durable now."""
        self._ids.add(self.layout.ids(records))
        self._length += len(records)
        answers = self.layout.answers(records)
        with self._swapping:
            self._waiting.append(answers)
            self._waiting_bytes += answers.nbytes
        if self._waiting_bytes >= _COUNT_AT:
            self.counts()

    def take(self, groups: Iterable[tuple[int, bytes]]) -> None:
        """Take in groups with their numbers as they are in the store, each once; nothing after `release`."""
        if not self.released:
            new = [(number, group) for number, group in groups if number not in self.groups]
            for records in self.layout.batches(group for _, group in new):
                self.add(self.missing(records))
            for number, _ in new:
                self.groups.add(number)

    def counts(self) -> CountsByTags:
        """The counts of all records so far."""
        with self._counting:
            with self._swapping:
                waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            answers = np.concatenate(waiting) if waiting else np.empty((0, 0), dtype=np.uint8)
            for start in range(0, len(answers), _COUNTED_AT_ONCE):
                counts = self.layout.count(answers[start : start + _COUNTED_AT_ONCE])
                self._counted = add_counts(self._counted, counts)
            return dict(self._counted)

    def release(self) -> None:
        """Let go of the ids: counts and length stay as they are."""
        self.released = True
        self._ids = IdSet()


class GroupNumbers:
    """
    The numbers of the groups that were seen: all up to `floor`, and some beyond.

    Several collectors take numbers from one sequence and commit in any order, or not at all: a number that
    stays missing while `patience` later ones come is given up. What is given up is still in the table, and
    counted when the round is sealed.

    >>> seen = GroupNumbers()
    >>> for number in (1, 2, 4): seen.add(number)
    >>> seen.floor, seen.beyond, 3 in seen, 4 in seen
    (2, {4}, False, True)
    """

    patience = 1000

    def __init__(self) -> None:
        self.floor = 0
        self.beyond: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self.floor or number in self.beyond

    def add(self, number: int) -> None:
        """See a group."""
        if number in self:
            return
        self.beyond.add(number)
        if len(self.beyond) > self.patience:
            self.floor = min(self.beyond) - 1
        while self.floor + 1 in self.beyond:
            self.floor += 1
            self.beyond.remove(self.floor)
