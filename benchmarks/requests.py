"""Requests with a report each, rendered beforehand: what is left to do for one is to put in its id."""

from __future__ import annotations

import os
import random
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence

from reticent.plan import Plan
from reticent.reports import Report, pack_bits, to_json
from reticent_collector.counts import Counts, count_reports, counts_from_rows

KINDS = 64
"""Different answers; a request brings one of them, in turn."""

_NO_ID = b"A" * 22
_ID_BYTES = 15
"""Bytes that are drawn for an id: they fill 20 characters, and two more are always the same."""


class Requests:
    """Reports on a plan as requests of HTTP, and the counts that such reports add up to."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        draw = random.Random("benchmarks")
        self._reports = [
            Report(
                plan.name,
                plan.version,
                0,
                bytes(16),
                pack_bits([draw.randrange(2) for _ in range(plan.bits)]),
                draw.randrange(256) if plan.uses_cohort else None,
                {segment.name: draw.choice(segment.tags) for segment in plan.segments},
            )
            for _ in range(KINDS)
        ]

    def of_round(self, number: int) -> list[tuple[bytes, bytes]]:
        """What stands before and after the id, for each kind of answer."""
        return [_around_the_id(to_json(_in_round(report, number))) for report in self._reports]

    def counts(self, number: int, taken: Sequence[int]) -> dict[tuple[str, ...], dict[str, Counts]]:
        """The counts of a round in which so many of each kind were taken, the slow and plain way."""
        rows: dict[tuple[str, ...], dict[str, list[tuple[int, int, int]]]] = {}
        for report, times in zip(self._reports, taken, strict=True):
            if times:
                ((cell, found),) = count_reports([_in_round(report, number)], self.plan).items()
                _add(rows.setdefault(cell[1], {}), found, times)
        return {
            tags: {metric.name: counts_from_rows(metric, found[metric.name]) for metric in self.plan.metrics}
            for tags, found in rows.items()
        }


def ids() -> Iterator[bytes]:
    """Random ids as they stand in JSON, 120 bits each: no two alike."""
    while True:
        drawn = urlsafe_b64encode(os.urandom(_ID_BYTES * 4096))
        for start in range(0, len(drawn), 20):
            yield drawn[start : start + 20] + b"AA"


def _add(rows: dict[str, list[tuple[int, int, int]]], found: Mapping[str, Counts], times: int) -> None:
    for name, counts in found.items():
        rows.setdefault(name, []).extend(
            (row, reports * times, ones * times) for row, reports, ones in counts.rows()
        )


def _in_round(report: Report, number: int) -> Report:
    return Report(
        report.plan, report.version, number, report.id, report.bits, report.cohort, dict(report.segment)
    )


def _around_the_id(body: bytes) -> tuple[bytes, bytes]:
    head = (
        b"POST /v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )
    before, _, after = body.partition(_NO_ID)
    return head + before, after
