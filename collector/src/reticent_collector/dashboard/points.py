"""Estimates for pages: one point per period."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isnan
from typing import Any

from reticent.errors import ParameterError
from reticent.plan import Metric, Plan
from reticent_collector.dashboard.params import NotHereError
from reticent_collector.estimates import Estimate, expected_average_half_width, expected_half_width
from reticent_collector.estimates.distribution import Quantile
from reticent_collector.privacy.card import privacy_card
from reticent_collector.results import Difference, Period, Result, Results, Selection, Subject, Trend

card_of = lru_cache(maxsize=64)(privacy_card)


@dataclass(frozen=True, slots=True)
class Point(Subject):
    """
    One metric in one period and segment, as one number with its interval.

    The mean, or the share of a flag; the median of a histogram, among devices that have a value; of labels, the
    largest. Of a median only the interval is shown: the reports determine in which buckets it lies, and nothing finer.
    """

    estimate: Estimate | Quantile
    result: Result  # that it is a number of

    @classmethod
    def of(cls, result: Result, place: int | None = None) -> Point:
        """The point of a result; of labels the one at a place, or the largest."""
        estimate = result.estimate
        number: Estimate | Quantile
        if isinstance(estimate, Estimate):
            number = estimate
        elif result.metric.is_named:
            number = estimate.buckets[by_size(result)[0] if place is None else place]
        else:
            number = result.median or result.cumulative.quantile(0.5)
        return cls(result.period, result.metric, result.segment, number, result)

    @property
    def reports(self) -> int:
        """Of the devices that it is about."""
        return self.result.estimate.reports

    @property
    def half_width(self) -> float:
        """The ±; half of the interval, for a median."""
        number = self.estimate
        return number.half_width if isinstance(number, Estimate) else (number.upper - number.lower) / 2

    @property
    def provisional(self) -> bool:
        """Whether reports still come in."""
        return self.state != "sealed"

    @property
    def rounds_missing(self) -> int:
        """Rounds of the period that are not in it."""
        return self.result.rounds_missing

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; the names are those of `GET /v1/estimates`."""
        number = self.estimate.to_dict()
        if isinstance(self.estimate, Quantile):
            del number["value"]
        return {**Subject.to_dict(self), **number}


def by_size(result: Result) -> list[int]:
    """The places of the labels of a result, largest first; that of devices that chose nothing is left out."""
    estimate = result.estimate
    buckets = () if isinstance(estimate, Estimate) else estimate.buckets
    labelled = [
        place for place, bucket in enumerate(buckets) if bucket.label in result.metric.bucket_labels[:-1]
    ]
    return sorted(labelled, key=lambda place: -buckets[place].value if buckets[place].reports else 0.0)


def with_more_devices(metric: Metric, estimate: Estimate, rounds: int, plan: Plan, times: int = 4) -> float:
    """The expected half-width of an estimate, in its own unit, with so many times the devices."""
    devices, confidence = times * estimate.devices, estimate.confidence
    known = None if isnan(estimate.value) else min(max(estimate.value, estimate.span[0]), estimate.span[1])
    if rounds > max(1, plan.answers.window):
        if plan.answers.sampled:  # the reports of all windows
            devices = max(1, devices * plan.answers.window // rounds)
        return expected_average_half_width(metric, devices, rounds, confidence, plan.answers, at=known)
    return expected_half_width(metric, devices, confidence, at=known)


def latest(points: Sequence[Point]) -> Point | None:
    """The newest sealed point, or the newest open one where none is sealed; points are latest first."""
    return next((point for point in points if not point.provisional), points[0] if points else None)


def comparable(points: Sequence[Point], like: Point | None) -> list[Point]:
    """The points with the same unit as `like`: versions of a plan may differ."""
    return [point for point in points if like and point.metric.unit == like.metric.unit]


class PointReader:
    """The estimates that pages are made of. Methods block, and may be called from any thread."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def plan(self, name: str, among: Collection[str] | None = None, home: str = "/") -> Plan:
        """The newest version of a plan, if it is `among` those that are shown; raises `NotHereError`."""
        for plan in self.results.versions(name).values() if among is None or name in among else ():
            return plan
        raise NotHereError("plan", name, home)

    def metric(self, plan: Plan, name: str, home: str) -> tuple[Plan, Metric]:
        """A metric, also one that ended, and the newest version of the plan that has it; raises `NotHereError`."""
        try:
            return self.results.metric(plan.name, name)
        except ParameterError:
            raise NotHereError("metric", name, home) from None

    def points(self, plan: Plan, selection: Selection) -> list[Point]:
        """
        One point per metric, period and tag, latest first.

        There is none of versions without the segment, or in which a metric of the plan is of another kind.
        """
        selection.check(plan)
        kinds = {one.name: one.kind for one in plan.metrics}
        results = self.results.estimates(selection)
        return [Point.of(result) for result in results if kinds.get(result.metric.name) == result.metric.kind]

    def by_tag(self, point: Point, by: str) -> dict[str, Result]:
        """The result behind a point, by tag of a segment; none if its version of the plan has no such segment."""
        if by not in {declared.name for version in point.period.versions for declared in version.segments}:
            return {}
        selection = Selection(
            point.plan, segment=point.segment, by=by, confidence=point.result.estimate.confidence
        )
        apart = self.results.results(point.period, [point.metric], selection)
        return {one.segment[by]: one for one in apart}

    def changes(self, period: Period, selection: Selection) -> dict[str, Difference]:
        """How the metrics of a selection changed until this period, by metric, against what the selection says."""
        at = replace(
            selection, every=period.every, by=None, last=None, since=period.start, until=period.start + 1
        )
        return {change.figure.metric.name: change for change in reversed(self.results.changes(at))}

    def trends(self, selection: Selection) -> dict[str, list[Trend]]:
        """Whether the metrics of a selection rise or fall over its periods, by metric."""
        by_metric: dict[str, list[Trend]] = {}
        for trend in self.results.trends(selection):
            by_metric.setdefault(trend.figure.metric.name, []).append(trend)
        return by_metric
