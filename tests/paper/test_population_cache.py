from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from paper.population_cache import daily_values, generator

from paper import population_cache


@dataclass(frozen=True)
class Counting:
    """Remembers how often it was drawn from."""

    name: str
    max_value: int = 10
    drawn: list[int] = field(default_factory=list, compare=False)

    def values(self, devices, rounds, generator):
        self.drawn.append(devices)
        return generator.integers(0, 11, (rounds, devices), dtype=np.int32)


@pytest.fixture(autouse=True)
def _nothing_kept():
    population_cache._kept.clear()
    yield
    population_cache._kept.clear()


def test_values_are_drawn_once_and_cannot_be_changed():
    population = Counting("once")
    first = daily_values(population, 100, 3, seed=1)
    assert daily_values(population, 100, 3, seed=1) is first
    assert population.drawn == [100]
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1


def test_other_sizes_and_seeds_are_other_values():
    population = Counting("other")
    first = daily_values(population, 100, 3, seed=1)
    assert not np.array_equal(first, daily_values(population, 100, 3, seed=2))
    assert daily_values(population, 50, 3, seed=1).shape == (3, 50)
    assert population.drawn == [100, 100, 50]


def test_the_oldest_is_forgotten_when_there_is_no_room(monkeypatch):
    monkeypatch.setattr(population_cache, "MOST_BYTES", 2 * 4 * 300)
    old, used, new = Counting("old"), Counting("used"), Counting("new")
    for population in (old, used, used, new, used):
        daily_values(population, 100, 3, seed=1)
    assert (len(old.drawn), len(used.drawn), len(new.drawn)) == (1, 1, 1)
    daily_values(old, 100, 3, seed=1)
    assert len(old.drawn) == 2


def test_names_have_random_numbers_of_their_own():
    draws = [generator(7, *names).integers(2**62) for names in [("a",), ("b",), ("a", "b"), ("ab",)]]
    assert len(set(map(int, draws))) == 4
    assert generator(7, "a").integers(2**62) != generator(8, "a").integers(2**62)
