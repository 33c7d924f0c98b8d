import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Grid, HadamardBit, OneBitMean
from reticent.privacy import loss_by_width, width_bound
from reticent.privacy.widths import LARGEST_ASSIGNMENT


def pair_losses(epsilon, points):
    """D(u, v) by Eq. 1, in floating point."""
    low = 1 / (math.exp(epsilon) + 1)
    share = low + np.array(points, dtype=float) / float(points[-1]) * (1 - 2 * low)
    return np.maximum(np.log(share[:, None] / share), np.log((1 - share)[:, None] / (1 - share)))


def best(weights, width):
    """The heaviest matching of `width` pairs, by SciPy."""
    size = len(weights)
    extended = np.zeros((2 * size - width,) * 2)
    extended[size:, size:] = -1e9
    extended[:size, :size] = weights
    return extended[linear_sum_assignment(extended, maximize=True)].sum()


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 20, 64])
@pytest.mark.parametrize("epsilon", [0.001, 1, 5, 20])
def test_even_grids_by_the_assignment_problem(epsilon, steps):
    """The closed form, pairing cell i with cell K - i, is the optimum at every width."""
    mechanism = OneBitMean(epsilon, steps, 1)
    weights = pair_losses(epsilon, mechanism.grid.points)
    for width in {1, 2, 3, steps // 2, steps, steps + 1} & set(range(1, steps + 2)):
        assert loss_by_width(mechanism, width) == pytest.approx(best(weights, width), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 10), st.sets(st.integers(1, 1000), min_size=1, max_size=9))
def test_uneven_grids_by_the_assignment_problem(epsilon, points):
    mechanism = OneBitMean(epsilon, grid=Grid([0, *sorted(points)]))
    weights = pair_losses(epsilon, mechanism.grid.points)
    for width in range(1, mechanism.classes + 1):
        assert loss_by_width(mechanism, width) == pytest.approx(best(weights, width), rel=1e-9)
        assert loss_by_width(mechanism, width) <= width_bound(mechanism, width)


@pytest.mark.parametrize("epsilon", ["0.001", "1", "20", "40"])
@pytest.mark.parametrize("points", [(0, 1, 2, 3, 4), (0, 1, 5, 1000), (0, 1, 10**12)])
def test_never_below_what_the_integers_lose(epsilon, points):
    """At large ε the integers are few: a threshold rounded down can cost more than the formula says."""
    mechanism = OneBitMean(epsilon, grid=Grid(points))
    with mpmath.workdps(60):
        ones = [mpmath.log(one) for one in mechanism.cell_thresholds]
        zeros = [mpmath.log(SCALE - one) for one in mechanism.cell_thresholds]
        cells = range(mechanism.classes)
        exact = max(max(ones[u] - ones[v], zeros[u] - zeros[v]) for u in cells for v in cells)
        assert exact <= mpmath.mpf(loss_by_width(mechanism, 1))
        reverse = sum(max(ones[u] - ones[~u], zeros[u] - zeros[~u]) for u in cells)
        assert reverse <= mpmath.mpf(loss_by_width(mechanism, mechanism.classes))


def test_the_numbers_of_the_notes():
    tables = {
        (1, (1, 2)): (1, 2),
        (2, (1, 2, 3)): (1, 2, 2),
        (3, (1, 2, 3, 4)): (1, 2, 2.31, 2.62),
        (20, (2, 3, 5, 10, 21)): (2, 2.89, 4.55, 7.80, 10.61),
    }
    for (steps, widths), expected in tables.items():
        mechanism = OneBitMean(1, steps, 1)
        figures = [loss_by_width(mechanism, width) for width in widths]
        assert figures == pytest.approx(expected, abs=0.006)
    assert loss_by_width(OneBitMean(1, 20, 1), 21) == pytest.approx(10.6073, abs=6e-5)


def test_large_uneven_grids_get_the_bound():
    points = [cell * cell for cell in range(LARGEST_ASSIGNMENT + 1)]
    mechanism = OneBitMean(1, grid=Grid(points))
    weights = pair_losses(1, points)
    for width in (1, 2, 10, 66):
        truth = best(weights, width)
        assert truth * (1 - 1e-9) <= loss_by_width(mechanism, width) <= width
    small = OneBitMean(1, grid=Grid(points[:-1]))
    assert loss_by_width(small, 65) == pytest.approx(best(pair_losses(1, points[:-1]), 65), rel=1e-9)


def test_histograms():
    buckets = Buckets.even(8, 8)
    assert [loss_by_width(HadamardBit(1, buckets), width) for width in (1, 2)] == [1, 2]
    for variant, half in (("tight", 1), ("paper", 0.5)):
        single = DBitFlip(1, buckets, 1, variant)
        assert [loss_by_width(single, width) for width in (1, 2)] == [half, 2 * half]
        several = DBitFlip(1, buckets, 3, variant)
        assert [loss_by_width(several, width) for width in (1, 2, 3, 4)] == [1, 2, 3, 3]


@pytest.mark.parametrize("width", [0, 3])
@pytest.mark.parametrize("function", [loss_by_width, width_bound])
def test_impossible_widths(function, width):
    with pytest.raises(ParameterError, match="width: expected a whole number from 1 to 2"):
        function(OneBitMean(1, 24), width)
