from fractions import Fraction
from itertools import product
from math import cosh, exp, log, prod
from random import Random

import numpy as np
import pytest

from reticent.errors import ParameterError
from reticent.lab.baselines import BinFlip, BinFlipPlus
from reticent.mechanisms import SCALE


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
    assert mechanism.probability_of_acceptance(np.array([0, 1])).tolist() == [
        mechanism.probability_of_acceptance(bit) for bit in (0, 1)
    ]


@pytest.mark.parametrize("bucket", [0, 2])
def test_accepted_strings_follow_bin_flip(bucket):
    plus, plain = BinFlipPlus(1, 3), BinFlip(1, 3)
    blank = [float(plain.channel.low)] * 3
    own = [plain.probability_of_one(bucket, asked) for asked in range(3)]
    accepted = 0.0
    for public in product((0, 1), repeat=3):
        joint = probability_of(public, blank) * plus.probability_of_acceptance(public[bucket])
        assert joint / plus.acceptance == pytest.approx(probability_of(public, own), rel=1e-12)
        accepted += joint
    assert accepted == pytest.approx(plus.acceptance, rel=1e-12), "whatever the bucket"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_variance_by_enumeration_of_one_device(epsilon, share):
    """
    The ratio of sums Σ A·g / Σ A to first order: n·Var = average of Var(A·(g - h)) / c₀².

    A says whether the device accepts, g = (y - q)/(p - q) is its un-biased bit about the bucket.
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


def test_answers_are_drawn_from_the_law(agrees):
    random, draws = Random(2015), 100_000
    mechanism = BinFlipPlus(1, 3)
    answers = [mechanism.answer(1, random) for _ in range(draws)]
    kept = np.array([answer for answer in answers if answer is not None])
    assert agrees([len(kept)], draws, [mechanism.acceptance])
    assert not agrees([len(kept)], draws, [BinFlipPlus(1.1, 3).acceptance])
    counts = kept.sum(axis=0).tolist()

    def law(epsilon):
        return [BinFlipPlus(epsilon, 3).probability_of_one(1, asked) for asked in range(3)]

    assert agrees(counts, len(kept), law(1))
    assert not agrees(counts, len(kept), law(0.85))
    assert not agrees(counts, len(kept), law(1.15))


def test_bad_parameters():
    with pytest.raises(ParameterError) as caught:
        BinFlipPlus(-2, 4)
    assert (caught.value.name, caught.value.got) == ("epsilon", -2)
    with pytest.raises(ParameterError) as caught:
        BinFlipPlus(1, 1)
    assert (caught.value.name, caught.value.got) == ("buckets", 1)
