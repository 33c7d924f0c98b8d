"""A report as a record of fixed width, and the counts of records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.plan import Metric, Plan
from reticent.reports import ID_BYTES, Report, record_width
from reticent_collector.counts import Counts, counts_of_lists
from reticent_collector.stores.count_arrays import CountArrays

Records = NDArray[np.uint8]
"""[n, width]: one row per report."""

BareRecords = NDArray[np.uint8]
"""[n, width - 16]: records without their ids, which is all that counting needs."""

Tags = tuple[str, ...]
"""The tags of a segment, in plan order."""

CountsByTags = dict[Tags, dict[str, Counts]]

ROUND_BYTES = 8
_BATCH_BYTES = 1 << 21


class RoundKey(NamedTuple):
    """One round of one version of a plan."""

    plan: str
    version: int
    round: int


@dataclass(frozen=True, slots=True)
class Count:
    """The result of counting a round: distinct reports, their counts, and the files left out as bad."""

    reports: int
    counts: CountsByTags
    left_out: dict[str, str] = field(default_factory=dict)  #: by name: the reason
    repeated: int = field(default=0, compare=False)  #: records whose id was counted already

    def rows(self) -> Iterator[tuple[Tags, str, tuple[int, ...], tuple[int, ...]]]:
        """Rows to store: tags, metric, and per row of the metric the reports and the ones."""
        for tags, by_metric in sorted(self.counts.items()):
            for metric, counts in by_metric.items():
                _, reports, ones = zip(*counts.rows(), strict=True)
                yield tags, metric, reports, ones


class Layout:
    """
    The bytes of a record: 16 id · 1 cohort (if used) · metrics asked (if not all) · 1 per segment · the bits.

    It is a record of a packed batch without its round, which all records of an open round share.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.width = record_width(plan) - ROUND_BYTES
        self._asked = int(plan.uses_cohort)
        self._tags = self._asked + plan.asked_bytes
        self._bits = self._tags + len(plan.segments)
        self._codes = [{tag: code for code, tag in enumerate(segment.tags)} for segment in plan.segments]

    def pack(self, report: Report) -> bytes:
        """A report on the plan as a record."""
        tags = self.plan.tags(report.segment)
        codes = bytes(codes[tag] for codes, tag in zip(self._codes, tags.values(), strict=True))
        cohort = bytes([report.cohort or 0]) if self.plan.uses_cohort else b""
        return report.id + cohort + (report.asked or b"") + codes + report.bits

    def array(self, records: bytes) -> Records:
        """Records end to end as an array; `ParameterError` when the last one is cut off."""
        if len(records) % self.width:
            raise ParameterError("records", f"whole records of {self.width} bytes", f"{len(records)} bytes")
        return np.frombuffer(records, dtype=np.uint8).reshape(-1, self.width)

    def readable(self, records: bytes) -> Records:
        """
        The complete records at the start of a cut-off group, up to the first that no device could send.

        Where bytes are missing before the end, what follows is shifted, and rarely `fits`.
        """
        whole = self.array(records[: len(records) // self.width * self.width])
        fits = self.fits(whole)
        return whole if fits.all() else whole[: int(np.argmin(fits))]

    def fits(self, records: Records) -> NDArray[np.bool_]:
        """Which of these records have known tags, set bits only among their answers, and as many as those have."""
        padding = (1 << (-self.plan.bits % 8)) - 1
        fits: NDArray[np.bool_] = (records[:, -1] & padding) == 0
        for place, codes in enumerate(self._codes, ID_BYTES + self._tags):
            fits &= records[:, place] < len(codes)
        if self.plan.asked_bytes:
            metrics = self.plan.metrics
            asked = np.unpackbits(records[:, ID_BYTES + self._asked : ID_BYTES + self._tags], axis=1)
            may = np.repeat(asked[:, : len(metrics)], [metric.bits for metric in metrics], axis=1)
            answers = np.unpackbits(records[:, ID_BYTES + self._bits :], axis=1)[:, : self.plan.bits]
            fits &= (asked.sum(axis=1) == self.plan.asked) & ~asked[:, len(metrics) :].any(axis=1)
            fits &= (answers <= may).all(axis=1)
        for number, metric in enumerate(self.plan.metrics):
            if metric.mechanism.ones is not None:
                ones = self._answers(records, metric).sum(axis=1, dtype=np.int64)
                due = metric.mechanism.ones * (asked[:, number] if self.plan.asked_bytes else 1)
                fits &= ones == due
        return fits

    def _answers(self, records: Records, metric: Metric) -> Records:
        """The bits of a metric, one per column; of a report only the bytes that they are in are unpacked."""
        first = self.plan.offset(metric.name)
        start = ID_BYTES + self._bits + first // 8
        end = ID_BYTES + self._bits + -(-(first + metric.bits) // 8)
        bits = np.unpackbits(records[:, start:end], axis=1)
        return bits[:, first % 8 : first % 8 + metric.bits]

    def counts(self, records: Records) -> CountsByTags:
        """The counts of distinct records, by tags."""
        return self.count(records[:, ID_BYTES:])

    def count(self, answers: BareRecords) -> CountsByTags:
        """The counts of distinct records without their ids, by tags."""
        arrays = CountArrays(self.plan)
        arrays.add(answers)
        return arrays.counts()


def batches(groups: Iterable[Records]) -> Iterator[Records]:
    """The same records in few arrays of some megabytes."""
    waiting: list[Records] = []
    size = 0
    for group in groups:
        waiting.append(group)
        size += group.nbytes
        if size >= _BATCH_BYTES:
            yield np.concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting)


def latest(keys: Iterable[RoundKey], last: int | None = None) -> list[RoundKey]:
    """Rounds by plan, the latest first, at most `last` of each plan."""
    by_plan: dict[str, list[RoundKey]] = {}
    for key in sorted(keys, key=lambda key: (key.plan, -key.round, -key.version)):
        by_plan.setdefault(key.plan, []).append(key)
    return [key for of_plan in by_plan.values() for key in of_plan[:last]]


def counts_of_rows(
    plan: Plan, rows: Iterable[tuple[Iterable[str], str, Sequence[int], Sequence[int]]]
) -> CountsByTags:
    """The counts of such rows; `ParameterError` when they do not fit the plan."""
    by_tags: CountsByTags = {}
    for tags, metric, reports, ones in rows:
        names = tuple(tags)
        if len(names) != len(plan.segments):
            raise ParameterError("tags", f"one per segment ({len(plan.segments)})", len(names))
        by_tags.setdefault(names, {})[metric] = counts_of_lists(plan.by_name[metric], reports, ones)
    return by_tags


def add_counts(left: CountsByTags, right: CountsByTags) -> CountsByTags:
    """The sum of the counts of disjoint sets of reports."""
    total = dict(left)
    for tags, counts in right.items():
        summed = dict(total.get(tags, {}))
        for name, count in counts.items():
            summed[name] = summed[name] + count if name in summed else count
        total[tags] = summed
    return total


def reports_of(plan: Plan, counts: CountsByTags) -> int:
    """The number of reports in all segments; each answers `plan.asked` of the metrics."""
    by_segment = [[count.devices for count in by_metric.values()] for by_metric in counts.values()]
    if plan.asked_bytes:
        return sum(map(sum, by_segment)) // plan.asked
    return sum(max(devices, default=0) for devices in by_segment)


def misfits(plan: Plan, count: Count, deleted: Collection[str] = ()) -> Iterator[str]:
    """
    The problems of the counts of a sealed round, a sentence each: does every report answer its metrics?

    There are no counts of the metrics that were `deleted`.
    """
    if plan.asked_bytes:
        devices = {"": reports_of(plan, count.counts)}
    else:
        devices = {
            f"{metric}: ": sum(kept[metric].devices for kept in count.counts.values() if metric in kept)
            for metric in plan.by_name
            if metric not in deleted
        }
    for metric in sorted({name for kept in count.counts.values() for name in kept} & {*deleted}):
        yield f"{metric}: is deleted, and has counts"
    for metric, reports in devices.items():
        if reports != count.reports:
            yield f"{metric}expected the counts of {count.reports} reports, got those of {reports}"
