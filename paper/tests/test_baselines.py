"""Mechanisms of other authors: exactly as private as they say, and unbiased."""

import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import cosh, exp, log, prod, sqrt, tanh

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, Channel, DBitFlip
from reticent_paper.baselines import BinFlip, BinFlipPlus, KFlip, Laplace, NaiveMemo

LIGHT = {
    BinFlip: {"0.5": 15.9, "1": 3.92, "2": 0.921, "5": 0.097},
    KFlip: {"0.5": 75, "1": 11.1, "2": 0.916, "5": 0.0082},
}
"""n·Var of a light bucket out of 32, as published for these mechanisms."""


def test_the_standard_library_is_enough_and_a_device_never_loads_them():
    code = """
import sys, reticent.mechanisms
print('reticent_paper.baselines' in sys.modules)
import reticent_paper.baselines
print(sorted({'numpy', 'scipy'} & set(sys.modules)))
"""
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout == "False\n[]\n"


@pytest.mark.parametrize(
    ("make", "name", "got"),
    [
        (lambda: Laplace(0, 24), "epsilon", 0),
        (lambda: Laplace(1, 0), "max_value", 0),
        (lambda: Laplace(1, "wide"), "max_value", "'wide'"),
        (lambda: KFlip(1, 2.5), "buckets", 2.5),
        *(
            (lambda kind=kind, epsilon=epsilon, buckets=buckets: kind(epsilon, buckets), name, got)
            for kind in (BinFlip, KFlip, BinFlipPlus, NaiveMemo)
            for epsilon, buckets, name, got in (
                (0, 4, "epsilon", 0), (-1, 4, "epsilon", -1), (41, 4, "epsilon", 41), (1, 1, "buckets", 1)
            )
        ),
    ],
)  # fmt: skip
def test_bad_parameters(make, name, got):
    with pytest.raises(ParameterError) as caught:
        make()
    assert (caught.value.name, caught.value.got) == (name, got)
    assert caught.value.expected


@pytest.mark.parametrize(
    ("kind", "epsilon", "published"),
    [(kind, epsilon, number) for kind, row in LIGHT.items() for epsilon, number in row.items()],
)
def test_variance_of_a_light_bucket_is_the_published_one(kind, epsilon, published):
    digits = 5e-4 if published < 0.1 else 5e-3 * max(1, published)
    if kind is KFlip:
        digits = 7e-3 * published
    assert kind(epsilon, 32).variance(0) == pytest.approx(published, abs=digits)


# Laplace


def one_bit_variance(epsilon: float, share: float) -> float:
    """n·Var of 1BitMean at x = share·m, in units of m²: coth²(ε/2)/4 - (x/m - 1/2)²."""
    return 1 / tanh(epsilon / 2) ** 2 / 4 - (share - 0.5) ** 2


@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_the_largest_ratio_is_e_to_the_epsilon(epsilon):
    mechanism = Laplace(epsilon, 24)
    answers = np.linspace(-50, 74, 1241)
    values = np.linspace(0, 24, 25)[:, None]
    logs = stats.laplace.logpdf(answers, loc=values, scale=mechanism.scale)
    assert (logs.max(axis=0) - logs.min(axis=0)).max() == pytest.approx(epsilon, rel=1e-12)
    assert mechanism.loss == epsilon


def test_variance_is_that_of_the_noise():
    mechanism = Laplace(2, 10)
    assert mechanism.variance() == pytest.approx(stats.laplace(scale=5).var())


def test_erratum_22_one_bit_is_not_consistently_better():
    at_zero = [
        one_bit_variance(epsilon, 0) < Laplace(epsilon, 1).variance() for epsilon in (0.1, 1, 2, 5, 10)
    ]
    assert all(at_zero)
    crossing = brentq(lambda epsilon: one_bit_variance(epsilon, 0.5) - Laplace(epsilon, 1).variance(), 1, 5)
    assert crossing == pytest.approx(2.32, abs=5e-3)
    assert sqrt(one_bit_variance(10, 0.5) / Laplace(10, 1).variance()) == pytest.approx(3.5, abs=0.05)
    assert sqrt(one_bit_variance(10, 0.5) / one_bit_variance(10, 0)) == pytest.approx(74, abs=0.5)


# KFlip


