"""
What many devices remember, at once: the class that a value calls for, and the bits that a class stands for.

Values are whole numbers, so every comparison with an alpha or an edge turns into one of integers, exactly:

- A point or edge e is not above a whole number x when ⌈e⌉ ≤ x.
- With points r/D over a common denominator D, x between L and R goes up when
  alpha·(R - L) ≥ (R - x)·2⁶⁴, which is  x·D + ⌊alpha·(r_R - r_L) / 2⁶⁴⌋ ≥ r_R.
- On an even grid of whole points the ⌊…⌋ is one number per device, its *lift*, and the cell of x is
  ⌊(x + lift) / step⌋.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.device.answers import DARTS
from reticent.errors import ParameterError
from reticent.mechanisms import COHORTS, SCALE, SubsetSelection
from reticent.plan import Group, Metric, Plan
from reticent_lab.fleet.draws import FleetDraws, Words, blocks, each_block

Whole = NDArray[np.integer[Any]]  # Whole numbers of any integer type; out of range is clamped
Part = slice | NDArray[np.intp]  # Some devices of a fleet: a block of them, or those with these numbers
_TABLE = 1 << 20  # Largest value for which the bucket of every value is written down
_WORD = 64  # Remembered bits of a device that are kept in one word
_ROOM = 2**62
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


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
    low = words & _LOW
    high = words >> _HALF
    by_low = factors & _LOW
    by_high = factors >> _HALF
    middle = high * by_low + (low * by_low >> _HALF)
    carried = low * by_high + (middle & _LOW)
    return np.asarray(high * by_high + (middle >> _HALF) + (carried >> _HALF))


# Joint limits


@dataclass(frozen=True, slots=True)
class Ratios:
    """Values that a joint limit has scaled: over / under, each exact; for the devices at `places`."""

    places: NDArray[np.intp]
    over: NDArray[Any]
    under: NDArray[Any]


class Limit:
    """
    What `reticent.device.in_range` does for a group, for many devices at once.

    In units of one over the group's common denominator D, with x the clamped values and T the limit, a device
    whose x sum to S > T has each scaled to  x·T / (D·S),  a ratio of integers.
    """

    def __init__(self, plan: Plan, group: Group) -> None:
        self.group = group
        self._tops = {name: plan.max_values[name] for name in group.metrics}
        self._unit = lcm(group.max_total.denominator, *(top.denominator for top in self._tops.values()))
        self._limit = int(group.max_total * self._unit)
        tops = [int(top * self._unit) for top in self._tops.values()]
        finest = max(
            lcm(*(point.denominator for point in plan.by_name[name].mechanism.points))
            for name in group.metrics
        )
        largest = sum(tops) * max(*tops, self._limit) * finest * self._unit
        self._kind = np.int64 if largest < _ROOM else object  # Python's integers where a product is too long

    def scaled(self, values: Mapping[str, Whole]) -> dict[str, Ratios]:
        """The members' values where the limit bites."""
        units = {}
        for name, top in self._tops.items():
            inside = clamp(values[name], ceil(top), self._kind) * self._unit
            units[name] = np.asarray(np.minimum(inside, int(top * self._unit)))
        total = np.sum(list(units.values()), axis=0)
        places = np.flatnonzero(total > self._limit)
        if not len(places):
            return {}
        under = total[places] * self._unit
        return {name: Ratios(places, of[places] * self._limit, under) for name, of in units.items()}


# Classes: what `memo_class` of a mechanism does, for many devices


