"""Losses that are never too small: computed with 100 digits, then rounded up to the next float."""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import wraps
from typing import ParamSpec, TypeVar

from reticent.losses import rounded_up

_DIGITS = Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)
_RELATIVE = Fraction(1, 10**60)
_ABSOLUTE = Fraction(1, 10**80)

Arguments = ParamSpec("Arguments")
AResult = TypeVar("AResult")


def precise(function: Callable[Arguments, AResult]) -> Callable[Arguments, AResult]:
    """A function whose `Decimal` arithmetic has 100 digits, whatever the caller's context says."""

    @wraps(function)
    def inner(*args: Arguments.args, **kwargs: Arguments.kwargs) -> AResult:
        with localcontext(_DIGITS):
            return function(*args, **kwargs)

    return inner


def upward(loss: Decimal | Fraction) -> float:
    """
    The least float that is not below `loss`.

    A `Fraction` is taken as exact. A `Decimal` comes from `precise` arithmetic of 100 digits, so it is first
    raised by 1e-60 of itself and by 1e-80, which is more than any formula here can have lost.

    >>> upward(Fraction(1)), upward(Fraction(3, 10))
    (1.0, 0.30000000000000004)
    """
    if isinstance(loss, Fraction):
        return rounded_up(loss)
    if loss.is_infinite():
        return float(loss)
    return rounded_up(raised(loss))


def raised(loss: Decimal) -> Fraction:
    """`loss` with its possible rounding errors on top."""
    exact = Fraction(loss)
    return exact + abs(exact) * _RELATIVE + _ABSOLUTE


@precise
def decimal(number: Fraction | int) -> Decimal:
    """A rational, to 100 digits."""
    return Decimal(number.numerator) / Decimal(number.denominator)
