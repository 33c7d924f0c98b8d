"""The overview: every plan, every metric, how much and how sure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from markupsafe import Markup

from reticent.dashboard import charts, words
from reticent.dashboard.figures import Figures, Point
from reticent.dashboard.views.histogram import bars
from reticent.dashboard.views.view import View, comparable, headline, latest, mark
from reticent.estimates import HistogramEstimate
from reticent.plan import Metric, Plan

ROUNDS = 60
CONFIDENCE = 95


def overview(figures: Figures) -> View:
    """All plans, with their metrics' latest figures."""
    now = figures.now()
    plans = [_plan(figures, plan, now) for _, plan in sorted(figures.reader.plans().items())]
    return View(
        template="overview.html",
        title="Overview",
        twin={"at": now, "confidence": CONFIDENCE / 100, "plans": [twin for twin, _, _ in plans]},
        shown={
            "plans": [shown for _, shown, _ in plans],
            "now": words.moment(now),
            "confidence": CONFIDENCE,
        },
        refresh=any(is_open for _, _, is_open in plans),
    )


def _plan(figures: Figures, plan: Plan, now: float) -> tuple[dict[str, Any], dict[str, Any], bool]:
    rounds = figures.reader.rounds(plan.name, ROUNDS)
    points = figures.points(plan, None, ROUNDS, CONFIDENCE)
    by_metric: dict[str, list[Point]] = {metric.name: [] for metric in plan.metrics}
    for point in points:
        by_metric.setdefault(point.metric.name, []).append(point)
    said = hints(plan, rounds, now)
    metrics = [_metric(figures, plan, metric, by_metric[metric.name]) for metric in plan.metrics]
    last_sealed = next((info for info in rounds if info["state"] == "sealed"), None)
    open_rounds = [info for info in rounds if info["state"] != "sealed"]
    twin = {
        "name": plan.name,
        "version": plan.version,
        "owner": plan.owner,
        "expires": plan.expires.isoformat() if plan.expires else None,
        "round_seconds": plan.round_seconds,
        "open_rounds": len(open_rounds),
        "hints": said,
        "metrics": [twin for twin, _ in metrics],
    }
    shown = {
        "plan": plan,
        "round": words.duration(plan.round_seconds),
        "last_sealed": last_sealed and f"{last_sealed['reports']:,}",
        "open_rounds": len(open_rounds),
        "open_reports": f"{sum(info['reports'] for info in open_rounds):,}",
        "hints": said,
        "metrics": [shown for _, shown in metrics],
    }
    return twin, shown, bool(open_rounds)


def _metric(
    figures: Figures, plan: Plan, metric: Metric, points: Sequence[Point]
) -> tuple[dict[str, Any], dict[str, Any]]:
    last = latest(points)
    same = comparable(points, last)
    newest_open = next((point for point in same if point.provisional), None)
    twin = {
        "name": metric.name,
        "kind": metric.kind,
        "unit": metric.unit,
        "description": metric.description,
        "latest": last.to_dict() if last else None,
        "series": [point.to_dict() for point in reversed(same)],
    }
    shown = {
        "metric": metric,
        "path": f"/plans/{plan.name}/metrics/{metric.name}",
        "headline": headline(last) if last else None,
        "open": headline(newest_open) if newest_open and newest_open is not last else None,
        "spark": _spark(metric, same) if last else "",
        "shape": _shape(figures, plan, metric, last) if last and metric.kind == "histogram" else "",
        "rounds": len(same),
    }
    return twin, shown


def _spark(metric: Metric, points: Sequence[Point]) -> Markup:
    marks = [mark(point) for point in reversed(points)]
    what, frame = ("mean", charts.SPARK) if metric.kind == "mean" else ("median", charts.HALF_SPARK)
    return charts.spark(marks, f"{what} of {metric.name} over {len(marks)} rounds, with its interval", frame)


def _shape(figures: Figures, plan: Plan, metric: Metric, last: Point) -> Markup:
    found = figures.histogram(plan, metric.name, last, CONFIDENCE)
    if found is None or not isinstance(found.estimate, HistogramEstimate):
        return Markup()
    return charts.small_histogram(
        found.estimate.edges, bars(found.estimate), f"how {metric.name} is spread over devices, latest round"
    )


def hints(plan: Plan, rounds: Sequence[dict[str, Any]], now: float) -> list[str]:
    """
    What a person should look into, in whole sentences; nothing when all is well.

    Devices answer a round after its end, so reports on the last round but one should be there by now.
    """
    found = []
    if plan.expires and plan.expires.toordinal() <= _day(now):
        found.append(f"This plan expired on {plan.expires.isoformat()}: devices no longer answer it.")
    if not rounds:
        return [*found, "No report has come yet. Devices send their first after the end of a round."]
    behind = plan.round_at(now) - rounds[0]["round"] - 1
    if behind >= 2:
        ago = words.duration(now - rounds[0]["end"])
        found.append(
            f"Nothing came lately: the last round with reports ended {ago} ago, {behind:,} are missing. "
            "Are devices running, and can they reach this collector?"
        )
    sealed = [info["reports"] for info in rounds if info["state"] == "sealed"]
    if len(sealed) >= 4 and sealed[0] < 0.5 * median(sealed[1:]):
        found.append(
            f"The last sealed round has {sealed[0]:,} reports; {median(sealed[1:]):,.0f} are usual. "
            "Intervals are wider, and the devices that answer may not be like the others."
        )
    return found


def _day(now: float) -> int:
    return int(now // 86_400) + 719_163
