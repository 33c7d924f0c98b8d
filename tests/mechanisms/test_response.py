from fractions import Fraction
from math import exp, log, tanh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Channel, Flip, RandomizedResponse

some_epsilon = st.fractions(Fraction(1, 1000), 20, max_denominator=10**9)
some_flip = st.fractions(0, Fraction(49, 100), max_denominator=10**6)
HALF = Fraction(1, 2)


def claimed_ratio(epsilon_odds: Fraction, flip: Fraction) -> Fraction:
    """The paper's e^ε′ (Theorem OP) for e^ε = `epsilon_odds`; it grows with `epsilon_odds`."""
    truth, lie = epsilon_odds / (epsilon_odds + 1), 1 / (epsilon_odds + 1)
    return ((1 - 2 * flip) * truth + flip) / ((1 - 2 * flip) * lie + flip)


def test_the_excess_is_never_positive_on_a_dense_list(epsilons, exponential_bounds):
    for epsilon in epsilons:
        coin = RandomizedResponse(epsilon)
        assert coin.low + coin.high == SCALE
        assert Fraction(coin.high, coin.low) <= exponential_bounds(epsilon)[0]


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


@pytest.mark.parametrize("unit", [Fraction(1, 3), Fraction(1, 7), Fraction(2, 5), Fraction(1, 5)])
def test_the_flip_probability_is_rounded_up(unit):
    assert Flip(unit).threshold - 1 < unit * SCALE <= Flip(unit).threshold


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


@pytest.mark.parametrize("bad", [0, -1, 41, "nan?", float("inf")])
def test_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ParameterError) as caught:
        RandomizedResponse(bad)
    assert caught.value.name == "epsilon"
    assert caught.value.got in (bad, repr(bad))
    assert "number" in caught.value.expected


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