class _Scale:
    def __init__(self, metric: Metric) -> None:
        points = metric.mechanism.points
        self._denominator = lcm(*(point.denominator for point in points))
        self._points = [int(point * self._denominator) for point in points]
        self._ceilings = np.array([min(ceil(point), _ROOM) for point in points], dtype=np.int64)
        self._top = ceil(points[-1])
        self._last = len(points) - 2
        if self._top * self._denominator >= _ROOM:
            raise ParameterError(
                f"metrics.{metric.name}",
                "points or edges below 2^62 over their common denominator",
                f"{self._top} over {self._denominator}",
                "a fleet of real devices (SdkFleet) can answer this plan",
            )

    def _below(self, inside: Whole) -> NDArray[np.intp]:
        """The number of the last point but one that is not above each value in range."""
        return np.minimum(np.searchsorted(self._ceilings, inside, side="right") - 1, self._last)

    def _below_ratios(self, ratios: Ratios) -> NDArray[np.int64]:
        scaled = ratios.over * self._denominator
        places = np.zeros(len(scaled), dtype=np.int64)
        for point in self._points:
            places += (point * ratios.under <= scaled).astype(np.int64)
        return np.minimum(places - 1, self._last)


class Cells(_Scale):
    """The cell of a grid that a value goes to, with each device's own alpha."""

    def __init__(self, metric: Metric, draws: FleetDraws) -> None:
        super().__init__(metric)
        self._draws = draws
        self._alpha = draws.places.alpha(metric)
        self._widths = np.diff(np.array(self._points, dtype=object))
        self._widths64 = self._widths.astype(np.uint64)
        self._rights64 = np.array(self._points[1:], dtype=np.int64)
        self._step = int(self._widths[0])
        self._lift: NDArray[Any] | None = None
        if self._denominator == 1 and len(set(self._widths.tolist())) == 1:
            self._lift = np.empty(len(draws.states), dtype=np.int32 if 2 * self._top < 2**31 else np.int64)
            for part in blocks(len(self._lift)):
                self._lift[part] = high_word(draws.words(self._alpha, part), np.uint64(self._step))
            if self._step == self._top:
                np.subtract(self._top, self._lift, out=self._lift)  # the smallest value that goes up

    def of(self, values: Whole, part: Part) -> NDArray[Any]:
        """The class of each value, for the devices of a block."""
        if self._lift is None:
            inside = clamp(values, self._top, np.int64)
            below = self._below(inside)
            lift = high_word(self._draws.words(self._alpha, part), self._widths64[below]).astype(np.int64)
            return np.asarray(below + (inside * self._denominator + lift >= self._rights64[below]))
        lift = self._lift[part]
        if self._step == self._top:
            return np.asarray(np.greater_equal(values, lift))
        lifted = clamp(values, self._top, lift.dtype)
        np.add(lifted, lift, out=lifted)
        np.floor_divide(lifted, self._step, out=lifted)
        return lifted

    def of_ratios(self, ratios: Ratios, devices: NDArray[np.intp]) -> NDArray[Any]:
        """The same for values that were scaled, of the devices with these numbers."""
        below = self._below_ratios(ratios)
        rights = np.array(self._points[1:], dtype=ratios.over.dtype)[below]
        widths = self._widths.astype(ratios.over.dtype)[below] * ratios.under
        missing = rights * ratios.under - ratios.over * self._denominator
        lift = high_word(self._draws.words(self._alpha, devices), widths)
        return np.asarray(below + (lift.astype(missing.dtype) >= missing))


class BucketClasses(_Scale):
    """The class of a value's bucket, from a table of buckets where the range is small enough for one."""

    def __init__(self, metric: Metric, cohorts: NDArray[np.uint8]) -> None:
        super().__init__(metric)
        self._mechanism = metric.mechanism
        self._cohorts = cohorts
        self._absent = metric.mechanism.intervals - 1 if metric.absent else None
        self._table: NDArray[np.uint8] | None = None
        if self._top <= _TABLE:
            self._table = self._below(np.arange(self._top + 1)).astype(np.uint8)

    def of(self, values: Whole, part: Part) -> NDArray[Any]:
        """The class of each value, for the devices of a block."""
        if self._table is None:
            buckets = self._below(clamp(values, self._top, np.int64)).astype(np.uint8)
        else:
            buckets = np.take(self._table, clamp(values, self._top, np.intp), mode="clip")
        if self._absent is not None:
            buckets[values < 0] = self._absent
        return np.asarray(self._mechanism.bucket_class(buckets, self._cohorts[part]))

    def of_ratios(self, ratios: Ratios, devices: NDArray[np.intp]) -> NDArray[Any]:
        """The same for values that were scaled, of the devices with these numbers."""
        buckets = self._below_ratios(ratios).astype(np.uint8)
        return np.asarray(self._mechanism.bucket_class(buckets, self._cohorts[devices]))


