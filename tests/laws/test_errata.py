"""Errata of the paper that are about privacy, each recomputed (E9 is in test_changes)."""

from fractions import Fraction
from math import prod

import mpmath
import pytest

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, Grid, OneBitMean
from reticent.privacy import joint_limit_loss, loss_per_round, paper_joint_limit_loss


def test_e1_and_e2_the_deployed_figures():
    mechanism, flip = OneBitMean(1, 21_600), Flip("0.2")
    p = mpmath.e / (mpmath.e + 1)
    q = 1 - p
    printed = mpmath.log((p + 0.2) / (q + 0.2))  # the factor 1 - 2γ left out
    assert round(float(printed), 3) == 0.686
    assert loss_per_round(mechanism, flip) == pytest.approx(
        float(mpmath.log((0.6 * p + 0.2) / (0.6 * q + 0.2))), rel=1e-14
    )
    assert round(float(0.686 + mpmath.exp(0.686) - 1), 3) == 1.672  # and then carried on
    assert round(paper_joint_limit_loss(mechanism, flip), 3) == 1.337


def test_e12_the_printed_joint_bound_is_the_limit_of_many_counters():
    mechanism, flip = OneBitMean(1, 100), Flip("0.2")
    printed = paper_joint_limit_loss(mechanism, flip)
    exact = [joint_limit_loss([mechanism] * t, [flip] * t, 100) for t in (1, 2, 3, 10, 100, 1000)]
    assert exact == sorted(exact)
    assert all(figure < printed for figure in exact)
    assert printed - exact[-1] < 1e-3
    assert exact[1] == pytest.approx(2 * loss_per_round(mechanism, flip), rel=1e-15)


def test_e16_a_top_cell_above_the_range_would_break_privacy():
    coin = OneBitMean(1, 50).response
    top = Fraction(60, 50)  # steps of 20 up to 60, on a range of 50
    chance = coin.low + top * (coin.high - coin.low)
    assert mpmath.nstr(mpmath.log(mpmath.mpf(int(chance)) / coin.low), 4) == "1.119"
    with pytest.raises(ParameterError, match="divides max_value"):
        Grid.even(50, 20)


@pytest.mark.parametrize(("epsilon", "sharers"), [(1, 2.5), (10, 0.18)])
def test_e20_how_many_buckets_share_a_response(epsilon, sharers):
    """Expected others that answer as a sampled bucket typically does: not Ω(k/2^d) once ε is large."""
    mechanism = DBitFlip(epsilon, Buckets.even(32, 32), 4, "paper")
    asked = mechanism.rows_of(0)
    typical = [one > SCALE // 2 for one in mechanism.thresholds(asked[0], 0)]
    others = [bucket for bucket in range(32) if bucket not in asked]
    expected = sum(
        prod(
            one if bit else SCALE - one
            for one, bit in zip(mechanism.thresholds(bucket, 0), typical, strict=True)
        )
        / SCALE**4
        for bucket in others
    )
    assert sum(typical) == 1
    assert expected == pytest.approx(sharers, rel=0.04)
