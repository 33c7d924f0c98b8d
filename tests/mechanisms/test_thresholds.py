from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Flip, RandomizedResponse, exact, exponential, whole_if_possible

some_epsilon = st.fractions(Fraction(1, 1000), 20, max_denominator=10**9)


def test_a_number_means_what_a_person_wrote():
    assert exact(0.1) == exact("0.1") == exact(Decimal("0.1")) == Fraction(1, 10)
    assert exact(0.1) != Fraction(0.1), "the binary neighbour of one tenth is not what anyone means"
    assert exact("1/3") == Fraction(1, 3)
    assert exact(7) == 7


@given(st.integers(-(10**12), 10**12), st.integers(0, 12))
def test_decimal_literals_survive(digits, places):
    literal = str(Decimal(digits).scaleb(-places))
    assert exact(literal) == Fraction(digits, 10**places)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_comes_back_as_itself(number):
    assert float(exact(number)) == number


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "one", None, [], "1/0"])
def test_what_is_not_a_number_is_refused_by_name(bad):
    with pytest.raises(ParameterError) as caught:
        exact(bad, "step")
    assert (caught.value.name, caught.value.got) == ("step", repr(bad))
    assert "a finite number" in caught.value.expected
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("bad", ["1e500", "1e-500", "1e999999999", Decimal("1e500")])
def test_a_number_that_would_fill_the_memory_is_refused(bad):
    with pytest.raises(ParameterError, match="max_value: expected a finite number"):
        exact(bad, "max_value")


@given(some_epsilon)
def test_exponential_has_58_good_digits(epsilon):
    with mpmath.workdps(80):
        true = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        ours = mpmath.mpf(str(exponential(epsilon)))
        assert abs(ours / true - 1) < mpmath.mpf(10) ** -58


def is_the_ceiling(low: int, epsilon: Fraction, exponential_bounds) -> bool:
    """Whether low = ⌈2⁶⁴/(e^ε + 1)⌉, decided in rationals: (low - 1)(e^ε + 1) < 2⁶⁴ ≤ low·(e^ε + 1)."""
    below, above = exponential_bounds(epsilon)
    return (low - 1) * (above + 1) < SCALE <= low * (below + 1)


@given(epsilon=some_epsilon)
def test_low_threshold_is_the_ceiling(epsilon, exponential_bounds):
    low = RandomizedResponse(epsilon).low
    assert is_the_ceiling(low, epsilon, exponential_bounds)
    assert not is_the_ceiling(low - 1, epsilon, exponential_bounds)
    assert not is_the_ceiling(low + 1, epsilon, exponential_bounds)


def test_the_low_threshold_agrees_on_a_dense_list(epsilons, exponential_bounds):
    """With rational bounds, and with mpmath at 80 digits."""
    with mpmath.workdps(80):
        for epsilon in epsilons:
            low = RandomizedResponse(epsilon).low
            assert is_the_ceiling(low, epsilon, exponential_bounds)
            odds = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
            assert low == int(mpmath.ceil(mpmath.mpf(2) ** 64 / (odds + 1)))


@given(st.fractions(0, Fraction(49, 100)))
def test_the_threshold_of_a_flip_is_the_least_integer_not_below(probability):
    threshold = Flip(probability).threshold
    assert threshold - 1 < probability * SCALE <= threshold


@given(st.fractions())
def test_whole_numbers_become_integers(number):
    converted = whole_if_possible(number)
    assert converted == number
    assert isinstance(converted, int) == (number.denominator == 1)


@pytest.mark.parametrize(
    "text", ["0" * 64 + "1e4000", "1e999999999", "1e-999999999", "9" * 65, "1/0", "one", ""]
)
def test_a_text_that_would_fill_the_memory_is_refused_at_once(text):
    with pytest.raises(ParameterError, match="sensible size"):
        exact(text)
