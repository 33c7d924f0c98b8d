"""Values are drawn once and kept within bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from reticent_lab.fleet import GRAN_TURISMO_SPORT
from reticent_paper import values
from reticent_paper.claims import Setting


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
