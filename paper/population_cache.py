"""The values behind the figures: drawn once per population, size and seed, and shared between experiments."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from reticent.lab.fleet import Population

MOST_BYTES = 1 << 30
"""How much may be kept: two apps of 3 million devices over 31 days are 0.7 GiB."""

_kept: OrderedDict[tuple[object, int, int, int], NDArray[np.int32]] = OrderedDict()


def generator(seed: int, *names: str) -> np.random.Generator:
    """
    The random numbers that belong to a seed and a name: other names draw independently of them.

    >>> int(generator(1, "fig3").integers(1000)) == int(generator(1, "fig3").integers(1000))
    True
    """
    digest = blake2b("\0".join(names).encode(), digest_size=16).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "big")])


def daily_values(population: Population, devices: int, days: int, seed: int) -> NDArray[np.int32]:
    """
    The values of a population, int32[days, devices], read-only.

    They depend on the population, its size and the seed, not on who asks: figures that share a population
    share its values. The least recently used arrays are forgotten beyond `MOST_BYTES`.
    """
    key = population, devices, days, seed
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    _forget(4 * devices * days)
    values = population.values(devices, days, generator(seed, "values", population.name))
    values.flags.writeable = False
    _kept[key] = values
    return values


def _forget(needed: int) -> None:
    while _kept and needed + sum(values.nbytes for values in _kept.values()) > MOST_BYTES:
        _kept.popitem(last=False)
