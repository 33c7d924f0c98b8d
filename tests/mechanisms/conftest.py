"""Rational bounds of e^x, and the range of ε that laws are checked on."""

from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest

Bounds = Callable[[Fraction], tuple[Fraction, Fraction]]


def rational(number: mpmath.mpf) -> Fraction:
    mantissa, exponent = number.man, number.exp
    return Fraction(mantissa) * Fraction(2) ** exponent


@pytest.fixture(scope="session")
def exponential_bounds() -> Bounds:
    """Two rationals with e^x strictly between them, 2·10⁻⁹⁵ apart relative to e^x (mpmath at 100 digits)."""
    slack = Fraction(1, 10**95)

    def bounds(exponent: Fraction) -> tuple[Fraction, Fraction]:
        with mpmath.workdps(100):
            middle = rational(mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator))
        return middle * (1 - slack), middle * (1 + slack)

    return bounds


@pytest.fixture(scope="session")
def epsilons() -> list[Fraction]:
    """From 0.001 to 20: dense where plans live, and up to the edges."""
    thousandths = [Fraction(n, 1000) for n in range(1, 100)]
    hundredths = [Fraction(n, 100) for n in range(10, 1000, 3)]
    tenths = [Fraction(n, 10) for n in range(100, 201)]
    thirds = [Fraction(n, 3) for n in range(1, 61)]
    return thousandths + hundredths + tenths + thirds
