"""IdSet is a set, for any ids; and stays quick for those somebody picks to make it slow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reticent.stores import IdSet

IDS = st.binary(min_size=16, max_size=16) | st.integers(0, 3).map(lambda n: n.to_bytes(16))
ZERO_FACTORS = bytes(48)
"""No mixing: every id has slot 0, and its first half as it is."""


def array(ids: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(-1, 16)


def is_a_set(seen: IdSet, batches: list[list[bytes]]) -> None:
    """Beside a Python set: the same answers for the same batches."""
    known: set[bytes] = set()
    for batch in batches:
        fresh = seen.missing(array(batch))
        expected = []
        for each in batch:
            expected.append(each not in known)
            known.add(each)
        assert fresh.tolist() == expected
        seen.add(array(batch)[fresh])
        assert len(seen) == len(known)
    everything = sorted(known)
    assert not seen.missing(array(everything)).any()


@given(st.lists(st.lists(IDS, max_size=40), max_size=8))
def test_it_is_a_set(batches: list[list[bytes]]) -> None:
    is_a_set(IdSet(), batches)


@given(st.lists(st.lists(IDS, max_size=40), max_size=4))
@settings(max_examples=30)
def test_it_is_a_set_though_all_ids_share_one_slot(batches: list[list[bytes]]) -> None:
    """The worst hash there is; and with no mask, ids that begin with zeros look like free slots."""
    is_a_set(IdSet(ZERO_FACTORS), batches)


def test_it_is_a_set_while_it_grows() -> None:
    draws = np.random.default_rng(1)
    ids = [row.tobytes() for row in draws.integers(0, 256, (20_000, 16), dtype=np.uint8)]
    repeated = [ids[place] for place in draws.integers(0, len(ids), 40_000)]
    is_a_set(IdSet(), [repeated[start : start + 777] for start in range(0, len(repeated), 777)])


def test_ids_that_differ_in_one_half_only_are_different() -> None:
    ids = [bytes(8) + n.to_bytes(8) for n in range(3000)] + [n.to_bytes(8) + bytes(8) for n in range(1, 3000)]
    is_a_set(IdSet(), [ids, ids])


def test_memory_per_id_is_bounded() -> None:
    seen = IdSet()
    draws = np.random.default_rng(2)
    for _ in range(20):
        seen.add(draws.integers(0, 256, (5_000, 16), dtype=np.uint8))
        assert seen.nbytes <= max(16 << 12, len(seen) * 16 * 2 / 0.6)


@pytest.mark.parametrize("shape", ["counting", "one half", "high bits"])
def test_ids_of_any_shape_spread_over_the_slots(shape: str) -> None:
    """
    Pairs that share a first slot: for n = 4096 random ids and 2¹³ slots, n(n-1)/2 · 2⁻¹³ = 1024, with a
    standard deviation of 32. Eight of them more, for any of twenty keys, has probability below 10⁻¹³.
    """
    numbers = np.arange(4096, dtype=np.uint64)
    words = np.zeros((4096, 2), dtype=np.uint64)
    words[:, 1 if shape == "one half" else 0] = numbers << np.uint64(52) if shape == "high bits" else numbers
    ids = words.view(np.uint8)

    def pairs(seen: IdSet) -> float:
        seen._make(13)
        slots, _ = seen._slots(seen._hashes(ids))
        held = np.bincount(slots)
        return float((held * (held - 1) / 2).sum())

    assert max(pairs(IdSet()) for _ in range(20)) < 1024 + 8 * 32
    assert pairs(IdSet(ZERO_FACTORS)) > 1024 + 8 * 32
