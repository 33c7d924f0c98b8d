"""
Bits add up to counts, and counts add.

    >>> MeanCounts(reports=3, ones=1) + MeanCounts(reports=2, ones=2)
    MeanCounts(reports=5, ones=3)

`count_reports` counts any iterable of reports with the standard library; `count_arrays` millions at a time with
NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add, gt
from typing import TYPE_CHECKING

from msgspec import Struct

from reticent.errors import ParameterError, ReportError
from reticent.mechanisms import COHORTS
from reticent.plan import Metric, Plan
from reticent.reports import NO_ANSWERS, Report, answers_asked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ABOUT",
    "Counts",
    "HistogramCounts",
    "MeanCounts",
    "Slice",
    "count_arrays",
    "count_reports",
    "counts_from_rows",
    "counts_of_lists",
    "fold",
    "zero",
]

ABOUT = (
    "Every figure is an estimate about the devices that take part, and says nothing about those that do not."
)
"""Whom counts are of, and thus estimates: said beside every estimate, since no interval covers that difference."""

_BATCH = 1 << 18  # reports per step of `count_arrays`: the keys of one step fit the cache


# The garbage collector need not look at counts, since they hold numbers alone (`gc=False`). A server keeps hundreds of
# thousands of them, and all of its threads would wait for that.


class MeanCounts(Struct, frozen=True, gc=False):
    """
    The reports on a mean, and how many of them said 1.

    >>> sum([MeanCounts(3, 1), MeanCounts(2, 2)])
    MeanCounts(reports=5, ones=3)
    """

    reports: int
    ones: int

    def __post_init__(self) -> None:
        _check(self.reports, self.ones)

    def __add__(self, other: object) -> MeanCounts:
        if not isinstance(other, MeanCounts):
            return NotImplemented
        return MeanCounts(self.reports + other.reports, self.ones + other.ones)

    def __radd__(self, other: object) -> MeanCounts:
        return self if other == 0 else NotImplemented

    @property
    def devices(self) -> int:
        """How many devices answered: one report each."""
        return self.reports

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(row, reports, ones) for a table of counts; a mean has the one row 0."""
        yield 0, self.reports, self.ones


