import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from reticent.errors import ParameterError
from reticent.privacy import pattern, width
from reticent.privacy.patterns import patterns_of, supports

CELLS = arrays.arrays(
    np.int64, st.tuples(st.integers(1, 30), st.integers(1, 12)), elements=st.integers(-2, 3)
)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4)))
def test_a_pattern_forgets_names_and_nothing_else(sequence):
    shape = pattern(sequence)
    assert width(shape) == width(sequence) == len(set(sequence))
    assert pattern(shape) == shape
    assert pattern([{0: "c", 1: "a", 2: "e", 3: "b", 4: "d"}[value] for value in sequence]) == shape
    same = [[a == b for b in sequence] for a in sequence]
    assert same == [[a == b for b in shape] for a in shape]


@settings(deadline=None)
@given(CELLS)
def test_rows_at_once(cells):
    assert [tuple(row) for row in patterns_of(cells).tolist()] == [pattern(row) for row in cells.tolist()]


@settings(deadline=None)
@given(CELLS)
def test_supports(cells):
    found = supports(cells)
    counted = Counter(pattern(row) for row in cells.tolist())
    assert dict(zip(map(tuple, found.patterns.tolist()), found.counts.tolist(), strict=True)) == dict(counted)
    assert found.counts.tolist() == sorted(counted.values(), reverse=True)
    assert found.devices == len(cells)
    assert found.largest == max(counted.values())
    constant = sum(count for shape, count in counted.items() if width(shape) == 1)
    lonely = sum(count for count in counted.values() if count <= 2)
    assert found.share_constant == pytest.approx(constant / len(cells))
    assert found.share_lonely == found.share_at_most(2) == pytest.approx(lonely / len(cells))
    assert found.share_at_most(found.largest) == found.cumulative_shares[-1] == 1
    assert found.widths.tolist() == [width(shape) for shape in found.patterns.tolist()]


@pytest.mark.parametrize(("rounds", "values"), [(31, 4), (32, 4), (33, 4), (64, 2), (65, 2), (90, 300)])
def test_keys_of_one_and_of_several_words(rounds, values):
    """Patterns that differ in the last round alone are told apart, wherever the words end."""
    rng = np.random.default_rng(31)
    cells = rng.integers(0, values, (500, rounds))
    cells[:, 1:] = np.where(rng.random((500, rounds - 1)) < 0.97, cells[:, :1], cells[:, 1:])
    cells[0], cells[1], cells[2] = 0, 0, 0
    cells[1, -1] = cells[2, 0] = 1
    found = supports(cells)
    counted = Counter(pattern(row) for row in cells.tolist())
    assert dict(zip(map(tuple, found.patterns.tolist()), found.counts.tolist(), strict=True)) == dict(counted)


def test_many_rows_are_cut_into_blocks():
    rng = np.random.default_rng(7)
    cells = rng.integers(0, 3, (150_000, 6), dtype=np.uint8)
    found = supports(cells)
    counted = Counter(map(pattern, cells.tolist()))
    assert found.counts.sum() == 150_000
    assert found.counts.tolist() == sorted(counted.values(), reverse=True)
    assert len(found.counts) == (3**5 + 1) // 2  # all patterns of six rounds with at most three names


def test_truth_values_are_cells_too():
    assert patterns_of(np.array([[True, False], [False, False]])).tolist() == [[0, 1], [0, 0]]


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
    found = supports(cells)
    assert time.perf_counter() - start < 20
    assert found.devices == 3_000_000
