"""Where simulated values come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from reticent.errors import ParameterError
from reticent.mechanisms import Number
from reticent.plan import Metric
from reticent_lab.fleet.draws import InBlocks
from reticent_lab.fleet.usage import (
    EDITOR,
    FORZA_HORIZON_4,
    GRAN_TURISMO_SPORT,
    THE_CREW_2,
    check_range,
    whole_range,
)


class Population(Protocol):
    """Where the values of a fleet come from; the same generator state gives the same values in [0, `max_value`]."""

    @property
    def name(self) -> str:
        """One word, for tables and files."""

    @property
    def max_value(self) -> int:
        """The top of the range."""

    def values(self, devices: int, rounds: int, generator: np.random.Generator) -> NDArray[np.int32]:
        """Whole values in [0, max_value], one row per round: int32[rounds, devices]."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Every device holds the same value in every round; half of the range when it is left out (§5: 12 hours)."""

    max_value: int
    value: int | None = None
    name = "constant"

    def __post_init__(self) -> None:
        check_range(self.max_value)
        if self.value is not None and (type(self.value) is not int or not 0 <= self.value <= self.max_value):
            raise ParameterError("value", f"a whole number from 0 to {self.max_value}", self.value)

    def values(self, devices: int, rounds: int, generator: np.random.Generator) -> NDArray[np.int32]:
        """The one value; nothing is drawn."""
        value = self.max_value // 2 if self.value is None else self.value
        return np.full((rounds, devices), value, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Uniform(InBlocks):
    """Each whole number from 0 to `max_value` is equally likely (§5): drawn again each round, or once if `steady`."""

    max_value: int
    steady: bool = False
    name = "uniform"

    def __post_init__(self) -> None:
        check_range(self.max_value)

    def _fill(self, draw: np.random.Generator, values: NDArray[np.int32]) -> None:
        for row in values:
            row[:] = draw.integers(0, self.max_value, len(row), dtype=np.int32, endpoint=True)
            if self.steady:
                values[:] = row
                return


@dataclass(frozen=True, slots=True)
class TruncatedNormal(InBlocks):
    """
    A normal law cut off at 0 and `max_value`, rounded to the nearest whole number (§5).

    The cut is exact: a draw is Φ⁻¹ of a uniform number between Φ at both ends, so that the mass beyond them
    is spread over the range and not piled up at the ends, as clipping would do. `mean` is half of the range
    and `deviation` a twelfth of it when left out: 12 and 2 hours of a day, as in the paper. Drawn again each round
    unless `steady`, as for `Uniform`.
    """

    max_value: int
    mean: float | None = None
    deviation: float | None = None
    steady: bool = False
    name = "truncated-normal"

    def __post_init__(self) -> None:
        check_range(self.max_value)
        if self.mean is not None and not 0 <= self.mean <= self.max_value:
            raise ParameterError("mean", f"a number from 0 to {self.max_value}", self.mean)
        if self.deviation is not None and not 0 < self.deviation <= 1e6 * self.max_value:
            raise ParameterError("deviation", "a number > 0, of the size of the range", self.deviation)

    def _fill(self, draw: np.random.Generator, values: NDArray[np.int32]) -> None:
        mean = self.max_value / 2 if self.mean is None else self.mean
        deviation = self.max_value / 12 if self.deviation is None else self.deviation
        low = ndtr(-mean / deviation)
        high = ndtr((self.max_value - mean) / deviation)
        for row in values:
            normal = ndtri(low + (high - low) * draw.random(len(row)))
            row[:] = np.clip(np.rint(mean + deviation * normal), 0, self.max_value)
            if self.steady:
                values[:] = row
                return


@dataclass(frozen=True, slots=True)
class AgeInDays(InBlocks):
    """
    A counter that grows by 1 each round and stops at `max_value`: the example of §3.3.

    The first age is uniform on 0, …, m. With one step from 0 to m the rounded value changes at most once.
    """

    max_value: int
    name = "age-in-days"

    def __post_init__(self) -> None:
        check_range(self.max_value)

    def _fill(self, draw: np.random.Generator, values: NDArray[np.int32]) -> None:
        first = draw.integers(0, self.max_value, values.shape[1], dtype=np.int64, endpoint=True)
        for passed, row in enumerate(values):
            row[:] = np.minimum(first + passed, self.max_value)


_BY_NAME: dict[str, Callable[[int, int], Population]] = {
    AgeInDays.name: lambda top, _: AgeInDays(top),
    Constant.name: lambda top, _: Constant(top),
    TruncatedNormal.name: lambda top, _: TruncatedNormal(top),
    Uniform.name: lambda top, _: Uniform(top),
    **{usage.name: usage.scaled for usage in (EDITOR, FORZA_HORIZON_4, GRAN_TURISMO_SPORT, THE_CREW_2)},
}

POPULATIONS = tuple(sorted(_BY_NAME))
"""The names that `population` knows."""


def taken_by(metric: Metric, usage: NDArray[np.int32]) -> NDArray[np.int32]:
    """Made-up or recorded numbers as values of a metric: where a device can be without a value, 0 is none."""
    if not metric.absent or metric.parts:
        return usage
    return np.where(usage > 0, usage - bool(metric.labels), -1).astype(np.int32)


def population(name: str, max_value: Number, rounds_per_day: int = 1) -> Population:
    """
    The population of a name, over a range; those of app usage have `rounds_per_day` rounds of `max_value` a day.

    >>> population("constant", 60)
    Constant(max_value=60, value=None)
    """
    if name not in _BY_NAME:
        raise ParameterError("population", f"one of {', '.join(POPULATIONS)}", repr(name))
    return _BY_NAME[name](whole_range(max_value), rounds_per_day)
