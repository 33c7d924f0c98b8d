from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from reticent.privacy.assignment import best_assignments


def squares(largest, weight):
    return st.integers(1, largest).flatmap(
        lambda size: st.lists(st.lists(weight, min_size=size, max_size=size), min_size=size, max_size=size)
    )


@settings(deadline=None)
@given(squares(4, st.integers(0, 9)))
def test_brute_force(weights):
    size = len(weights)
    for pairs, total in enumerate(best_assignments(weights), start=1):
        assert total == max(
            sum(weights[row][column] for row, column in zip(rows, columns, strict=True))
            for rows in combinations(range(size), pairs)
            for columns in permutations(range(size), pairs)
        )


def scipy_total(weights, pairs):
    """The best `pairs` pairs: the other rows and columns are paired with extra ones of weight 0."""
    size = len(weights)
    extended = np.zeros((2 * size - pairs, 2 * size - pairs))
    extended[size:, size:] = -1e9
    extended[:size, :size] = weights
    rows, columns = linear_sum_assignment(extended, maximize=True)
    return extended[rows, columns].sum()


@settings(deadline=None)
@given(squares(7, st.integers(0, 10**6)))
def test_scipy(weights):
    for pairs, total in enumerate(best_assignments(weights), start=1):
        assert total == scipy_total(weights, pairs)


def test_larger_ones():
    rng = np.random.default_rng(2017)
    weights = rng.integers(0, 1000, (40, 40))
    totals = best_assignments(weights.tolist())
    assert [totals[pairs - 1] for pairs in (1, 7, 39, 40)] == pytest.approx(
        [scipy_total(weights, pairs) for pairs in (1, 7, 39, 40)]
    )
