"""
Exact numbers: rationals for parameters, integers in units of 2⁻⁶⁴ for probabilities.

Floating point decides nothing on a device. A parameter is a rational; e^ε is computed once with
`decimal` at 60 digits, and what a coin is compared with is an integer, rounded to the private side.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from reticent.errors import ParameterError

SCALE = 1 << 64
"""One whole, in the unit of every threshold: a draw is uniform in {0, …, 2⁶⁴ - 1}."""

Number = int | float | str | Decimal | Fraction

_DIGITS = Context(prec=60)
_CEILING = Context(prec=60, rounding=ROUND_CEILING)


def exact(number: Number, name: str = "number") -> Fraction:
    """
    The rational a person meant by `number`: 0.1 is one tenth, "1/3" is one third.

    >>> exact(0.1), exact("1/3"), exact(2)
    (Fraction(1, 10), Fraction(1, 3), Fraction(2, 1))
    """
    try:
        if isinstance(number, float):
            return Fraction(repr(float(number)))
        if isinstance(number, str):
            if len(number) > 64:
                raise ValueError
            number = Fraction(number) if "/" in number else Decimal(number)
        if isinstance(number, Decimal) and not -400 < number.adjusted() < 400:
            raise ValueError
        return Fraction(number)
    except (ValueError, ArithmeticError, TypeError):
        text = repr(number)
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ParameterError(name, "a finite number of sensible size", shown) from None


def whole_if_possible(number: Fraction) -> int | Fraction:
    """An integer where the rational is one: integers compare ten times faster."""
    return number.numerator if number.denominator == 1 else number


@lru_cache(maxsize=1024)
def exponential(exponent: Fraction) -> Decimal:
    """
    e^exponent to 60 significant digits.

    >>> str(exponential(Fraction(1)))[:22]
    '2.71828182845904523536'
    """
    quotient = _DIGITS.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    return _DIGITS.exp(quotient)


@lru_cache(maxsize=1024)
def low_threshold(epsilon: Fraction) -> int:
    """
    ⌈2⁶⁴ / (e^ε + 1)⌉: the chance of a lie, rounded up, so that privacy never loses by rounding.

    e^ε is irrational for every rational ε > 0 (Lindemann), so the ceiling is never a close call
    within the 40 digits to spare.
    """
    quotient = _CEILING.divide(Decimal(SCALE), _CEILING.add(exponential(epsilon), Decimal(1)))
    return int(quotient.to_integral_value(rounding=ROUND_CEILING))


def ceil_scaled(probability: Fraction) -> int:
    """⌈probability · 2⁶⁴⌉."""
    return -((-probability.numerator * SCALE) // probability.denominator)
