"""All plans: the latest figure of each metric, its precision, and its change since the period before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from reticent.plan import Metric, Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.params import Params
from reticent_collector.dashboard.points import Point, PointReader, comparable, latest
from reticent_collector.dashboard.views import (
    TRENDS,
    View,
    change_shown,
    headline,
    mark,
    unit_of,
)
from reticent_collector.dashboard.views.metric import bars
from reticent_collector.dashboard.views.plans import hints, last_sealed
from reticent_collector.estimates import HistogramEstimate
from reticent_collector.results import Difference, everies, usual_every

PERIODS = 30  # of a small chart, unless dates are given
ROUNDS = 60  # among which the latest sealed and the open ones are looked for
SORTS = {
    "plan": "plan order",
    "name": "name",
    "change": "clear changes first",
    "certainty": "least precise first",
}


def overview(reader: PointReader, params: Params) -> View:
    """All plans, with the latest estimate of each metric."""
    now = reader.results.clock()
    plans = sorted(reader.results.plans().items())
    shown = [_plan(reader, plan, params, now) for _, plan in plans]
    choices = {choice: None for _, plan in plans for choice in everies(plan)}
    minute = int(now) // 60 * 60
    return View(
        template="overview.html",
        title="Overview",
        shown={
            "plans": shown,
            "params": params,
            "everies": list(choices),
            "chosen_every": params.every or (shown[0]["every"] if shown else ""),
            "sorts": list(SORTS.items()),
            "now": labels.clock(minute, minute, "round"),
            "confidence": params.confidence,
        },
        data="/v1/plans",
        refresh=30 if any(one["open_rounds"] for one in shown) else 120,
    )


def _plan(reader: PointReader, plan: Plan, params: Params, now: float) -> dict[str, Any]:
    """What is shown of a plan."""
    every = params.every if params.every in everies(plan) else usual_every(plan)
    rounds = reader.results.rounds(plan.name, ROUNDS)
    chosen = params.selection(plan.name)
    last = chosen.last if params.since else PERIODS
    selection = replace(chosen, every=every, last=last, segment={}, by=None)
    by_metric: dict[str, list[Point]] = {metric.name: [] for metric in plan.metrics}
    for point in reader.points(plan, selection):
        by_metric[point.metric.name].append(point)
    newest = latest([point for points in by_metric.values() for point in points])
    changes = reader.changes(newest.period, selection) if newest else {}
    rows = [
        _row(reader, plan, metric, by_metric[metric.name], changes.get(metric.name), params)
        for metric in plan.metrics
        if params.search.lower() in f"{metric.name} {metric.description}".lower()
    ]
    open_rounds = [info for info in rounds if info["state"] != "sealed"]
    return {
        "plan": plan,
        "every": every,
        "round": labels.duration(plan.round_seconds),
        "window": labels.duration(plan.answers.window * plan.round_seconds),
        "newest": newest and labels.clock(newest.start, newest.end, newest.every),
        "last_sealed": last_sealed(rounds)[0],
        "open_rounds": len(open_rounds),
        "open_reports": f"{sum(info['reports'] or 0 for info in open_rounds):,}",
        "hints": hints(plan, rounds, now),
        "metrics": _in_order(rows, params.sort),
    }


def _in_order(rows: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """The rows of a plan's metrics in one of the orders `SORTS`."""
    if sort == "name":
        return sorted(rows, key=lambda row: row["metric"].name)
    if sort == "change":
        return sorted(rows, key=lambda row: not (row["change"] or {}).get("is_clear", False))
    if sort == "certainty":
        return sorted(rows, key=lambda row: row["headline"]["certainty"].dots if row["headline"] else -1)
    return rows


def _row(
    reader: PointReader,
    plan: Plan,
    metric: Metric,
    points: Sequence[Point],
    change: Difference | None,
    params: Params,
) -> dict[str, Any]:
    last = latest(points)
    same = comparable(points, last)
    if change and (last is None or change.figure.start != last.start):
        change = None  # of another figure: an older version may have a metric of another kind
    chosen = Params(every=params.every, since=params.since, until=params.until, confidence=params.confidence)
    path = f"/plans/{plan.name}/metrics/{metric.name}"
    row = {"metric": metric, "path": path, "link": path + chosen.query(), "headline": None, "change": None}
    if last is None:
        return row
    unit = unit_of(same)
    marks, shape = [mark(point, unit) for point in reversed(same)], Markup()
    what = TRENDS[metric.kind]
    if metric.mechanism.kind == "histogram":
        result = reader.histogram(last, params.confidence)
        if result is not None and isinstance(result.estimate, HistogramEstimate):
            label = f"distribution of {metric.name} over devices, latest {last.every}"
            shape = charts.small_histogram(result.estimate.edges, bars(result.estimate), label)
    label = f"{what} of {metric.name} over {len(marks)} {last.every}s, with its interval"
    return row | {
        "headline": headline(last),
        "change": change_shown(change),
        "spark": charts.spark(marks, label),
        "shape": shape,
        "trend": what,
    }
