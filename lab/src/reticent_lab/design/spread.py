"""Values as a design needs them: how they spread in a round of some days, and what a range cuts off."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from reticent_lab.fleet import Recorded

_TIMES = tuple(
    unit * number
    for unit, numbers in (
        (1, range(1, 60)),
        (60, range(1, 60)),
        (3600, (1, 1.5, *range(2, 24))),
        (86_400, (*range(1, 29),)),
    )
    for number in numbers
)
_SMALLEST = 64  # Ranges are tried from this part of the largest value


def round_numbers(top: float, unit: str = "") -> list[Fraction]:
    """
    Numbers with two digits that are not below 1, up to the first that is not below `top`.

    Of seconds, whole minutes, hours and days.

    >>> [int(number) for number in round_numbers(1030)[-4:]], [int(number) for number in round_numbers(7000, "second")[-3:]]
    ([980, 990, 1000, 1100], [3600, 5400, 7200])
    """  # noqa: E501
    powers = range(len(str(ceil(top))))
    numbers = [Fraction(digit) for digit in range(1, 10)]
    numbers += [Fraction(digits) * 10**power for power in powers for digits in range(10, 100)]
    if unit.rstrip("s") == "second" and top <= _TIMES[-1]:
        numbers = [Fraction(number) for number in _TIMES]
    return numbers[: bisect_left(numbers, top) + 1]


@dataclass(frozen=True, eq=False)
class ValueSpread:
    """
    How values spread, by the days of a round: sorted values, and the share of each.

    The table of a recording, or a histogram that a pilot has sealed.
    """

    by_days: Mapping[int, tuple[NDArray[np.float64], NDArray[np.float64]]]

    @classmethod
    def recorded(cls, recording: Recorded) -> ValueSpread:
        """Of recorded days, whose totals over whole weeks and months it has too."""
        recording.check_days()
        by_days = {}
        for days in (1, 7, 28):
            blocks = len(recording.days) // days
            if not blocks:
                break
            table = recording.table[: blocks * days].astype(np.float64)
            values = np.sort(table.reshape(blocks, days, -1).sum(axis=1), axis=None)
            by_days[days] = values, np.full(len(values), 1 / len(values))
        return cls(by_days)

    @classmethod
    def sealed(cls, edges: list[float], shares: list[float], days: int) -> ValueSpread:
        """
        Of a sealed histogram of rounds of so many days.

        Within a bucket values are taken to be even; those of the first and of the last one, at its upper edge: what
        a range cuts off is rather too large than too small. Shares below 0 count as 0.
        """
        kept = np.maximum(np.asarray(shares, dtype=np.float64), 0)
        parts = 64
        places = (np.arange(parts) + 0.5) / parts
        columns = [low + (high - low) * places for low, high in pairwise(edges)]
        columns[-1] = np.full(parts, edges[-1])
        values = np.concatenate(columns)
        return cls({days: (values, np.repeat(kept / kept.sum() / parts, parts))})

    def has(self, days: int) -> bool:
        """Whether it knows rounds of so many days."""
        return days in self.by_days

    def mean(self, days: int) -> float:
        """The mean of a round."""
        values, shares = self.by_days[days]
        return float(values @ shares)

    def ranges(self, days: int, unit: str) -> list[Fraction]:
        """Ranges in round numbers that are worth trying."""
        top = self.largest(days)
        return [number for number in round_numbers(top, unit) if number * _SMALLEST >= top]

    def cut(self, days: int, top: Fraction) -> float:
        """How much lower the mean of a round is when values above `top` count as `top`."""
        values, shares = self.by_days[days]
        above = bisect_right(values, float(top))
        return float((values[above:] - float(top)) @ shares[above:])

    def clipped(self, days: int, top: Fraction) -> float:
        """The share of values above `top`."""
        values, shares = self.by_days[days]
        return float(shares[bisect_right(values, float(top)) :].sum())

    def largest(self, days: int) -> float:
        """The largest value of a round."""
        return max(1.0, float(self.by_days[days][0][-1]))

    def quantile(self, days: int, level: Fraction) -> Fraction:
        """The smallest value of a round that a share `level` does not exceed."""
        values, shares = self.by_days[days]
        place = int(np.searchsorted(np.cumsum(shares), float(level) * (1 - 1e-12)))
        return Fraction(float(values[min(place, len(values) - 1)]))

    def share_below(self, days: int, edge: Fraction) -> Fraction:
        """The share of values that are below an edge."""
        values, shares = self.by_days[days]
        return Fraction(float(shares[: bisect_left(values, float(edge))].sum())).limit_denominator(10**9)

    def edges(self, days: int, buckets: int, unit: str) -> tuple[Fraction, ...]:
        """
        Edges in round numbers between which about equally many values lie; zeros by themselves where they fill one.

        There may be fewer buckets than asked for.
        """
        values, shares = self.by_days[days]
        numbers = round_numbers(max(1.0, float(values[-1])), unit)
        inner: set[Fraction] = set()
        zeros = float(shares[values == 0].sum())
        parts = buckets
        if zeros * buckets >= 1 and zeros < 1:
            inner.add(Fraction(1))
            parts -= 1
        below = np.cumsum(np.where(values > 0, shares, 0) if inner else shares)
        for part in range(1, parts):
            quantile = values[min(len(values) - 1, int(np.searchsorted(below, below[-1] * part / parts)))]
            place = bisect_right(numbers, quantile)
            near = numbers[max(0, place - 1) : place + 1]
            inner.add(min(near, key=lambda number: abs(float(number) - quantile)))
        edges = Fraction(0), *sorted(inner - {numbers[-1]}), numbers[-1]
        return edges if len(edges) > 2 else (*edges, 2 * numbers[-1])