@pytest.mark.parametrize("epsilon", ["0.01", "1", "5", "20"])
@pytest.mark.parametrize("buckets", [2, 3, 32])
def test_probabilities_sum_to_one_and_their_ratio_is_e_to_the_epsilon(epsilon, buckets, exponential_bounds):
    channel = KFlip(epsilon, buckets).channel
    assert channel.high + (buckets - 1) * channel.low == 1
    below, above = exponential_bounds(Fraction(epsilon))
    slack = Fraction(1, 10**57)  # the 60 digits of e^ε
    assert below * (1 - slack) <= channel.high / channel.low <= above * (1 + slack)
    assert KFlip(epsilon, buckets).loss == pytest.approx(float(epsilon), rel=1e-13)


@pytest.mark.parametrize("values", [(0, 0, 1), (1, 2, 2), (0, 0, 0)])
def test_k_flip_estimate_and_variance_by_enumeration(values):
    """Three devices, three buckets: all 27 answers."""
    mechanism = KFlip(1, 3)
    mean, square = np.zeros(3), np.zeros(3)
    for named in product(range(3), repeat=3):
        weight = prod(
            float(mechanism.channel.share(1 * (v == j))) for v, j in zip(values, named, strict=True)
        )
        estimate = mechanism.estimate(np.bincount(named, minlength=3) / 3)
        mean += weight * estimate
        square += weight * estimate**2
    truth = np.bincount(values, minlength=3) / 3
    assert mean == pytest.approx(truth, abs=1e-12)
    assert square - mean**2 == pytest.approx(mechanism.variance(truth) / 3, rel=1e-10)
    assert square - mean**2 != pytest.approx(KFlip(1.1, 3).variance(truth) / 3, rel=1e-2)


def test_erratum_23_bin_flip_is_not_the_best_overall():
    """k = 32: KFlip has less variance on light buckets from ε = 2 on, at h = 0.9 only above ε = 5."""
    light = {
        epsilon: KFlip(epsilon, 32).variance(0) < BinFlip(epsilon, 32).variance(0) for epsilon in (1, 2, 5)
    }
    heavy = {
        epsilon: KFlip(epsilon, 32).variance(0.9) < BinFlip(epsilon, 32).variance(0.9) for epsilon in (5, 10)
    }
    assert light == {1: False, 2: True, 5: True}
    assert heavy == {5: False, 10: True}


# BinFlip: k independent bits, one per bucket


def chance(channel: Channel, bucket: int, answer: Sequence[int]) -> Fraction:
    ones = [channel.high if asked == bucket else channel.low for asked in range(len(answer))]
    return prod((p if bit else 1 - p for p, bit in zip(ones, answer, strict=True)), start=Fraction(1))


def largest_ratio(mechanism: BinFlip) -> Fraction:
    worst = Fraction(1)
    for answer in product((0, 1), repeat=mechanism.buckets):
        chances = [chance(mechanism.channel, bucket, answer) for bucket in range(mechanism.buckets)]
        worst = max(worst, max(chances) / min(chances))
    return worst


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "2", "5", "10"])
@pytest.mark.parametrize("buckets", [2, 3, 4])
def test_the_loss_over_all_answers_is_epsilon(epsilon, buckets, exponential_bounds):
    mechanism = BinFlip(epsilon, buckets)
    worst = largest_ratio(mechanism)
    below, _ = exponential_bounds(Fraction(epsilon))
    assert worst <= below
    assert worst > below * (1 - Fraction(1, 10**13)), "and not less: exactly epsilon up to one unit of 2⁻⁶⁴"
    assert mechanism.loss == pytest.approx(float(epsilon), rel=1e-11)


def test_the_answers_to_each_bucket_sum_to_one():
    channel = BinFlip(1, 4).channel
    for bucket in range(4):
        assert sum(chance(channel, bucket, answer) for answer in product((0, 1), repeat=4)) == 1


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "5"])
def test_probabilities(epsilon):
    with mpmath.workdps(40):
        root = mpmath.exp(mpmath.mpf(epsilon) / 2)
        own, other = root / (root + 1), 1 / (root + 1)
    channel = BinFlip(epsilon, 8).channel
    assert (float(channel.high), float(channel.low)) == pytest.approx((float(own), float(other)), rel=1e-14)


