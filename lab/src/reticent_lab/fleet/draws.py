"""
The chance of a simulated fleet: a hash of seed, device and purpose, as numbers and as arrays. Every draw is one
word,

    draw(device, what)  =  mix( state(device) ⊕ place(what) ),
    state(device)       =  mix( key + device · γ  mod 2⁶⁴ ),      γ = ⌊2⁶⁴/φ⌋, which is odd,

where `place` and `key` are words of BLAKE2b over (seed, plan, metric, digest, purpose, index, bit) and `mix` is the
finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), a bijection: at one place no two devices share a draw.
Nothing here is secret: a real device draws from its own secret, with `reticent.device.SecretDraws`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reticent.device.prf import FixedPurpose, chosen, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reticent.plan import Metric, Plan, Window

SCHEME = b"reticent-fleet-1"

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

BLOCK = 1 << 16
"""Devices per block. It is fixed, so that what is drawn depends neither on the machine nor on its load."""

Words = NDArray[np.uint64]


def mix(word: int) -> int:
    """
    The finaliser of SplitMix64.

    >>> hex(mix(0x9E3779B97F4A7C15))  # the first word from seed 0
    '0xe220a8397b1dcdaf'
    """
    word = (word ^ word >> 30) * _FIRST & _WORD
    word = (word ^ word >> 27) * _SECOND & _WORD
    return word ^ word >> 31


def mix_words(words: Words, scratch: Words) -> Words:
    """`mix` of each word, in place; `scratch` is of the same size."""
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        np.right_shift(words, np.uint64(shift), out=scratch)
        np.bitwise_xor(words, scratch, out=words)
        np.multiply(words, np.uint64(factor), out=words)
    np.right_shift(words, np.uint64(31), out=scratch)
    return np.bitwise_xor(words, scratch, out=words)


class Places:
    """The places of a fleet's draws, the same for every device; sampled answers have other places in each window."""

    def __init__(self, seed: int, plan: str, window: int | None = None) -> None:
        head = encode(SCHEME, str(seed).encode(), plan.encode())
        if window is not None:
            head = encode(SCHEME + b"/sampled", str(seed).encode(), plan.encode(), window.to_bytes(8, "big"))
        self._root = blake2b(head, digest_size=16)
        self.key = self._words(b"", b"", b"device", 0, 0)[0]

    def alpha(self, metric: Metric) -> int:
        """Where the rounding draw of a metric is."""
        return self._words(metric.name.encode(), metric.digest, b"alpha", 0, 0)[0]

    def memo(self, metric: Metric, memo_class: int, bit: int) -> int:
        """Where the draw of one bit of a remembered answer is."""
        return self._words(metric.name.encode(), metric.digest, b"memo", memo_class, bit)[0]

    def fixed(self, metric: Metric, purpose: FixedPurpose, number: int) -> int:
        """Where one of the draws for a purpose is that neither a value nor a class enters."""
        return self._words(metric.name.encode(), metric.digest, purpose.encode(), 0, number)[0]

    def flip(self, metric: Metric, round_number: int, bit: int) -> int:
        """Where the draw of one bit's flip in a round is."""
        return self._words(metric.name.encode(), metric.digest, b"flip", round_number, bit)[0]

    def cohort(self) -> int:
        """Where the draw is whose top byte is the cohort."""
        return self._words(b"", b"", b"cohort", 0, 0)[0]

    def picked_round(self) -> int:
        """Where the draw is that picks a round of the window."""
        return self._words(b"", b"", b"round", 0, 0)[0]

    def asked(self, metric: Metric) -> int:
        """Where the draw is that decides whether a metric, by its name, is asked."""
        return self._words(metric.name.encode(), b"", b"metrics", 0, 0)[0]

    def report_id(self, version: int, round_number: int) -> tuple[int, int]:
        """Where the two halves of a report's id are."""
        return self._words(b"", version.to_bytes(8, "big"), b"id", round_number, 0)

    def _words(self, metric: bytes, digest: bytes, purpose: bytes, index: int, bit: int) -> tuple[int, int]:
        state = self._root.copy()
        state.update(encode(metric, digest, purpose, index.to_bytes(8, "big"), bit.to_bytes(8, "big")))
        block = state.digest()
        return int.from_bytes(block[:8], "big"), int.from_bytes(block[8:], "big")


