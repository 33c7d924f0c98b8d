"""BinFlip and OUE: k independent bits, one per bucket."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import cosh, log, prod
from random import Random

import mpmath
import numpy as np
import pytest

from reticent.errors import ParameterError
from reticent.lab.baselines import OUE, BinFlip
from reticent.mechanisms import Buckets, Channel, DBitFlip

UNARY = [BinFlip, OUE]
LIGHT = {
    BinFlip: {"0.5": 15.9, "1": 3.92, "2": 0.921, "5": 0.097},
    OUE: {"0.5": 15.7, "1": 3.68, "2": 0.724, "5": 0.027},
}
"""n·Var of a light bucket out of 32, as published for these mechanisms."""


def chance(channel: Channel, bucket: int, answer: Sequence[int]) -> Fraction:
    ones = [channel.high if asked == bucket else channel.low for asked in range(len(answer))]
    return prod((p if bit else 1 - p for p, bit in zip(ones, answer, strict=True)), start=Fraction(1))


def largest_ratio(mechanism: BinFlip | OUE) -> Fraction:
    worst = Fraction(1)
    for answer in product((0, 1), repeat=mechanism.buckets):
        chances = [chance(mechanism.channel, bucket, answer) for bucket in range(mechanism.buckets)]
        worst = max(worst, max(chances) / min(chances))
    return worst


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "2", "5", "10"])
@pytest.mark.parametrize("buckets", [2, 3, 4])
def test_the_loss_over_all_answers_is_epsilon(kind, epsilon, buckets, exponential_bounds):
    mechanism = kind(epsilon, buckets)
    worst = largest_ratio(mechanism)
    below, _ = exponential_bounds(Fraction(epsilon))
    assert worst <= below
    assert worst > below * (1 - Fraction(1, 10**13)), "and not less: exactly epsilon up to one unit of 2⁻⁶⁴"
    assert mechanism.loss == pytest.approx(float(epsilon), rel=1e-11)


@pytest.mark.parametrize("kind", UNARY)
def test_the_answers_to_each_bucket_sum_to_one(kind):
    channel = kind(1, 4).channel
    for bucket in range(4):
        assert sum(chance(channel, bucket, answer) for answer in product((0, 1), repeat=4)) == 1


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "5"])
def test_probabilities(epsilon):
    with mpmath.workdps(40):
        root, odds = mpmath.exp(mpmath.mpf(epsilon) / 2), mpmath.exp(mpmath.mpf(epsilon))
        expected = {BinFlip: (root / (root + 1), 1 / (root + 1)), OUE: (0.5, 1 / (odds + 1))}
    for kind, (own, other) in expected.items():
        mechanism = kind(epsilon, 8)
        assert mechanism.probability_of_one(3, 3) == pytest.approx(float(own), rel=1e-14)
        assert mechanism.probability_of_one(3, 4) == pytest.approx(float(other), rel=1e-14)


@pytest.mark.parametrize("kind", UNARY)
def test_an_array_is_answered_like_its_numbers(kind):
    mechanism = kind(1, 6)
    buckets, asked = np.meshgrid(np.arange(6), np.arange(6), indexing="ij")
    one_by_one = [[mechanism.probability_of_one(v, j) for j in range(6)] for v in range(6)]
    assert mechanism.probability_of_one(buckets, asked).tolist() == one_by_one
    shares = np.linspace(0, 1, 5)
    assert mechanism.variance(shares).tolist() == [mechanism.variance(share) for share in shares.tolist()]


def test_bin_flip_is_d_bit_flip_with_every_bucket_asked():
    duchi, own = BinFlip(1, 8), DBitFlip(1, Buckets.even(8, 8), width=8)
    assert duchi.response == own.response
    for asked in (2, 5):
        same = pytest.approx(own.probability_of_one(2, asked), rel=1e-15)
        assert duchi.probability_of_one(2, asked) == same


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "5"])
def test_variance_of_a_light_bucket_is_the_published_one(kind, epsilon):
    published = LIGHT[kind][epsilon]
    digits = 5e-4 if published < 0.1 else 5e-3 * max(1, published)
    assert kind(epsilon, 32).variance(0) == pytest.approx(published, abs=digits)


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("members", [0, 1, 2, 3])
def test_estimate_and_variance_by_enumeration(kind, members):
    """Three devices, `members` of them in the bucket: all 8 outcomes of their bits about it."""
    mechanism = kind(1, 4)
    ones = [mechanism.channel.high] * members + [mechanism.channel.low] * (3 - members)
    mean, square = 0.0, 0.0
    for bits in product((0, 1), repeat=3):
        weight = float(prod(p if bit else 1 - p for p, bit in zip(ones, bits, strict=True)))
        estimate = mechanism.estimate(sum(bits) / 3)
        mean += weight * estimate
        square += weight * estimate**2
    assert mean == pytest.approx(members / 3, abs=1e-12)
    assert square - mean**2 == pytest.approx(mechanism.variance(members / 3) / 3, rel=1e-10)
    assert square - mean**2 != pytest.approx(kind(1.1, 4).variance(members / 3) / 3, rel=1e-2)


def test_oue_beats_bin_flip_by_cosh_squared_on_light_buckets_only():
    for epsilon in (0.5, 1, 5):
        ratio = BinFlip(epsilon, 8).variance(0) / OUE(epsilon, 8).variance(0)
        assert ratio == pytest.approx(cosh(epsilon / 4) ** 2, rel=1e-9)
    assert OUE(5, 8).variance(0.9) > BinFlip(5, 8).variance(0.9)


def test_oue_with_a_single_bit_would_waste_its_budget():
    """d = 1: the loss is max(ln p/q, ln (1-q)/(1-p)), which is 0.62 at ε = 1."""
    channel = OUE(1, 2).channel
    single = max(log(channel.high / channel.low), log((1 - channel.low) / (1 - channel.high)))
    assert single == pytest.approx(0.62, abs=5e-3)


@pytest.mark.parametrize("kind", UNARY)
def test_answers_are_drawn_from_the_law(kind, agrees):
    random, draws = Random(20170), 100_000
    mechanism = kind(1, 3)
    answers = np.array([mechanism.answer(1, random) for _ in range(draws)])
    counts = answers.sum(axis=0).tolist()

    def law(epsilon):
        return [kind(epsilon, 3).probability_of_one(1, asked) for asked in range(3)]

    assert agrees(counts, draws, law(1))
    assert not agrees(counts, draws, law(0.9))
    assert not agrees(counts, draws, law(1.1))
    both = int((answers[:, 0] & answers[:, 1]).sum())
    assert agrees([both], draws, [law(1)[0] * law(1)[1]]), "bits are independent"


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize(
    ("arguments", "name", "got"),
    [((0, 4), "epsilon", 0), ((-1, 4), "epsilon", -1), ((41, 4), "epsilon", 41), ((1, 1), "buckets", 1)],
)
def test_bad_parameters(kind, arguments, name, got):
    with pytest.raises(ParameterError) as caught:
        kind(*arguments)
    assert (caught.value.name, caught.value.got) == (name, got)
    assert caught.value.expected