class HistogramCounts(Struct, frozen=True, gc=False):
    """
    Per row, the reports about it and how many of them said 1.

    For the Hadamard bit a row is a row of the matrix, and each report is about one. For dBitFlip a row is a
    bucket, and a report of *d* bits is about *d* of them, which is `rows_per_report`.

    >>> two_bits = HistogramCounts(reports=(2, 1, 1), ones=(1, 0, 1), rows_per_report=2)
    >>> (two_bits + two_bits).devices
    4
    """

    reports: tuple[int, ...]
    ones: tuple[int, ...]
    rows_per_report: int = 1

    def __post_init__(self) -> None:
        if len(self.reports) != len(self.ones):
            raise ParameterError("ones", f"{len(self.reports)} rows, as many as reports", len(self.ones))
        if not 1 <= self.rows_per_report <= len(self.reports):
            raise ParameterError(
                "rows_per_report", f"a whole number from 1 to {len(self.reports)}", self.rows_per_report
            )
        if min(self.ones) < 0 or any(map(gt, self.ones, self.reports)):
            for reports, ones in zip(self.reports, self.ones, strict=True):
                _check(reports, ones)
        devices, rest = divmod(sum(self.reports), self.rows_per_report)
        if rest or max(self.reports) > devices:
            raise ParameterError(
                "reports",
                f"whole reports, each on {self.rows_per_report} different rows",
                f"{sum(self.reports)} answers, {max(self.reports)} of them on one row",
            )

    def __add__(self, other: object) -> HistogramCounts:
        if not isinstance(other, HistogramCounts):
            return NotImplemented
        if (len(self.reports), self.rows_per_report) != (len(other.reports), other.rows_per_report):
            raise ParameterError(
                "counts",
                f"{len(self.reports)} rows, {self.rows_per_report} per report",
                f"{len(other.reports)} rows, {other.rows_per_report} per report",
                "only counts of the same metric add",
            )
        return HistogramCounts(
            tuple(map(add, self.reports, other.reports)),
            tuple(map(add, self.ones, other.ones)),
            self.rows_per_report,
        )

    def __radd__(self, other: object) -> HistogramCounts:
        return self if other == 0 else NotImplemented

    @property
    def devices(self) -> int:
        """How many devices answered, one report each: the answers, divided by the answers per report."""
        return sum(self.reports) // self.rows_per_report

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(row, reports, ones) for a table of counts."""
        for row, (reports, ones) in enumerate(zip(self.reports, self.ones, strict=True)):
            yield row, reports, ones


Counts = MeanCounts | HistogramCounts

Slice = tuple[int, tuple[str, ...]]
"""What counts are kept apart by: the round, and the tags of its segment in plan order."""


def zero(metric: Metric) -> Counts:
    """The counts of `metric` before any report: where every sum of its counts can start."""
    return counts_from_rows(metric, ())


def counts_from_rows(metric: Metric, rows: Iterable[tuple[int, int, int]]) -> Counts:
    """
    The counts of `metric` from (row, reports, ones), as `rows()` writes them; rows may be missing or repeat.

    >>> from reticent.mechanisms import OneBitMean
    >>> counts_from_rows(Metric("minutes", OneBitMean(1, 60)), [(0, 3, 1), (0, 2, 2)])
    MeanCounts(reports=5, ones=3)
    """
    size = metric.mechanism.row_count
    reports = [0] * size
    ones = [0] * size
    for row, row_reports, row_ones in rows:
        if not 0 <= row < size:
            raise ParameterError(f"{metric.name}: row", f"a whole number from 0 to {size - 1}", row)
        reports[row] += row_reports
        ones[row] += row_ones
    return counts_of_lists(metric, reports, ones)


def counts_of_lists(metric: Metric, reports: Sequence[int], ones: Sequence[int]) -> Counts:
    """The counts of `metric` from those of all its rows, in order."""
    size = metric.mechanism.row_count
    if len(reports) != size or len(ones) != size:
        raise ParameterError(f"{metric.name}: rows", f"{size} reports and ones", (len(reports), len(ones)))
    if metric.mechanism.kind == "mean":
        return MeanCounts(reports[0], ones[0])
    return HistogramCounts(tuple(reports), tuple(ones), metric.bits)


def fold(
    plan: Plan,
    reports: Mapping[int, int],
    ones: Mapping[int, Sequence[int]],
    asked: Mapping[int, Sequence[int]] | None = None,
) -> dict[str, Counts]:
    """
    The counts of every metric from tallies per cohort: reports, and ones at each place of the report.

    The row of a bit depends on the cohort alone, so reports can be tallied per cohort first and sorted into
    rows once. Where a report answers some of the metrics, `asked` has the number of reports about each, by
    cohort and in plan order; ones need no such care, since bits of other metrics are 0.
    """
    counts = {}
    offset = 0
    for number, metric in enumerate(plan.metrics):
        of_metric = reports if asked is None else {cohort: asked[cohort][number] for cohort in reports}
        counts[metric.name] = counts_from_rows(
            metric,
            (
                (row, answers, ones[cohort][offset + position])
                for cohort, answers in of_metric.items()
                for position, row in enumerate(metric.mechanism.rows_of(cohort))
            ),
        )
        offset += metric.bits
    return counts


def count_reports(reports: Iterable[Report], plan: Plan) -> dict[Slice, dict[str, Counts]]:
    """
    The counts of every metric, per round and segment, in one pass.

    A report that comes twice counts once: the same id in the same round is the same report, and the first
    one stands. Raises `ReportError` for a report that does not answer `plan`.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> from reticent.reports import Report
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("minutes", OneBitMean(1, 60)),))
    >>> sent = Report("demo", 1, round=7, id=bytes(16), bits=b"\\x80")
    >>> count_reports([sent, sent], plan)
    {(7, ()): {'minutes': MeanCounts(reports=1, ones=1)}}
    """
    seen: set[tuple[int, bytes]] = set()
    tallies: dict[Slice, tuple[dict[int, int], dict[int, list[int]], dict[int, list[int]]]] = {}
    for report in reports:
        cohort = _answered(report, plan)
        if (report.round, report.id) in seen:
            continue
        seen.add((report.round, report.id))
        cell = report.round, tuple(plan.tags(report.segment).values())
        of_cohort, ones, asked = tallies.setdefault(cell, ({}, {}, {}))
        of_cohort[cohort] = of_cohort.get(cohort, 0) + 1
        _add_bits(ones.setdefault(cohort, [0] * plan.bits), report.bits)
        if report.asked is not None:
            _add_bits(asked.setdefault(cohort, [0] * len(plan.metrics)), report.asked)
    return {
        cell: fold(plan, of_cohort, ones, asked if plan.asked_bytes else None)
        for cell, (of_cohort, ones, asked) in tallies.items()
    }


def _add_bits(tally: list[int], bits: bytes) -> None:
    number = int.from_bytes(bits, "big") >> (8 * len(bits) - len(tally))
    for place in range(len(tally) - 1, -1, -1):
        tally[place] += number & 1
        number >>= 1


def count_arrays(
    plan: Plan,
    cohorts: NDArray[np.uint8] | None,
    bits: NDArray[np.uint8],
    asked: NDArray[np.uint8] | None = None,
) -> dict[str, Counts]:
    """
    The counts of every metric over n distinct reports of one round and segment, millions at a time.

    `bits` is uint8[n, plan.report_bytes], the bytes as sent; `cohorts` is uint8[n], or None where the plan
    needs none; `asked` is uint8[n, plan.asked_bytes], or None where a report answers all metrics. No bit is
    unpacked: each byte of the report is tallied with its cohort in a table of 256 × 256, which one small matrix
    product turns into ones per bit.

    >>> import numpy as np
    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("minutes", OneBitMean(1, 60)),))
    >>> count_arrays(plan, None, np.array([[0x80], [0x00], [0x80]], dtype=np.uint8))
    {'minutes': MeanCounts(reports=3, ones=2)}
    """
    import numpy as np

    _check_arrays(plan, cohorts, bits, asked)
    columns = bits if asked is None or not plan.asked_bytes else np.concatenate([bits, asked], axis=1)
    reports, ones = _tally_bytes(columns, cohorts if plan.uses_cohort else None)
    per_cohort = {cohort: int(number) for cohort, number in enumerate(reports) if number}
    places = {cohort: ones[cohort].ravel().tolist() for cohort in per_cohort}
    about = {cohort: places[cohort][8 * plan.report_bytes :] for cohort in per_cohort}
    return fold(plan, per_cohort, places, about if plan.asked_bytes else None)


def _check_arrays(
    plan: Plan,
    cohorts: NDArray[np.uint8] | None,
    bits: NDArray[np.uint8],
    asked: NDArray[np.uint8] | None,
) -> None:
    import numpy as np

    if bits.dtype != np.uint8 or bits.ndim != 2 or bits.shape[1] != plan.report_bytes:
        raise ParameterError("bits", f"uint8[n, {plan.report_bytes}]", f"{bits.dtype}{list(bits.shape)}")
    if cohorts is None:
        if plan.uses_cohort:
            raise ParameterError("cohorts", f"uint8[{len(bits)}], since the plan has a histogram", None)
    elif cohorts.dtype != np.uint8 or cohorts.shape != (len(bits),):
        raise ParameterError("cohorts", f"uint8[{len(bits)}]", f"{cohorts.dtype}{list(cohorts.shape)}")
    expected = (len(bits), plan.asked_bytes)
    if plan.asked_bytes and (asked is None or asked.dtype != np.uint8 or asked.shape != expected):
        got = None if asked is None else list(asked.shape)
        raise ParameterError("asked", f"uint8[{len(bits)}, {plan.asked_bytes}]", got)


def _tally_bytes(
    columns: NDArray[np.uint8], cohorts: NDArray[np.uint8] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per cohort, the reports, and the ones at each bit of each byte; without cohorts all are of the first."""
    import numpy as np

    bit_of_byte = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)
    groups = 1 if cohorts is None else COHORTS
    reports = np.zeros(groups, dtype=np.int64)
    ones = np.zeros((groups, columns.shape[1], 8), dtype=np.int64)
    for start in range(0, len(columns), _BATCH):
        batch = slice(start, start + _BATCH)
        keys = None if cohorts is None else cohorts[batch].astype(np.intp) << 8
        for column in range(columns.shape[1]):
            byte = columns[batch, column]
            table = np.bincount(byte if keys is None else keys | byte, minlength=groups * 256)
            table = table.reshape(groups, 256)
            ones[:, column] += table @ bit_of_byte
            if column == 0:
                reports += table.sum(axis=1)
    return reports, ones


def _answered(report: Report, plan: Plan) -> int:
    if (report.plan, report.version) != (plan.name, plan.version):
        raise ReportError(
            "version_mismatch",
            f"plan: expected a report on {plan.name} version {plan.version}, "
            f"got one on {report.plan} version {report.version}.",
        )
    if len(report.bits) != plan.report_bytes:
        raise ReportError("malformed", f"bits: expected {plan.report_bytes} bytes, got {len(report.bits)}.")
    if not answers_asked(report, plan):
        raise ReportError("malformed", NO_ANSWERS.format(plan.asked) + ".")
    if not plan.uses_cohort:
        return 0
    if report.cohort is None or not 0 <= report.cohort <= 255:
        raise ReportError("malformed", f"cohort: expected a whole number from 0 to 255, got {report.cohort}.")
    return report.cohort


def _check(reports: int, ones: int) -> None:
    if not 0 <= ones <= reports:
        raise ParameterError("ones", f"a whole number from 0 to reports ({reports})", ones)
