from fractions import Fraction
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest

from reticent.errors import ParameterError
from reticent.lab.baselines import BinFlip, KFlip


@pytest.mark.parametrize("epsilon", ["0.01", "1", "5", "20"])
@pytest.mark.parametrize("buckets", [2, 3, 32])
def test_probabilities_sum_to_one_and_their_ratio_is_e_to_the_epsilon(epsilon, buckets, exponential_bounds):
    channel = KFlip(epsilon, buckets).channel
    assert channel.high + (buckets - 1) * channel.low == 1
    below, above = exponential_bounds(Fraction(epsilon))
    slack = Fraction(1, 10**57)  # the 60 digits of e^ε
    assert below * (1 - slack) <= channel.high / channel.low <= above * (1 + slack)
    assert KFlip(epsilon, buckets).loss == pytest.approx(float(epsilon), rel=1e-13)


def test_an_array_is_answered_like_its_numbers():
    mechanism = KFlip(1, 5)
    buckets, named = np.meshgrid(np.arange(5), np.arange(5), indexing="ij")
    law = mechanism.probability_of_one(buckets, named)
    assert law.tolist() == [[mechanism.probability_of_one(v, j) for j in range(5)] for v in range(5)]
    assert law.sum(axis=1) == pytest.approx(np.ones(5), rel=1e-14)


@pytest.mark.parametrize(("epsilon", "published"), [(0.5, 75), (1, 11.1), (2, 0.916), (5, 0.0082)])
def test_variance_of_a_light_bucket_is_the_published_one(epsilon, published):
    assert KFlip(epsilon, 32).variance(0) == pytest.approx(published, rel=7e-3)


@pytest.mark.parametrize("values", [(0, 0, 1), (1, 2, 2), (0, 0, 0)])
def test_estimate_and_variance_by_enumeration(values):
    """Three devices, three buckets: all 27 answers."""
    mechanism = KFlip(1, 3)
    mean, square = np.zeros(3), np.zeros(3)
    for named in product(range(3), repeat=3):
        weight = prod(mechanism.probability_of_one(v, j) for v, j in zip(values, named, strict=True))
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


def test_answers_are_drawn_from_the_law(agrees):
    random, draws = Random(2016), 60_000
    mechanism = KFlip(1, 4)
    named = [mechanism.answer(2, random) for _ in range(draws)]
    counts = np.bincount(named, minlength=4).tolist()

    def law(epsilon):
        return [KFlip(epsilon, 4).probability_of_one(2, j) for j in range(4)]

    assert agrees(counts, draws, law(1))
    assert not agrees(counts, draws, law(0.9))
    assert not agrees(counts, draws, law(1.1))


@pytest.mark.parametrize(
    ("arguments", "name", "got"),
    [((0, 4), "epsilon", 0), ((1, 0), "buckets", 0), ((1, 2.5), "buckets", 2.5)],
)
def test_bad_parameters(arguments, name, got):
    with pytest.raises(ParameterError) as caught:
        KFlip(*arguments)
    assert (caught.value.name, caught.value.got) == (name, got)
