"""Exact numbers, thresholds in units of 2⁻⁶⁴, and what the collector sees of a coin: in rationals."""

from decimal import Decimal
from fractions import Fraction
from math import exp, log, tanh

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import (
    SCALE,
    Channel,
    Flip,
    RandomizedResponse,
    exact,
    exponential,
    whole_if_possible,
)

some_epsilon = st.fractions(Fraction(1, 1000), 20, max_denominator=10**9)
some_flip = st.fractions(0, Fraction(49, 100), max_denominator=10**6)
HALF = Fraction(1, 2)


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
            assert Fraction(SCALE - low, low) <= exponential_bounds(epsilon)[0], (
                "the excess is never positive"
            )
            odds = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
            assert low == int(mpmath.ceil(mpmath.mpf(2) ** 64 / (odds + 1)))


def aimed(low: int) -> str:
    """An epsilon as long as a plan may write it, just below ln((2⁶⁴ - low)/low): its threshold is `low` + 1."""
    with mpmath.workdps(90):
        text = mpmath.nstr(mpmath.log(mpmath.mpf(SCALE - low) / low), 80, strip_zeros=False)
    return text[:64]


def is_not_too_small(low: int, epsilon: str) -> bool:
    with mpmath.workdps(90):
        needed = mpmath.mpf(SCALE) / (mpmath.exp(mpmath.mpf(epsilon)) + 1)
        return bool(needed <= low < needed + 2)


def test_the_low_threshold_is_not_too_small_where_epsilon_is_aimed_at_it():
    """The last of 60 digits decides, so every step of the arithmetic has to err on the private side."""
    found = "1.00000000000000023542606150590590467827319588064618737437356662"
    for epsilon in [found, *(aimed(4961093570831980000 + number) for number in range(400))]:
        low = RandomizedResponse(epsilon).low
        assert is_not_too_small(low, epsilon)
        assert not is_not_too_small(low - 1, epsilon)


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
    "number",
    ["0" * 64 + "1e4000", "1e999999999", "1e-999999999", "9" * 65, "1e500", "1e-500", "", Decimal("1e500")],
)
def test_a_number_that_would_fill_the_memory_is_refused_at_once(number):
    with pytest.raises(ParameterError, match="max_value: expected a finite number of sensible size"):
        exact(number, "max_value")


def claimed_ratio(epsilon_odds: Fraction, flip: Fraction) -> Fraction:
    """The paper's e^ε′ (Theorem OP) for e^ε = `epsilon_odds`; it grows with `epsilon_odds`."""
    truth, lie = epsilon_odds / (epsilon_odds + 1), 1 / (epsilon_odds + 1)
    return ((1 - 2 * flip) * truth + flip) / ((1 - 2 * flip) * lie + flip)


@given(epsilon=some_epsilon)
def test_the_excess_is_never_positive_and_no_more_is_given_away_than_one_unit(epsilon, exponential_bounds):
    coin = RandomizedResponse(epsilon)
    below, above = exponential_bounds(epsilon)
    assert Fraction(coin.high, coin.low) <= below
    assert Fraction(coin.high + 1, coin.low - 1) > above, "one unit less noise would break the promise"


@given(epsilon=some_epsilon, flip=some_flip)
def test_the_excess_is_never_positive_after_flips(epsilon, flip, exponential_bounds):
    seen = Flip(flip).channel(RandomizedResponse(epsilon))
    promised = claimed_ratio(exponential_bounds(epsilon)[0], flip)
    assert seen.high / seen.low <= promised
    assert (1 - seen.low) / (1 - seen.high) <= promised


def test_a_flip_rounded_down_would_break_the_promise(exponential_bounds):
    """The test above can fail: with γ = 1/3 floored in a coarse unit the loss exceeds ε′."""
    floored = Flip(0.33)
    seen = floored.channel(RandomizedResponse(1))
    assert seen.high / seen.low > claimed_ratio(exponential_bounds(Fraction(1))[1], Fraction(1, 3))


