"""Numbers of three significant digits, and the first or last of them that will do."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log10
from typing import TypeVar

Rung = TypeVar("Rung")


@lru_cache(maxsize=16)
def ladder(low: Fraction, high: Fraction) -> tuple[Fraction, ...]:
    """
    All numbers of three significant digits from `low` to `high`, in order.

    >>> [str(rung) for rung in ladder(Fraction("0.998"), Fraction("1.02"))]
    ['499/500', '999/1000', '1', '101/100', '51/50']
    """
    decades = range(_decade(low), _decade(high) + 1)
    rungs = (digits * Fraction(10) ** (decade - 2) for decade in decades for digits in range(100, 1000))
    return tuple(rung for rung in rungs if low <= rung <= high)


def rounded_up(number: Fraction) -> Fraction:
    """
    The least number of three significant digits that is not below a positive `number`.

    >>> float(rounded_up(Fraction("241.83"))), int(rounded_up(Fraction(9999)))
    (242.0, 10000)
    """
    unit = Fraction(10) ** (_decade(number) - 2)
    return ceil(number / unit) * unit


def first(rungs: Sequence[Rung], will_do: Callable[[Rung], bool]) -> Rung | None:
    """
    The first rung that will do, where all above it do as well; None when none does.

    >>> first([1, 2, 3, 4], lambda rung: rung * rung >= 5)
    3
    """
    place = bisect_left(rungs, True, key=will_do)
    return rungs[place] if place < len(rungs) else None


def last(rungs: Sequence[Rung], will_do: Callable[[Rung], bool]) -> Rung | None:
    """
    The last rung that will do, where all below it do as well; None when none does.

    >>> last([1, 2, 3, 4], lambda rung: rung * rung <= 5)
    2
    """
    place = bisect_left(rungs, True, key=lambda rung: not will_do(rung))
    return rungs[place - 1] if place else None


def _decade(number: Fraction) -> int:
    """The power of ten at or below a positive number: log10 may be off by one, the comparison is not."""
    guess = floor(log10(number.numerator) - log10(number.denominator))
    return guess + (number >= Fraction(10) ** (guess + 1)) - (number < Fraction(10) ** guess)
