"""The integer arithmetic under the vectorised classes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.lab.fleet.classes import clamp, classes_of, high_word
from reticent.lab.fleet.counting import tally
from reticent.lab.fleet.draws import FleetDraws, HashDraws, Places
from reticent.mechanisms import Grid, OneBitMean
from reticent.plan import Metric

words64 = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**64 - 1]))


@given(st.lists(st.tuples(words64, words64), min_size=1, max_size=20))
def test_the_high_word_of_a_product_is_exact(pairs: list[tuple[int, int]]) -> None:
    words, factors = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    exact = [word * factor >> 64 for word, factor in pairs]
    assert high_word(words, factors).tolist() == exact
    assert high_word(words, factors.astype(object)).tolist() == exact


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_clamping_works_on_every_type(kind: type[np.integer]) -> None:
    ends = np.array([np.iinfo(kind).min, 0, 1, 60, np.iinfo(kind).max], dtype=kind)
    before = ends.copy()
    assert clamp(ends, 60, np.int64).tolist() == [min(max(int(value), 0), 60) for value in ends]
    assert (ends == before).all()
    assert clamp(ends, 2**40, np.int64).tolist() == [min(max(int(value), 0), 2**40) for value in ends]


@pytest.mark.parametrize(
    "grid",
    [
        Grid.even(60), Grid.even(60, 20), Grid.even(60, Fraction(20, 3)), Grid([0, 1, 2, 50, 60]),
        Grid([0, Fraction(1, 3), 59, Fraction(121, 2)]), Grid.even(2**40, 2**38), Grid([0, Fraction(1, 2)]),
    ],
    ids=str,
)  # fmt: skip
def test_cells_are_those_of_the_grid_for_every_whole_value(grid: Grid) -> None:
    """Every value from below to above the range (a step apart where it is long), for 25 devices."""
    metric = Metric("m", OneBitMean(1, grid=grid))
    draws = FleetDraws(Places(1, "p"), 25)
    found = classes_of(metric, draws, np.zeros(25, np.uint8))
    top = grid.max_value
    step = max(1, int(top) // 70)
    for value in range(-step, int(top) + 3 * step, step):
        inside = min(max(value, 0), top)
        expected = [grid.cell(inside, HashDraws(1, device, "p").alpha(metric)) for device in range(25)]
        assert found.of(np.full(25, value), slice(0, 25)).astype(int).tolist() == expected


@pytest.mark.parametrize(("groups", "places"), [(1, 3), (7, 1), (40, 11), (5000, 9), (30_000, 2)])
def test_tallies_are_those_of_counting_one_by_one(groups: int, places: int) -> None:
    generator = np.random.default_rng(groups)
    keys = generator.integers(0, groups, 3000)
    bits = [generator.integers(0, 2, 3000).astype(np.uint8) for _ in range(places)]
    reports, ones = tally(keys, bits, groups)
    expected = np.zeros((groups, places), dtype=int)
    for place, bit in enumerate(bits):
        np.add.at(expected[:, place], keys, bit)
    assert (ones == expected).all()
    assert (reports == np.bincount(keys, minlength=groups)).all()


def test_tallies_of_one_group_need_no_keys() -> None:
    bits = [np.array([True, False, True]), np.array([False, False, True])]
    reports, ones = tally(None, bits, 1)
    assert (reports.tolist(), ones.tolist()) == ([3], [[2, 1]])
