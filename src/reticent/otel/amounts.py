"""What the data points of an instrument come to: one number, without attributes and exemplars."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from fractions import Fraction
from math import isinf, isnan
from numbers import Integral
from typing import SupportsFloat

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    ExponentialHistogram,
    Gauge,
    Histogram,
    Sum,
)

Number = Fraction | float
"""Exact, or infinite."""


class Use(Enum):
    """What is done with the numbers of several data points, and with the metric's total of the round."""

    ADDED = "added up, and added to the total"
    LEVEL = "added up, and put in place of the total"
    LARGEST = "the largest put in place of the total"


def read(data: DataT) -> tuple[Use, list[Number]] | None:
    """
    The numbers of an instrument's data points and their use; None where the temporality fits no use.

        increases (counter: delta; histogram: delta, its sum)         ADDED
        levels that add up over attributes (up-down: cumulative)      LEVEL
        levels that do not (gauge)                                    LARGEST

    A cumulative counter would be added again with every export, and a delta of an up-down counter may be
    negative, which no total can take: neither is used. Only `value` and `sum` of a point are ever read.
    """
    if isinstance(data, Gauge):
        return Use.LARGEST, [exact(point.value) for point in data.data_points]
    delta = data.aggregation_temporality == AggregationTemporality.DELTA
    if isinstance(data, Histogram | ExponentialHistogram):
        return (Use.ADDED, [_grown(point.sum) for point in data.data_points]) if delta else None
    if not isinstance(data, Sum) or data.is_monotonic != delta:
        return None
    if delta:
        return Use.ADDED, [_grown(point.value) for point in data.data_points]
    return Use.LEVEL, [exact(point.value) for point in data.data_points]


def together(use: Use, numbers: Iterable[Number]) -> Number:
    """
    One number for several.

    >>> together(Use.LEVEL, [Fraction(5), Fraction(-2)]), together(Use.LARGEST, [Fraction(5), Fraction(7)])
    (Fraction(3, 1), Fraction(7, 1))
    """
    found = list(numbers)
    if use is Use.LARGEST:
        return max(found, default=Fraction(0))
    infinite = [number for number in found if isinstance(number, float)]
    return sum(infinite) if infinite else sum(found, Fraction(0))


def times(number: Number, factor: Fraction) -> Number:
    """A number in another unit; `factor` > 0."""
    return number if isinstance(number, float) else number * factor


def exact(value: object) -> Number:
    """
    A measured number as it is; what is not a number counts as 0, as it does on the device.

    >>> exact(7), exact(0.5), exact(float("nan")), exact(float("-inf")), exact("7")
    (Fraction(7, 1), Fraction(1, 2), Fraction(0, 1), -inf, Fraction(0, 1))
    """
    try:
        if isinstance(value, Integral):
            return Fraction(int(value))
        number = float(value) if isinstance(value, SupportsFloat) else 0.0
    except Exception:  # a number type of the host's own may raise anything
        return Fraction(0)
    if isnan(number):
        return Fraction(0)
    return number if isinf(number) else Fraction(number)


def _grown(value: object) -> Number:
    """An increase; one that is negative (a source that began again) must not take away from the others."""
    return max(exact(value), Fraction(0))
