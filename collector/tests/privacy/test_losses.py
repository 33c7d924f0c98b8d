"""Closed forms against mpmath, and the integers never above them."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent_collector.privacy import (
    Losses,
    loss_of_any_histories,
    loss_of_constant_device,
    loss_of_moved_change,
    loss_of_switch,
    loss_per_round,
    losses,
)

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


@pytest.mark.parametrize("function", [loss_of_constant_device, loss_of_moved_change, loss_of_any_histories])
def test_rounds_are_counted_from_one(function):
    with pytest.raises(ParameterError, match="rounds: expected a whole number >= 1, got 0"):
        function(OneBitMean(1, 1), Flip(0), 0)


# Changes; that the figures are the truth is enumerated in collector/tests/laws/test_changes.py.

FLIP = Flip("0.2")


@pytest.mark.parametrize(
    ("half", "up", "down"), [(1, 0.94, 1.30), (2, 2.19, 2.00), (5, 6.31, 2.31), (15, 20.2, 2.31)]
)
def test_switches_of_the_notes(half, up, down):
    """The notes' numbers are those of the finest grid, where two cells are as good as equal."""
    mechanism = OneBitMean(1, grid=Grid([0, 1, 10**15]))
    loss = loss_of_switch(mechanism, FLIP, half, half)
    assert loss.switched_over_constant == pytest.approx(up, rel=5e-3)
    assert loss.constant_over_switched == pytest.approx(down, rel=5e-3)
    assert loss.worst == max(loss.switched_over_constant, loss.constant_over_switched)
    coarse = loss_of_switch(OneBitMean(1, 1), FLIP, half, half)
    assert coarse.constant_over_switched < loss.constant_over_switched


def test_long_switches_grow_by_lambda_and_stay_below_their_limit():
    mechanism = OneBitMean(1, grid=Grid([0, 1, 10**15]))
    p = 1 / (1 + math.exp(-1))
    loss = loss_of_switch(mechanism, FLIP, 200, 200)
    assert loss.switched_over_constant == pytest.approx(200 * math.log(4) + 2 * math.log(p), rel=1e-12)
    uneven = loss_of_switch(mechanism, FLIP, 200, 300)  # the longer part tells the constant device's bit
    expected = 200 * math.log(4) + 2 * math.log(p) - math.log(1 - p)
    assert uneven.switched_over_constant == pytest.approx(expected, rel=1e-12)
    assert loss.constant_over_switched == pytest.approx(1 + math.log(math.e + 1), rel=1e-12)


def test_wide_histograms_are_quick_and_count_every_bit():
    wide = DBitFlip(1, Buckets.even(64, 64), 32)
    loss = loss_of_switch(wide, FLIP, 10, 10)
    assert loss.switched_over_constant > 30 * 10 * math.log(4) / 2
    assert loss_of_switch(wide, Flip(0), 1, 1).worst == math.inf


def test_any_histories_by_hand():
    figure = loss_of_any_histories(OneBitMean(1, 1), FLIP, 9)
    assert figure == pytest.approx(2 * math.log(math.e + 1) + 4 * math.log(4), rel=1e-14)
    assert loss_of_any_histories(HadamardBit(1, Buckets.even(4, 4)), FLIP, 9) == figure
    two_bits = loss_of_any_histories(DBitFlip(1, Buckets.even(4, 4), 2), FLIP, 9)
    assert two_bits == pytest.approx(2 * (3 * math.log(math.exp(0.5) + 1) + 4 * math.log(4)), rel=1e-14)


def test_one_round_is_one_round_with_flips_or_without():
    for flip in (FLIP, Flip(0)):
        assert loss_of_any_histories(OneBitMean(1, 1), flip, 1) == loss_per_round(OneBitMean(1, 1), flip)
    assert loss_of_any_histories(OneBitMean(1, 1), Flip(0), 2) == math.inf


def test_near_one_half_flips_alone_bound_it():
    flip = Flip("0.499")
    figure = loss_of_any_histories(OneBitMean(5, 1), flip, 10)
    assert figure == pytest.approx(10 * math.log(0.501 / 0.499), rel=1e-12)


def test_the_rate_of_one_step_grids_is_half_of_lambda():
    rounds = 10_000
    figure = loss_of_any_histories(OneBitMean(1, 1), FLIP, rounds)
    assert figure / rounds == pytest.approx(math.log(4) / 2, rel=1e-3)


def test_impossible_switches():
    with pytest.raises(ParameterError, match="before, after: expected whole numbers >= 1"):
        loss_of_switch(OneBitMean(1, 1), FLIP, 0, 3)
