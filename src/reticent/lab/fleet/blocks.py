"""Work on a large fleet in blocks of devices that fit the cache, a thread per core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""Devices per block. It is fixed, so that what is drawn depends neither on the machine nor on its load."""

Fill = Callable[[np.random.Generator, NDArray[np.int32]], None]
"""Writes the values of a block, int32[rounds, devices of the block], with a generator of its own."""


def blocks(devices: int, size: int = BLOCK) -> Iterator[slice]:
    """
    The devices, a block at a time.

    >>> list(blocks(5, size=2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, devices)) for start in range(0, devices, size))


def each_block(work: Callable[[slice], None], devices: int, size: int = BLOCK) -> None:
    """Call `work` with every block of devices, on all cores: NumPy leaves the lock while it computes."""
    parts = list(blocks(devices, size))
    if len(parts) <= 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        for _ in pool.map(work, parts):
            pass


def filled(devices: int, rounds: int, generator: np.random.Generator, fill: Fill) -> NDArray[np.int32]:
    """
    Values drawn block by block: int32[rounds, devices].

    Each block has a generator of its own, seeded by `generator`, so the values are the same on any number of
    cores, and scratch memory is that of a few blocks.
    """
    values = np.zeros((rounds, devices), dtype=np.int32)
    count = -(-devices // BLOCK)
    seeds = generator.integers(0, 2**32, (count, 4), dtype=np.uint32).tolist()

    def work(part: slice) -> None:
        fill(np.random.default_rng(seeds[part.start // BLOCK]), values[:, part])

    each_block(work, devices)
    return values
