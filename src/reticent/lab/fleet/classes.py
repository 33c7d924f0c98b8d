"""
From values to remembered classes, for many devices at once: what `memo_class` of a mechanism does.

Values are whole numbers, so every comparison with an alpha or an edge turns into one of integers, exactly:

- A point or edge e is not above a whole number x when ⌈e⌉ ≤ x.
- With points r/D over a common denominator D, x between L and R goes up when
  alpha·(R - L) ≥ (R - x)·2⁶⁴, which is  x·D + ⌊alpha·(r_R - r_L) / 2⁶⁴⌋ ≥ r_R.
- On an even grid of whole points the ⌊…⌋ is one number per device, its *lift*, and the cell of x is
  ⌊(x + lift) / step⌋.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.lab.fleet.draws import FleetDraws, Words
from reticent.mechanisms import Mechanism
from reticent.plan import Metric

Whole = NDArray[np.integer[Any]]
"""Whole numbers of any integer type; out of range is clamped."""

_TABLE = 1 << 20
"""Largest value for which the bucket of every value is written down."""
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
_ROOM = 2**62


@dataclass(frozen=True, slots=True)
class Ratios:
    """Values that a joint limit has scaled: over / under, each exact; for the devices at `places`."""

    places: NDArray[np.intp]
    over: NDArray[Any]
    under: NDArray[Any]


class Classes(Protocol):
    """The remembered class of each device's value."""

    def of(self, values: Whole, part: slice) -> NDArray[Any]:
        """For whole values of the devices of a block."""

    def of_ratios(self, ratios: Ratios, devices: NDArray[np.intp]) -> NDArray[Any]:
        """For values that were scaled, of the devices with these numbers."""


def classes_of(metric: Metric, draws: FleetDraws, cohorts: NDArray[np.uint8]) -> Classes:
    """The classes of a metric's mechanism."""
    mechanism = metric.mechanism
    scale = _Scale(metric.name, mechanism.points)
    if mechanism.grid is not None:
        if scale.denominator == 1 and scale.even:
            return _EvenCells(scale, draws, draws.places.alpha(metric))
        return _Cells(scale, draws, draws.places.alpha(metric))
    return _BucketClasses(_Buckets(scale), cohorts, mechanism)


class _Scale:
    """The points of a grid or the edges of buckets, as integers over one denominator."""

    def __init__(self, name: str, points: tuple[int | Fraction, ...]) -> None:
        self.denominator = lcm(*(point.denominator for point in points))
        self.points = [int(point * self.denominator) for point in points]
        self.ceilings = np.array([min(ceil(point), _ROOM) for point in points], dtype=np.int64)
        self.widths = np.diff(np.array(self.points, dtype=object))
        self.even = len(set(self.widths.tolist())) == 1
        self.top = ceil(points[-1])
        if self.top * self.denominator >= _ROOM:
            raise ParameterError(
                f"metrics.{name}",
                "points or edges below 2^62 over their common denominator",
                f"{self.top} over {self.denominator}",
                "a fleet of real devices (SdkFleet) can answer this plan",
            )

    def place_among(self, ratios: Ratios) -> NDArray[np.int64]:
        """How many points are not above each ratio."""
        scaled = ratios.over * self.denominator
        places = np.zeros(len(scaled), dtype=np.int64)
        for point in self.points:
            places += (point * ratios.under <= scaled).astype(np.int64)
        return places


class _EvenCells:
    """Cells of a grid whose points are whole and evenly spaced."""

    def __init__(self, scale: _Scale, draws: FleetDraws, alpha: int) -> None:
        self._step, self._top = int(scale.widths[0]), scale.top
        self._general = _Cells(scale, draws, alpha)
        kind = np.int32 if 2 * self._top < 2**31 else np.int64
        self._lift = np.empty(len(draws.states), dtype=kind)
        for start in range(0, len(self._lift), 1 << 16):
            part = slice(start, start + (1 << 16))
            self._lift[part] = high_word(draws.words(alpha, part), np.uint64(self._step))
        if self._step == self._top:
            np.subtract(self._top, self._lift, out=self._lift)  # the smallest value that goes up

    def of(self, values: Whole, part: slice) -> NDArray[Any]:
        lift = self._lift[part]
        if self._step == self._top:
            return np.asarray(np.greater_equal(values, lift))
        lifted = clamp(values, self._top, lift.dtype)
        np.add(lifted, lift, out=lifted)
        np.floor_divide(lifted, self._step, out=lifted)
        return lifted

    def of_ratios(self, ratios: Ratios, devices: NDArray[np.intp]) -> NDArray[Any]:
        return self._general.of_ratios(ratios, devices)


