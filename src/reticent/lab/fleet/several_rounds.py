"""Several rounds of a fleet that remembers its answers, drawn as counts with their joint law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Flip

_AT_ONCE = 1 << 22
"""Binomials drawn in one step: their array has 32 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """
    Which remembered answers devices called for, round by round, and how many devices share each history.

    Such an answer is a cell of the grid for `OneBitMean` (what the value rounds to with the device's own
    alpha) and the side of the row for `HadamardBit`.

    >>> rounds = np.array([[0, 0, 1], [0, 0, 0]])      # two rounds, three devices
    >>> shared = Histories.of(rounds)
    >>> shared.classes.tolist(), shared.devices.tolist()
    ([[0, 0], [1, 0]], [2, 1])
    """

    classes: NDArray[np.int64]
    """int64[histories, rounds], distinct."""
    devices: NDArray[np.int64]
    """int64[histories]."""

    @classmethod
    def of(cls, classes: NDArray[Any]) -> Histories:
        """Group devices by their history; `classes` has a row per round and a column per device."""
        if classes.ndim != 2 or classes.dtype.kind not in "iu" or not classes.size or classes.min() < 0:
            raise ParameterError(
                "classes", "whole numbers >= 0 [rounds, devices]", f"{classes.dtype}{list(classes.shape)}"
            )
        distinct, devices = np.unique(classes, axis=1, return_counts=True)
        return cls(distinct.T.astype(np.int64), devices.astype(np.int64))


def ones_per_round(
    thresholds: Sequence[int],
    flip: Flip,
    histories: Histories,
    repetitions: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """
    Draw how many ones the collector counts in each round: int64[repetitions, rounds].

    `thresholds` are those of the remembered bits, one per class (`OneBitMean.cell_thresholds`). A device
    draws one bit per class and repeats it in every round that calls for it; so among the N devices that share
    a history the bits of one class have one Binomial(N, threshold/2⁶⁴) sum for all of those rounds. The flip
    is drawn anew each round: S ones of n become Bin(S, 1-γ) + Bin(n-S, γ), since each round's flips are
    independent of all else.

    >>> always = Histories(np.array([[0, 0, 0]]), np.array([1000]))
    >>> from reticent.mechanisms import OneBitMean
    >>> thresholds = OneBitMean(1, 60).cell_thresholds
    >>> ((first, second, third),) = ones_per_round(thresholds, Flip(0), always, 1, np.random.default_rng(1))
    >>> bool(first == second == third)
    True
    """
    highest = int(histories.classes.max())
    if highest >= len(thresholds):
        raise ParameterError("thresholds", f"one for each of {highest + 1} classes", len(thresholds))
    remembered = np.zeros((repetitions, histories.classes.shape[1]), np.int64)
    for memo_class, threshold in enumerate(thresholds):
        _add_class(remembered, histories, memo_class, threshold / SCALE, generator)
    turned = flip.threshold / SCALE
    kept = generator.binomial(remembered, 1 - turned)
    return np.asarray(kept + generator.binomial(histories.devices.sum() - remembered, turned), np.int64)


def _add_class(
    ones: NDArray[np.int64],
    histories: Histories,
    memo_class: int,
    chance: float,
    generator: np.random.Generator,
) -> None:
    """Draw the remembered bits of one class, and count them in each round that calls for them."""
    calls = histories.classes == memo_class
    visiting = calls.any(axis=1)
    calls, devices = calls[visiting].astype(np.int64), histories.devices[visiting]
    step = max(1, _AT_ONCE // max(1, len(devices)))
    for start in range(0, len(ones), step):
        part = ones[start : start + step]
        part += generator.binomial(devices, chance, (len(part), len(devices))) @ calls
