"""Behaviour patterns of many devices at once, and how many devices share each (§3.2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import ParameterError

LONELY = 2  # a pattern that at most so many devices share is a lonely one (§3.2.2)

_ROWS = 1 << 16  # rows relabelled at a time, so that scratch memory stays small and in cache


@dataclass(frozen=True)
class Supports:
    """
    Every pattern that occurs, and how many devices share it: largest support first.

    >>> shared = supports([[0, 0], [1, 1], [1, 0], [2, 2]])
    >>> shared.counts.tolist(), shared.patterns.tolist()
    ([3, 1], [[0, 0], [0, 1]])
    >>> shared.share_constant, shared.share_lonely
    (0.75, 0.25)
    """

    counts: NDArray[np.int64]  #: Devices per pattern
    patterns: NDArray[np.uint16]  #: The patterns, one per row, in the order of `counts`

    @property
    def devices(self) -> int:
        """All devices."""
        return int(self.counts.sum())

    @property
    def largest(self) -> int:
        """The support of the most common pattern."""
        return int(self.counts[0])

    @property
    def widths(self) -> NDArray[np.int64]:
        """The width of each pattern."""
        return np.asarray(np.max(self.patterns, axis=1) + 1, dtype=np.int64)

    @property
    def share_constant(self) -> float:
        """The share of devices that stay in one rounded value throughout."""
        return float(self.counts[self.widths == 1].sum()) / self.devices

    @property
    def share_lonely(self) -> float:
        """The share of devices in patterns of support 1 or 2."""
        return float(self.counts[self.counts <= LONELY].sum()) / self.devices

    @property
    def cumulative_shares(self) -> NDArray[np.float64]:
        """Per pattern, the share of devices in it and in those before it: the paper's abscissa."""
        return np.cumsum(self.counts) / self.devices


class PatternCounts:
    """
    Counts how many devices share each pattern, some devices at a time.

    The keys are exact: each row's labels are packed into as many 64-bit words as they need, so no two patterns
    ever count as one.

    >>> counted = PatternCounts(rounds=2, classes=3)
    >>> counted.add(np.array([[0, 0], [1, 0]]))
    >>> counted.add(np.array([[2, 2]]))
    >>> counted.supports().counts.tolist()
    [2, 1]
    """

    def __init__(self, rounds: int, classes: int) -> None:
        self._rounds, self._classes = rounds, classes
        self._bits = max((min(classes, rounds) - 1).bit_length(), 1)
        self._per_word = 64 // self._bits
        self._words: list[NDArray[np.uint64]] = []

    def add(self, cells: NDArray[Any]) -> None:
        """Count some devices: an n x T array of classes from 0 to below `classes`."""
        words = np.zeros((-(-self._rounds // self._per_word), len(cells)), dtype=np.uint64)
        for rows in (slice(start, start + _ROWS) for start in range(0, len(cells), _ROWS)):
            for place, label in enumerate(_labels(cells[rows], self._classes)):
                word, shift = divmod(place, self._per_word)
                words[word, rows] |= label.astype(np.uint64) << np.uint64(shift * self._bits)
        self._words.append(words)

    def supports(self) -> Supports:
        """Every pattern that was counted."""
        words = self._words[0] if len(self._words) == 1 else np.concatenate(self._words, axis=1)
        devices = words.shape[1]
        ordered = np.sort(words, axis=1) if len(words) == 1 else words[:, np.lexsort(words)]
        first = np.append(True, np.any(ordered[:, 1:] != ordered[:, :-1], axis=0))
        starts = np.flatnonzero(first)
        counts = np.diff(np.append(starts, devices))
        order = np.argsort(-counts, kind="stable")
        distinct = ordered[:, starts[order]]
        labels = np.empty((self._rounds, len(order)), dtype=np.uint16)
        for place in range(self._rounds):
            word, shift = divmod(place, self._per_word)
            mask = np.uint64((1 << self._bits) - 1)
            labels[place] = distinct[word] >> np.uint64(shift * self._bits) & mask
        return Supports(counts[order], labels.T)


def supports(cells: ArrayLike) -> Supports:
    """How many devices share each behaviour pattern, for an n x T array of rounded values (§3.2.2)."""
    codes, values = _codes(cells)
    counted = PatternCounts(codes.shape[1], values)
    counted.add(codes)
    return counted.supports()


def _labels(codes: NDArray[Any], values: int) -> NDArray[np.uint16]:
    rows, rounds = codes.shape
    unseen = np.uint16(65535)
    names = np.full(rows * values, unseen)
    seen = np.zeros(rows, dtype=np.uint16)
    offsets = np.arange(rows) * values
    labels = np.empty((rounds, rows), dtype=np.uint16)
    for place in range(rounds):
        slots = offsets + codes[:, place]
        label = names[slots]
        new = np.flatnonzero(label == unseen)
        if len(new):
            label[new] = seen[new]
            names[slots[new]] = seen[new]
            seen[new] += np.uint16(1)
        labels[place] = label
    return labels


def _codes(cells: ArrayLike) -> tuple[NDArray[Any], int]:
    array = np.asarray(cells)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iub":
        raise ParameterError(
            "cells", "an n x T array of whole numbers", f"shape {array.shape}, type {array.dtype}"
        )
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.shape[1] >= 65535:
        raise ParameterError("cells", "fewer than 65,535 rounds", array.shape[1])
    if array.min() < 0 or array.max() > 255:
        distinct, inverse = np.unique(array, return_inverse=True)
        return inverse.reshape(array.shape), len(distinct)
    return array, int(array.max()) + 1
