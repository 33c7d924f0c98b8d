"""The page of a metric: its latest figure, how it changed, its course over time, and what the ± is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reticent.plan import Metric, Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.params import CONFIDENCES, Params
from reticent_collector.dashboard.points import Point, PointReader, comparable, latest, with_more_devices
from reticent_collector.dashboard.views import (
    TRENDS,
    Picture,
    View,
    change_shown,
    change_words,
    headline,
    interval,
    rounds_of,
    trend_shown,
    unit_of,
)
from reticent_collector.dashboard.views.makeup import makeup
from reticent_collector.dashboard.views.over_time import over_time, tags_in_order, visible_tags
from reticent_collector.dashboard.views.request import PageRequest, Parts
from reticent_collector.dashboard.views.shares import shares
from reticent_collector.estimates import Estimate
from reticent_collector.estimates.versions import question
from reticent_collector.figures import Unit
from reticent_collector.results import (
    OTHER_DEVICES,
    TREND_METHOD,
    Difference,
    against_words,
    at_least_once,
    everies,
)
from reticent_collector.stores import FEW

MOST_ROWS = 100  # of a table; the file has all of them


def metric_page(reader: PointReader, plan: Plan, metric: Metric, params: Params) -> View:
    """The page of a metric; `plan` is the newest version that has it."""
    asked = PageRequest(reader, plan, metric, params)
    points, chosen = _points(asked)
    same = comparable(points, chosen or latest(points))
    parts: list[Parts] = []
    if chosen:
        by_tag = asked.points_by_tag(chosen) if asked.is_mean else {}
        compared = _with_tags(by_tag, chosen) if asked.is_mean else chosen
        tagged = _at(by_tag, compared) if asked.is_mean else asked.tags_at(chosen)
        unit = unit_of([*same, *(point for points_of in by_tag.values() for point in points_of)])
        parts = [
            _figure(asked, chosen, unit),
            over_time(asked, same, by_tag, unit),
            _numbers(asked, same, unit)
            if asked.is_mean
            else shares(asked, chosen, same, tagged, _change(asked, chosen)),
            _by_tag(asked, compared, {*by_tag, *tagged}, tagged, unit),
        ]
    shown = _choices(asked) | {
        "headline": None,
        "lost": labels.moment(asked.at) + " UTC" if asked.at is not None and not chosen else "",
        "omitted": len(points) - len(same),
    }
    pictures: dict[str, Picture] = {}
    for more, drawings in parts:
        shown |= more
        pictures |= drawings
    return View(
        template="mean.html" if asked.is_mean else "histogram.html",
        title=f"{metric.name} · {plan.name}",
        shown=shown,
        data=params.estimates_address(plan.name, metric.name, asked.every),
        refresh=30 if any(point.provisional for point in points) else 120,
        pictures=pictures,
    )


def _choices(asked: PageRequest) -> dict[str, Any]:
    """What can be chosen on the page, and what is."""
    plan, params = asked.plan, asked.params
    current = next(iter(asked.versions.values()))
    tags = [
        ("", "all"),
        *((f"{one.name}:{tag}", f"{one.name} {tag}") for one in plan.segments for tag in one.tags),
    ]
    return {
        "plan": plan,
        "metric": asked.metric,
        "params": params,
        "trend": TRENDS[asked.metric.kind],
        "period": asked.every,
        "everies": everies(plan),
        "presets": params.presets(asked.every),
        "count": params.count(asked.every),
        "confidences": [(level, f"{level} %") for level in CONFIDENCES],
        "versions": [
            ("", "all together"),
            *((number, f"version {number} alone") for number in asked.versions),
        ],
        "segments": [("", "nothing"), *((group.name, group.name) for group in plan.segments)],
        "devices": tags,
        "againsts": [(name, against_words(name)) for name in asked.againsts],
        "against": asked.against,
        "against_words": against_words(asked.against),
        "narrowed": bool(params.since or params.until or params.segment or params.version)
        or params.confidence != Params().confidence,
        "ended_after": plan.version if plan.version != current.version else 0,
        "tags": [],
        "kept": params.pairs(),
        "more_rows": 0,
        "files": {name: params.query(chart=name) for name in ("series", "shares", "below")},
    }


def _points(asked: PageRequest) -> tuple[list[Point], Point | None]:
    """The points that are shown, latest first, and the one that the headline is about."""
    last = asked.selection.last
    if asked.is_mean and asked.params.by:
        # Lines are drawn of tags; the whole fleet is in the headline and the table.
        last = min(MOST_ROWS, last or MOST_ROWS)
    points = asked.read(last=last)
    at = asked.at
    if at is None:
        return points, latest(points)
    chosen = _holding(points, at)
    if chosen is None:
        # It left the range that is shown: then that range ends with it.
        longest = asked.plan.round_seconds * max(1, asked.plan.answers.window) + 31 * 86_400
        earlier = _holding(asked.read(last=None, since=at - longest, until=at + 1), at)
        if earlier:
            points = asked.read(last=asked.params.count(asked.every), since=None, until=earlier.start + 1)
            chosen = _holding(points, at)
    return points, chosen


def _holding(points: Sequence[Point], at: int) -> Point | None:
    """The point whose period contains a time."""
    return next((point for point in points if point.start <= at < point.end), None)


# The latest figure


def _figure(asked: PageRequest, chosen: Point, unit: Unit) -> Parts:
    """The headline, how it changed, and what its ± is made of."""
    estimate = chosen.estimate
    shown: dict[str, Any] = {
        "headline": headline(chosen, unit),
        "change": change_shown(_change(asked, chosen), unit),
        "trends": trend_shown(_trends(asked), unit)[:3],
        "trend_method": TREND_METHOD,
        "at_least_once": at_least_once(chosen.metric, chosen.period),
    }
    if not isinstance(estimate, Estimate) or not asked.is_mean:
        return shown, {}
    top = f"{labels.rounded(estimate.span[1] / unit.size, 6)} {unit.name}".rstrip()
    in_range = f"{interval(chosen, unit)} {unit.name}, out of 0 to {top}"
    expected = with_more_devices(chosen.metric, estimate, chosen.result.rounds, chosen.period.plan)
    return shown | {
        "more_devices": unit.figure(0, expected).partition("± ")[2],
        "gauge": charts.gauge(estimate.value, estimate.lower, estimate.upper, estimate.span[1], in_range),
        "top": top,
        "makeup": makeup(estimate, unit),
    }, {}


def _change(asked: PageRequest, chosen: Point) -> Difference | None:
    """How the chosen figure changed; none where it cannot be compared so."""
    if asked.params.against not in ("", *asked.againsts) and not asked.params.against[:1].isdigit():
        return None
    selection = replace(asked.selection, against=asked.against)
    return asked.reader.changes(chosen.period, selection).get(asked.metric.name)


def _trends(asked: PageRequest) -> list[Any]:
    selection = replace(asked.selection, by=None, every=asked.every)
    return asked.reader.trends(selection).get(asked.metric.name, [])


# Tables


def _numbers(asked: PageRequest, points: Sequence[Point], unit: Unit) -> Parts:
    """A row per period; where parameters changed within one, each of its figures says whose it is."""
    rows = [_row(point, unit) | {"about": _parameters(asked, point)} for point in points[:MOST_ROWS]]
    return {"unit": unit.name, "rows": rows, "more_rows": max(0, len(points) - MOST_ROWS)}, {}


def _parameters(asked: PageRequest, point: Point) -> str:
    """The versions with the parameters of a figure, where those are not the ones of now."""
    if question(point.metric) == question(asked.metric):
        return ""
    versions = point.result.added or (point.version,)
    return f"parameters of {labels.plural('version', len(versions))} {', '.join(map(str, versions))}"


def _row(point: Point, unit: Unit) -> dict[str, Any]:
    """A figure in a table: the unbiased value, whatever is drawn."""
    value, _, half_width = Unit(unit.size).figure(point.estimate.value, point.half_width).partition(" ± ")
    return {
        "clock": labels.clock(point.start, point.end, point.every),
        "value": value,
        "half_width": half_width,
        "interval": interval(point, unit),
        "reports": f"{point.reports:,}",
        "state": point.state,
        "part": rounds_of(point),
    }


def _with_tags(by_tag: Mapping[str, Sequence[Point]], chosen: Point) -> Point:
    """A point of the latest sealed period in which tags can be compared, else the chosen one."""
    latest_first = sorted(
        (point for points in by_tag.values() for point in points if not point.provisional),
        key=lambda point: -point.start,
    )
    several = (point for point in latest_first if len(_at(by_tag, point)) > 1)
    return next(several, chosen)


def _at(by_tag: Mapping[str, Sequence[Point]], chosen: Point) -> dict[str, Point]:
    """The points of tags in the period of a point."""
    return {
        tag: point for tag, points in by_tag.items() for point in points if point.period.start == chosen.start
    }


def _by_tag(
    asked: PageRequest, chosen: Point, tags: Collection[str], tagged: Mapping[str, Point], unit: Unit
) -> Parts:
    """The tags of a segment in the chosen period, and how each differs from the baseline."""
    params = asked.params
    visible = visible_tags(asked.plan, params, tags)
    everyone = tags_in_order(asked.plan, params.by, tags)
    shown: dict[str, Any] = {
        "tags": [{"name": tag, "key": asked.key(tag), "shown": tag in visible} for tag in everyone],
        "compared_by": {},
    }
    ordered = tags_in_order(asked.plan, params.by, tagged)
    if not ordered:
        return shown, {}
    named = [tag for tag in ordered if tag != FEW]  # the rare ones together are no group to compare with
    most = max(named, key=lambda tag: tagged[tag].reports, default="")
    baseline = params.baseline if params.baseline in named else most
    to_baseline = asked.differences(chosen, baseline) if baseline else {}
    shown["compared_by"] = {
        "path": asked.path,
        "kept": params.pairs(),
        "by": params.by,
        "metric": asked.metric,
        "trend": TRENDS[asked.metric.kind],
        "unit": unit.name,
        "period": asked.every,
        "when": labels.period(chosen.start, chosen.end, chosen.every),
        "comparison": [_tag_row(tag, tagged[tag], to_baseline.get(tag), unit) for tag in ordered],
        "baseline": baseline,
        "baselines": [(tag, tag) for tag in named],
        "silent": [tag for tag in everyone if tag not in tagged],
        "other_devices": OTHER_DEVICES,
    }
    return shown, {}


def _tag_row(tag: str, point: Point, difference: Difference | None, unit: Unit) -> dict[str, Any]:
    return headline(point, unit) | {
        "tag": tag,
        "state": point.state,
        "difference": change_words(difference, unit) if difference else "",
        "is_clear": bool(difference and difference.clear),
        "compared": difference.part if difference else "",
    }
