"""Estimates for pages: one point per round or window, remembered once it is sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reticent.estimates import Estimate, Quantile, cumulative
from reticent.plan import Plan, PrivacyCard, privacy_card
from reticent.results import LruCache, Period, Result, Results, Subject

MOST_POINTS = 100_000
MOST_HISTOGRAMS = 64


@dataclass(frozen=True, slots=True)
class Point(Subject):
    """
    One metric in one period and segment, as one number with its interval.

    The mean, or the share of a flag; the median of a histogram, among devices that have a value; of a choice,
    the share of devices that chose anything.
    """

    reports: int
    estimate: Estimate | Quantile

    @classmethod
    def of(cls, result: Result) -> Point:
        """The point of a result; of a histogram it is the median, whose interval ends on edges."""
        estimate = result.estimate
        number: Estimate | Quantile
        if isinstance(estimate, Estimate):
            number = estimate
        elif result.metric.kind == "choice":
            number = _others(estimate.buckets[-1])
        else:
            number = cumulative(result.metric, result.counts, estimate.confidence).quantile(0.5)
        return cls(result.period, result.metric, result.segment, estimate.reports, number)

    @property
    def shown(self) -> Estimate | Quantile:
        """The number as pages print it: a share in percent."""
        number = self.estimate
        if not isinstance(number, Estimate) or self.metric.kind not in ("choice", "flag"):
            return number
        scaled = ("value", "lower", "upper", "paper_bound", "manipulation")
        return replace(
            number,
            **{name: 100 * getattr(number, name) for name in scaled},
            uncut=(100 * number.uncut[0], 100 * number.uncut[1]),
            span=(0.0, 100.0),
            unit="%",
        )

    @property
    def half_width(self) -> float:
        """What stands behind ± where it is shown."""
        number = self.shown
        return number.half_width if isinstance(number, Estimate) else (number.upper - number.lower) / 2

    @property
    def provisional(self) -> bool:
        """Whether reports still come in."""
        return self.state != "sealed"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; the names are those of `GET /v1/estimates`."""
        return {**Subject.to_dict(self), **self.estimate.to_dict()}


def _others(bucket: Estimate) -> Estimate:
    """The share of devices that are not in a bucket."""
    low, high = bucket.uncut
    return replace(
        bucket,
        value=1 - bucket.value,
        lower=1 - bucket.upper,
        upper=1 - bucket.lower,
        uncut=(1 - high, 1 - low),
        label="",
    )


def latest(points: Sequence[Point]) -> Point | None:
    """The newest sealed point, or the newest open one where none is sealed; points are latest first."""
    return next((point for point in points if not point.provisional), points[0] if points else None)


def comparable(points: Sequence[Point], like: Point | None) -> list[Point]:
    """Those points that measure the same thing in the same unit as the latest: versions may differ."""
    if like is None:
        return []
    kind, unit = like.metric.kind, like.metric.unit
    return [point for point in points if (point.metric.kind, point.metric.unit) == (kind, unit)]


class PointReader:
    """What pages are made of, read from results. Methods block, and may be called from any thread."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self._points: LruCache[tuple[Point, ...]] = LruCache(MOST_POINTS)
        self._histograms: LruCache[Result] = LruCache(MOST_HISTOGRAMS)
        self._cards: LruCache[PrivacyCard] = LruCache(MOST_HISTOGRAMS)

    def card(self, plan: Plan) -> PrivacyCard:
        """What answering a plan costs."""
        card = self._cards.get((plan.name, plan.version))
        if card is None:
            card = privacy_card(plan)
            self._cards.put((plan.name, plan.version), card)
        return card

    def points(
        self,
        plan: Plan,
        metric: str | None,
        last: int,
        confidence: int,
        by: str | None = None,
        segment: Mapping[str, str] | None = None,
        per: str | None = None,
    ) -> list[Point]:
        """
        One point per metric, period and tag, latest period first; `per` is that of `Results.periods`.

        Sealed periods are estimated once; open ones each time. `metric=None` means all of them. Periods of
        versions that lack the segment have no points.
        """
        tags = tuple(sorted((segment or {}).items()))
        self.results.check(plan, metric, dict(tags), by, confidence / 100)
        asked = {*([by] if by else []), *(name for name, _ in tags)}
        points: list[Point] = []
        for period in self.results.periods(plan.name, last, per):
            if not asked <= {segment.name for segment in period.plan.segments}:
                continue
            key = (*_key(period), metric, by, tags, confidence)
            known = self._points.get(key)
            if known is None:
                metrics = [one for one in period.plan.metrics if metric in (None, one.name)]
                results = self.results.results(period, metrics, dict(tags), by, confidence / 100)
                known = tuple(map(Point.of, results))
                if period.state == "sealed":
                    self._points.put(key, known)
            points += known
        return points

    def histogram(self, point: Point, confidence: int) -> Result | None:
        """The whole histogram behind a point; None when its rounds have gone since."""
        period, tags = point.period, tuple(sorted(point.segment.items()))
        key = (*_key(period), point.metric.name, tags, confidence)
        result = self._histograms.get(key)
        if result is None:
            results = self.results.results(period, [point.metric], point.segment, None, confidence / 100)
            result = next(iter(results), None)
            if result and result.state == "sealed":
                self._histograms.put(key, result)
        return result


def _key(period: Period) -> tuple[str, int, int, int, int]:
    """What a sealed period is known by: another report would make it another one."""
    return period.plan.name, period.plan.version, period.first, period.last, period.reports