class PartClasses:
    """The class of the part of a split that each device picks: what `part_at` and `part_hit` of a device do."""

    def __init__(
        self, metric: Metric, draws: FleetDraws, cohorts: NDArray[np.uint8], *, sampled: bool
    ) -> None:
        self._metric, self._draws, self._cohorts, self._sampled = metric, draws, cohorts, sampled
        self._unit = metric.max_total.denominator
        self._limit = metric.max_total.numerator
        self._ceiling = ceil(metric.max_total)
        if self._ceiling * self._unit * len(metric.parts) >= _ROOM:
            raise ParameterError(f"metrics.{metric.name}", "amounts below 2^62 together", self._limit)

    def of(self, values: Mapping[str, Whole], part: Part) -> NDArray[Any]:
        """The class of each device of a block, from the amounts by recorded name."""
        units = [clamp(values[name], self._ceiling, np.int64) * self._unit for name in self._metric.recorded]
        amounts = np.minimum(np.stack(units), self._limit)
        total = amounts.sum(axis=0)
        limit = np.maximum(total, self._limit).astype(np.uint64)
        if self._sampled:
            moment = self._draws.words(self._draws.places.fixed(self._metric, "moment", 0), part)
            picked = (np.cumsum(amounts, axis=0) <= high_word(moment, limit).astype(np.int64)).sum(axis=0)
        else:
            bars = np.concatenate([amounts, np.maximum(self._limit - total, 0)[None]])
            picked = self._thrown(bars, limit, part)
        return np.asarray(self._metric.mechanism.bucket_class(picked.astype(np.uint8), self._cohorts[part]))

    def _thrown(self, bars: NDArray[np.int64], limit: Words, part: Part) -> NDArray[np.intp]:
        """The bar that each device's first dart hits; the last one where none does."""
        count = np.uint64(len(bars))
        devices = np.arange(part.start, part.stop) if isinstance(part, slice) else part
        picked = np.full(len(limit), len(bars) - 1)
        throwing = np.arange(len(limit))
        for dart in range(DARTS * len(bars)):
            place = self._draws.places.fixed(self._metric, "darts", dart)
            words = self._draws.words(place, devices[throwing])
            bar = high_word(words, count).astype(np.intp)
            height = high_word(words * count, limit[throwing]).astype(np.int64)
            hits = height < bars[bar, throwing]
            picked[throwing[hits]] = bar[hits]
            throwing = throwing[~hits]
            if not len(throwing):
                break
        return picked


# Bits


