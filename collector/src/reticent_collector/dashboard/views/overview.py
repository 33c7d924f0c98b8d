"""All plans at a glance: is all well, what clearly changed, what is steady, and what is not known well enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Any

from markupsafe import Markup

from reticent.plan import Metric, Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.params import Params
from reticent_collector.dashboard.points import Point, PointReader, comparable, latest, with_more_devices
from reticent_collector.dashboard.views import (
    SHARES,
    TRENDS,
    View,
    certainty_of,
    change_shown,
    headline,
    mark,
    trend_shown,
    unit_of,
)
from reticent_collector.dashboard.views.plans import answered, hints, notices
from reticent_collector.dashboard.views.shares import bars
from reticent_collector.estimates import Estimate, HistogramEstimate
from reticent_collector.figures import Unit
from reticent_collector.results import (
    TREND_METHOD,
    Difference,
    Selection,
    Trend,
    against_words,
    everies,
    usual_against,
    usual_every,
)

ROUNDS = 60  # among which the latest sealed and the open ones are looked for
MOST_NOTES = 3
PRECISE_SHARE = 0.1  # a share is known well enough if its ± is no more
PRECISE_PART = 0.5  # and a mean, if it is no more than this part of it


def overview(reader: PointReader, params: Params) -> View:
    """All plans, with the latest estimate of each metric."""
    now = reader.results.clock()
    plans = sorted(reader.results.plans().items())
    shown = [_plan(reader, plan, params, now) for _, plan in plans]
    choices = {choice: None for _, plan in plans for choice in everies(plan)}
    usual = {one["every"] for one in shown}
    chosen = params.every or (usual.pop() if len(usual) == 1 else "")
    minute = int(now) // 60 * 60
    return View(
        template="overview.html",
        title="Overview",
        shown={
            "plans": shown,
            "params": params,
            "everies": list(choices),
            "chosen_every": chosen,
            "presets": params.presets(chosen),
            "count": params.count(chosen),
            "hints": sum(len(one["hints"]) for one in shown),
            "now": labels.clock(minute, minute, "round"),
            "confidence": params.confidence,
            "trend_method": TREND_METHOD,
        },
        data="/v1/plans",
        refresh=30 if any(one["is_open"] for one in shown) else 120,
    )


@dataclass(frozen=True, slots=True)
class _Story:
    """What is known of a metric: its points, latest first, and how it changed."""

    plan: Plan
    metric: Metric
    points: Sequence[Point]
    change: Difference | None
    trends: Sequence[Trend]

    @property
    def last(self) -> Point | None:
        """The newest sealed point."""
        return latest(self.points)

    @property
    def unit(self) -> Unit:
        """Of all its points."""
        return unit_of(comparable(self.points, self.last))

    @property
    def group(self) -> str:
        """Where it is on the page: what changed comes first."""
        last = self.last
        if last is None:
            return "unknown"
        if (self.change and self.change.clear) or any(trend.direction for trend in self.trends):
            return "changed"
        return "steady" if is_precise(last) else "unknown"


def is_precise(point: Point) -> bool:
    """Whether a figure says something: a mean or share has a narrow interval, a median is in less than half of all."""
    number = point.estimate
    if not isinstance(number, Estimate):
        return certainty_of(point).dots > 1
    if number.lower >= number.upper:
        return False
    if number.kind in SHARES and number.half_width <= PRECISE_SHARE:
        return True
    return number.half_width <= PRECISE_PART * number.value


def _plan(reader: PointReader, plan: Plan, params: Params, now: float) -> dict[str, Any]:
    """What is shown of a plan."""
    every = params.every if params.every in everies(plan) else usual_every(plan)
    rounds = reader.results.rounds(plan.name, ROUNDS)
    selection = replace(
        params.selection(plan.name, shown_by=every), every=every, segment={}, by=None, version=None
    )
    stories = _stories(reader, plan, selection)
    newest = latest([point for story in stories for point in story.points])
    groups: dict[str, list[dict[str, Any]]] = {"changed": [], "steady": [], "unknown": []}
    for story in stories:
        if params.search.lower() in f"{story.metric.name} {story.metric.description}".lower():
            groups[story.group].append(_row(story, params))
    devices = answered(reader, plan)
    return {
        "plan": plan,
        "every": every,
        "against": against_words(usual_against(plan, every)),
        "newest": newest and labels.clock(newest.start, newest.end, newest.every),
        "devices": devices.words,
        "is_open": any(info["state"] != "sealed" for info in rounds),
        "notices": notices(plan, now),
        "notes": _notes(reader, plan, stories),
        "hints": hints(plan, rounds, devices, now),
        "groups": groups,
        "found": sum(map(len, groups.values())),
        "ended": [metric.name for metric in reader.results.ended(plan.name)],
    }


def _notes(reader: PointReader, plan: Plan, stories: Sequence[_Story]) -> list[dict[str, str]]:
    """The latest events in what is shown, newest first."""
    starts = [point.start for story in stories for point in story.points]
    notes = reader.results.notes(plan.name, min(starts)) if starts else []
    return [{"when": labels.date(note.at), "text": note.text} for note in reversed(notes)][:MOST_NOTES]


def _stories(reader: PointReader, plan: Plan, selection: Selection) -> list[_Story]:
    """What is known of each metric of a plan, in the order of the plan."""
    by_metric: dict[str, list[Point]] = {metric.name: [] for metric in plan.metrics}
    for point in reader.points(plan, selection):
        by_metric[point.metric.name].append(point)
    return [
        _story(reader, plan, metric, by_metric[metric.name], _at_once(selection, plan, metric))
        for metric in plan.metrics
    ]


def _at_once(selection: Selection, plan: Plan, metric: Metric) -> Selection:
    """Comparisons of one metric whose intervals hold at once with those of all others of the plan."""
    strict = 1 - (1 - selection.confidence) / len(plan.metrics)
    against = usual_against(plan, selection.every or usual_every(plan))  # type: ignore[arg-type]
    return replace(selection, metric=metric.name, confidence=strict, against=against)


def _story(
    reader: PointReader, plan: Plan, metric: Metric, points: Sequence[Point], strict: Selection
) -> _Story:
    """
    What is known of a metric. What cannot be clear is not worked out: a page of steady metrics is there at once.

    The interval of a difference is wider than those of two independent figures together, whatever the dependence.
    """
    last = latest(points)
    if last is None or not any(may_differ(last, point) for point in points if point.start < last.start):
        return _Story(plan, metric, points, None, [])
    change = reader.changes(last.period, strict).get(metric.name)
    return _Story(plan, metric, points, change, reader.trends(strict).get(metric.name, []))


def may_differ(one: Point, other: Point) -> bool:
    """Whether a difference of two figures can be clear."""
    pairs = zip(_numbers(one), _numbers(other), strict=False)
    return any(abs(a.value - b.value) > hypot(a.half_width, b.half_width) for a, b in pairs)


def _numbers(point: Point) -> Sequence[Estimate]:
    """The single numbers of a figure."""
    estimate = point.result.estimate
    return estimate.buckets if isinstance(estimate, HistogramEstimate) else (estimate,)


def _row(story: _Story, params: Params) -> dict[str, Any]:
    metric, last = story.metric, story.last
    chosen = Params(every=params.every, since=params.since, until=params.until, confidence=params.confidence)
    path = f"/plans/{story.plan.name}/metrics/{metric.name}"
    row = {"metric": metric, "path": path, "link": path + chosen.query(), "headline": None, "change": None}
    if last is None:
        return row
    unit = story.unit
    same = comparable(story.points, last)
    if metric.is_named:  # one label over time: which is the largest may change
        place = metric.bucket_labels.index(last.estimate.label) if isinstance(last.estimate, Estimate) else 0
        same = [
            Point.of(point.result, place)
            for point in same
            if point.metric.bucket_labels == last.metric.bucket_labels
        ]
    marks = [mark(point, unit, tip=False) for point in reversed(same)]
    what = TRENDS[metric.kind]
    return row | {
        "headline": headline(last, unit),
        "change": change_shown(story.change, unit),
        "compared": any(point.start < last.start for point in story.points),
        "trends": trend_shown(story.trends, unit)[:1],
        "spark": charts.spark(
            marks, f"{what} of {metric.name} over {len(marks)} {last.every}s, with its interval"
        ),
        "shape": _shape(last),
        "help": "" if is_precise(last) else _what_helps(last, unit),
    }


def _shape(last: Point) -> Markup:
    """The latest histogram, small."""
    estimate = last.result.estimate
    if not isinstance(estimate, HistogramEstimate):
        return Markup()
    label = f"distribution of {last.metric.name} over devices, latest {last.every}"
    return charts.small_histogram(estimate.edges, bars(last.result, "norm-sub"), label)


def _what_helps(last: Point, unit: Unit) -> str:
    """What would make a figure more precise."""
    plan = last.period.plan
    longer = ", or a longer period" if plan.answers.sampled and last.every != "month" else ""
    number = last.estimate
    if not isinstance(number, Estimate):
        return f"More devices{longer}, or fewer buckets would narrow it."
    expected = with_more_devices(last.metric, number, last.result.rounds, plan)
    return f"With 4 times the devices: ± {unit.figure(0, expected).partition('± ')[2]}{longer}."
