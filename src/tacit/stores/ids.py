"""A set of report ids that takes thousands at a time and holds them in about 27 bytes each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ID_BYTES = 16
_FULLEST = 0.6
_SMALLEST = 1 << 12

Halves = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""The first and the second eight bytes of each id."""


class IdSet:
    """
    The ids of one open round.

    A table of two columns with linear probing, kept at most 60 % full: an id rests in the first free slot
    from the one that its first half names. A first half of 0 marks a free slot; the one id in 2⁶⁴ that has
    it goes to a plain set.

    >>> seen = IdSet()
    >>> batch = np.frombuffer(bytes(range(32)) + bytes(range(16)), dtype=np.uint8).reshape(3, 16)
    >>> fresh = seen.missing(batch)
    >>> fresh.tolist()
    [True, True, False]
    >>> seen.add(batch[fresh])
    >>> len(seen), bool(seen.missing(batch).any())
    (2, False)
    """

    def __init__(self) -> None:
        self._first = np.zeros(_SMALLEST, dtype=np.uint64)
        self._second = np.zeros(_SMALLEST, dtype=np.uint64)
        self._odd: set[int] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._odd)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._first.nbytes + self._second.nbytes

    def missing(self, ids: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of these ids are not in the set; of equal ones in the batch, only the first."""
        first, second = _halves(ids)
        fresh = _first_of_equals(first, second)
        fresh &= ~self._contains(first, second)
        for place in np.flatnonzero(first == 0):
            fresh[place] &= int(second[place]) not in self._odd
        return fresh

    def add(self, ids: NDArray[np.uint8]) -> None:
        """Put ids into the set that are `missing` from it."""
        first, second = _halves(ids)
        odd = first == 0
        self._odd.update(second[odd].tolist())
        self._reserve(self._count + len(first))
        self._insert(first[~odd], second[~odd])
        self._count += int((~odd).sum())

    def _contains(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.bool_]:
        found = np.zeros(len(first), dtype=np.bool_)
        mask = np.uint64(len(self._first) - 1)
        waiting, slots = np.arange(len(first)), first & mask
        while len(waiting):
            resting = self._first[slots]
            same = (resting == first[waiting]) & (self._second[slots] == second[waiting])
            found[waiting[same]] = True
            on = ~same & (resting != 0)
            waiting, slots = waiting[on], (slots[on] + np.uint64(1)) & mask
        found[first == 0] = False
        return found

    def _insert(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> None:
        """Ids that are not in the table and differ from each other; of those after one slot, one gets it."""
        mask = np.uint64(len(self._first) - 1)
        slots = first & mask
        while len(first):
            free = self._first[slots] == 0
            self._first[slots[free]] = first[free]
            won = free & (self._first[slots] == first)
            self._second[slots[won]] = second[won]
            on = ~(won & (self._second[slots] == second))
            first, second, slots = first[on], second[on], (slots[on] + np.uint64(1)) & mask

    def _reserve(self, count: int) -> None:
        size = len(self._first)
        while count > size * _FULLEST:
            size *= 2
        if size != len(self._first):
            used = self._first != 0
            first, second = self._first[used], self._second[used]
            self._first, self._second = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint64)
            self._insert(first, second)


def _halves(ids: NDArray[np.uint8]) -> Halves:
    pairs = np.ascontiguousarray(ids).view(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def _first_of_equals(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.bool_]:
    ordered = np.sort(first)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.ones(len(first), dtype=np.bool_)
    order = np.lexsort((second, first))
    a, b = first[order], second[order]
    result = np.zeros(len(first), dtype=np.bool_)
    result[order[np.concatenate(([True], (a[1:] != a[:-1]) | (b[1:] != b[:-1])))]] = True
    return result