def test_bin_flip_is_d_bit_flip_with_every_bucket_asked():
    duchi, own = BinFlip(1, 8), DBitFlip(1, Buckets.even(8, 8), width=8)
    assert duchi.response == own.response
    for asked, chance in ((2, duchi.channel.high), (5, duchi.channel.low)):
        assert float(chance) == pytest.approx(own.probability_of_one(2, asked), rel=1e-15)


@pytest.mark.parametrize("members", [0, 1, 2, 3])
def test_bin_flip_estimate_and_variance_by_enumeration(members):
    """Three devices, `members` of them in the bucket: all 8 outcomes of their bits about it."""
    mechanism = BinFlip(1, 4)
    ones = [mechanism.channel.high] * members + [mechanism.channel.low] * (3 - members)
    mean, square = 0.0, 0.0
    for bits in product((0, 1), repeat=3):
        weight = float(prod(p if bit else 1 - p for p, bit in zip(ones, bits, strict=True)))
        estimate = mechanism.estimate(sum(bits) / 3)
        mean += weight * estimate
        square += weight * estimate**2
    assert mean == pytest.approx(members / 3, abs=1e-12)
    assert square - mean**2 == pytest.approx(mechanism.variance(members / 3) / 3, rel=1e-10)
    assert square - mean**2 != pytest.approx(BinFlip(1.1, 4).variance(members / 3) / 3, rel=1e-2)


# BinFlip+


def probability_of(bits: tuple[int, ...], ones: list[float]) -> float:
    return prod(p if bit else 1 - p for p, bit in zip(ones, bits, strict=True))


@pytest.mark.parametrize("epsilon", ["0.1", "1", "2", "3", "8", "20"])
def test_erratum_24_it_is_exactly_epsilon_ldp_for_every_epsilon(epsilon, exponential_bounds):
    """Given the public string a device says yes or no; both are enumerated, for either bit at its bucket."""
    response = BinFlipPlus(epsilon, 4).response
    yes = [Fraction(response.low, SCALE), Fraction(response.high, SCALE)]
    no = [1 - chance for chance in yes]
    worst = max(max(yes) / min(yes), max(no) / min(no))
    below, _ = exponential_bounds(Fraction(epsilon))
    assert below * (1 - Fraction(1, 10**9)) < worst <= below
    assert BinFlipPlus(epsilon, 4).loss == pytest.approx(float(epsilon), rel=1e-9)


def test_erratum_24_a_constant_of_one_half_is_not():
    """With c₀ = 1/2 a refusal is (1 - e^(-ε/2)/2)/(1 - e^(ε/2)/2) times likelier: ln 3.97 at ε = 1."""
    refusal = log((1 - exp(-0.5) / 2) / (1 - exp(0.5) / 2))
    assert refusal == pytest.approx(1.38, abs=5e-3)
    assert refusal > 1
    assert exp(2 / 2) / 2 > 1, "and at ε = 2 it is not even a probability"


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 5])
def test_acceptance_has_the_two_forms(epsilon):
    mechanism = BinFlipPlus(epsilon, 4)
    constant = 1 / (2 * cosh(epsilon / 2))
    assert mechanism.acceptance == pytest.approx(constant, rel=1e-12)
    assert mechanism.probability_of_acceptance(1) == pytest.approx(constant * exp(epsilon / 2), rel=1e-12)
    assert mechanism.probability_of_acceptance(0) == pytest.approx(constant * exp(-epsilon / 2), rel=1e-12)


@pytest.mark.parametrize("bucket", [0, 2])
def test_accepted_strings_follow_bin_flip(bucket):
    plus, plain = BinFlipPlus(1, 3), BinFlip(1, 3)
    blank = [float(plain.channel.low)] * 3
    own = [float(plain.channel.share(1 * (bucket == asked))) for asked in range(3)]
    accepted = 0.0
    for public in product((0, 1), repeat=3):
        joint = probability_of(public, blank) * plus.probability_of_acceptance(public[bucket])
        assert joint / plus.acceptance == pytest.approx(probability_of(public, own), rel=1e-12)
        accepted += joint
    assert accepted == pytest.approx(plus.acceptance, rel=1e-12), "whatever the bucket"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_bin_flip_plus_variance_by_enumeration_of_one_device(epsilon, share):
    """
    The ratio of sums Σ A·g / Σ A to first order: n·Var = average of Var(A·(g - h)) / c₀².

    A says whether the device accepts, g = (y - q)/(p - q) is its debiased bit about the bucket.
    """
    mechanism = BinFlipPlus(epsilon, 8)
    low, contrast = float(mechanism.channel.low), float(mechanism.channel.contrast)
    total = 0.0
    for weight, own in ((share, True), (1 - share, False)):
        first, second = 0.0, 0.0
        for bit, public in product(
            (0, 1), repeat=2
        ):  # the bit asked about, and the bit at another own bucket
            at_own = bit if own else public
            drawn = (low if bit else 1 - low) * (low if public else 1 - low)
            chance = drawn * mechanism.probability_of_acceptance(at_own)
            term = (bit - low) / contrast - share
            first += chance * term
            second += chance * term**2
        total += weight * (second - first**2)
    assert mechanism.variance(share) == pytest.approx(total / mechanism.acceptance**2, rel=1e-12)
    assert BinFlipPlus(epsilon * 1.1, 8).variance(share) != pytest.approx(
        total / mechanism.acceptance**2, rel=1e-2
    )


