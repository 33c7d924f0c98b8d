"""
Counting the records of a round, each id once, by sorting: in memory that does not grow with the round.

The rule needs no order of arrival: of different reports with one id, which only forgery, a cloned device or a restored
backup makes, the smallest counts. Collectors that do not communicate cannot know which came first; the smallest
is the same in every process and order.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from reticent.reports import ID_BYTES
from reticent_collector.stores.count_arrays import CountArrays
from reticent_collector.stores.records import Count, Layout, Records, batches

_BYTES_AT_ONCE = 1 << 23  # of records that are sorted at once
_MOST_SHARES = 500  # temporary files; with more than 4 GB of records each exceeds `_BYTES_AT_ONCE`


class Sorting(NamedTuple):
    """How much is sorted at once, and where the rest waits."""

    rows_at_once: int | None = None  #: None: as many as take some megabytes, however wide they are
    folder: str | None = (
        None  #: for temporary files as large as the round; None for the default of the system
    )


def count_once(layout: Layout, records: Iterable[Records], rows: int, sorting: Sorting) -> Count:
    """
    Count records, each id once; `rows` is about how many there are.

    More than are sorted at once are first spread over temporary files by their ids, and these are counted one by
    one. The files have no name, and end with the process.
    """
    at_once = sorting.rows_at_once or max(1, _BYTES_AT_ONCE // layout.width)
    shares = min(_MOST_SHARES, -(-rows // at_once))
    arrays = CountArrays(layout.plan)
    reports = 0
    stored = 0
    some = _spread(layout, records, shares, sorting.folder) if shares > 1 else _together(records)
    for share in some:
        chosen = distinct(share)
        stored += len(share)
        reports += len(chosen)
        arrays.add(chosen[:, ID_BYTES:])
    return Count(reports, arrays.counts(), repeated=stored - reports)


def _together(records: Iterable[Records]) -> Iterator[Records]:
    waiting = list(records)
    if waiting:
        yield np.concatenate(waiting)


def _spread(layout: Layout, records: Iterable[Records], shares: int, folder: str | None) -> Iterator[Records]:
    """All records, in equal shares by id: a hash with random odd factors, so senders cannot crowd a share."""
    factors = np.frombuffer(secrets.token_bytes(16), dtype=np.uint64) | np.uint64(1)
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(shares)]
        for some in batches(records):
            halves = np.ascontiguousarray(some[:, :ID_BYTES]).view(np.uint64).reshape(-1, 2)
            hashes = halves[:, 0] * factors[0] + halves[:, 1] * factors[1]
            share_of = ((hashes >> np.uint64(32)) % np.uint64(shares)).astype(np.uint16)
            ordered = some[np.argsort(share_of, kind="stable")]
            ends = np.cumsum(np.bincount(share_of, minlength=shares))
            for file, start, end in zip(files, [0, *ends], ends, strict=False):
                file.write(ordered[start:end].tobytes())
        for file in files:
            file.seek(0)
            yield np.fromfile(file, dtype=np.uint8).reshape(-1, layout.width)
            file.truncate(0)


def distinct(records: Records) -> Records:
    """
    One record per id: of different ones with the same id, the smallest in byte order.

    >>> rows = np.array([[7] * 16 + [5], [9] * 16 + [1], [7] * 16 + [3], [7] * 16 + [5]], dtype=np.uint8)
    >>> distinct(rows)[:, 14:].tolist()
    [[9, 9, 1], [7, 7, 3]]
    """
    halves = np.ascontiguousarray(records[:, :8]).view(np.uint64).reshape(-1)
    ordered = np.sort(halves)  # faster than to sort the records, and mostly it is enough
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return records
    places = np.minimum(np.searchsorted(repeated, halves), len(repeated) - 1)
    twins = repeated[places] == halves
    # Only records that share the first half of their id are compared completely, which takes longer.
    width = records.shape[1]
    rows = np.sort(np.ascontiguousarray(records[twins]).view(f"V{width}").reshape(-1))
    sorted_twins = rows.view(np.uint8).reshape(-1, width)
    smallest = np.ones(len(sorted_twins), dtype=np.bool_)
    smallest[1:] = (sorted_twins[1:, :ID_BYTES] != sorted_twins[:-1, :ID_BYTES]).any(axis=1)
    return np.concatenate((records[~twins], sorted_twins[smallest]))
