"""Losses that are never too small: computed with 100 digits, then rounded up to the next float."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import wraps
from typing import ParamSpec, TypeVar

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
        return _at_least(loss)
    if loss.is_infinite():
        return float(loss)
    return _at_least(raised(loss))


def raised(loss: Decimal) -> Fraction:
    """`loss` with its possible rounding errors on top."""
    exact = Fraction(loss)
    return exact + abs(exact) * _RELATIVE + _ABSOLUTE


def _at_least(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


@precise
def printed(loss: float, digits: int = 4) -> str:
    """
    A loss for people, rounded up to `digits` significant digits, to within 1e-15 of the loss.

    A float here was itself rounded up from the loss it stands for (ε = 0.3 is 0.30000000000000004), by at most
    a few units in its last place: so far, 1e-15 of it, it is taken back first. A loss that exceeds a short figure
    by less than that is printed as that figure: 1.0000000000000005 as 1.0.

    >>> [printed(loss) for loss in (0.569441, 2.0, 1014.6, 12_345.1, math.inf)]
    ['0.5695', '2.0', '1,015', '12,346', 'infinite']
    """
    if math.isinf(loss):
        return "infinite"
    exact = Decimal(loss) * (1 - Decimal("1e-15"))
    if not exact:
        return "0.0"
    unit = Decimal(1).scaleb(min(exact.adjusted() + 1 - digits, 0))
    rounded = exact.quantize(unit, ROUND_CEILING).normalize()
    if rounded >= 10 or rounded != rounded.to_integral():
        return f"{rounded:,f}"
    return f"{rounded:.1f}"


def compose(losses: Iterable[float]) -> float:
    """
    The loss of several answers together: the sum of their losses, rounded up (sequential composition).

    Claim: if each of several answers is ε_i-LDP over some pairs of inputs, and their coins are independent,
    then all of them together are (Σ ε_i)-LDP over inputs that differ in any or all of these pairs. The coins
    of different metrics and epochs are independent, so this covers metrics that do not share a limit, and
    epochs of one metric. Counters that share a limit lose less: `joint_limit_loss`. Not covered: rounds of
    one remembered answer, whose coins are *not* independent; those have functions of their own.

    >>> compose([0.5, 0.25]), compose([0.1] * 10) >= 1
    (0.75, True)
    """
    terms = list(losses)
    if any(math.isinf(term) for term in terms):
        return math.inf
    return _at_least(sum((Fraction(term) for term in terms), Fraction(0)))


@precise
def decimal(number: Fraction | int) -> Decimal:
    """A rational, to 100 digits."""
    return Decimal(number.numerator) / Decimal(number.denominator)
