"""What stands on each page: all numbers for its twin; labels and charts for its template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reticent.dashboard import labels
from reticent.dashboard.charts import Mark
from reticent.dashboard.points import Point
from reticent.plan import Plan


@dataclass(frozen=True, slots=True)
class View:
    """One page: its template with what is shown, and the JSON twin that has the same numbers in full."""

    template: str
    title: str
    twin: Mapping[str, Any]
    shown: Mapping[str, Any]
    refresh: bool = False
    """Whether rounds are open, so that a page that stays open should look again."""


def period_name(plan: Plan, period: str | None = None) -> str:
    """What a figure of a plan is of: the period asked for, or what its devices answer in."""
    return period or ("window" if plan.answers.sampled else "round")


def headline(point: Point) -> dict[str, Any]:
    """
    A point as it is read: how much, how sure, of how many, when.

    `outside` says whether the unbiased value lies outside its own interval, which was cut to the possible
    range.
    """
    estimate, half_width, metric = point.estimate, point.half_width, point.metric
    mean = metric.kind == "mean"
    ends = (estimate.lower, estimate.upper)
    if not mean and ends in pairwise(map(float, metric.mechanism.points)):
        certainty = labels.WITHIN_A_BUCKET
    else:
        certainty = labels.certainty(estimate.value, *ends, half_width)
    return {
        "value": labels.plus_minus(estimate.value, half_width) if mean else labels.rounded(estimate.value),
        "unit": labels.plural(metric.unit),
        "aloud": labels.aloud(estimate.value, half_width, metric.unit) if mean else "",
        "interval": interval(point),
        "certainty": certainty,
        "reports": f"{point.reports:,}",
        "when": labels.span(point.start, point.end),
        "provisional": point.provisional,
        "outside": not estimate.lower <= estimate.value <= estimate.upper,
    }


def interval(point: Point) -> str:
    """Both ends of a point's interval; those of a median are edges, and are not rounded by their distance."""
    estimate = point.estimate
    if point.metric.kind == "mean":
        return labels.between(estimate.lower, estimate.upper)
    return f"{labels.rounded(estimate.lower, 4)} to {labels.rounded(estimate.upper, 4)}"


def mark(point: Point, name: str = "") -> Mark:
    """A point on a chart; its tooltip starts with the name of its line, if it has one."""
    shown, estimate = headline(point), point.estimate
    value = f"{shown['value']} {shown['unit']}".strip()
    so_far = ", so far" if point.provisional else ""
    tip = f"{value} ({shown['interval']}), {shown['reports']} reports{so_far}"
    tip = f"{name}: {tip}" if name else tip
    ends = (estimate.lower, estimate.upper)
    return Mark(point.start, point.end, estimate.value, *ends, point.provisional, point.version, tip)
