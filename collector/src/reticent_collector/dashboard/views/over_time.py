"""The chart of a metric over time: its tags, its labels, or the quartiles of its histograms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from reticent.plan import Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.charts import Flag, Line
from reticent_collector.dashboard.params import Params
from reticent_collector.dashboard.points import Point, by_size, latest
from reticent_collector.dashboard.views import TRENDS, Picture, mark, shade_of
from reticent_collector.dashboard.views.request import PageRequest, Parts
from reticent_collector.figures import Unit
from reticent_collector.stores import FEW

MOST_LINES = 8  # as many as there are colours that all eyes can distinguish
SHOWN_LINES = 4
MOST_FLAGS = 20  # the latest
MOST_TIPS = 120  # of one chart: each is on the page twice


def over_time(
    asked: PageRequest, points: Sequence[Point], by_tag: Mapping[str, Sequence[Point]], unit: Unit
) -> Parts:
    """The chart, with flags where something happened."""
    lines = _lines(asked, points, by_tag, unit)
    compared = asked.params.by if by_tag else ""
    label = series_label(asked, compared)
    flags = _flags(asked, lines)
    chart = charts.series(lines, label, unit.name, flags)
    keys = [(line.name, line.shade) for line in lines if line.name]
    shown: dict[str, Any] = {
        "series": chart,
        "trend": TRENDS[asked.metric.kind],
        "period": asked.every,
        "legend": [{"name": name, "key": charts.key(shade)} for name, shade in keys],
        "is_coarse": any(line.long for line in lines),
        "flags": [{"when": labels.date(flag.at), "text": flag.text} for flag in flags],
        "has_hollow": any(mark.hollow for line in lines for mark in line.marks),
        "has_stems": any(mark.around for line in lines for mark in line.marks),
        "has_gaps": any(
            later.start > earlier.end
            for line in lines
            for earlier, later in zip(line.marks, line.marks[1:], strict=False)
        ),
    }
    title = f"{label}, in {unit.name}" if unit.name else label
    return {"over_time": shown}, {"series": Picture(chart, title, keys)}


def series_label(asked: PageRequest, by: str = "") -> str:
    """What a chart over time shows."""
    compared = f", by {by}" if by else ""
    title = f"{TRENDS[asked.metric.kind]} of {asked.metric.name} per {asked.every}{asked.among}{compared}"
    return f"{title}, with its {asked.params.confidence} % interval"


def _lines(
    asked: PageRequest, points: Sequence[Point], by_tag: Mapping[str, Sequence[Point]], unit: Unit
) -> list[Line]:
    """A line per visible tag, or per label among the largest, or one of all."""
    drawn: list[tuple[Sequence[Point], str, int]] = [(points, "", 0)]
    last = latest(points)
    if by_tag:
        visible = visible_tags(asked.plan, asked.params, by_tag)
        drawn = [(by_tag[tag], tag, shade_of(asked.plan, asked.params.by, tag)) for tag in visible]
    elif asked.metric.is_named and last:
        same = [point for point in points if point.metric.bucket_labels == last.metric.bucket_labels]
        names = last.metric.bucket_labels
        drawn = [
            ([Point.of(point.result, place) for point in same], names[place], place % len(charts.PALETTE))
            for place in sorted(by_size(last.result)[:SHOWN_LINES])
        ]
    has_tips = sum(len(some) for some, _, _ in drawn) <= MOST_TIPS
    return [
        Line([mark(point, unit, name, has_tips) for point in reversed(some)], name, shade)
        for some, name, shade in drawn
    ]


def _flags(asked: PageRequest, lines: Sequence[Line]) -> list[Flag]:
    """What happened in what is drawn: releases, and notes of readers."""
    marks = [mark for line in lines for mark in line.marks]
    if not marks:
        return []
    first, last = min(mark.start for mark in marks), max(mark.end for mark in marks)
    notes = asked.reader.results.notes(asked.plan.name, first, last)
    return [Flag(note.at, note.text) for note in notes[-MOST_FLAGS:]]


def tags_in_order(plan: Plan, segment: str, tags: Collection[str]) -> list[str]:
    """Tags in the order of the plan, whatever their reports; the rare ones together come last."""
    declared = next((one.tags for one in plan.segments if one.name == segment), ())
    return [tag for tag in (*declared, FEW) if tag in tags]


def visible_tags(plan: Plan, params: Params, tags: Collection[str]) -> list[str]:
    """The tags that are drawn: those asked for, else the first ones of the plan."""
    ordered = tags_in_order(plan, params.by, tags)
    return [tag for tag in ordered if tag in params.tags][:MOST_LINES] or ordered[:SHOWN_LINES]
