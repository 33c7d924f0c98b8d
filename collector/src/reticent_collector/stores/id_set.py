"""A set of report ids that takes thousands at a time, grows in small steps and holds an id in 23 to 69 bytes."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_ROOM = 8  # ids in a bucket: as many as a word has bytes, so that one word of 0 means that none is equal
_FULLEST, _OVERFULL = 0.7, 0.85  # how full a table is when moving begins, and when it must be done
_SMALLEST = 9  # buckets of the smallest table, as a power of two
_STEP = 1 << 11  # buckets moved at a time: about a millisecond
_FEW, _MOST_BITS = 500, 18  # so few hashes are sorted to find equal ones; more use a table that fits a cache
_MOVED_PER_ID = 10  # places moved per id added: a table of n is moved by the time it holds n / 10 more

_FINALIZER = (  # shifts and factors of SplitMix64 (Steele, Lea, Flood 2014)
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT = np.uint64(31)

Words = NDArray[np.uint64]
Places = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Ids(NamedTuple):
    """Ids as a table holds them: their hashes, and their halves with a mask over the first."""

    hashes: Words
    first: Words
    second: Words

    def chosen(self, which: Mask) -> Ids:
        """Some of them."""
        return Ids(self.hashes[which], self.first[which], self.second[which])


class Missing(NamedTuple):
    """Which ids of a batch are not in a set, and all that is needed to add those."""

    fresh: Mask  #: of equal ids in the batch, only the first
    ids: Ids
    places: Places


class IdSet:
    """
    The ids of one open round.

    A table of buckets with room for eight ids each, at most 70 % full. Senders choose the ids of reports, so
    they must not be able to choose the bucket. The four 32-bit words of an id give

        h(w) = k₀ + k₁w₁ + k₂w₂ + k₃w₃ + k₄w₄  mod 2⁶⁴

    with k drawn at random for each set: any two ids have the same h with probability 2⁻³³ at most, whatever
    they are. A fixed bijection (the finalizer of SplitMix64) then breaks up regular patterns, such as the
    multiples of one number. The top bits of its result are the bucket; when that is full, the next one is used.

    A full table is moved to one of twice its size, some buckets at each `add`: no call pays for all of them.
    Meanwhile both are searched. Since the top bits choose the bucket, the larger one fills up from its start,
    and the system provides its memory as needed.

    A first half of 0 marks a free place. Halves are stored XORed with a random mask, so no sender can make an
    id that looks free; the one in 2⁶⁴ that does by chance goes to a plain set.

    >>> seen = IdSet()
    >>> batch = np.frombuffer(bytes(range(32)) + bytes(range(16)), dtype=np.uint8).reshape(3, 16)
    >>> missing = seen.missing(batch)
    >>> missing.fresh.tolist()
    [True, True, False]
    >>> seen.add(missing)
    >>> len(seen), bool(seen.missing(batch).fresh.any())
    (2, False)
    """

    def __init__(self, key: bytes | None = None, expected: int = 0) -> None:
        words = np.frombuffer(secrets.token_bytes(48) if key is None else key, dtype=np.uint64)
        self._factors, self._start, self._mask = words[:4], words[4], words[5]
        self._odd: set[int] = set()
        self._count = 0
        places = int(expected / _FULLEST) + 1
        self._table = _Table(max(_SMALLEST, (places // _ROOM).bit_length()))
        self._larger: _Table | None = None  # the table that ids are being moved to
        self._moved = self._owed = 0  # buckets moved, and places that should be moved by now besides

    def __len__(self) -> int:
        return self._count + len(self._odd)

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._table.nbytes + (self._larger.nbytes if self._larger else 0)

    def missing(self, ids: NDArray[np.uint8]) -> Missing:
        """Which of these ids, uint8[n, 16], are not in the set."""
        ids = np.ascontiguousarray(ids)
        halves = ids.view(np.uint64)
        first, second = halves[:, 0] ^ self._mask, halves[:, 1].copy()
        found = Ids(self._hashes(ids.view(np.uint32)), first, second)
        contained, places = self._table.look_up(found)
        if self._larger is not None:
            contained |= self._larger.look_up(found)[0]
        if np.count_nonzero(first) < len(first):  # these look like free places
            for place in np.flatnonzero(first == 0):
                contained[place] = int(second[place]) in self._odd
        fresh = ~contained
        if _has_equals(found.hashes):
            fresh &= _first_of_equals(first, second)
        return Missing(fresh, found, places)

    def add(self, missing: Missing) -> None:
        """Add the ids of a batch that were `missing`; no others may have been added since."""
        fresh, ids, places = missing
        if np.count_nonzero(fresh) < len(fresh):
            ids, places = ids.chosen(fresh), places[fresh]
        if np.count_nonzero(ids.first) < len(ids.first):
            odd = ids.first == 0
            self._odd.update(ids.second[odd].tolist())
            ids, places = ids.chosen(~odd), places[~odd]
        if self._make_room(len(places)):
            places = self._table.look_up(ids)[1]
        self._count += len(places)
        while len(places):
            if self._larger is not None:
                # Ids of a bucket that was moved go to the larger table; others are moved in time.
                moved = places < self._moved * _ROOM
                self._larger.insert(ids.chosen(moved))
                ids, places = ids.chosen(~moved), places[~moved]
            left = self._table.put(ids, places)
            if not np.count_nonzero(left):
                break
            ids = ids.chosen(left)
            places = self._table.look_up(ids)[1]

    def _hashes(self, words: NDArray[np.uint32]) -> Words:
        hashes: Words = words.astype(np.uint64) @ self._factors
        hashes += self._start
        for shift, factor in _FINALIZER:
            hashes ^= hashes >> shift
            hashes *= factor
        hashes ^= hashes >> _LAST_SHIFT
        return hashes

    def _make_room(self, more: int) -> bool:
        """Make room for `more` ids, and move what is owed for them; whether the table is another one now."""
        before = self._table
        while self._count + more > self._table.capacity:
            if self._larger is None:
                self._larger, self._moved, self._owed = _Table(self._table.bits + 1), 0, 0
            self._owed += more * _MOVED_PER_ID
            is_overfull = self._count + more > self._table.limit
            while self._larger is not None and (is_overfull or self._owed >= _STEP * _ROOM):
                self._move(self._larger)
            if not is_overfull:
                break
        return self._table is not before

    def _move(self, larger: _Table) -> None:
        # One id of each bucket at a time: hardly any two of them want the same bucket of the larger table.
        for place in range(_ROOM):
            first, second = self._table.used(self._moved, self._moved + _STEP, place)
            words = np.column_stack((first ^ self._mask, second)).view(np.uint32)
            larger.insert(Ids(self._hashes(words), first, second))
        self._moved += _STEP
        self._owed -= _STEP * _ROOM
        if self._moved >= 1 << self._table.bits:
            self._table, self._larger = larger, None


class _Table:
    """Buckets of ids, each filled from its first place on; ids that do not fit go to the next one."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.capacity, self.limit = (int((_ROOM << bits) * share) for share in (_FULLEST, _OVERFULL))
        self._first = np.zeros(_ROOM << bits, dtype=np.uint64)
        self._second = np.zeros(_ROOM << bits, dtype=np.uint64)
        self._buckets = self._first.view(f"V{8 * _ROOM}")

    @property
    def nbytes(self) -> int:
        return self._first.nbytes + self._second.nbytes

    def look_up(self, ids: Ids) -> tuple[Mask, Places]:
        """Which of these ids are in the table; for the others, the place where each would be put."""
        buckets = (ids.hashes >> np.uint64(64 - self.bits)).view(np.intp)
        contained, places, full = self._look_at(buckets, ids)
        waiting = np.flatnonzero(full)
        while len(waiting):
            ids, buckets = ids.chosen(full), (buckets[full] + 1) & ((1 << self.bits) - 1)
            contained[waiting], places[waiting], full = self._look_at(buckets, ids)
            waiting = waiting[full]
        return contained, places

    def _look_at(self, buckets: Places, ids: Ids) -> tuple[Mask, Places, Mask]:
        """Of one bucket per id: whether it holds the id, its first free place, whether it is full without it."""
        firsts = self._buckets.take(buckets).view(np.uint64).reshape(-1, _ROOM)
        starts = buckets * _ROOM
        equal = firsts == ids.first[:, None]
        contained: Mask = equal.view(np.uint64).ravel() != 0
        if np.count_nonzero(contained):
            alike = np.flatnonzero(contained)
            seconds = self._second[starts[alike, None] + np.arange(_ROOM)]
            equal = equal[alike] & (seconds == ids.second[alike, None])
            contained[alike] = equal.any(axis=1)
        full = firsts[:, -1] != 0
        full &= ~contained
        return contained, starts + (firsts == 0).argmax(axis=1), full

    def insert(self, ids: Ids) -> None:
        """Insert ids that are not in the table, and differ from each other."""
        while len(ids.first):
            ids = ids.chosen(self.put(ids, self.look_up(ids)[1]))

    def put(self, ids: Ids, places: Places) -> Mask:
        """Put ids into free places, one per place; which ids are left over."""
        self._first[places] = ids.first
        won = self._first.take(places) == ids.first
        self._second[places[won]] = ids.second[won]
        left: Mask = ~won | (self._second.take(places) != ids.second)
        return left

    def used(self, first: int, last: int, place: int) -> tuple[Words, Words]:
        some = slice(first * _ROOM + place, last * _ROOM, _ROOM)
        used = self._first[some] != 0
        return self._first[some][used], self._second[some][used]


def _has_equals(hashes: Words) -> bool:
    """
    Whether two of these are equal.

    Many hashes first write their places into a much larger table: the last of those that write to one entry
    remains there, and only the others can equal another hash. That takes a fifth of the time of sorting.
    """
    others = hashes
    if len(hashes) > _FEW:
        bits = min(len(hashes).bit_length() + 4, _MOST_BITS)
        entries = (hashes & np.uint64((1 << bits) - 1)).view(np.intp)
        table, places = np.empty(1 << bits, dtype=np.int32), np.arange(len(hashes), dtype=np.int32)
        table[entries] = places
        last = table.take(entries)
        left = np.flatnonzero(last != places)
        others = hashes[left]
        if np.count_nonzero(hashes[last[left]] == others):
            return True
    ordered = np.sort(others)
    return bool(np.count_nonzero(ordered[1:] == ordered[:-1]))


def _first_of_equals(first: Words, second: Words) -> Mask:
    order = np.lexsort((second, first))
    a, b = first[order], second[order]
    result = np.zeros(len(first), dtype=np.bool_)
    result[order[np.concatenate(([True], (a[1:] != a[:-1]) | (b[1:] != b[:-1])))]] = True
    return result
