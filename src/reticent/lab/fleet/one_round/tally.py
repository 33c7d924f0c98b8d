"""How many devices hold which value."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets

_COUNTED_DIRECTLY = 1 << 24
"""Values below this are counted in a table; larger ones are sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """
    The values of a round without the devices: distinct whole values, and how many devices hold each.

    >>> day = Tally.of(np.array([0, 0, 7_200, 0]))
    >>> day.values.tolist(), day.devices.tolist(), day.total, day.mean
    ([0, 7200], [3, 1], 4, 1800.0)
    """

    values: NDArray[np.int64]
    """Distinct, increasing."""
    devices: NDArray[np.int64]
    """How many hold each value; all positive."""

    @classmethod
    def of(cls, values: NDArray[Any]) -> Tally:
        """Count the whole, non-negative values of a fleet."""
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < 0:
            raise ParameterError(
                "values",
                "one whole number >= 0 per device",
                f"{values.dtype}{list(values.shape)}",
                "count one round at a time",
            )
        if values.max() < _COUNTED_DIRECTLY:
            table = np.bincount(values)
            held = np.flatnonzero(table)
            return cls(held.astype(np.int64), table[held].astype(np.int64))
        distinct, devices = np.unique(values, return_counts=True)
        return cls(distinct.astype(np.int64), devices.astype(np.int64))

    @property
    def total(self) -> int:
        """The number of devices, n."""
        return int(self.devices.sum())

    @property
    def mean(self) -> float:
        """The mean of the values: the truth that a mean is estimated for."""
        return float(self.devices @ self.values) / self.total

    @property
    def variance(self) -> float:
        """The variance V of the values over these devices, as a population."""
        return float(self.devices @ (self.values - self.mean) ** 2) / self.total

    def per_bucket(self, buckets: Buckets) -> NDArray[np.int64]:
        """How many devices are in each bucket."""
        edges = [ceil(edge) for edge in buckets.edges]
        places = np.searchsorted(edges, self.values, side="right") - 1
        devices = np.zeros(len(buckets), dtype=np.int64)
        np.add.at(devices, np.clip(places, 0, len(buckets) - 1), self.devices)
        return devices