def test_flipping_is_the_law_of_total_probability():
    flip = Flip(0.2)
    turned = Fraction(flip.threshold, SCALE)
    for threshold in (0, 1, SCALE // 3, SCALE - 1, SCALE):
        one = Fraction(threshold, SCALE)
        assert flip.chance_of_one(threshold) == one * (1 - turned) + (1 - one) * turned


def test_without_a_flip_nothing_changes():
    coin = RandomizedResponse(2)
    assert Flip().channel(coin) == Channel(Fraction(coin.low, SCALE), Fraction(coin.high, SCALE))


def test_erratum_1_windows_loses_0_569_per_round_not_0_686():
    seen = Flip(0.2).channel(RandomizedResponse(1))
    by_equation = log((0.6 * exp(1) / (exp(1) + 1) + 0.2) / (0.6 / (exp(1) + 1) + 0.2))
    assert log(seen.high / seen.low) == pytest.approx(by_equation, rel=1e-14)
    assert by_equation == pytest.approx(0.5694, abs=5e-5)
    lie = RandomizedResponse(1).low / SCALE
    forgot_a_factor = log((1 - lie + 0.2) / (lie + 0.2))
    assert forgot_a_factor == pytest.approx(0.686, abs=5e-4), "the printed figure lacks the factor (1 - 2γ)"


def test_erratum_2_inherits_it():
    seen = Flip(0.2).channel(RandomizedResponse(1))
    ratio = float(seen.high / seen.low)
    assert log(ratio) + ratio - 1 == pytest.approx(1.3367, abs=5e-5)
    assert 0.686 + exp(0.686) - 1 == pytest.approx(1.672, abs=5e-4), "the printed figure"


@given(epsilon=some_epsilon, flip=some_flip)
def test_flips_shrink_the_contrast_by_1_minus_2_gamma(epsilon, flip):
    seen = Flip(flip).channel(RandomizedResponse(epsilon))
    effective = log(seen.high / seen.low)
    assert tanh(effective / 2) == pytest.approx((1 - 2 * float(flip)) * tanh(float(epsilon) / 2), rel=1e-9)
    assert float(seen.contrast) == pytest.approx((1 - 2 * float(flip)) * tanh(float(epsilon) / 2), rel=1e-9)


@given(st.floats(-1, 2), some_epsilon.filter(lambda e: e > Fraction(1, 10)), some_flip)
def test_the_channel_is_undone(truth, epsilon, flip):
    seen = Flip(flip).channel(RandomizedResponse(epsilon))
    assert seen.truth(seen.share(truth)) == pytest.approx(truth, abs=1e-10)


def test_the_channel_takes_arrays():
    seen = Flip(0.1).channel(RandomizedResponse(1))
    truths = np.linspace(0, 1, 11)
    shares = seen.share(truths)
    assert shares.shape == (11,)
    assert shares.tolist() == [seen.share(truth) for truth in truths.tolist()]
    assert seen.truth(shares) == pytest.approx(truths, abs=1e-12)


def test_an_epsilon_that_would_leave_no_contrast_is_refused():
    with pytest.raises(ParameterError, match="epsilon: expected a number above 2\\^-62"):
        RandomizedResponse(Fraction(1, 2**63))
    coin = RandomizedResponse(Fraction(1, 2**60))
    assert coin.low < coin.high


@pytest.mark.parametrize("bad", [HALF, 0.5, 0.7, 1, -0.1])
def test_erratum_10_flip_must_stay_below_one_half(bad):
    with pytest.raises(ParameterError) as caught:
        Flip(bad)
    assert (caught.value.name, caught.value.expected, caught.value.got) == (
        "flip",
        "a probability in [0, 1/2)",
        bad,
    )
    assert "pure noise" in str(caught.value)


def test_a_flip_that_rounds_up_to_a_half_is_refused():
    with pytest.raises(ParameterError, match="flip"):
        Flip(Fraction(1, 2) - Fraction(1, 2**70))
    assert Flip(Fraction(1, 2) - Fraction(1, 2**64)).threshold == 2**63 - 1
