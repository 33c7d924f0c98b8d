"""A report as a record of fixed width: what rests in an open round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reticent.counts import Counts, count_arrays
from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.reports import ID_BYTES, Report, record_width

Records = NDArray[np.uint8]
"""[n, width]: one row per report."""

Answers = NDArray[np.uint8]
"""[n, width - 16]: records without their ids, which is all that counting needs."""

Tags = tuple[str, ...]
"""The tags of a segment, in plan order."""

CountsByTags = dict[Tags, dict[str, Counts]]

ROUND_BYTES = 8
_BATCH_BYTES = 1 << 21


class RoundKey(NamedTuple):
    """One round of one version of a plan: what is opened, filled and sealed."""

    plan: str
    version: int
    round: int


@dataclass(frozen=True, slots=True)
class Count:
    """What a round comes to: distinct reports, their counts, and the files that were left out as bad."""

    reports: int
    counts: CountsByTags
    left_out: dict[str, str] = field(default_factory=dict)
    """By name: the reason."""


class Layout:
    """
    Where the parts of a record are: 16 id · 1 cohort (if used) · 1 per segment · the bits.

    It is a record of a packed batch without its round, which all records of an open round share.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.width = record_width(plan) - ROUND_BYTES
        self._tags = int(plan.uses_cohort)
        self._bits = self._tags + len(plan.segments)
        self._codes = [{tag: code for code, tag in enumerate(segment.tags)} for segment in plan.segments]

    def pack(self, report: Report) -> bytes:
        """One report, which fits the plan, as a record."""
        tags = self.plan.tags(report.segment)
        codes = bytes(codes[tag] for codes, tag in zip(self._codes, tags.values(), strict=True))
        cohort = bytes([report.cohort or 0]) if self.plan.uses_cohort else b""
        return report.id + cohort + codes + report.bits

    def array(self, records: bytes) -> Records:
        """Records end to end as an array; raises `ParameterError` when the last one is cut off."""
        if len(records) % self.width:
            raise ParameterError("records", f"whole records of {self.width} bytes", f"{len(records)} bytes")
        return np.frombuffer(records, dtype=np.uint8).reshape(-1, self.width)

    def batches(self, groups: Iterable[bytes]) -> Iterator[Records]:
        """Many groups as few arrays of some megabytes: the same records, whatever size groups have."""
        waiting: list[bytes] = []
        size = 0
        for group in groups:
            waiting.append(group)
            size += len(group)
            if size >= _BATCH_BYTES:
                yield self.array(b"".join(waiting))
                waiting, size = [], 0
        if waiting:
            yield self.array(b"".join(waiting))

    def ids(self, records: Records) -> NDArray[np.uint8]:
        """The ids of records."""
        return records[:, :ID_BYTES]

    def answers(self, records: Records) -> Answers:
        """Records without their ids, copied."""
        return records[:, ID_BYTES:].copy()

    def counts(self, records: Records) -> CountsByTags:
        """The counts of distinct records, apart by tags."""
        return self.count(records[:, ID_BYTES:])

    def count(self, answers: Answers) -> CountsByTags:
        """The counts of distinct records without their ids, apart by tags."""
        return {tags: self._count(chosen) for tags, chosen in self._by_tags(answers)} if len(answers) else {}

    def _count(self, answers: Answers) -> dict[str, Counts]:
        cohorts = np.ascontiguousarray(answers[:, 0]) if self.plan.uses_cohort else None
        return count_arrays(self.plan, cohorts, np.ascontiguousarray(answers[:, self._bits :]))

    def _by_tags(self, answers: Answers) -> Iterator[tuple[Tags, Answers]]:
        """Answers apart by their combination of tags: those that occur, of however many there might be."""
        if not self.plan.segments:
            yield (), answers
            return
        keys = np.zeros(len(answers), dtype=np.uint64)
        for place, segment in enumerate(self.plan.segments, self._tags):
            keys = keys << np.uint64(8) | np.minimum(answers[:, place], len(segment.tags) - 1)
        order = np.argsort(keys.astype(np.uint16) if len(self.plan.segments) <= 2 else keys, kind="stable")
        found, starts = np.unique(keys[order], return_index=True)
        for key, chosen in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            yield self._tags_of(key), answers[chosen]

    def _tags_of(self, key: int) -> Tags:
        codes = key.to_bytes(len(self.plan.segments), "big")
        return tuple(segment.tags[code] for segment, code in zip(self.plan.segments, codes, strict=True))


def add_counts(left: CountsByTags, right: CountsByTags) -> CountsByTags:
    """Counts of disjoint sets of reports, added."""
    total = dict(left)
    for tags, counts in right.items():
        known = total.get(tags)
        total[tags] = (
            counts if known is None else {name: _sum(known[name], count) for name, count in counts.items()}
        )
    return total


def _sum(left: Counts, right: Counts) -> Counts:
    total: Counts = left + right
    return total
