"""Closed forms against mpmath, and the integers never above them."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.privacy import Losses, loss_of_constant_device, loss_of_moved_change, loss_per_round, losses

EPSILONS = st.decimals(min_value="0.001", max_value=20, places=4)
GAMMAS = st.decimals(min_value=0, max_value="0.499", places=4)


def by_mpmath(epsilon, gamma, rounds):
    """ε_T from the definition: the ratio of the probabilities of T ones."""
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(str(epsilon))))
        g = mpmath.mpf(str(gamma))
        one, zero = (1 - g) ** rounds, g**rounds
        return mpmath.log((p * one + (1 - p) * zero) / ((1 - p) * one + p * zero))


@settings(deadline=None)
@given(EPSILONS, GAMMAS, st.integers(1, 40))
def test_constant_devices(epsilon, gamma, rounds):
    figure = loss_of_constant_device(OneBitMean(epsilon, 1), Flip(gamma), rounds)
    expected = by_mpmath(epsilon, gamma, rounds)
    with mpmath.workdps(60):
        assert (
            expected * (1 - mpmath.mpf("1e-50")) <= mpmath.mpf(figure) <= expected * (1 + mpmath.mpf("5e-16"))
        )


@settings(deadline=None)
@given(EPSILONS, GAMMAS)
def test_the_integers_lose_no_more(epsilon, gamma):
    mechanism, flip = OneBitMean(epsilon, 1), Flip(gamma)
    seen = flip.channel(mechanism.response)
    with mpmath.workdps(60):
        ratio = seen.high / seen.low
        exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        figure = mpmath.mpf(loss_per_round(mechanism, flip))
        assert exact <= figure <= exact * (1 + mpmath.mpf("1e-9"))


def test_the_numbers_of_the_notes():
    mechanism, flip = OneBitMean(1, 1), Flip("0.2")
    figures = [loss_of_constant_device(mechanism, flip, rounds) for rounds in (1, 2, 3, 5, 10)]
    assert figures == pytest.approx([0.569, 0.866, 0.964, 0.998, 1.0], abs=6e-4)
    assert loss_of_constant_device(mechanism, flip, 10**9) == 1.0


def test_the_card_of_each_mechanism():
    buckets, flip = Buckets.even(24, 8), Flip("0.2")
    change = math.log(4)
    whole, half = (float(by_mpmath(epsilon, "0.2", 1)) for epsilon in (1, "0.5"))
    cards = {
        OneBitMean(1, 24): (whole, 1, 2, change),
        DBitFlip(1, buckets, 1): (whole, 1, 2, change),
        DBitFlip(1, buckets, 1, "paper"): (half, 0.5, 1, change),
        DBitFlip(1, buckets, 4): (2 * half, 1, 4, 4 * change),
        DBitFlip(1, buckets, 4, "paper"): (2 * half, 1, 4, 4 * change),
        DBitFlip(1, buckets, 8): (2 * half, 1, 8, 8 * change),
        HadamardBit(1, buckets): (whole, 1, 2, change),
    }
    for mechanism, expected in cards.items():
        card = losses(mechanism, flip)
        assert (card.round, card.constant, card.lifetime, card.change_per_round) == pytest.approx(
            expected, rel=1e-14
        )


def test_without_flips_a_change_shows():
    card = losses(OneBitMean(1, 1), Flip(0))
    assert card == Losses(1, 1, 2, math.inf, math.inf)
    assert losses(OneBitMean(1, 1), Flip(0), rounds=1).any_history == 1


@settings(deadline=None)
@given(GAMMAS.filter(lambda gamma: gamma > 0), st.integers(1, 9))
def test_moved_changes(gamma, rounds):
    with mpmath.workdps(50):
        expected = rounds * mpmath.log((1 - mpmath.mpf(str(gamma))) / mpmath.mpf(str(gamma)))
        figure = mpmath.mpf(loss_of_moved_change(OneBitMean(1, 1), Flip(gamma), rounds))
        assert expected <= figure <= expected * (1 + mpmath.mpf("5e-16"))


@pytest.mark.parametrize("function", [loss_of_constant_device, loss_of_moved_change])
def test_rounds_are_counted_from_one(function):
    with pytest.raises(ParameterError, match="rounds: expected a whole number >= 1, got 0"):
        function(OneBitMean(1, 1), Flip(0), 0)
