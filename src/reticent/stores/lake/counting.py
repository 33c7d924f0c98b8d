"""Counting a round from its segments: each id once, by a rule that needs no order of arrival."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from reticent.stores.id_set import ID_BYTES
from reticent.stores.lake.layout import Part
from reticent.stores.records import CountsByTags, Layout, Records, add_counts

ROWS_AT_ONCE = 1 << 22
"""Rows that are in memory at once, some 100 bytes each; a larger round is counted in as many passes."""
_COUNTED_AT_ONCE = 1 << 20


Read = Callable[[Part], Records | None]
"""The records of a segment; None when it is bad and to be left out."""


def count_parts(
    layout: Layout, segments: Sequence[Part], read: Read, rows_at_once: int = ROWS_AT_ONCE
) -> tuple[int, CountsByTags]:
    """
    Distinct reports of segments, and their counts, in memory that does not grow with the round.

    A round of more than `rows_at_once` rows is counted in several passes, each of which takes the ids that a
    random hash gives it: whoever picks ids cannot crowd them into one pass.
    """
    passes = max(1, -(-sum(segment.rows for segment in segments) // rows_at_once))
    share = _Share(passes)
    reports, counts = 0, CountsByTags()
    for turn in range(passes):
        parts = [share.of(turn, records) for segment in segments if (records := read(segment)) is not None]
        chosen = distinct(np.concatenate(parts)) if parts else np.empty((0, layout.width), dtype=np.uint8)
        reports += len(chosen)
        for some in _steps(chosen):
            counts = add_counts(counts, layout.counts(some))
    return reports, {tags: counts[tags] for tags in sorted(counts)}


def distinct(records: Records) -> Records:
    """
    One record per id: of different ones with the same id, the smallest, as bytes compare.

    Only forgery makes different reports with one id, and collectors that do not talk cannot know which came
    first. The smallest is the same for whoever counts, in whatever order.

    >>> rows = np.array([[7] * 16 + [5], [9] * 16 + [1], [7] * 16 + [3], [7] * 16 + [5]], dtype=np.uint8)
    >>> distinct(rows)[:, 14:].tolist()
    [[9, 9, 1], [7, 7, 3]]
    """
    halves = np.ascontiguousarray(records[:, :8]).view(np.uint64).reshape(-1)
    order = np.argsort(halves)
    ordered = halves[order]
    equal = ordered[1:] == ordered[:-1]
    if not equal.any():
        return records
    twins = np.concatenate(([False], equal)) | np.concatenate((equal, [False]))
    return np.concatenate((records[order[~twins]], _smallest(records[order[twins]])))


def _smallest(records: Records) -> Records:
    """The smallest record of each id."""
    width = records.shape[1]
    rows = np.sort(np.ascontiguousarray(records).view(f"V{width}").reshape(-1))
    ordered: Records = rows.view(np.uint8).reshape(-1, width)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = (ordered[1:, :ID_BYTES] != ordered[:-1, :ID_BYTES]).any(axis=1)
    return ordered[first]


def _steps(records: Records) -> Iterator[Records]:
    for start in range(0, len(records), _COUNTED_AT_ONCE):
        yield records[start : start + _COUNTED_AT_ONCE]


class _Share:
    """Which pass an id belongs to: a hash by two random odd factors."""

    def __init__(self, passes: int) -> None:
        self._passes = passes
        self._factors = np.frombuffer(secrets.token_bytes(16), dtype=np.uint64) | np.uint64(1)

    def of(self, turn: int, records: Records) -> Records:
        """The records that belong to a pass."""
        return records if self._passes == 1 else records[self._turns(records) == turn]

    def _turns(self, records: Records) -> NDArray[np.uint64]:
        halves = np.ascontiguousarray(records[:, :ID_BYTES]).view(np.uint64).reshape(-1, 2)
        mixed = halves @ self._factors
        turns: NDArray[np.uint64] = (mixed >> np.uint64(32)) % np.uint64(self._passes)
        return turns
