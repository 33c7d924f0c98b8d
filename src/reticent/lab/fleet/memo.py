"""The remembered answers of many devices at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.lab.fleet.draws import FleetDraws, Scratch, each_block
from reticent.mechanisms.cohort import COHORTS
from reticent.plan import Metric

_MOST = 64


class Memo:
    """
    What each device answers for each class: bit = [memo draw < threshold of the class].

    Where all remembered bits of a device fit one word they are drawn once and kept, class by class, first bit
    lowest: at most eight bytes per device and metric. Otherwise they are drawn again when asked for, which
    gives the same bits.
    """

    def __init__(self, metric: Metric, draws: FleetDraws, cohorts: NDArray[np.uint8]) -> None:
        self._metric, self._draws, self._cohorts = metric, draws, cohorts
        mechanism = metric.mechanism
        every = range(mechanism.classes)
        places = [[draws.places.memo(metric, each, bit) for each in every] for bit in range(metric.bits)]
        self._places = np.array(places, dtype=np.uint64)
        kinds = range(COHORTS) if mechanism.thresholds_vary else range(1)
        rows = [mechanism.thresholds(each, cohort) for cohort in kinds for each in every]
        self._table = np.ascontiguousarray(np.array(rows, dtype=np.uint64).T)
        self._kept: NDArray[Any] | None = None
        if mechanism.classes * metric.bits <= _MOST:
            self._keep()

    def answers(self, classes: NDArray[Any], part: slice, scratch: Scratch) -> list[NDArray[Any]]:
        """The remembered bit of each device's class, one array (of 0 and 1, or booleans) per answer bit."""
        bits = self._metric.bits
        if self._kept is None:
            slots = classes.astype(np.intp)
            return [self._drawn(slots, bit, part, scratch) for bit in range(bits)]
        kept = self._kept[part]
        shifts = classes.astype(kept.dtype)
        if bits > 1:
            shifts *= kept.dtype.type(bits)
        words = np.right_shift(kept, shifts, out=shifts)
        one = kept.dtype.type(1)
        return [
            (words >> kept.dtype.type(bit) & one if bit else words & one).astype(np.uint8, copy=False)
            for bit in range(bits)
        ]

    def _keep(self) -> None:
        """Draw every remembered bit."""
        bits, classes = self._metric.bits, self._metric.mechanism.classes
        self._kept = np.zeros(len(self._draws.states), dtype=_smallest(bits * classes))
        kept = self._kept

        def work(part: slice) -> None:
            scratch = Scratch(part.stop - part.start)
            for each in range(classes):
                for bit in range(bits):
                    thresholds = self._thresholds(np.full(1, each), bit, part)
                    ones = self._draws.words(int(self._places[bit, each]), part, scratch) < thresholds
                    kept[part] |= ones.astype(kept.dtype) << kept.dtype.type(each * bits + bit)

        each_block(work, len(kept))

    def _drawn(self, classes: NDArray[np.intp], bit: int, part: slice, scratch: Scratch) -> NDArray[np.bool_]:
        places = np.take(self._places[bit], classes, mode="clip")
        return self._draws.words(places, part, scratch) < self._thresholds(classes, bit, part)

    def _thresholds(self, classes: NDArray[np.intp], bit: int, part: slice) -> NDArray[np.uint64]:
        """What a bit's draws are compared with: the table has every class, for one cohort or for all."""
        slots = classes
        if self._metric.mechanism.thresholds_vary:
            slots = self._cohorts[part].astype(np.intp)
            slots *= self._metric.mechanism.classes
            slots += classes
        return np.take(self._table[bit], slots, mode="clip")


def _smallest(bits: int) -> type[np.unsignedinteger[Any]]:
    """The smallest word with so many bits."""
    for kind, size in ((np.uint8, 8), (np.uint16, 16), (np.uint32, 32)):
        if bits <= size:
            return kind
    return np.uint64