class _Cells:
    """Cells of any grid."""

    def __init__(self, scale: _Scale, draws: FleetDraws, alpha: int) -> None:
        self._scale, self._draws, self._alpha = scale, draws, alpha
        self._widths = scale.widths.astype(np.uint64)
        self._rights = np.array(scale.points[1:], dtype=np.int64)

    def of(self, values: Whole, part: slice) -> NDArray[Any]:
        scale = self._scale
        inside = clamp(values, scale.top, np.int64)
        below = np.searchsorted(scale.ceilings, inside, side="right") - 1
        np.minimum(below, len(self._rights) - 1, out=below)
        lift = high_word(self._draws.words(self._alpha, part), self._widths[below]).astype(np.int64)
        return np.asarray(below + (inside * scale.denominator + lift >= self._rights[below]))

    def of_ratios(self, ratios: Ratios, devices: NDArray[np.intp]) -> NDArray[Any]:
        scale = self._scale
        below = np.minimum(scale.place_among(ratios) - 1, len(self._rights) - 1)
        rights = np.array(scale.points[1:], dtype=ratios.over.dtype)[below]
        widths = scale.widths.astype(ratios.over.dtype)[below] * ratios.under
        missing = rights * ratios.under - ratios.over * scale.denominator
        lift = high_word(self._draws.words(self._alpha, devices), widths)
        return np.asarray(below + (lift.astype(missing.dtype) >= missing))


class _Buckets:
    """The bucket of each value, from a table where the range is small enough for one."""

    def __init__(self, scale: _Scale) -> None:
        self._scale, self._last = scale, len(scale.points) - 2
        small = scale.top <= _TABLE
        self._table = self._search(np.arange(scale.top + 1)).astype(np.uint8) if small else None

    def of(self, values: Whole) -> NDArray[np.uint8]:
        if self._table is None:
            return self._search(clamp(values, self._scale.top, np.int64)).astype(np.uint8)
        return np.take(self._table, clamp(values, self._scale.top, np.intp), mode="clip")

    def of_ratios(self, ratios: Ratios) -> NDArray[np.uint8]:
        return np.minimum(self._scale.place_among(ratios) - 1, self._last).astype(np.uint8)

    def _search(self, inside: Whole) -> NDArray[np.intp]:
        return np.minimum(np.searchsorted(self._scale.ceilings, inside, side="right") - 1, self._last)


class _BucketClasses:
    """The class of a bucket, which may depend on the device's cohort."""

    def __init__(self, buckets: _Buckets, cohorts: NDArray[np.uint8], mechanism: Mechanism) -> None:
        self._buckets, self._cohorts, self._mechanism = buckets, cohorts, mechanism

    def of(self, values: Whole, part: slice) -> NDArray[Any]:
        return np.asarray(self._mechanism.bucket_class(self._buckets.of(values), self._cohorts[part]))

    def of_ratios(self, ratios: Ratios, devices: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(
            self._mechanism.bucket_class(self._buckets.of_ratios(ratios), self._cohorts[devices])
        )


def clamp(values: Whole, top: int, kind: Any) -> NDArray[Any]:
    """Values in [0, top], as a new array of another type."""
    information = np.iinfo(values.dtype)
    inside = values
    if information.max > top:
        inside = np.minimum(inside, values.dtype.type(top))
    if information.min < 0:
        inside = np.maximum(inside, values.dtype.type(0), out=None if inside is values else inside)
    return inside.astype(kind)


def high_word(words: Words, factors: Any) -> NDArray[Any]:
    """
    ⌊words · factors / 2⁶⁴⌋, exactly.

    >>> high_word(np.array([2**64 - 1, 2**63], dtype=np.uint64), np.uint64(100)).tolist()
    [99, 50]
    """
    factors = np.asarray(factors)
    if factors.dtype == object:
        return np.asarray(words.astype(object) * factors >> 64)
    factors = factors.astype(np.uint64)
    low, high = words & _LOW, words >> _HALF
    by_low, by_high = factors & _LOW, factors >> _HALF
    middle = high * by_low + (low * by_low >> _HALF)
    carried = low * by_high + (middle & _LOW)
    return np.asarray(high * by_high + (middle >> _HALF) + (carried >> _HALF))
