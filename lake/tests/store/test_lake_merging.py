"""Small parts of a writer are merged, and nothing that others have seen changes by it."""

from __future__ import annotations

import random

import pytest
from tests.shared.writers import KEY, group

from reticent.errors import StoreError
from reticent_collector.stores import Appended, Store, open_store
from reticent_lake.store import LakeBackend, Part
from reticent_lake.store.layout import outermost


def test_small_parts_of_a_writer_are_merged(store: Store) -> None:
    """64 of them, and 64 of those; other collectors see the same before and after."""
    other = open_store(store.url)
    other.append({KEY: group(10**9, 5)})
    for number in range(LakeBackend.merged_at_once + 3):
        store.append({KEY: group(10 * number, 12)})
        if number in (5, 40, 64):
            assert other.counts(KEY)[()]["minutes"].devices == 10 * number + 12 + 5
    parts, _ = store.backend.seals.listed(KEY)
    spans = sorted((part.first, part.last, part.rows) for part in parts)
    assert spans == [(1, 1, 5), (1, 64, 768), (65, 65, 12), (66, 66, 12), (67, 67, 12)]
    assert open_store(store.url).stored_reports() == 12 * 67 + 5
    assert other.counts(KEY)[()]["minutes"].devices == 677
    assert store.seal(KEY)
    assert store.rounds()[0].reports == 677


def test_merged_parts_are_merged_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
    for number in range(4**2 + 4 + 1):
        store.append({KEY: group(10 * number, 10)})
    spans = [(each.first, each.last) for each in sorted(store.backend.seals.listed(KEY)[0])]
    assert spans == [(1, 16), (17, 20), (21, 21)]
    assert store.backend.count(KEY).reports == 210


def test_nothing_is_merged_across_a_write_that_failed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part of a failed write may be there after all, and another collector may have seen it."""
    monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
    put, failing = store.backend.files.put, [False]

    def fail_afterwards(path: str, data: bytes) -> None:
        put(path, data)
        if failing[0]:
            raise StoreError("the answer was lost")

    monkeypatch.setattr(store.backend.files, "put", fail_afterwards)
    for number in range(3):
        store.append({KEY: group(10 * number, 10)})
    failing[0] = True
    with pytest.raises(StoreError, match="the answer was lost"):
        store.append({KEY: group(1000, 10)})
    failing[0] = False
    other = open_store(store.url)
    assert other.append({KEY: group(1000, 10)}) == {KEY: Appended(accepted=10)}
    for number in range(3, 9):
        store.append({KEY: group(10 * number, 10)})
    spans: dict[str, list[tuple[int, int]]] = {}
    for each in sorted(store.backend.seals.listed(KEY)[0]):
        spans.setdefault(each.writer, []).append((each.first, each.last))
    before, after = [(1, 1), (2, 2), (3, 3), (4, 4)], [(1, 4), (5, 5), (6, 6)]  # as another writer
    assert sorted(spans.values()) == sorted([[(1, 1)], before, after])  # the first by the other collector
    store.seal(KEY)
    assert store.rounds()[0].reports == 100


def test_large_parts_are_left_as_they_are(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
    monkeypatch.setattr(LakeBackend, "most_rows", 19)
    for number in range(5):
        store.append({KEY: group(10 * number, 10)})
    assert len(store.backend.seals.listed(KEY)[0]) == 5


@pytest.mark.parametrize("size", [1, 3, 9, 10, 30, 70, 99, 101])
def test_whatever_the_size_of_its_groups_a_round_has_few_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """All but the latest have at least half of the rows that are enough, and none has twice as many."""
    monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
    monkeypatch.setattr(LakeBackend, "most_rows", 200)
    count = 2_000 // size
    for number in range(count):
        store.append({KEY: group(1000 * number, size)})
    parts = sorted(store.backend.seals.listed(KEY)[0], key=lambda part: part.first)
    assert all(part.rows < 400 for part in parts)
    latest = 3 * 4  # fewer than four of each size on the way to a large part
    assert all(part.rows > 100 for part in parts[:-latest])
    assert len(parts) <= 2_000 // 100 + latest
    assert store.seal(KEY)
    assert store.rounds()[0].reports == count * size


def test_outermost_parts_against_comparing_all() -> None:
    draw = random.Random(4)
    for _ in range(50):
        levels = [Part(writer, n, n, 1) for writer in "ab" for n in range(1, 17)]
        levels += [Part(writer, n, n + 3, 4) for writer in "ab" for n in (1, 5, 9, 13)]
        levels += [Part("a", 1, 16, 16)] * draw.randrange(2)
        some = draw.sample(levels, 20)
        expected = {one for one in some if not any(other != one and other.covers(one) for other in some)}
        found = outermost(some)
        assert set(found) == expected
        assert len(found) == len(expected)
