"""Estimates for pages: one point per round, remembered once its round is sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reticent.errors import ParameterError
from reticent.estimates import Estimate, Quantile, cumulative
from reticent.plan import Metric, Plan, PrivacyCard, privacy_card
from reticent.results import LruCache, Result, Results

MOST_POINTS = 100_000
MOST_HISTOGRAMS = 64


@dataclass(frozen=True, slots=True)
class Point:
    """
    One metric in one round and segment, as one number with its interval.

    The mean, or the share of a flag; the median of a histogram, among devices that have a value; of a choice,
    the share of devices that chose anything.
    """

    version: int
    metric: Metric
    round: int
    start: int
    end: int
    state: str
    segment: Mapping[str, str]
    reports: int
    estimate: Estimate | Quantile

    @classmethod
    def of(cls, result: Result) -> Point:
        """The point of a result; of a histogram it is the median, whose interval ends on edges."""
        estimate, reports = result.estimate, result.estimate.reports
        number: Estimate | Quantile
        if isinstance(estimate, Estimate):
            number = estimate
        elif result.metric.kind == "choice":
            number = _others(estimate.buckets[-1])
        else:
            number = cumulative(result.metric, result.counts, estimate.confidence).quantile(0.5)
        return cls(
            version=result.version,
            metric=result.metric,
            round=result.round,
            start=result.start,
            end=result.end,
            state=result.state,
            segment=result.segment,
            reports=reports,
            estimate=number,
        )

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
        return {
            "version": self.version,
            "round": self.round,
            "start": self.start,
            "end": self.end,
            "state": self.state,
            "segment": dict(self.segment),
            **self.estimate.to_dict(),
        }


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
    ) -> list[Point]:
        """
        One point per metric, round and tag, latest round first.

        Sealed rounds are estimated once; open ones each time. `metric=None` means all of them. Rounds of
        versions that lack the segment have no points.
        """
        tags = tuple(sorted((segment or {}).items()))
        asked = {*([by] if by else []), *(name for name, _ in tags)}
        declared = [segment.name for segment in plan.segments]
        if not asked <= set(declared):
            expected = f"one of {', '.join(declared)}" if declared else "nothing: the plan has no segments"
            raise ParameterError("segment", expected, ", ".join(asked))
        rounds = self.results.rounds(plan.name, last)
        known: dict[tuple[int, int], tuple[Point, ...]] = {}
        for info in rounds:
            key = (info["version"], info["round"])
            remembered = self._points.get((plan.name, *key, metric, by, tags, confidence))
            if remembered is not None:
                known[key] = remembered
        missing = {info["round"] for info in rounds if (info["version"], info["round"]) not in known}
        fresh: dict[tuple[int, int], list[Point]] = {}
        if missing:
            for result in self.results.estimates(
                plan.name, metric, sorted(missing), last, dict(tags), by, confidence / 100
            ):
                fresh.setdefault((result.version, result.round), []).append(Point.of(result))
        for key, points in fresh.items():
            known[key] = tuple(points)
            if not points[0].provisional:
                self._points.put((plan.name, *key, metric, by, tags, confidence), known[key])
        return [point for info in rounds for point in known.get((info["version"], info["round"]), ())]

    def histogram(
        self, plan: Plan, point: Point, confidence: int, segment: Mapping[str, str] | None = None
    ) -> Result | None:
        """The whole histogram behind a point; None when its round has gone since."""
        metric, tags = point.metric.name, tuple(sorted((segment or {}).items()))
        key = (plan.name, point.version, point.round, metric, tags, confidence)
        result = self._histograms.get(key)
        if result is None:
            results = self.results.estimates(
                plan.name, metric, [point.round], None, segment, None, confidence / 100
            )
            result = next((result for result in results if result.version == point.version), None)
            if result and result.state == "sealed":
                self._histograms.put(key, result)
        return result
