"""The content of each page: labels, numbers and charts for its template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any

from markupsafe import Markup

from reticent.plan import Metric, Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.charts import Line, Mark
from reticent_collector.dashboard.pages import HOME
from reticent_collector.dashboard.points import Point
from reticent_collector.estimates import Estimate
from reticent_collector.estimates.distribution import Quantile
from reticent_collector.estimates.versions import question
from reticent_collector.figures import Unit, places
from reticent_collector.results import Difference


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that can be downloaded: its title, and the names and shades of its lines."""

    chart: Markup
    title: str
    keys: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class View:
    """One page: its template with what is shown."""

    template: str
    title: str
    shown: Mapping[str, Any]
    data: str = ""  # where programs get what is shown, if they do
    refresh: int = 120  # seconds after which a page that stays open looks again
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # its charts, by their name in addresses
    package: str = HOME  # that has its template


_LEADS = {
    "mean": "",
    "histogram": "median of devices",
    "choice": "devices that chose a label:",
    "flag": "devices where it happened:",
}
_LEAD_OF_PRESENT = "median of devices with a value"
TRENDS = {"mean": "mean", "histogram": "median", "choice": "share that chose a label", "flag": "share"}
"""What is followed from round to round, by kind."""


def plan_facts(plan: Plan) -> dict[str, Any]:
    """What is said of a public plan in JSON."""
    return {
        "name": plan.name,
        "version": plan.version,
        "owner": plan.owner,
        "expires": plan.expires.isoformat() if plan.expires else None,
        "round_seconds": plan.round_seconds,
        "window_rounds": plan.answers.window or None,
    }


def metric_facts(metric: Metric) -> dict[str, Any]:
    """What is said of a public metric in JSON."""
    names = ("name", "kind", "unit", "description")
    return {name: getattr(metric, name) for name in names}


def unit_of(points: Sequence[Point]) -> Unit:
    """The unit of all of these points; medians have that of the edges."""
    number = points[0].estimate
    if isinstance(number, Quantile):
        return edge_unit(points[0].metric)
    largest = (abs(end) for point in points for end in (point.estimate.lower, point.estimate.upper))
    return unit_for(number, max(largest))


def unit_for(number: Estimate, largest: float) -> Unit:
    """The unit of numbers like this one, up to `largest`: a share is shown in percent."""
    return Unit.of(number.unit, largest) if number.kind == "mean" else Unit(0.01, "%")


def edge_unit(metric: Metric) -> Unit:
    """The unit of bucket edges: a larger one than the plan's where all edges are short numbers in it."""
    edges = [float(edge) for edge in metric.mechanism.points]
    unit = Unit.of(metric.unit, edges[-1])
    short = all(float(f"{edge / unit.size:.4g}") == edge / unit.size for edge in edges)
    return unit if short else Unit.of(metric.unit, 0.0)


def headline(point: Point) -> dict[str, Any]:
    """A point as text; `outside`: the unbiased value is outside its interval, which is cut to the possible range."""
    estimate, half_width, metric = point.estimate, point.half_width, point.metric
    unit = unit_of([point])
    if isinstance(estimate, Quantile):
        edges = [float(edge) for edge in metric.mechanism.points]
        inside = sum(estimate.lower <= edge < estimate.upper for edge in edges)
        certainty = labels.certainty_of_median(inside, len(edges) - 1)
        value, outside = f"between {interval(point, unit, ' and ')}", False
    else:
        certainty = labels.certainty(estimate.value, estimate.lower, estimate.upper, half_width)
        value = Unit(unit.size).figure(estimate.value, half_width)
        outside = not estimate.lower <= estimate.value <= estimate.upper
    return {
        "lead": _LEADS[metric.kind] if not metric.absent or metric.labels else _LEAD_OF_PRESENT,
        "value": value,
        "unit": unit.name,
        "interval": f"{interval(point, unit)} {unit.name}".rstrip(),
        "median": isinstance(estimate, Quantile),
        "certainty": certainty,
        "reports": f"{point.reports:,}",
        "when": labels.period(point.start, point.end, point.every),
        "clock": labels.clock(point.start, point.end, point.every),
        "provisional": point.provisional,
        "outside": outside,
        "part": f"{point.rounds:,} of {point.period.possible_rounds:,} rounds"
        if point.rounds < point.period.possible_rounds
        else "",
    }


def interval(point: Point, unit: Unit, between: str = " to ") -> str:
    """Both ends of a point's interval, without the unit; those of a median are edges of buckets, which are exact."""
    ends = point.estimate.lower, point.estimate.upper
    if isinstance(point.estimate, Quantile):
        return between.join(labels.rounded(end / unit.size, 6) for end in ends)
    return between.join(unit.ends(*ends))


def mark(point: Point, unit: Unit, name: str = "", tip: bool = True) -> Mark:
    """A point on a chart, in the chart's unit; its tooltip starts with the name of its line, if any."""
    estimate, size = point.estimate, unit.size
    value = nan if isinstance(estimate, Quantile) else estimate.value / size
    text = ""
    if tip:
        shown = headline(point)
        said = f"{shown['value']} {shown['unit']}".strip()
        around = "" if shown["median"] else f" ({shown['interval']})"
        so_far = ", so far" if point.provisional else ""
        text = f"{f'{name}: ' if name else ''}{said}{around}, {shown['reports']} reports{so_far}"
    ends = (estimate.lower / size, estimate.upper / size)
    asked = question(point.metric)
    return Mark(point.start, point.end, value, *ends, point.provisional, point.version, text, asked)


def zoomable(lines: Sequence[Line]) -> str:
    """Long lines for the script: times, and per line name, shade, values, lower and upper ends. Short ones: ""."""
    if max(len(line.marks) for line in lines) <= charts.MANY:
        return ""
    marks = [mark for line in lines for mark in line.marks]
    spread = max(mark.upper for mark in marks) - min(mark.lower for mark in marks)
    digits = places(spread or 1.0) + 2
    times = sorted({(mark.start, mark.end) for mark in marks})
    rows = []
    for line in lines:
        at = {(mark.start, mark.end): mark for mark in line.marks}
        columns: list[list[float | None]] = [[], [], []]
        for time in times:
            mark = at.get(time)
            numbers = (mark.value, mark.lower, mark.upper) if mark else (nan, nan, nan)
            for column, number in zip(columns, numbers, strict=True):
                column.append(
                    None if isnan(number) else round(number, digits) if digits > 0 else round(number)
                )
        rows.append([line.name, line.shade, *columns])
    return json.dumps([[start for start, _ in times], times[-1][1], rows], separators=(",", ":"))


def change_shown(change: Difference | None) -> dict[str, Any] | None:
    """A change in a few words."""
    if change is None:
        return None
    before = change.baseline.period
    return {
        "words": change.brief,
        "part": change.part,
        "is_clear": change.clear,
        "before": labels.period(before.start, before.end, before.every),
        "clock": labels.clock(before.start, before.end, before.every),
    }


def shade_of(metric_plan: Plan, segment: str, tag: str) -> int:
    """The colour, dashes and marker of a tag: by its place in the plan, whatever tags have reports."""
    for declared in metric_plan.segments:
        if declared.name == segment and tag in declared.tags:
            return declared.tags.index(tag) % len(charts.PALETTE)
    return len(charts.PALETTE) - 2
