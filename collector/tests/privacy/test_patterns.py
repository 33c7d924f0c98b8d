import math
import time
from collections import Counter
from itertools import combinations, permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import linear_sum_assignment

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Grid, HadamardBit, OneBitMean
from reticent_collector.privacy import loss_by_width, pattern, upward
from reticent_collector.privacy.patterns import LARGEST_ASSIGNMENT, best_assignments
from reticent_lab.pattern_supports import supports

CELLS = arrays.arrays(
    np.int64, st.tuples(st.integers(1, 30), st.integers(1, 12)), elements=st.integers(-2, 3)
)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4)))
def test_a_pattern_forgets_names_and_nothing_else(sequence):
    shape = pattern(sequence)
    assert pattern(shape) == shape
    assert pattern([{0: "c", 1: "a", 2: "e", 3: "b", 4: "d"}[value] for value in sequence]) == shape
    same = [[a == b for b in sequence] for a in sequence]
    assert same == [[a == b for b in shape] for a in shape]


@settings(deadline=None)
@given(CELLS)
def test_supports(cells):
    shared = supports(cells)
    counted = Counter(pattern(row) for row in cells.tolist())
    assert dict(zip(map(tuple, shared.patterns.tolist()), shared.counts.tolist(), strict=True)) == dict(
        counted
    )
    assert shared.counts.tolist() == sorted(counted.values(), reverse=True)
    assert shared.devices == len(cells)
    assert shared.largest == max(counted.values())
    constant = sum(count for shape, count in counted.items() if len(set(shape)) == 1)
    lonely = sum(count for count in counted.values() if count <= 2)
    assert shared.share_constant == pytest.approx(constant / len(cells))
    assert shared.share_lonely == pytest.approx(lonely / len(cells))
    assert shared.cumulative_shares[-1] == 1
    assert shared.widths.tolist() == [len(set(shape)) for shape in shared.patterns.tolist()]


@pytest.mark.parametrize(("rounds", "values"), [(31, 4), (32, 4), (33, 4), (64, 2), (65, 2), (90, 300)])
def test_keys_of_one_and_of_several_words(rounds, values):
    """Patterns that differ in the last round alone are told apart, wherever the words end."""
    rng = np.random.default_rng(31)
    cells = rng.integers(0, values, (500, rounds))
    cells[:, 1:] = np.where(rng.random((500, rounds - 1)) < 0.97, cells[:, :1], cells[:, 1:])
    cells[0], cells[1], cells[2] = 0, 0, 0
    cells[1, -1] = cells[2, 0] = 1
    shared = supports(cells)
    counted = Counter(pattern(row) for row in cells.tolist())
    assert dict(zip(map(tuple, shared.patterns.tolist()), shared.counts.tolist(), strict=True)) == dict(
        counted
    )


def test_many_rows_are_cut_into_blocks():
    rng = np.random.default_rng(7)
    cells = rng.integers(0, 3, (150_000, 6), dtype=np.uint8)
    shared = supports(cells)
    counted = Counter(map(pattern, cells.tolist()))
    assert shared.counts.sum() == 150_000
    assert shared.counts.tolist() == sorted(counted.values(), reverse=True)
    assert len(shared.counts) == (3**5 + 1) // 2  # all patterns of six rounds with at most three names


@pytest.mark.parametrize(
    "cells", [[1, 2, 3], np.zeros((0, 3), int), [[0.5, 1.0]], np.zeros((1, 70_000), int)]
)
def test_refusals(cells):
    with pytest.raises(ParameterError, match="cells: expected"):
        supports(cells)


@pytest.mark.soak
def test_three_million_devices_over_a_month():
    rng = np.random.default_rng(3)
    cells = np.zeros((3_000_000, 31), dtype=np.uint8)
    for place in range(31):
        cells[:, place] = rng.integers(0, 4, 3_000_000) * (rng.random(3_000_000) < 0.2)
    start = time.perf_counter()
    shared = supports(cells)
    assert time.perf_counter() - start < 20
    assert shared.devices == 3_000_000


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
        assert loss_by_width(mechanism, width) <= upward(width * mechanism.epsilon)


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
def test_impossible_widths(width):
    with pytest.raises(ParameterError, match="width: expected a whole number from 1 to 2"):
        loss_by_width(OneBitMean(1, 24), width)


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


@settings(deadline=None)
@given(squares(7, st.integers(0, 10**6)))
def test_scipy(weights):
    for pairs, total in enumerate(best_assignments(weights), start=1):
        assert total == best(weights, pairs)


def test_larger_ones():
    rng = np.random.default_rng(2017)
    weights = rng.integers(0, 1000, (40, 40))
    totals = best_assignments(weights.tolist())
    assert [totals[pairs - 1] for pairs in (1, 7, 39, 40)] == pytest.approx(
        [best(weights, pairs) for pairs in (1, 7, 39, 40)]
    )
