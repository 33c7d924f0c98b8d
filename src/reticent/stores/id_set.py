"""A set of report ids that takes thousands at a time and holds them in 27 to 54 bytes each."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

ID_BYTES = 16

_FULLEST = 0.6
_SMALLEST = 12
"""Slots of the smallest table, as a power of two."""
_STEP = 1 << 14
"""Slots moved at a time when the table grows: what is moved stays in the cache."""

_FINALIZER = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
"""Shifts and factors of SplitMix64 (Steele, Lea, Flood 2014)."""

Words = NDArray[np.uint64]


class IdSet:
    """
    The ids of one open round.

    A table of two columns (the halves of an id), open addressing, at most 60 % full. Whoever sends reports
    picks their ids, so where an id rests must not be theirs to pick. Its four 32-bit words give

        h(w) = k₀ + k₁w₁ + k₂w₂ + k₃w₃ + k₄w₄  mod 2⁶⁴

    with k drawn at random for each set: any two ids have the same h with probability 2⁻³³ at most, whatever
    they are. A fixed bijection (the finalizer of SplitMix64) then breaks up what is still regular, such as
    the multiples of one number. Of its result, the top bits are the first slot to look at, and the low bits,
    made odd, the step to the next ones.

    A first half of 0 marks a free slot. Halves are stored with a random mask over them, so nobody can send
    an id that looks free; the one in 2⁶⁴ that does by chance goes to a plain set.

    >>> seen = IdSet()
    >>> batch = np.frombuffer(bytes(range(32)) + bytes(range(16)), dtype=np.uint8).reshape(3, 16)
    >>> fresh = seen.missing(batch)
    >>> fresh.tolist()
    [True, True, False]
    >>> seen.add(batch[fresh])
    >>> len(seen), bool(seen.missing(batch).any())
    (2, False)
    """

    def __init__(self, key: bytes | None = None) -> None:
        words = np.frombuffer(secrets.token_bytes(48) if key is None else key, dtype=np.uint64)
        self._factors, self._start, self._mask = words[:4], words[4], words[5]
        self._odd: set[int] = set()
        self._count = 0
        self._make(_SMALLEST)

    def __len__(self) -> int:
        return self._count + len(self._odd)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._first.nbytes + self._second.nbytes

    def missing(self, ids: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of these ids are not in the set; of equal ones in the batch, only the first."""
        first, second = self._halves(ids)
        hashes = self._hashes(ids)
        fresh = _first_of_equals(hashes, first, second)
        fresh &= ~self._contains(hashes, first, second)
        for place in np.flatnonzero(first == 0):
            fresh[place] &= int(second[place]) not in self._odd
        return fresh

    def add(self, ids: NDArray[np.uint8]) -> None:
        """Put ids into the set that are `missing` from it."""
        first, second = self._halves(ids)
        hashes = self._hashes(ids)
        self._reserve(self._count + len(first))
        odd = first == 0
        if odd.any():
            self._odd.update(second[odd].tolist())
            hashes, first, second = hashes[~odd], first[~odd], second[~odd]
        self._insert(hashes, first, second)
        self._count += len(first)

    def _make(self, bits: int) -> None:
        self._bits = bits
        self._first = np.zeros(1 << bits, dtype=np.uint64)
        self._second = np.zeros(1 << bits, dtype=np.uint64)

    def _halves(self, ids: NDArray[np.uint8]) -> tuple[Words, Words]:
        """The first half under its mask, and the second."""
        pairs = np.ascontiguousarray(ids).view(np.uint64).reshape(-1, 2)
        return pairs[:, 0] ^ self._mask, np.ascontiguousarray(pairs[:, 1])

    def _hashes(self, ids: NDArray[np.uint8]) -> Words:
        words = np.ascontiguousarray(ids).view(np.uint32).reshape(-1, 4)
        hashes: Words = words.astype(np.uint64) @ self._factors + self._start
        for shift, factor in _FINALIZER:
            hashes ^= hashes >> shift
            hashes *= factor
        return hashes ^ (hashes >> np.uint64(31))

    def _slots(self, hashes: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Where to look first, and how far on to look next: odd, so that every slot is reached."""
        slots = (hashes >> np.uint64(64 - self._bits)).astype(np.intp)
        steps = (hashes & np.uint64((1 << self._bits) - 1)).astype(np.intp) | 1
        return slots, steps

    def _contains(self, hashes: Words, first: Words, second: Words) -> NDArray[np.bool_]:
        contained = np.zeros(len(first), dtype=np.bool_)
        waiting = np.arange(len(first))
        slots, steps = self._slots(hashes)
        last = (1 << self._bits) - 1
        while len(waiting):
            resting = self._first[slots]
            on = resting != 0
            equal = np.flatnonzero(on & (resting == first))
            if len(equal):
                equal = equal[self._second[slots[equal]] == second[equal]]
                contained[waiting[equal]] = True
                on[equal] = False
            waiting, first, second, steps = waiting[on], first[on], second[on], steps[on]
            slots = (slots[on] + steps) & last
        return contained

    def _insert(self, hashes: Words, first: Words, second: Words) -> None:
        """Ids that are not in the table and differ from each other; of those after one slot, one gets it."""
        slots, steps = self._slots(hashes)
        last = (1 << self._bits) - 1
        while len(first):
            free = self._first[slots] == 0
            self._first[slots[free]] = first[free]
            won = free & (self._first[slots] == first)
            self._second[slots[won]] = second[won]
            on = ~won | (self._second[slots] != second)
            first, second, steps = first[on], second[on], steps[on]
            slots = (slots[on] + steps) & last

    def _reserve(self, count: int) -> None:
        bits = self._bits
        while count > (1 << bits) * _FULLEST:
            bits += 1
        if bits == self._bits:
            return
        old_first, old_second = self._first, self._second
        self._make(bits)
        for start in range(0, len(old_first), _STEP):
            part = slice(start, start + _STEP)
            used = old_first[part] != 0
            first, second = old_first[part][used], old_second[part][used]
            ids = np.column_stack((first ^ self._mask, second)).view(np.uint8)
            self._insert(self._hashes(ids), first, second)


def _first_of_equals(hashes: Words, first: Words, second: Words) -> NDArray[np.bool_]:
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.ones(len(first), dtype=np.bool_)
    order = np.lexsort((second, first))
    a, b = first[order], second[order]
    result = np.zeros(len(first), dtype=np.bool_)
    result[order[np.concatenate(([True], (a[1:] != a[:-1]) | (b[1:] != b[:-1])))]] = True
    return result
