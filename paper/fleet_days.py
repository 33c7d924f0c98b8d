"""The days of an experiment, reduced to how many devices hold which value."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import numpy as np

from paper.experiment import DAY, Setting
from paper.population_cache import daily_values, generator
from reticent.lab.fleet import GRAN_TURISMO_SPORT, Constant, Population, TruncatedNormal, Uniform
from reticent.lab.fleet_counts import Tally

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def stand_in(setting: Setting) -> Population:
    """The population in place of the paper's data set, which is not published."""
    return GRAN_TURISMO_SPORT if setting.population is None else setting.population


SYNTHETIC: tuple[tuple[str, Population], ...] = (
    ("constant 12 h", Constant(DAY)),
    ("uniform on 0-24 h", Uniform(DAY)),
    ("normal 12 ± 2 h, truncated", TruncatedNormal(DAY)),
)
"""The three synthetic data sets, with their titles."""

Days = tuple[Tally, ...]


@lru_cache(maxsize=4)
def stand_in_days(setting: Setting) -> tuple[Days, ...]:
    """
    Per fleet and day, how many devices hold which value.

    The values are drawn for the largest fleet; the smaller ones are random subsets of it, one within the
    other, and keep their devices from day to day, as in §5 of the paper.
    """
    population, most = stand_in(setting), max(setting.fleets)
    values = daily_values(population, most, setting.days, setting.seed)
    order = generator(setting.seed, "subsets", population.name).permutation(most)

    def of_fleet(devices: int) -> Days:
        if devices == most:
            return tuple(in_parallel(Tally.of, values))
        chosen = np.sort(order[:devices])
        return tuple(in_parallel(lambda day: Tally.of(day[chosen]), values))

    return tuple(of_fleet(devices) for devices in setting.fleets)


@lru_cache(maxsize=4)
def synthetic_days(setting: Setting) -> tuple[Days, ...]:
    """Per synthetic data set and day, how many devices of the smallest fleet hold which value."""

    def of_population(population: Population) -> Days:
        devices, source = min(setting.fleets), generator(setting.seed, "values", population.name)
        return tuple(in_parallel(Tally.of, population.values(devices, setting.days, source)))

    return tuple(of_population(population) for _, population in SYNTHETIC)


def in_parallel(work: Callable[[Task], Answer], tasks: Iterable[Task]) -> list[Answer]:
    """The answers to all tasks, in order, from a thread per core: NumPy leaves the lock while it works."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(work, tasks))
