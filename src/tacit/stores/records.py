"""A report as a record of fixed width: what rests in an open round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.counts import Counts
from tacit.counts.arrays import count_arrays
from tacit.plan import Plan
from tacit.reports import Report
from tacit.reports.codec import ID_BYTES, record_width

Records = NDArray[np.uint8]
"""[n, width]: one row per report."""

Tags = tuple[str, ...]
"""The tags of a segment, in plan order."""

CountsByTags = dict[Tags, dict[str, Counts]]

ROUND_BYTES = 8


class RoundKey(NamedTuple):
    """One round of one version of a plan: what is opened, filled and sealed."""

    plan: str
    version: int
    round: int


class Layout:
    """
    Where the parts of a record are: 16 id · 1 cohort (if used) · 1 per segment · the bits.

    It is a record of a packed batch without its round, which all records of an open round share.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.width = record_width(plan) - ROUND_BYTES
        self._tags = ID_BYTES + plan.uses_cohort
        self._bits = self._tags + len(plan.segments)
        self._codes = [{tag: code for code, tag in enumerate(segment.tags)} for segment in plan.segments]

    def pack(self, report: Report) -> bytes:
        """One report, which fits the plan, as a record."""
        tags = self.plan.tags(report.segment)
        codes = bytes(codes[tag] for codes, tag in zip(self._codes, tags.values(), strict=True))
        cohort = bytes([report.cohort or 0]) if self.plan.uses_cohort else b""
        return report.id + cohort + codes + report.bits

    def array(self, records: bytes) -> Records:
        """Records end to end as an array."""
        return np.frombuffer(records, dtype=np.uint8).reshape(-1, self.width)

    def ids(self, records: Records) -> NDArray[np.uint8]:
        """The ids of records."""
        return records[:, :ID_BYTES]

    def counts(self, records: Records) -> CountsByTags:
        """The counts of distinct records, apart by tags."""
        found: CountsByTags = {}
        keys = self._tag_keys(records)
        for key in np.flatnonzero(np.bincount(keys)).tolist() if len(records) else ():
            chosen = records[keys == key] if len(self.plan.segments) else records
            cohorts = np.ascontiguousarray(chosen[:, ID_BYTES]) if self.plan.uses_cohort else None
            bits = np.ascontiguousarray(chosen[:, self._bits :])
            found[self._tags_of(key)] = count_arrays(self.plan, cohorts, bits)
        return found

    def _tag_keys(self, records: Records) -> NDArray[np.int64]:
        """One number per record for its combination of tags."""
        keys = np.zeros(len(records), dtype=np.int64)
        for place, segment in enumerate(self.plan.segments):
            keys = keys * len(segment.tags) + records[:, self._tags + place]
        return keys

    def _tags_of(self, key: int) -> Tags:
        tags = []
        for segment in reversed(self.plan.segments):
            key, code = divmod(key, len(segment.tags))
            tags.append(segment.tags[code])
        return tuple(reversed(tags))


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