def test_the_estimate_from_accepted_strings_has_that_variance():
    """
    2,000 fleets of 2,000 devices, a fifth of them in the bucket; fixed seed, tolerance 5 standard errors.

    A variance from 2,000 draws has a relative standard error of √(2/2000) = 3.2%. A claim of ε = 0.8 or 1.25
    is refused.
    """
    rng, fleets, devices = np.random.default_rng(24), 2_000, 2_000
    mechanism = BinFlipPlus(1, 8)
    low, high = float(mechanism.channel.low), float(mechanism.channel.high)
    members = rng.binomial(devices // 5, mechanism.acceptance, fleets)
    others = rng.binomial(devices - devices // 5, mechanism.acceptance, fleets)
    ones = rng.binomial(members, high) + rng.binomial(others, low)
    estimates = mechanism.estimate(ones / (members + others))
    seen = devices * estimates.var(ddof=1)
    assert abs(estimates.mean() - 0.2) < 5 * np.sqrt(mechanism.variance(0.2) / devices / fleets)
    assert seen == pytest.approx(mechanism.variance(0.2), rel=0.16)
    assert seen != pytest.approx(BinFlipPlus(0.8, 8).variance(0.2), rel=0.16)
    assert seen != pytest.approx(BinFlipPlus(1.25, 8).variance(0.2), rel=0.16)


# NaiveMemo


def responses(epsilon: float, buckets: int) -> list[dict[tuple[int, ...], float]]:
    """P(response | bucket) for every response, from the definition."""
    high = exp(epsilon / 2) / (exp(epsilon / 2) + 1)
    laws = []
    for bucket in range(buckets):
        ones = [high if asked == bucket else 1 - high for asked in range(buckets)]
        laws.append(
            {
                bits: prod(p if bit else 1 - p for p, bit in zip(ones, bits, strict=True))
                for bits in product((0, 1), repeat=buckets)
            }
        )
    return laws


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("buckets", [2, 3, 5])
def test_the_chance_of_betrayal_by_enumeration(epsilon, buckets):
    own, *others = responses(epsilon, buckets)
    alone = sum(chance * prod(1 - law[bits] for law in others) for bits, chance in own.items())
    sharers = sum(chance * law[bits] for bits, chance in own.items() for law in others)
    naive = NaiveMemo(epsilon, buckets)
    assert naive.probability_of_betrayal == pytest.approx(alone, rel=1e-11)
    assert naive.expected_sharers == pytest.approx(sharers, rel=1e-11)
    assert naive.probability_of_betrayal != pytest.approx(
        NaiveMemo(epsilon * 1.1, buckets).probability_of_betrayal, rel=1e-6
    )


def test_32_bits_are_a_fingerprint_and_one_bit_is_not():
    """The paper's "almost 100%": at k = 32 and ε ≤ 1 not one bucket in ten million has a twin."""
    for epsilon in (0.1, 1):
        assert 1 - NaiveMemo(epsilon, 32).probability_of_betrayal < 1e-7
    for epsilon in (2, 4, 6, 10):
        assert 1 - NaiveMemo(epsilon, 32).probability_of_betrayal < 0.02
    one_bit = DBitFlip(1, Buckets.even(32, 32), width=1, variant="paper")
    sharers = sum(one_bit.probability_of_one(bucket, 0) for bucket in range(1, 32))
    assert sharers > 10, "with d = 1 a remembered 1 is shared by a third of the other buckets"
