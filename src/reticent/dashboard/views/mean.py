"""A mean over rounds, with its interval, apart by segment if asked, and what the interval is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from reticent.dashboard import charts, words
from reticent.dashboard.asking import Asked
from reticent.dashboard.figures import Figures, Point
from reticent.dashboard.views.metric import DISHONEST, about, choices, makeup
from reticent.dashboard.views.view import View, comparable, headline, interval, latest, mark
from reticent.estimates import Estimate
from reticent.plan import Metric, Plan

MOST_LINES = 8
"""As many lines as there are colours that all eyes can tell apart."""
SHOWN_LINES = 4


def mean(figures: Figures, plan: Plan, metric: Metric, asked: Asked) -> View:
    """The page of a mean."""
    found = figures.points(plan, metric.name, asked.rounds, asked.confidence)
    last = latest(found)
    points = comparable(found, last)
    compared = _compared(figures, plan, metric, asked, last)
    lines = compared or [("", points)]
    return View(
        template="mean.html",
        title=f"{metric.name} · {plan.name}",
        twin={
            **about(plan, metric, asked),
            "latest": last.to_dict() if last else None,
            "manipulation_bound": _moved(last),
            "by": asked.by or None,
            "series": [
                {"segment": {asked.by: tag} if tag else {}, "points": [point.to_dict() for point in same]}
                for tag, same in lines
            ],
        },
        shown={
            "plan": plan,
            "metric": metric,
            "asked": asked,
            "choices": choices(plan, asked),
            "headline": headline(last) if last else None,
            "gauge": _gauge(last, metric) if last else "",
            "chart": _chart(lines, metric, asked) if points else "",
            "tags": _tags(compared, asked),
            "comparison": [row for tag, same in compared if (row := _row(latest(same), tag))],
            "makeup": _makeup(last, metric),
            "top": words.rounded(float(metric.max_value), 6),
            "rows": [_row(point, year=_long(points)) for point in points],
            "omitted": len(found) - len(points),
        },
        refresh=any(point.provisional for point in points),
    )


def _compared(
    figures: Figures, plan: Plan, metric: Metric, asked: Asked, last: Point | None
) -> list[tuple[str, list[Point]]]:
    """Points per tag: the tags with most reports first, as many as can be told apart."""
    if not asked.by:
        return []
    found = figures.points(plan, metric.name, asked.rounds, asked.confidence, by=asked.by)
    by_tag: dict[str, list[Point]] = {}
    for point in comparable(found, last):
        by_tag.setdefault(point.segment[asked.by], []).append(point)
    busiest = sorted(by_tag.items(), key=lambda item: -sum(point.reports for point in item[1]))
    wanted = [item for item in busiest if item[0] in asked.tags]
    return (wanted + [item for item in busiest if item[0] not in asked.tags])[:MOST_LINES]


def _visible(compared: Sequence[tuple[str, list[Point]]], asked: Asked) -> list[str]:
    tags = [tag for tag, _ in compared]
    return [tag for tag in tags if tag in asked.tags] or tags[:SHOWN_LINES]


def _chart(lines: Sequence[tuple[str, list[Point]]], metric: Metric, asked: Asked) -> Markup:
    visible = _visible(lines, asked)
    drawn = [
        charts.Line(
            marks=[mark(point, tag) for point in reversed(points)],
            name=tag,
            shade=shade,
            shown=not tag or tag in visible,
        )
        for shade, (tag, points) in enumerate(lines)
    ]
    apart = f", apart by {asked.by}" if asked.by else ""
    label = f"mean of {metric.name} per round{apart}, with its {asked.confidence} % interval"
    return charts.series(drawn, label, words.plural(metric.unit))


def _tags(compared: Sequence[tuple[str, list[Point]]], asked: Asked) -> list[dict[str, Any]]:
    visible = _visible(compared, asked)
    return [{"name": tag, "shade": shade, "shown": tag in visible} for shade, (tag, _) in enumerate(compared)]


def _row(point: Point | None, tag: str = "", year: bool = True) -> dict[str, str]:
    """A line of a table."""
    if point is None:
        return {}
    digits = words.decimals(point.half_width)
    return {
        "tag": tag,
        "round": str(point.round),
        "begins": words.brief(point.start, year),
        "when": words.span(point.start, point.end),
        "value": words.number(point.figure.value, digits),
        "half_width": words.number(point.half_width, digits),
        "lower": words.number(point.figure.lower, digits),
        "upper": words.number(point.figure.upper, digits),
        "reports": f"{point.reports:,}",
        "state": point.state,
    }


def _long(points: Sequence[Point]) -> bool:
    """Whether dates need their year."""
    return bool(points) and points[0].start - points[-1].start > 300 * 86_400


def _gauge(point: Point, metric: Metric) -> Markup:
    figure, top = point.figure, float(metric.max_value)
    label = f"{interval(point)} out of 0 to {words.rounded(top, 6)} {words.plural(metric.unit)}"
    return charts.gauge(figure.value, figure.lower, figure.upper, top, label)


def _makeup(point: Point | None, metric: Metric) -> dict[str, Any] | None:
    return makeup(point.figure, metric.unit) if point and isinstance(point.figure, Estimate) else None


def _moved(point: Point | None) -> dict[str, float] | None:
    if point is None or not isinstance(point.figure, Estimate):
        return None
    return {"share": DISHONEST, "moves": point.figure.manipulation_bound(DISHONEST)}
