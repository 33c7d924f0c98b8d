"""An open round in memory: which ids it holds, and its counts so far."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.stores.ids import IdSet
from tacit.stores.records import CountsByTags, Layout, Records, add_counts

_COUNT_AT = 1 << 18


class OpenRound:
    """
    The ids of an open round and, counted when somebody asks, its counts so far.

    It is rebuilt from the store's records when a collector starts; nothing is lost with it.
    """

    def __init__(self, layout: Layout, groups: Iterable[bytes] = ()) -> None:
        self.layout = layout
        self._ids = IdSet()
        self._counted: CountsByTags = {}
        self._waiting: list[Records] = []
        self._waiting_length = 0
        for group in groups:
            self.add(self.missing(layout.array(group)))

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """Memory held, but for small change."""
        return self._ids.nbytes + self._waiting_length * self.layout.width

    def missing(self, records: Records) -> Records:
        """Those records whose id is not in the round yet, each once."""
        fresh = self._ids.missing(self.layout.ids(records))
        return records if fresh.all() else records[fresh]

    def add(self, records: Records) -> None:
        """Take in records that were `missing` and are durable now."""
        self._ids.add(self.layout.ids(records))
        self._waiting.append(records)
        self._waiting_length += len(records)
        if self._waiting_length >= _COUNT_AT:
            self.counts()

    def counts(self) -> CountsByTags:
        """The counts of all records so far."""
        if self._waiting:
            records = np.concatenate(self._waiting)
            self._waiting, self._waiting_length = [], 0
            self._counted = add_counts(self._counted, self.layout.counts(records))
        return self._counted