@lru_cache(maxsize=64)
def _places(seed: int, plan: str, window: int | None) -> Places:
    return Places(seed, plan, window)


class HashDraws:
    """
    The draws of one simulated device: a `reticent.device.Draws`.

    `reticent.device.answer` with these gives, bit for bit, the reports of `VectorisedFleet` for the same seed and
    device.
    """

    __slots__ = ("_places", "_state", "_window")

    def __init__(self, seed: int, device: int, plan: str, window: int | None = None) -> None:
        self._places = _places(seed, plan, window)
        self._state = mix(self._places.key + device * _GOLDEN & _WORD)
        self._window = window

    @property
    def window(self) -> int | None:
        """The start of the window that all of it is drawn for; None for remembered answers."""
        return self._window

    def picked_round(self, window: Window) -> int:
        """The round of its window in which a device with sampled answers reports."""
        return window.first + (self._at(self._places.picked_round()) * window.rounds >> 64)

    def asked(self, plan: Plan) -> tuple[bool, ...]:
        """Which metrics a report answers, in plan order."""
        words = {metric.name: self._at(self._places.asked(metric)) for metric in plan.metrics}
        return chosen(words, plan.asked)

    def alpha(self, metric: Metric) -> int:
        """Where this device rounds up instead of down."""
        return self._at(self._places.alpha(metric))

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        """The draws of the remembered answer of a class."""
        draws = range(metric.mechanism.memo_draws)
        return [self._at(self._places.memo(metric, memo_class, bit)) for bit in draws]

    def fixed(self, metric: Metric, purpose: FixedPurpose, count: int) -> Sequence[int]:
        """The draws of a metric for a purpose that neither its value nor the class of an answer enters."""
        return [self._at(self._places.fixed(metric, purpose, number)) for number in range(count)]

    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        """One draw per answer bit, fresh in each round."""
        return [self._at(self._places.flip(metric, round_number, bit)) for bit in range(metric.bits)]

    def cohort(self) -> int:
        """The device's public byte."""
        return self._at(self._places.cohort()) >> 56

    def report_id(self, version: int, round_number: int) -> bytes:
        """Sixteen bytes that name a report."""
        halves = self._places.report_id(version, round_number)
        return b"".join(self._at(place).to_bytes(8, "big") for place in halves)

    def _at(self, place: int) -> int:
        return mix(self._state ^ place)


class FleetDraws:
    """The same draws for many devices at once: `words(place, part)[i]` is that of device first + part[i]."""

    def __init__(self, places: Places, devices: int, first: int = 0) -> None:
        self.places = places
        numbers = np.arange(devices, dtype=np.uint64)
        numbers += np.uint64(first)
        numbers *= np.uint64(_GOLDEN)
        numbers += np.uint64(places.key)
        self.states = mix_words(numbers, np.empty_like(numbers))

    def words(
        self, place: int | Words, part: slice | NDArray[np.intp], scratch: Words | None = None
    ) -> Words:
        """The draws of some devices at a place (or one each); `scratch`, uint64[2, devices], is reused."""
        states = self.states[part]
        room = np.empty((2, len(states)), np.uint64) if scratch is None else scratch
        words, spare = room[:, : len(states)]
        np.bitwise_xor(states, np.uint64(place) if isinstance(place, int) else place, out=words)
        return mix_words(words, spare)


# Blocks of devices, which fit the cache; a thread per core


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


class InBlocks(ABC):
    """Draws the values of a population block by block, with a generator each: the same on any number of cores."""

    __slots__ = ()

    def values(self, devices: int, rounds: int, generator: np.random.Generator) -> NDArray[np.int32]:
        """Whole values, one row per round: int32[rounds, devices]."""
        values = np.zeros((rounds, devices), dtype=np.int32)
        count = -(-devices // BLOCK)
        seeds = generator.integers(0, 2**32, (count, 4), dtype=np.uint32).tolist()

        def work(part: slice) -> None:
            self._fill(np.random.default_rng(seeds[part.start // BLOCK]), values[:, part])

        each_block(work, devices)
        return values

    @abstractmethod
    def _fill(self, draw: np.random.Generator, values: NDArray[np.int32]) -> None:
        """Write the values of a block, int32[rounds, devices of the block], which are 0 before."""
