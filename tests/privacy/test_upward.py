import math
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.privacy import compose, decimal, precise, upward


@settings(deadline=None)
@given(st.fractions(min_value=0, max_value=1000))
def test_upward_is_the_least_float_that_is_not_below(number):
    figure = upward(number)
    assert figure >= number
    assert figure == 0 or math.nextafter(figure, -math.inf) < number


@settings(deadline=None)
@given(st.decimals(min_value=Decimal("1e-30"), max_value=1000, allow_nan=False))
def test_a_decimal_is_raised_first(number):
    figure = upward(number)
    assert figure > number  # even where the decimal is a float: it may have been rounded down
    assert figure == pytest.approx(float(number), rel=1e-15)


def test_infinity_stays():
    assert upward(Decimal("Infinity")) == math.inf
    assert compose([1.0, math.inf]) == math.inf


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0, max_value=50), max_size=30))
def test_composed_losses_are_never_below_their_sum(terms):
    total = compose(terms)
    assert total >= sum((Fraction(term) for term in terms), Fraction(0))
    assert total == pytest.approx(math.fsum(terms), rel=1e-15)


def test_precision_does_not_depend_on_the_caller():
    with localcontext() as context:
        context.prec = 3
        assert abs(Fraction(decimal(Fraction(1, 3))) - Fraction(1, 3)) < Fraction(1, 10**99)
        assert precise(lambda: getcontext().prec)() == 100
        assert getcontext().prec == 3
