"""Reports to counts, one at a time, with the standard library alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from reticent.counts.model import Counts, fold
from reticent.errors import ReportError
from reticent.plan import Plan
from reticent.reports import Report

Slice = tuple[int, tuple[str, ...]]
"""What counts are kept apart by: the round, and the tags of its segment in plan order."""


@dataclass(slots=True)
class _Tally:
    """Per cohort: reports, and ones at each place of the report."""

    reports: dict[int, int] = field(default_factory=dict)
    ones: dict[int, list[int]] = field(default_factory=dict)

    def add(self, cohort: int, bits: bytes, width: int) -> None:
        self.reports[cohort] = self.reports.get(cohort, 0) + 1
        ones = self.ones.setdefault(cohort, [0] * width)
        number = int.from_bytes(bits, "big") >> (8 * len(bits) - width)
        for place in range(width - 1, -1, -1):
            ones[place] += number & 1
            number >>= 1


def count_reports(reports: Iterable[Report], plan: Plan) -> dict[Slice, dict[str, Counts]]:
    """
    The counts of every metric, per round and segment, in one pass.

    A report that comes twice counts once: the same id in the same round is the same report, and the first
    one stands. Raises `ReportError` for a report that does not answer `plan`.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("minutes", OneBitMean(1, 60)),))
    >>> sent = Report("demo", 1, round=7, id=bytes(16), bits=b"\\x80")
    >>> count_reports([sent, sent], plan)
    {(7, ()): {'minutes': MeanCounts(reports=1, ones=1)}}
    """
    seen: set[tuple[int, bytes]] = set()
    tallies: dict[Slice, _Tally] = {}
    for report in reports:
        cohort = _answered(report, plan)
        if (report.round, report.id) in seen:
            continue
        seen.add((report.round, report.id))
        cell = report.round, tuple(plan.tags(report.segment).values())
        tallies.setdefault(cell, _Tally()).add(cohort, report.bits, plan.bits)
    offsets = {metric.name: plan.offset(metric.name) for metric in plan.metrics}
    return {
        cell: {
            metric.name: fold(metric, offsets[metric.name], tally.reports, tally.ones)
            for metric in plan.metrics
        }
        for cell, tally in tallies.items()
    }


def _answered(report: Report, plan: Plan) -> int:
    """The report's cohort (0 where the plan needs none), once it is clear that it answers this plan."""
    if (report.plan, report.version) != (plan.name, plan.version):
        raise ReportError(
            "version_mismatch",
            f"plan: expected a report on {plan.name} version {plan.version}, "
            f"got one on {report.plan} version {report.version}.",
        )
    if len(report.bits) != plan.report_bytes:
        raise ReportError("malformed", f"bits: expected {plan.report_bytes} bytes, got {len(report.bits)}.")
    if not plan.uses_cohort:
        return 0
    if report.cohort is None or not 0 <= report.cohort <= 255:
        raise ReportError("malformed", f"cohort: expected a whole number from 0 to 255, got {report.cohort}.")
    return report.cohort
