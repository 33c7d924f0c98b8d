"""Counting records in arrays: by tags, cohort and metric, without a Python object per combination and report."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import COHORTS, Mechanism
from reticent.plan import Metric, Plan
from reticent_collector.counts import Counts, HistogramCounts, MeanCounts

if TYPE_CHECKING:
    from reticent_collector.stores.records import BareRecords, CountsByTags

Numbers64 = NDArray[np.int64]

_BIT_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
_ROWS_AT_ONCE = 1 << 20
_ROOM = 4  # a table of cells × 256 is worth its room while it has fewer than so many places per record


class _MetricArrays(NamedTuple):
    """The counts of one metric: [combination of tags, row]."""

    metric: Metric
    reports: Numbers64
    ones: Numbers64


class CountArrays:
    """
    The counts of records of one plan, added up some at a time.

    Memory grows with the combinations of tags that occur and the rows of the metrics, never with the records.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._asked = int(plan.uses_cohort)  # where each part of a record begins, after its id
        self._tags = self._asked + plan.asked_bytes
        self._bits = self._tags + len(plan.segments)
        self._places: dict[int, int] = {}  # of the combinations that occurred, by their codes
        self._arrays = [_zeros(metric, 0) for metric in plan.metrics]

    def add(self, answers: BareRecords) -> None:
        """Add distinct records without their ids."""
        for start in range(0, len(answers), _ROWS_AT_ONCE):
            self._add(answers[start : start + _ROWS_AT_ONCE])

    def counts(self) -> CountsByTags:
        """The counts of all records so far, by tags."""
        lists = [
            (metric, reports.tolist(), ones.tolist()) for metric, reports, ones in self._arrays
        ]  # at once: an element of an array takes longer
        counts: CountsByTags = {}
        for code, place in sorted(self._places.items()):
            counts[self._tags_of(code)] = {
                metric.name: _counts_of(metric, reports[place], ones[place])
                for metric, reports, ones in lists
            }
        return counts

    def _add(self, answers: BareRecords) -> None:
        combinations = self._combinations(answers)
        size = len(self._places)
        for place, (metric, reports, ones) in enumerate(self._arrays):
            if len(reports) < size:
                new = _zeros(metric, size - len(reports))
                grown = (np.concatenate(pair) for pair in ((reports, new.reports), (ones, new.ones)))
                self._arrays[place] = _MetricArrays(metric, *grown)
        by_combination = _Tallied(answers, combinations, size)
        by_cell = by_combination
        if self._plan.uses_cohort:
            by_cell = _Tallied(answers, combinations * COHORTS + answers[:, 0], size * COHORTS)
        offset = 8 * self._bits
        for number, arrays in enumerate(self._arrays):
            asked = 8 * self._asked + number if self._plan.asked_bytes else None
            if not arrays.metric.mechanism.uses_cohort:
                for position, row in enumerate(arrays.metric.mechanism.rows_of(0)):
                    arrays.reports[:, row] += by_combination.reports(asked)
                    arrays.ones[:, row] += by_combination.ones(offset + position)
            elif by_cell.has_tables:
                _add_cells(arrays, by_cell, asked, offset)
            else:
                _add_rows(arrays, answers, combinations, asked, offset)
            offset += arrays.metric.bits

    def _combinations(self, answers: BareRecords) -> Numbers64:
        """The place of each record's combination of tags; a tag beyond the last one is "other"."""
        codes = np.zeros(len(answers), dtype=np.int64)
        possible = 1
        for place, segment in enumerate(self._plan.segments, self._tags):
            codes = codes * len(segment.tags) + np.minimum(answers[:, place], len(segment.tags) - 1)
            possible *= len(segment.tags)
        if possible <= max(_ROOM * len(answers), 256):
            occurring = np.flatnonzero(np.bincount(codes, minlength=possible))
            place_of = np.zeros(possible, dtype=np.int64)
            place_of[occurring] = self._places_of(occurring)
            return place_of[codes]
        occurring, inverse = np.unique(codes, return_inverse=True)
        return self._places_of(occurring)[inverse.reshape(-1)]

    def _places_of(self, codes: Numbers64) -> Numbers64:
        """The places of combinations, new ones at the end."""
        places = [self._places.setdefault(code, len(self._places)) for code in codes.tolist()]
        return np.array(places, dtype=np.int64)

    def _tags_of(self, code: int) -> tuple[str, ...]:
        """The tags of a combination."""
        tags = []
        for segment in reversed(self._plan.segments):
            code, place = divmod(code, len(segment.tags))
            tags.append(segment.tags[place])
        return tuple(reversed(tags))


