"""The range of ε that laws are checked on."""

from fractions import Fraction

import pytest


@pytest.fixture(scope="session")
def epsilons() -> list[Fraction]:
    """From 0.001 to 20: dense where plans live, and up to the edges."""
    thousandths = [Fraction(n, 1000) for n in range(1, 100)]
    hundredths = [Fraction(n, 100) for n in range(10, 1000, 3)]
    tenths = [Fraction(n, 10) for n in range(100, 201)]
    thirds = [Fraction(n, 3) for n in range(1, 61)]
    return thousandths + hundredths + tenths + thirds
