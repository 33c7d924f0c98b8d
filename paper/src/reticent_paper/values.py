"""The values behind the experiments: drawn once, and counted per day."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import blake2b
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from reticent_lab.fleet import (
    FORZA_HORIZON_4,
    GRAN_TURISMO_SPORT,
    THE_CREW_2,
    Constant,
    Population,
    TruncatedNormal,
    Uniform,
)
from reticent_paper.claims import DAY, Setting
from reticent_paper.fleet_counts import Tally

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Days = tuple[Tally, ...]  # Per day, how many devices hold which value

SYNTHETIC: tuple[tuple[str, Population], ...] = (
    ("constant 12 h", Constant(DAY)),
    ("uniform on 0-24 h", Uniform(DAY)),
    ("normal 12 ± 2 h, truncated", TruncatedNormal(DAY)),
)
"""The three synthetic data sets, with their titles."""


def generator(seed: int, *names: str) -> np.random.Generator:
    """The random numbers that belong to a seed and a name: other names draw independently of them."""
    digest = blake2b("\0".join(names).encode(), digest_size=16).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "big")])


@lru_cache(maxsize=2)  # two apps of 3 million devices over 31 days are 0.7 GiB
def daily_values(population: Population, devices: int, days: int, seed: int) -> NDArray[np.int32]:
    """The values of a population, int32[days, devices], read-only, and shared by figures."""
    values = population.values(devices, days, generator(seed, "values", population.name))
    values.flags.writeable = False
    return values


def stand_ins(setting: Setting) -> tuple[Population, ...]:
    """The counters in place of the paper's data set, which is not published and has three of them."""
    return setting.populations or (GRAN_TURISMO_SPORT, FORZA_HORIZON_4, THE_CREW_2)


@lru_cache(maxsize=8)
def stand_in_days(population: Population, setting: Setting) -> tuple[Days, ...]:
    """The days of one counter in each fleet; smaller fleets are random subsets of the largest, as in §5."""
    most = max(setting.fleets)
    values = daily_values(population, most, setting.days, setting.seed)  # type: ignore[arg-type]
    order = generator(setting.seed, "subsets", population.name).permutation(most)

    def of_fleet(devices: int) -> Days:
        if devices == most:
            return tuple(in_parallel(Tally.of, values))
        chosen = np.sort(order[:devices])
        return tuple(in_parallel(lambda day: Tally.of(day[chosen]), values))

    return tuple(of_fleet(devices) for devices in setting.fleets)


@lru_cache(maxsize=4)
def synthetic_days(setting: Setting) -> tuple[Days, ...]:
    """The days of each synthetic data set, for the smallest fleet."""

    def of_population(population: Population) -> Days:
        devices = min(setting.fleets)
        source = generator(setting.seed, "values", population.name)
        return tuple(in_parallel(Tally.of, population.values(devices, setting.days, source)))

    return tuple(of_population(population) for _, population in SYNTHETIC)


def in_parallel(work: Callable[[Task], Answer], tasks: Iterable[Task]) -> list[Answer]:
    """The answers to all tasks, in order, from a thread per core: NumPy leaves the lock while it works."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(work, tasks))
