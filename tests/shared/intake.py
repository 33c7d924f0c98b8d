"""The rules of which reports count, one report at a time: what the collector's quick reader is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from reticent.mechanisms import COHORTS
from reticent.plan import Plan
from reticent.reports import ID_BYTES, Report, Verdict


class Intake:
    """
    The questions that are open: known plans in their versions, and the rounds that still take answers.

    A round is open from its start, less `skew` seconds for clocks that run fast, until its end plus grace.
    Nothing here looks at what the bits say: every answer of the right shape is as good as any other.
    """

    def __init__(self, plans: Iterable[Plan], skew: int = 300) -> None:
        self._plans = {(plan.name, plan.version): plan for plan in plans}
        self._names = {name for name, _ in self._plans}
        self._skew = skew

    def verdict(self, report: Report, now: float) -> Verdict:
        """Whether a report counts, at unix time `now`."""
        plan = self._plans.get((report.plan, report.version))
        if plan is None:
            return Verdict.VERSION_MISMATCH if report.plan in self._names else Verdict.UNKNOWN_PLAN
        if not _fits(report, plan):
            return Verdict.MALFORMED
        asked = plan.round(report.round)
        if now < asked.start - self._skew:
            return Verdict.EARLY
        return Verdict.LATE if now >= asked.closes else Verdict.ACCEPTED


def _fits(report: Report, plan: Plan) -> bool:
    """Whether a report has the shape its plan asks for: size, padding, cohort, metrics asked and segment names."""
    if len(report.id) != ID_BYTES or len(report.bits) != plan.report_bytes:
        return False
    padding = plan.report_bytes * 8 - plan.bits
    if report.bits[-1] & ((1 << padding) - 1):
        return False
    if (report.cohort is not None) != plan.uses_cohort or not 0 <= (report.cohort or 0) < COHORTS:
        return False
    return _answers_asked(report, plan) and report.segment.keys() <= {each.name for each in plan.segments}


def _answers_asked(report: Report, plan: Plan) -> bool:
    """Whether a report answers as many metrics as the plan asks, says which where needed, and no others."""
    if report.asked is None or plan.asked == len(plan.metrics):
        return report.asked is None and plan.asked == len(plan.metrics)
    asked = "".join(f"{byte:08b}" for byte in report.asked)
    size, rest = -(-len(plan.metrics) // 8), asked[len(plan.metrics) :]
    if len(report.asked) != size or asked.count("1") != plan.asked or "1" in rest:
        return False
    of_bits = [number for number, metric in enumerate(plan.metrics) for _ in range(metric.bits)]
    return not any(report.bit(place) and asked[number] == "0" for place, number in enumerate(of_bits))
