"""A page before it is drawn: the figures, and the words and charts made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from reticent.dashboard import words
from reticent.dashboard.certainty import WITHIN_A_BUCKET, Certainty, certainty
from reticent.dashboard.charts import Mark
from reticent.dashboard.figures import Point


@dataclass(frozen=True, slots=True)
class View:
    """One page: its template with what is shown, and the JSON twin that has the same figures in full."""

    template: str
    title: str
    twin: Mapping[str, Any]
    shown: Mapping[str, Any] = field(default_factory=dict)
    refresh: bool = False
    """Whether rounds are open, so that a page that stays open should look again."""


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure as it is read: how much, how sure, of how many, when."""

    figure: str
    unit: str
    aloud: str
    interval: str
    certainty: Certainty
    reports: str
    when: str
    provisional: bool
    outside: bool
    """Whether the unbiased figure lies outside its own interval, which was cut to the possible range."""


def headline(point: Point) -> Headline:
    """The words for a point."""
    figure, half_width, metric = point.figure, point.half_width, point.metric
    mean = metric.kind == "mean"
    return Headline(
        figure=words.plus_minus(figure.value, half_width) if mean else words.rounded(figure.value),
        unit=words.plural(metric.unit),
        aloud=words.aloud(figure.value, half_width, metric.unit) if mean else "",
        interval=interval(point),
        certainty=_certainty(point),
        reports=f"{point.reports:,}",
        when=words.span(point.start, point.end),
        provisional=point.provisional,
        outside=not figure.lower <= figure.value <= figure.upper,
    )


def _certainty(point: Point) -> Certainty:
    figure, metric = point.figure, point.metric
    if metric.kind == "histogram":
        edges = [float(edge) for edge in metric.mechanism.points]
        if (figure.lower, figure.upper) in pairwise(edges):
            return WITHIN_A_BUCKET
    return certainty(figure.value, figure.lower, figure.upper, point.half_width)


def interval(point: Point) -> str:
    """Both ends of a point's interval; those of a median are edges, and are not rounded by their distance."""
    figure = point.figure
    if point.metric.kind == "mean":
        return words.between(figure.lower, figure.upper)
    return f"{words.rounded(figure.lower, 4)} to {words.rounded(figure.upper, 4)}"


def sentence(point: Point) -> str:
    """A point in one line, for a tooltip."""
    shown = headline(point)
    said = f"{shown.figure} {shown.unit}".strip()
    return f"{said} ({shown.interval}), {shown.reports} reports{', so far' if point.provisional else ''}"


def mark(point: Point, name: str = "") -> Mark:
    """A point on a chart; what is said about it starts with the name of its line, if it has one."""
    figure = point.figure
    return Mark(
        start=point.start,
        end=point.end,
        value=figure.value,
        lower=figure.lower,
        upper=figure.upper,
        open=point.provisional,
        version=point.version,
        tip=f"{name}: {sentence(point)}" if name else sentence(point),
    )


def comparable(points: Sequence[Point], like: Point | None) -> list[Point]:
    """Those points that measure the same thing in the same unit as the latest: versions may differ."""
    if like is None:
        return []
    return [
        point
        for point in points
        if (point.metric.kind, point.metric.unit) == (like.metric.kind, like.metric.unit)
    ]


def latest(points: Sequence[Point]) -> Point | None:
    """The newest sealed point, or the newest open one where none is sealed; points are latest first."""
    return next((point for point in points if not point.provisional), points[0] if points else None)
