"""Estimates for pages: one point per round, remembered once its round is sealed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.dashboard.asking import NotHereError
from reticent.errors import ParameterError
from reticent.estimates import Estimate, HistogramEstimate, Quantile, cumulative
from reticent.plan import Metric, Plan
from reticent.plan.card import PrivacyCard, privacy_card
from reticent.results import LruCache, Result, Results

MOST_POINTS = 100_000
MOST_HISTOGRAMS = 64


@dataclass(frozen=True, slots=True)
class Point:
    """One metric in one round and segment: the mean, or the median of a histogram, with its interval."""

    version: int
    metric: Metric
    round: int
    start: int
    end: int
    state: str
    segment: Mapping[str, str]
    reports: int
    figure: Estimate | Quantile

    @classmethod
    def of(cls, found: Result) -> Point:
        """The point of an estimate; of a histogram it is the median, whose interval ends on edges."""
        figure, reports = found.estimate, found.estimate.reports
        return cls(
            version=found.version,
            metric=found.metric,
            round=found.round,
            start=found.start,
            end=found.end,
            state=found.state,
            segment=found.segment,
            reports=reports,
            figure=cumulative(figure).quantile(0.5) if isinstance(figure, HistogramEstimate) else figure,
        )

    @property
    def half_width(self) -> float:
        """What stands behind ±."""
        if isinstance(self.figure, Estimate):
            return self.figure.half_width
        return (self.figure.upper - self.figure.lower) / 2

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
            **self.figure.to_dict(),
        }


class Figures:
    """What pages are made of. Methods block, and may be called from any thread."""

    def __init__(self, reader: Results) -> None:
        self.reader = reader
        self._points: LruCache[tuple[Point, ...]] = LruCache(MOST_POINTS)
        self._histograms: LruCache[Result] = LruCache(MOST_HISTOGRAMS)
        self._cards: LruCache[PrivacyCard] = LruCache(MOST_HISTOGRAMS)

    def now(self) -> float:
        """Unix seconds."""
        return self.reader.clock()

    def plan(self, name: str) -> Plan:
        """The newest version of a plan; raises `NotHereError`."""
        try:
            return self.reader.plan(name)
        except ParameterError:
            raise NotHereError("plan", name) from None

    def versions(self, name: str) -> list[Plan]:
        """Every version of a plan, newest first."""
        return list(self.reader.versions(name).values())

    def card(self, plan: Plan) -> PrivacyCard:
        """What answering a plan costs."""
        key = (plan.name, plan.version)
        known = self._cards.get(key)
        if known is None:
            known = privacy_card(plan)
            self._cards.put(key, known)
        return known

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

        Sealed rounds are estimated once; open ones each time. `metric=None` means all of them.
        """
        tags = tuple(sorted((segment or {}).items()))
        infos = self._rounds_with(plan, [*([by] if by else []), *(name for name, _ in tags)], last)
        known: dict[tuple[int, int], tuple[Point, ...]] = {}
        for info in infos:
            key = (info["version"], info["round"])
            remembered = self._points.get((plan.name, *key, metric, by, tags, confidence))
            if info["state"] == "sealed" and remembered is not None:
                known[key] = remembered
        missing = [info for info in infos if (info["version"], info["round"]) not in known]
        for key, fresh in self._estimated(plan, metric, missing, last, confidence, by, dict(tags)).items():
            known[key] = tuple(fresh)
            if not fresh[0].provisional:
                self._points.put((plan.name, *key, metric, by, tags, confidence), known[key])
        return [point for info in infos for point in known.get((info["version"], info["round"]), ())]

    def _rounds_with(self, plan: Plan, segments: Sequence[str], last: int) -> list[dict[str, Any]]:
        """The rounds of versions that declare these segments."""
        infos = self.reader.rounds(plan.name, last)
        if not segments:
            return infos
        declared = [segment.name for segment in plan.segments]
        if not set(segments) <= set(declared):
            expected = f"one of {', '.join(declared)}" if declared else "nothing: the plan has no segments"
            raise ParameterError("segment", expected, ", ".join(segments))
        lacking = {
            each.version
            for each in self.versions(plan.name)
            if not set(segments) <= {segment.name for segment in each.segments}
        }
        return [info for info in infos if info["version"] not in lacking]

    def _estimated(
        self,
        plan: Plan,
        metric: str | None,
        infos: Iterable[Mapping[str, Any]],
        last: int,
        confidence: int,
        by: str | None,
        segment: Mapping[str, str],
    ) -> dict[tuple[int, int], list[Point]]:
        rounds = {info["round"] for info in infos}
        found: dict[tuple[int, int], list[Point]] = {}
        if rounds:
            for each in self.reader.estimates(
                plan.name, metric, sorted(rounds), last, segment, by, confidence / 100
            ):
                found.setdefault((each.version, each.round), []).append(Point.of(each))
        return found

    def histogram(
        self,
        plan: Plan,
        metric: str,
        point: Point,
        confidence: int,
        segment: Mapping[str, str] | None = None,
    ) -> Result | None:
        """The whole histogram behind a point; None when its round has gone since."""
        tags = tuple(sorted((segment or {}).items()))
        key = (plan.name, point.version, point.round, metric, tags, confidence)
        known = self._histograms.get(key)
        if known is None:
            answers = self.reader.estimates(
                plan.name, metric, [point.round], None, segment, None, confidence / 100
            )
            known = next((found for found in answers if found.version == point.version), None)
            if known and known.state == "sealed":
                self._histograms.put(key, known)
        return known
