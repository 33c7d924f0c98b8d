"""Estimates for pages: one point per period."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from reticent.plan import Metric, Plan
from reticent.plan.card import privacy_card
from reticent_collector.dashboard.params import NotHereError
from reticent_collector.estimates import Estimate, expected_average_half_width, expected_half_width
from reticent_collector.estimates.distribution import Quantile
from reticent_collector.results import Difference, Period, Result, Results, Selection, Subject

card_of = lru_cache(maxsize=64)(privacy_card)


@dataclass(frozen=True, slots=True)
class Point(Subject):
    """
    One metric in one period and segment, as one number with its interval.

    The mean, or the share of a flag; the median of a histogram, among devices that have a value; of a choice, the share
    of devices that chose anything; of a split, the mean of all parts together. Of a median only the interval is shown:
    the reports determine in which buckets it lies, and nothing finer.
    """

    reports: int
    rounds: int  # that it is made of
    estimate: Estimate | Quantile

    @classmethod
    def of(cls, result: Result) -> Point:
        """The point of a result; that of a histogram is the median, whose interval ends on edges."""
        estimate = result.estimate
        number: Estimate | Quantile
        if isinstance(estimate, Estimate):
            number = estimate
        elif result.metric.is_named:
            number = _others(estimate.buckets[-1])
        else:
            number = result.median or result.cumulative.quantile(0.5)
        return cls(result.period, result.metric, result.segment, estimate.reports, result.rounds, number)

    @property
    def half_width(self) -> float:
        """The ±; half of the interval, for a median."""
        number = self.estimate
        return number.half_width if isinstance(number, Estimate) else (number.upper - number.lower) / 2

    @property
    def provisional(self) -> bool:
        """Whether reports still come in."""
        return self.state != "sealed"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; the names are those of `GET /v1/estimates`."""
        number = self.estimate.to_dict()
        if isinstance(self.estimate, Quantile):
            del number["value"]
        return {**Subject.to_dict(self), **number}


def with_more_devices(metric: Metric, estimate: Estimate, rounds: int, plan: Plan, times: int = 4) -> float:
    """The expected half-width of an estimate, in its own unit, with so many times the devices."""
    devices, confidence = times * estimate.devices, estimate.confidence
    if rounds > max(1, plan.answers.window):
        if plan.answers.sampled:  # the reports of all windows
            devices = max(1, devices * plan.answers.window // rounds)
        return expected_average_half_width(metric, devices, rounds, confidence, plan.answers)
    truth = min(max(estimate.value, estimate.span[0]), estimate.span[1])
    return expected_half_width(metric, devices, confidence, at=truth)


def _others(bucket: Estimate) -> Estimate:
    """The share of devices that are not in a bucket, or the amount that is in the other parts."""
    low, high = bucket.uncut
    whole = bucket.span[1]
    return replace(
        bucket,
        value=whole - bucket.value,
        lower=whole - bucket.upper,
        upper=whole - bucket.lower,
        uncut=(whole - high, whole - low),
        label="",
    )


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

    def metric(self, plan: Plan, name: str, home: str) -> Metric:
        """A metric of a plan; raises `NotHereError`."""
        if name not in plan.by_name:
            raise NotHereError("metric", name, home)
        return plan.by_name[name]

    def points(self, plan: Plan, selection: Selection) -> list[Point]:
        """
        One point per metric, period and tag, latest first.

        There is none of versions without the segment, or in which a metric of the plan is of another kind.
        """
        selection.check(plan)
        kinds = {one.name: one.kind for one in plan.metrics}
        results = self.results.estimates(selection)
        return [Point.of(result) for result in results if kinds.get(result.metric.name) == result.metric.kind]

    def histogram(self, point: Point, confidence: int) -> Result | None:
        """The whole histogram behind a point; None when its rounds are gone."""
        return next(iter(self.histograms(point, confidence)), None)

    def histograms(self, point: Point, confidence: int, by: str | None = None) -> list[Result]:
        """The same, by tag of a segment."""
        selection = Selection(point.plan, segment=point.segment, by=by, confidence=confidence / 100)
        return self.results.results(point.period, [point.metric], selection)

    def changes(self, period: Period, selection: Selection) -> dict[str, Difference]:
        """How the metrics of a selection changed since the period before this one, by metric."""
        changes = self.results.changes(
            Selection(
                period.plan.name,
                selection.metric,
                segment=selection.segment,
                confidence=selection.confidence,
                every=period.every,
                since=period.start,
                until=period.start + 1,
            )
        )
        return {change.figure.metric.name: change for change in reversed(changes)}
