"""IdSet is a set, for any ids; and stays quick for those somebody picks to make it slow."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reticent_collector.stores import IdSet, id_set

IDS = st.binary(min_size=16, max_size=16) | st.integers(0, 3).map(lambda n: n.to_bytes(16))
ZERO_FACTORS = bytes(48)
"""No mixing: every id has bucket 0, and its first half as it is."""


def array(ids: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(-1, 16)


def is_a_set(seen: IdSet, batches: list[list[bytes]]) -> None:
    """Beside a Python set: the same answers for the same batches."""
    known: set[bytes] = set()
    for batch in batches:
        missing = seen.missing(array(batch))
        expected = []
        for each in batch:
            expected.append(each not in known)
            known.add(each)
        assert missing.fresh.tolist() == expected
        seen.add(missing)
        assert len(seen) == len(known)
    everything = sorted(known)
    assert not seen.missing(array(everything)).fresh.any()


@given(st.lists(st.lists(IDS, max_size=40), max_size=8))
def test_it_is_a_set(batches: list[list[bytes]]) -> None:
    is_a_set(IdSet(), batches)


@given(st.lists(st.lists(IDS, max_size=40), max_size=4))
@settings(max_examples=30)
def test_it_is_a_set_though_all_ids_share_one_bucket(batches: list[list[bytes]]) -> None:
    """The worst hash there is; and with no mask, ids that begin with zeros look like free places."""
    is_a_set(IdSet(ZERO_FACTORS), batches)


def test_it_is_a_set_while_it_grows() -> None:
    draws = np.random.default_rng(1)
    ids = [row.tobytes() for row in draws.integers(0, 256, (20_000, 16), dtype=np.uint8)]
    repeated = [ids[place] for place in draws.integers(0, len(ids), 40_000)]
    is_a_set(IdSet(), [repeated[start : start + 777] for start in range(0, len(repeated), 777)])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables so small, and moved so slowly, that a few hundred ids see every moment of growing."""
    monkeypatch.setattr(id_set, "_SMALLEST", 2)
    monkeypatch.setattr(id_set, "_STEP", 1)
    monkeypatch.setattr(id_set, "_OVERFULL", 0.97)
    monkeypatch.setattr(id_set, "_MOVED_PER_ID", 4)


def test_at_every_moment_of_growing_each_id_is_in_the_set_once(tiny: None) -> None:
    """One id at a time, and all of them looked up after each: in tables of 32 to 1024 places, for some keys."""
    for key in range(8):
        draws = random.Random(key)
        seen, known, tables = IdSet(draws.randbytes(48)), [], set()
        for _ in range(400):
            known.append(draws.randbytes(16))
            missing = seen.missing(array([*known, known[-1]]))
            assert np.flatnonzero(missing.fresh).tolist() == [len(known) - 1]
            seen.add(missing)
            assert len(seen) == len(known)
            assert not seen.missing(array(known)).fresh.any()
            tables.add((seen.nbytes, seen._moved))
        assert len(tables) > 60, "ids were not moved step by step"


