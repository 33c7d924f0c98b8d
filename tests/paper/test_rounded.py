"""Rounding by arrays is the rounding of `Grid`, cell for cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper.rounded import rounded_cells, whole_offsets, whole_step

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Grid


@given(
    step=st.integers(1, 2**22),
    parts=st.integers(1, 200),
    draw=st.integers(0, SCALE - 1),
    place=st.fractions(0, 1),
)
def test_any_draw_and_value_round_as_the_mechanism_does(step, parts, draw, place):
    grid = Grid.even(step * parts, step)
    value = int(place * step * parts)
    found = rounded_cells(np.array([value]), np.array([draw], dtype=np.uint64), grid)
    assert found.tolist() == [grid.cell(value, draw)]


@pytest.mark.parametrize("parts", [1, 2, 3, 20])
def test_the_draws_on_both_sides_of_every_threshold(parts):
    """Draws just at and just below the least one that rounds up, for values in every step of a day."""
    grid = Grid.even(86_400, 86_400 // parts)
    step = whole_step(grid)
    values, draws = [], []
    for value in (0, 1, 7, step - 1, step, step + 1, 86_399, 86_400):
        if value > 86_400:
            continue
        offset = value % step
        least = -(-(step - offset) * SCALE // step)
        for draw in (0, least - 1, least, SCALE - 1):
            if draw < SCALE:
                values.append(value)
                draws.append(draw)
    found = rounded_cells(np.array(values), np.array(draws, dtype=np.uint64), grid)
    expected = [grid.cell(value, draw) for value, draw in zip(values, draws, strict=True)]
    assert found.tolist() == expected
    assert len(set(expected)) == min(parts, 2) + 1 or parts > 2


def test_rows_are_rounds_and_every_round_has_the_same_alphas():
    grid = Grid.even(10)
    draws = np.random.default_rng(1).integers(0, SCALE, 50, dtype=np.uint64)
    values = np.random.default_rng(2).integers(0, 11, (4, 50))
    found = rounded_cells(values, draws, grid)
    assert found.shape == (4, 50)
    for row, cells in zip(values, found, strict=True):
        assert cells.tolist() == [grid.cell(int(v), int(d)) for v, d in zip(row, draws, strict=True)]


def test_offsets_are_the_floor_of_a_95_bit_product():
    step = 2**31 - 1
    draws = [0, 1, 2**32 - 1, 2**32, 2**63 + 12345, SCALE - 1]
    found = whole_offsets(np.array(draws, dtype=np.uint64), step)
    assert found.tolist() == [draw * step // SCALE for draw in draws]


@pytest.mark.parametrize("grid", [Grid([0, 1, 3]), Grid([0, "1/2", 1]), Grid.even(2**31)])
def test_other_grids_are_refused(grid):
    with pytest.raises(ParameterError, match="even steps of whole numbers"):
        whole_step(grid)


def test_more_cells_than_a_byte_holds_are_refused():
    with pytest.raises(ParameterError, match="at most 255 steps"):
        rounded_cells(np.array([1]), np.array([0], dtype=np.uint64), Grid.even(256, 1))
