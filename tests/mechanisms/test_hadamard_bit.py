from fractions import Fraction
from functools import reduce
from math import cosh, sinh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, HadamardBit, Mechanism
from reticent.mechanisms.cohort import COHORTS
from reticent.mechanisms.hadamard_bit import hadamard_sign

SYLVESTER = reduce(np.kron, [np.array([[1, 1], [1, -1]])] * 8)
"""The 256 × 256 matrix built the other way: eight times the Kronecker product of [[1, 1], [1, -1]]."""

some_mechanism = st.builds(
    lambda epsilon, k: HadamardBit(epsilon, Buckets.even(k, k)),
    st.fractions(Fraction(1, 1000), 20, max_denominator=1000),
    st.integers(2, 255),
)


def test_the_sign_is_sylvesters_matrix():
    rows, columns = np.meshgrid(np.arange(256), np.arange(256), indexing="ij")
    assert np.array_equal(hadamard_sign(rows, columns), SYLVESTER)


def test_numbers_give_what_arrays_give():
    assert [[hadamard_sign(r, c) for c in range(0, 256, 7)] for r in range(0, 256, 5)] == SYLVESTER[
        ::5, ::7
    ].tolist()


def test_rows_are_orthogonal_and_balanced():
    signs = hadamard_sign(np.arange(256)[:, None], np.arange(256)[None, :])
    assert np.array_equal(signs @ signs.T, 256 * np.eye(256, dtype=int))
    assert not signs[:, 1:].sum(axis=0).any(), "each bucket is on either side for half of the rows"
    assert not signs[1:].sum(axis=1).any()


@pytest.mark.parametrize(
    ("buckets", "size"), [(2, 4), (3, 4), (4, 8), (31, 32), (32, 64), (127, 128), (128, 256), (255, 256)]
)
def test_the_matrix_is_the_smallest_with_a_column_to_spare(buckets, size):
    mechanism = HadamardBit(1, Buckets.even(buckets, buckets))
    assert mechanism.size == size
    assert size >= buckets + 1 > size // 2
    assert COHORTS % size == 0


@given(some_mechanism, st.integers(0, COHORTS - 1), st.data())
def test_what_a_device_compares_with_is_its_probability(mechanism, cohort, data):
    bucket = data.draw(st.integers(0, len(mechanism.buckets) - 1))
    memo_class = mechanism.memo_class(bucket, alpha=0, cohort=cohort)
    (threshold,) = mechanism.thresholds(memo_class, cohort)
    side = SYLVESTER[cohort % mechanism.size, bucket + 1]
    assert threshold == (mechanism.response.high if side == 1 else mechanism.response.low)
    assert mechanism.probability_of_one(bucket, mechanism.row(cohort)) == pytest.approx(
        threshold / SCALE, abs=1e-15
    )


@given(mechanism=some_mechanism, cohort=st.integers(0, COHORTS - 1))
def test_two_answers_are_at_most_epsilon_apart(mechanism, cohort, exponential_bounds):
    thresholds = [mechanism.thresholds(c, cohort)[0] for c in range(mechanism.classes)]
    ratios = [Fraction(a, b) for a in thresholds for b in thresholds]
    ratios += [Fraction(SCALE - a, SCALE - b) for a in thresholds for b in thresholds]
    assert max(ratios) <= exponential_bounds(mechanism.epsilon)[0]
    assert max(ratios) > 1


def test_an_array_is_answered_like_its_numbers():
    mechanism = HadamardBit(1, Buckets.even(24, 31))
    rows, buckets = np.meshgrid(np.arange(32), np.arange(31), indexing="ij")
    together = mechanism.probability_of_one(buckets, rows)
    one_by_one = [[mechanism.probability_of_one(bucket, row) for bucket in range(31)] for row in range(32)]
    assert together.tolist() == one_by_one


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 5])
def test_decoding_is_unbiased_with_variance_coth_squared(epsilon):
    """
    X = H[r, u+1]·(2b - 1)/(p - q), with r uniform: E[X] = [v = u], and E[X²] = coth²(ε/2).

    MATHS: n·Var = 16.7, 4.68, 1.72, 1.03 at ε = .5, 1, 2, 5, whatever the number of buckets.
    """
    mechanism = HadamardBit(epsilon, Buckets.even(32, 32))
    rows = np.arange(mechanism.size)[:, None]
    contrast = 1 - 2 * mechanism.response.low / SCALE
    for bucket in (0, 13, 31):
        one = mechanism.probability_of_one(bucket, rows)
        decoded = (SYLVESTER[: mechanism.size, 1:33] * (2 * one - 1) / contrast).mean(axis=0)
        assert decoded == pytest.approx(np.eye(32)[bucket], abs=1e-12)
    assert 1 / contrast**2 == pytest.approx((cosh(epsilon / 2) / sinh(epsilon / 2)) ** 2, rel=1e-12)
    assert 1 / contrast**2 == pytest.approx({0.5: 16.7, 1: 4.68, 2: 1.72, 5: 1.03}[epsilon], rel=5e-3)


def test_it_is_a_mechanism():
    mechanism: Mechanism = HadamardBit(1, Buckets.even(24, 32))
    assert (mechanism.bits, mechanism.classes, mechanism.uses_cohort) == (1, 2, True)
    assert mechanism.max_value == 24
    assert mechanism.epsilon == 1


def test_bad_parameters():
    with pytest.raises(ParameterError) as caught:
        HadamardBit(1, Buckets.even(256, 256))
    assert (caught.value.name, caught.value.got) == ("buckets", 256)
    assert "at most 255" in caught.value.expected
    with pytest.raises(ParameterError) as caught:
        HadamardBit(0, Buckets.even(24, 32))
    assert (caught.value.name, caught.value.got) == ("epsilon", 0)
