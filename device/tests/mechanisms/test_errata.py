"""
Errata of the paper that concern its proofs and claims rather than one module, each as a computed fact.

Those that concern one module are tested beside it; docs/explanation/errata.md lists all of them.
"""

from fractions import Fraction
from itertools import product
from math import exp, log, sqrt, tanh

import numpy as np
import pytest

from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, OneBitMean, RandomizedResponse

LIE = 1 / (exp(1) + 1)
TRUTH = 1 - LIE


def test_erratum_4_the_factor_2_is_needed():
    """One fair bit is always 1/2 away from its mean; the printed bound says: at most 61% of the time."""
    share, printed = 1.0, exp(-2 * 0.5**2 / 1)
    assert printed == pytest.approx(0.607, abs=5e-4)
    assert share > printed
    assert share <= 2 * printed


def papers_histogram_bound(n: int, k: int, d: int, epsilon: float, delta: float) -> float:
    return sqrt(5 * k / (n * d)) / tanh(epsilon / 4) * sqrt(log(6 * k / delta))


def test_erratum_6_theorem_2_fails_for_a_tiny_fleet():
    """n = 1, k = 100, d = 1, ε = 2 ln 3: any answer 1 errs by 149 or 150, more often than δ = 0.2 allows."""
    mechanism = DBitFlip(Fraction(2 * log(3)).limit_denominator(10**12), Buckets.even(100, 100), 1, "paper")
    high = mechanism.response.high / SCALE
    assert high == pytest.approx(3 / 4, rel=1e-9)
    from_a_one = 100 * (1 - (1 - high)) / (2 * high - 1)
    assert from_a_one == pytest.approx(150)
    chance_of_one = 1 / 100 * high + 99 / 100 * (1 - high)
    bound = papers_histogram_bound(1, 100, 1, 2 * log(3), 0.2)
    assert bound == pytest.approx(126.5, abs=0.05)
    assert from_a_one - 1 > bound
    assert chance_of_one == pytest.approx(0.255)
    assert chance_of_one > 0.2
    assert log(6 * 100 / 0.2) / 4 > 1 * 1 / 100, "the condition under which the theorem does hold"


def test_erratum_7_the_big_o_needs_a_small_epsilon():
    """coth(ε/4) falls to 1 and no further, where the printed order wants 4/ε: 2.5 times less at ε = 10."""
    assert 1 / tanh(10 / 4) == pytest.approx(1.0136, abs=5e-5)
    assert 1 / tanh(10 / 4) / (4 / 10) == pytest.approx(2.53, abs=5e-3)
    assert 1 / tanh(0.1 / 4) / (4 / 0.1) == pytest.approx(1, abs=1e-3)


def worst_joint_loss(tau: float, counters: int, parts: int) -> float:
    """Every pair of vectors on a lattice with Σ ≤ m, every vector of answers: the largest log-ratio."""
    vectors = [v for v in product(range(parts + 1), repeat=counters) if sum(v) <= parts]
    mechanism = OneBitMean(tau, max_value=parts)
    ones = mechanism.probability_of_one(np.array(vectors))
    worst = 0.0
    for answers in product((0, 1), repeat=counters):
        chances = np.where(np.array(answers) == 1, ones, 1 - ones).prod(axis=1)
        worst = max(worst, log(chances.max() / chances.min()))
    return worst


@pytest.mark.parametrize(("counters", "loss"), [(1, 1.0), (2, 2.0), (3, 2.2402)])
def test_erratum_12_the_exact_loss_of_several_counters(counters, loss):
    """By search over a lattice that holds the worst pair, τ = 1; printed is 2.718 for any number."""
    worst = worst_joint_loss(1, counters, parts=6)
    assert worst == pytest.approx(loss, abs=5e-5)
    if counters > 1:
        assert worst == pytest.approx(1 + (counters - 1) * log(1 + (exp(1) - 1) / (counters - 1)), rel=1e-12)
    assert worst <= 1 + exp(1) - 1


def test_erratum_14_the_worst_pair_has_zeros():
    """x = (0, m/2, m/2) against y = (m, 0, 0) with answers (0, 1, 1): not "non-zero", as the proof has it."""
    one = OneBitMean(1, max_value=2).probability_of_one
    ratio = (1 - one(0)) * one(1) ** 2 / ((1 - one(2)) * one(0) ** 2)
    assert log(ratio) == pytest.approx(worst_joint_loss(1, 3, parts=6), rel=1e-12)


def test_erratum_13_the_loss_of_several_counters_is_not_minor():
    seen = Flip(0.2).channel(RandomizedResponse(1))
    tau = log(seen.high / seen.low)
    assert (tau + exp(tau) - 1) / tau == pytest.approx(2.35, abs=5e-3)
    assert 1 + 9 * log(1 + (exp(1) - 1) / 9) == pytest.approx(2.573, abs=1e-3), (
        "ten steady counters, all rounds"
    )


def test_erratum_21_a_third_replaces_the_value():
    """γ = 1/3: with chance 2γ the answer is a fair coin, as a value uniform in [0, m] would send."""
    mechanism, flip = OneBitMean(1, max_value=24), Flip("1/3")
    for value in (0, 6, 24):
        threshold = int(mechanism.probability_of_one(value) * SCALE)
        seen = float(flip.chance_of_one(threshold))
        assert seen == pytest.approx(1 / 3 * mechanism.probability_of_one(value) + 2 / 3 * 0.5, rel=1e-12)
    uniform = mechanism.probability_of_one(np.linspace(0, 24, 100_001)).mean()
    assert uniform == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("devices", [1_000, 100_000])
def test_erratum_25_theorem_1_is_for_values_that_do_not_follow_the_coins(devices):
    """Were each value chosen after its coin, the error would be (q + 1/2)·m = 0.77·m, whatever n is."""
    coins = (np.arange(devices) + 0.5) / devices
    smallest_yes = np.clip((coins - LIE) / (TRUTH - LIE), 0, 1)
    bits = coins < TRUTH
    values = np.where(bits, smallest_yes, 0)
    error = ((bits - LIE) / (TRUTH - LIE) - values).mean()
    assert error == pytest.approx(LIE + 0.5, abs=2 / devices)
    assert error > 1 / tanh(0.5) / sqrt(2 * devices) * sqrt(log(2 / 0.05)), "the bound of Theorem 1 at 95%"


def test_theorem_1_is_meant_with_the_natural_logarithm():
    """Hoeffding's half-width at 95% is 1.386 times Wald's at P = 1/2 with ln; with log₁₀ it is below."""
    assert sqrt(log(2 / 0.05) / 2) / (1.959964 / 2) == pytest.approx(1.386, abs=5e-4)
    assert sqrt(log(2 / 0.05, 10) / 2) / (1.959964 / 2) < 1