@given(st.lists(st.lists(IDS | st.integers(0, 999).map(lambda n: n.to_bytes(16)), max_size=60), max_size=12))
@settings(max_examples=150)
def test_it_is_a_set_while_tiny_tables_are_moved(batches: list[list[bytes]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_SMALLEST", 2), ("_STEP", 1), ("_MOVED_PER_ID", 1), ("_OVERFULL", 0.97)):
            patch.setattr(id_set, name, value)
        is_a_set(IdSet(), batches)
        is_a_set(IdSet(ZERO_FACTORS), batches[:3])


def test_no_call_moves_a_whole_table() -> None:
    """What an `add` moves is in proportion to what it adds, but for one step."""
    seen, draws = IdSet(), np.random.default_rng(4)
    places, most = seen.nbytes // 16, 0
    for _ in range(3000):
        moved_before, larger = seen._moved, seen._larger
        seen.add(seen.missing(draws.integers(0, 256, (100, 16), dtype=np.uint8)))
        if larger is not None and seen._larger is larger:
            most = max(most, seen._moved - moved_before)
        places = max(places, seen.nbytes // 16)
    assert places > 16 * id_set._STEP * 8
    assert 0 < most <= id_set._STEP + 100 * id_set._MOVED_PER_ID // 8


@pytest.mark.parametrize("count", [2, 3, 400, 600, 5000])
def test_equal_ids_in_one_batch_are_found_wherever_they_are(count: int) -> None:
    """Two of them, at any places, also where others of the batch have nearly the same hash."""
    draws = np.random.default_rng(count)
    for _ in range(40):
        ids = draws.integers(0, 256, (count, 16), dtype=np.uint8)
        one, other = sorted(draws.choice(count, 2, replace=False))
        ids[other] = ids[one]
        assert np.flatnonzero(~IdSet().missing(ids).fresh).tolist() == [other]
    shared = bytes(range(1, 25)) + bytes(24)  # without the last factors, whole batches have few hashes
    ids = np.zeros((count, 16), dtype=np.uint8)
    ids.view(np.uint64)[:, 0] = np.arange(count) // 2 + 1
    assert IdSet(shared).missing(ids).fresh.tolist() == [place % 2 == 0 for place in range(count)]


def test_a_batch_larger_than_the_table_is_taken_at_once() -> None:
    draws = np.random.default_rng(6)
    seen, ids = IdSet(), draws.integers(0, 256, (100_000, 16), dtype=np.uint8)
    seen.add(seen.missing(ids[:10]))
    missing = seen.missing(ids)
    assert int(missing.fresh.sum()) == 99_990
    seen.add(missing)
    assert len(seen) == 100_000
    assert not seen.missing(ids).fresh.any()


def test_ids_that_differ_in_one_half_only_are_different() -> None:
    ids = [bytes(8) + n.to_bytes(8) for n in range(3000)] + [n.to_bytes(8) + bytes(8) for n in range(1, 3000)]
    is_a_set(IdSet(), [ids, ids])


@pytest.mark.parametrize("expected", [1, 2867, 2868, 2869, 50_000])
def test_a_set_that_was_made_for_so_many_ids_does_not_grow_for_them(expected: int) -> None:
    seen, ids = (
        IdSet(expected=expected),
        np.random.default_rng(7).integers(0, 256, (expected, 16), dtype=np.uint8),
    )
    held = seen.nbytes
    seen.add(seen.missing(ids))
    assert (len(seen), seen.nbytes) == (expected, held)
    assert held <= max(16 << 12, expected * 16 * 2 / 0.7 + 16 * 8)


def test_memory_per_id_is_bounded() -> None:
    """Two tables at most, one twice as large as the other, which is 70 % full when the larger one is made."""
    seen = IdSet()
    draws = np.random.default_rng(2)
    for _ in range(20):
        seen.add(seen.missing(draws.integers(0, 256, (5_000, 16), dtype=np.uint8)))
        assert seen.nbytes <= max(16 << 12, len(seen) * 16 * 3 / 0.7)


@pytest.mark.parametrize("shape", ["counting", "one half", "high bits"])
def test_ids_of_any_shape_spread_over_the_buckets(shape: str) -> None:
    """
    Pairs that share a bucket: for n = 4096 random ids and 2¹³ buckets, n(n-1)/2 · 2⁻¹³ = 1024, with a
    standard deviation of 32. Eight of them more, for any of twenty keys, has probability below 10⁻¹³.
    """
    numbers = np.arange(4096, dtype=np.uint64)
    words = np.zeros((4096, 2), dtype=np.uint64)
    words[:, 1 if shape == "one half" else 0] = numbers << np.uint64(52) if shape == "high bits" else numbers
    ids = words.view(np.uint8)

    def pairs(seen: IdSet) -> float:
        held = np.bincount((seen.missing(ids).ids.hashes >> np.uint64(64 - 13)).astype(np.intp))
        return float((held * (held - 1) / 2).sum())

    assert max(pairs(IdSet()) for _ in range(20)) < 1024 + 8 * 32
    assert pairs(IdSet(ZERO_FACTORS)) > 1024 + 8 * 32
