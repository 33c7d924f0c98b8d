from collections import Counter
from fractions import Fraction
from functools import reduce
from math import cosh, sinh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.mechanisms import COHORTS, SCALE, Buckets, Flip, HadamardBit, hadamard_sign

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
    assert mechanism.probability_of_one(bucket, mechanism.rows_of(cohort)[0]) == pytest.approx(
        threshold / SCALE, abs=1e-15
    )


@given(mechanism=some_mechanism, cohort=st.integers(0, COHORTS - 1))
def test_two_answers_are_at_most_epsilon_apart(mechanism, cohort, exponential_bounds):
    thresholds = [mechanism.thresholds(c, cohort)[0] for c in range(mechanism.classes)]
    ratios = [Fraction(a, b) for a in thresholds for b in thresholds]
    ratios += [Fraction(SCALE - a, SCALE - b) for a in thresholds for b in thresholds]
    assert max(ratios) <= exponential_bounds(mechanism.epsilon)[0]
    assert max(ratios) > 1


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


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64, 128, 256])
def test_rows_are_equally_likely(size):
    mechanism = HadamardBit(1, Buckets.even(60, size - 1))
    rows = Counter(mechanism.rows_of(cohort)[0] for cohort in range(COHORTS))
    assert rows == dict.fromkeys(range(size), COHORTS // size)


@pytest.mark.parametrize("buckets", [2, 3, 5, 31, 100, 255])
def test_agreements_are_counted_one_report_at_a_time(buckets: int) -> None:
    mechanism, source = HadamardBit(1, Buckets.even(24, buckets)), np.random.default_rng(buckets)
    rows, bits = source.integers(0, mechanism.size, 200), source.integers(0, 2, 200)
    reports = np.bincount(rows, minlength=mechanism.size)
    ones = np.bincount(rows, weights=bits, minlength=mechanism.size).astype(int)
    signs = SYLVESTER[rows, 1 : buckets + 1]
    hits, among = mechanism.hits(reports.tolist(), ones.tolist())
    assert hits.tolist() == ((2 * bits - 1)[:, None] == signs).sum(axis=0).tolist()
    assert among.tolist() == [200] * buckets


@pytest.mark.parametrize("gamma", [0, "1/5"])
@pytest.mark.parametrize("buckets", [2, 3, 7])
def test_expectation_variance_and_covariance_of_one_report_exactly(buckets: int, gamma: object) -> None:
    """
    In rationals, from the device's own integers, over every row and both bits. With Y_v = ±1/contrast,

        E[Y_v] = [u = v],    Var[Y_v] = c² - [u = v],    Cov[Y_v, Y_w] = 0.

    Hence unbiased; n·Var = c² - h_v for given devices and c² - h_v² for drawn ones; uncorrelated.
    """
    mechanism, flip = HadamardBit(1, Buckets.even(24, buckets)), Flip(gamma)  # type: ignore[arg-type]
    contrast = flip.channel(mechanism.response).contrast
    for bucket in range(buckets):
        value = mechanism.buckets.edges[bucket]
        outcomes: list[tuple[Fraction, list[Fraction]]] = []
        for row in range(mechanism.size):
            threshold = mechanism.thresholds(mechanism.memo_class(value, 0, row), row)[0]
            one = flip.chance_of_one(threshold)
            for bit, chance in ((1, one), (0, 1 - one)):
                told = [(2 * bit - 1) * hadamard_sign(row, v + 1) / contrast for v in range(buckets)]
                outcomes.append((chance / mechanism.size, told))
        assert sum(chance for chance, _ in outcomes) == 1
        for v in range(buckets):
            assert sum(chance * told[v] for chance, told in outcomes) == (v == bucket)
            square = sum(chance * told[v] ** 2 for chance, told in outcomes)
            assert square - (v == bucket) == contrast**-2 - (v == bucket)
            for w in range(v):
                assert sum(chance * told[v] * told[w] for chance, told in outcomes) == 0
    assert contrast < Fraction(mechanism.response.high - mechanism.response.low, SCALE) or gamma == 0
