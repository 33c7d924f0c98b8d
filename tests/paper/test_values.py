"""Values are drawn once and kept within bounds, and rounded by arrays cell for cell as `Grid` rounds them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper.claims import Setting

from paper import values
from reticent.errors import ParameterError
from reticent.lab.fleet import GRAN_TURISMO_SPORT
from reticent.mechanisms import SCALE, Grid


@dataclass(frozen=True)
class Counting:
    """Remembers how often it was drawn from."""

    name: str
    max_value: int = 10
    drawn: list[int] = field(default_factory=list, compare=False)

    def values(self, devices, rounds, generator):
        self.drawn.append(devices)
        return generator.integers(0, 11, (rounds, devices), dtype=np.int32)


def test_values_are_drawn_once_per_size_and_seed_and_cannot_be_changed():
    population = Counting("once")
    first = values.daily_values(population, 100, 3, seed=1)
    assert values.daily_values(population, 100, 3, seed=1) is first
    assert population.drawn == [100]
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1
    assert not np.array_equal(first, values.daily_values(population, 100, 3, seed=2))
    assert values.daily_values(population, 50, 3, seed=1).shape == (3, 50)
    assert population.drawn == [100, 100, 50]


def test_names_have_random_numbers_of_their_own():
    names = [("a",), ("b",), ("a", "b"), ("ab",)]
    draws = [values.generator(7, *name).integers(2**62) for name in names]
    assert len(set(map(int, draws))) == 4
    assert values.generator(7, "a").integers(2**62) != values.generator(8, "a").integers(2**62)


def test_fleets_are_random_subsets_of_the_largest():
    small, large = values.stand_in_days(GRAN_TURISMO_SPORT, Setting(seed=5, fleets=(300, 2_000), days=4))
    assert [day.total for day in small] == [300] * 4
    assert [day.total for day in large] == [2_000] * 4
    for few, many in zip(small, large, strict=True):
        there = dict(zip(many.values.tolist(), many.devices.tolist(), strict=True))
        assert all(there[value] >= number for value, number in zip(few.values, few.devices, strict=True))


@given(
    data=st.data(), step=st.integers(1, 2**31 - 1), place=st.fractions(0, 1), aside=st.sampled_from([-1, 0])
)
def test_any_draw_and_value_round_as_the_mechanism_does(data, step, place, aside):
    """Draws anywhere, and on both sides of the least one that rounds up, by products of up to 95 bits."""
    parts = data.draw(st.integers(1, min(255, (2**31 - 1) // step)))
    grid = Grid.even(step * parts, step)
    value = int(place * step * parts)
    least = -(-(step - value % step) * SCALE // step)
    draws = [data.draw(st.integers(0, SCALE - 1)), 0, min(least + aside, SCALE - 1), SCALE - 1]
    cells = values.rounded_cells(np.full(4, value), np.array(draws, dtype=np.uint64), grid)
    assert cells.tolist() == [grid.cell(value, draw) for draw in draws]


def test_rows_are_rounds_and_every_round_has_the_same_alphas():
    grid = Grid.even(10)
    draws = np.random.default_rng(1).integers(0, SCALE, 50, dtype=np.uint64)
    of_rounds = np.random.default_rng(2).integers(0, 11, (4, 50))
    cells = values.rounded_cells(of_rounds, draws, grid)
    assert cells.tolist() == [
        [grid.cell(int(value), int(draw)) for value, draw in zip(row, draws, strict=True)]
        for row in of_rounds
    ]


@pytest.mark.parametrize(
    ("grid", "rule"),
    [
        (Grid([0, 1, 3]), "even steps of whole numbers"),
        (Grid([0, "1/2", 1]), "even steps of whole numbers"),
        (Grid.even(2**31), "even steps of whole numbers"),
        (Grid.even(256, 1), "at most 255 steps"),
    ],
)
def test_other_grids_are_refused(grid, rule):
    with pytest.raises(ParameterError, match=rule):
        values.rounded_cells(np.array([1]), np.array([0], dtype=np.uint64), grid)