class Memo:
    """
    What each device answers for each class: bit = [memo draw < threshold of the class].

    Bits that fit one word per device are drawn once and kept (`keep`), class by class, first bit lowest; others
    are drawn again when asked for, which gives the same bits.
    """

    def __init__(
        self, metric: Metric, draws: FleetDraws, cohorts: NDArray[np.uint8], keep: bool = True
    ) -> None:
        self._draws, self._cohorts = draws, cohorts
        self._bits = metric.bits
        self._classes = metric.mechanism.classes
        self._varies = metric.mechanism.thresholds_vary
        classes = range(self._classes)
        places = [[draws.places.memo(metric, number, bit) for number in classes] for bit in range(self._bits)]
        self._places = np.array(places, dtype=np.uint64)
        thresholds = [
            metric.mechanism.thresholds(number, cohort)
            for cohort in range(COHORTS if self._varies else 1)
            for number in classes
        ]
        self._table = np.ascontiguousarray(np.array(thresholds, dtype=np.uint64).T)
        self._kept = self._drawn() if keep and self._classes * self._bits <= _WORD else None

    def _drawn(self) -> NDArray[Any]:
        kept = np.zeros(len(self._draws.states), np.min_scalar_type((1 << self._bits * self._classes) - 1))

        def work(part: slice) -> None:
            scratch = np.empty((2, part.stop - part.start), np.uint64)
            for number in range(self._classes):
                for bit in range(self._bits):
                    words = self._draws.words(int(self._places[bit, number]), part, scratch)
                    ones = words < self._thresholds(np.full(1, number), bit, part)
                    kept[part] |= ones.astype(kept.dtype) << kept.dtype.type(number * self._bits + bit)

        each_block(work, len(kept))
        return kept

    def answers(self, classes: NDArray[Any], part: Part, scratch: Words) -> list[NDArray[Any]]:
        """The remembered bit of each device's class, one array (of 0 and 1, or booleans) per answer bit."""
        if self._kept is None:
            slots = classes.astype(np.intp)
            bits = []
            for bit in range(self._bits):
                places = np.take(self._places[bit], slots, mode="clip")
                words = self._draws.words(places, part, scratch)
                bits.append(words < self._thresholds(slots, bit, part))
            return bits
        kept = self._kept[part]
        shifts = classes.astype(kept.dtype)
        if self._bits > 1:
            shifts *= kept.dtype.type(self._bits)
        words = np.right_shift(kept, shifts, out=shifts)
        one = kept.dtype.type(1)
        return [
            (words >> kept.dtype.type(bit) & one if bit else words & one).astype(np.uint8, copy=False)
            for bit in range(self._bits)
        ]

    def _thresholds(self, classes: NDArray[np.intp], bit: int, part: Part) -> NDArray[np.uint64]:
        slots = classes
        if self._varies:
            slots = self._cohorts[part].astype(np.intp)
            slots *= self._classes
            slots += classes
        return np.take(self._table[bit], slots, mode="clip")


class Subsets:
    """What each device answers for each bucket under subset selection: its base set, shifted."""

    def __init__(self, metric: Metric, draws: FleetDraws, mechanism: SubsetSelection) -> None:
        self._draws, self._mechanism = draws, mechanism
        count = mechanism.bits
        self._memo = np.array([draws.places.memo(metric, bucket, 0) for bucket in range(count)], np.uint64)
        self._base = [draws.places.fixed(metric, "base", bucket) for bucket in range(count)]

    def answers(self, classes: NDArray[Any], part: Part, scratch: Words) -> list[NDArray[Any]]:
        """The bit of each bucket, one array of booleans each."""
        count, size = self._mechanism.bits, self._mechanism.size
        buckets = classes.astype(np.intp)
        base = np.stack([self._draws.words(place, part) for place in self._base])
        # Stable: of two equal draws, that of the earlier bucket is the smaller.
        order = np.argsort(base, axis=0, kind="stable")
        order = np.concatenate([np.sort(order[:size], axis=0), np.sort(order[size:], axis=0)])
        draws = self._draws.words(np.take(self._memo, buckets), part, scratch)
        cuts = [cut for cut in self._mechanism.cuts(0) if cut < SCALE]
        place = np.searchsorted(np.array(cuts, np.uint64), draws, side="right")
        devices = np.arange(len(buckets))
        shift = buckets - order[np.minimum(place, count - 1), devices]
        shift[place == count] = 0  # what the weights do not use up
        member = np.zeros((count, len(buckets)), dtype=bool)
        np.put_along_axis(member, order[:size], True, axis=0)
        return [member[(bucket - shift) % count, devices] for bucket in range(count)]