class _Tallied:
    """How many records of each cell there are, and how many with a bit set; `cells` numbers them."""

    def __init__(self, answers: BareRecords, cells: Numbers64, size: int) -> None:
        self._answers = answers
        self._cells = cells
        self.size = size
        self.has_tables = size * 256 <= _ROOM * len(answers)
        self._tables: dict[int, Numbers64] = {}  # by byte: [cell, bit]
        self._reports: Numbers64 | None = None

    def reports(self, asked: int | None) -> Numbers64:
        """The records of each cell; with `asked`, those in which this bit is set."""
        if asked is not None:
            return self.ones(asked)
        if self._reports is None:
            self._reports = np.bincount(self._cells, minlength=self.size)
        return self._reports

    def ones(self, bit: int) -> Numbers64:
        """The records of each cell in which a bit is set."""
        if not self.has_tables:
            return np.bincount(self._cells[_is_set(self._answers, bit)], minlength=self.size)
        byte, shift = divmod(bit, 8)
        if byte not in self._tables:
            values = np.bincount(self._cells << 8 | self._answers[:, byte], minlength=self.size * 256)
            ones = values.reshape(self.size, 256).astype(np.float64) @ _BIT_OF_BYTE  # exact below 2⁵³
            self._tables[byte] = ones.astype(np.int64)
        return self._tables[byte][:, shift]


def _add_cells(arrays: _MetricArrays, by_cell: _Tallied, asked: int | None, offset: int) -> None:
    """Sort the tallies of combinations and cohorts into rows."""
    size, width = arrays.reports.shape
    rows = _rows_by_cohort(arrays.metric.mechanism)
    reports = by_cell.reports(asked)
    for position in range(arrays.metric.bits):
        into = (np.arange(size)[:, None] * width + rows[:, position]).reshape(-1)
        arrays.reports[:] += _summed(into, reports, arrays.reports)
        arrays.ones[:] += _summed(into, by_cell.ones(offset + position), arrays.ones)


def _summed(into: Numbers64, numbers: Numbers64, like: Numbers64) -> Numbers64:
    sums = np.bincount(into, weights=numbers, minlength=like.size)  # exact below 2⁵³
    return sums.astype(np.int64).reshape(like.shape)


def _add_rows(
    arrays: _MetricArrays, answers: BareRecords, combinations: Numbers64, asked: int | None, offset: int
) -> None:
    """Sort the answers into rows one by one: for more combinations and cohorts than records."""
    width = arrays.reports.shape[1]
    rows = _rows_by_cohort(arrays.metric.mechanism)
    if asked is not None:
        chosen = _is_set(answers, asked)
        answers = answers[chosen]
        combinations = combinations[chosen]
    for position in range(arrays.metric.bits):
        into = combinations * width + rows[:, position][answers[:, 0]]
        _add_numbers(arrays.reports, into)
        _add_numbers(arrays.ones, into[_is_set(answers, offset + position)])


def _add_numbers(numbers: Numbers64, into: Numbers64) -> None:
    numbers += np.bincount(into, minlength=numbers.size).reshape(numbers.shape)


def _is_set(answers: BareRecords, bit: int) -> NDArray[np.bool_]:
    byte, shift = divmod(bit, 8)
    is_set: NDArray[np.bool_] = (answers[:, byte] & np.uint8(0x80 >> shift)) != 0
    return is_set


@lru_cache(maxsize=64)
def _rows_by_cohort(mechanism: Mechanism) -> Numbers64:
    """[cohort, position]: the row of each bit of the answer."""
    return np.array([mechanism.rows_of(cohort) for cohort in range(COHORTS)], dtype=np.int64)


def _zeros(metric: Metric, size: int) -> _MetricArrays:
    shape = size, metric.mechanism.row_count
    return _MetricArrays(metric, np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))


def _counts_of(metric: Metric, reports: list[int], ones: list[int]) -> Counts:
    if metric.mechanism.kind == "mean":
        return MeanCounts(reports[0], ones[0])
    return HistogramCounts(tuple(reports), tuple(ones), metric.bits)
