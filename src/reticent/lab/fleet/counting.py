"""Bits to tallies, without writing a report."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_TABLE = 1 << 14
"""Entries of a table that stays in the first-level cache, more or less."""


def tally(
    keys: NDArray[np.intp] | None, bits: list[NDArray[Any]], groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    How many devices each group has, and how many ones at each place: int64[groups] and int64[groups, places].

    `keys` is the group of each device (None if there is one group), `bits` one array of 0 and 1 per place. A
    few bits at a time are read as one number, and the pairs of group and number counted in one table.

    >>> tally(np.array([0, 1, 1]), [np.array([1, 0, 1], np.uint8)], groups=2)[1].tolist()
    [[1], [1]]
    """
    ones = np.zeros((groups, len(bits)), dtype=np.int64)
    if keys is None:
        ones[0] = [np.count_nonzero(bit) for bit in bits]
        return np.array([len(bits[0])], dtype=np.int64), ones
    width = max(1, min(8, (_TABLE // groups).bit_length() - 1))
    for start in range(0, len(bits), width):
        some = bits[start : start + width]
        table = _table(keys, some, groups)
        for place in range(len(some)):
            halves = table.reshape(groups, 1 << place, 2, -1)
            ones[:, start + place] = halves[:, :, 1].sum(axis=(1, 2))
    return np.asarray(table.sum(axis=1), dtype=np.int64), ones


def _table(keys: NDArray[np.intp], bits: list[NDArray[Any]], groups: int) -> NDArray[np.intp]:
    """[group, number] -> devices, where the first bit is the highest of the number."""
    number = np.zeros(len(keys), dtype=np.uint8)
    for bit in bits:
        number <<= np.uint8(1)
        number |= bit.view(np.uint8)
    slots = keys << len(bits)
    slots += number
    return np.bincount(slots, minlength=groups << len(bits)).reshape(groups, -1)
