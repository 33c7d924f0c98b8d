import math
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.losses import compose, printed
from reticent_collector.privacy import upward
from reticent_collector.privacy.rounding import decimal, precise


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
        assert [printed(loss) for loss in (0.569441, 2.0, 12_345.1)] == ["0.5695", "2.0", "12,346"]


@settings(deadline=None)
@given(st.fractions(min_value=0, max_value=100_000), st.integers(2, 6))
def test_a_printed_figure_is_never_below_the_loss(number, digits):
    """Finding 11: neither what is printed nor what the float stands for is rounded down."""
    text = printed(upward(number), digits).replace(",", "")
    shown = Fraction(text)
    assert shown >= number * (1 - Fraction(1, 10**15))
    assert shown <= max(number * (1 + Fraction(1, 10 ** (digits - 1))), number + (number >= 10**digits))


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (0.0, "0.0"), (1.0, "1.0"), (2.0, "2.0"), (12.0, "12"), (0.5694409, "0.5695"), (1.3862944, "1.387"),
        (0.56940000001, "0.5695"), (999.91, "1,000"), (1000.0, "1,000"), (1014.62, "1,015"), (1e-7, "0.0000001"),
        (upward(Fraction(3, 10)), "0.3"), (compose([0.1] * 3), "0.3"), (compose([0.1] * 10), "1.0"),
        (1.0 + 1e-14, "1.001"), (math.inf, "infinite"),
    ],
)  # fmt: skip
def test_printed_figures(loss, text):
    assert printed(loss) == text
