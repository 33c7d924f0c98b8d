from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import hadamard

from reticent.mechanisms import SCALE, Buckets, Flip, HadamardBit
from reticent.mechanisms.hadamard_bit import hadamard_sign, walsh_hadamard


@pytest.mark.parametrize("order", [1, 2, 4, 8, 64, 256])
def test_fast_transform_is_the_matrix(order: int) -> None:
    signal = np.random.default_rng(order).integers(-(10**9), 10**9, order)
    assert (walsh_hadamard(signal) == hadamard(order) @ signal).all()


def test_the_signal_is_left_alone() -> None:
    signal = np.arange(8)
    walsh_hadamard(signal)
    assert (signal == np.arange(8)).all()


def test_agreements_are_counted_one_report_at_a_time() -> None:
    mechanism = HadamardBit(1, Buckets.even(24, 5))
    source = np.random.default_rng(5)
    rows, bits = source.integers(0, 8, 200), source.integers(0, 2, 200)
    reports = np.bincount(rows, minlength=8)
    ones = np.bincount(rows, weights=bits, minlength=8).astype(int)
    expected = [
        sum(int((2 * bit - 1) == hadamard_sign(row, bucket + 1)) for row, bit in zip(rows, bits, strict=True))
        for bucket in range(5)
    ]
    hits, among = mechanism.hits(reports.tolist(), ones.tolist())
    assert hits.tolist() == expected
    assert among.tolist() == [200] * 5


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
