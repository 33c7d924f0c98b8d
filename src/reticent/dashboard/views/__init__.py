"""What stands on each page: all numbers for its twin; labels and charts for its template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reticent.dashboard import labels
from reticent.dashboard.charts import Mark
from reticent.dashboard.points import Point
from reticent.estimates import Quantile
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


_LEADS = {
    "mean": "",
    "histogram": "half of the devices are below",
    "choice": "devices that chose:",
    "flag": "devices where it happened:",
}
"""What stands before the figure of a metric, by its kind."""
_LEAD_OF_PRESENT = "half of the devices with a value are below"
TRENDS = {"mean": "mean", "histogram": "median", "choice": "share that chose", "flag": "share"}
"""What is followed from round to round, by kind."""


def period_name(plan: Plan, period: str | None = None) -> str:
    """What a figure of a plan is of: the period asked for, or what its devices answer in."""
    return period or ("window" if plan.answers.sampled else "round")


def headline(point: Point) -> dict[str, Any]:
    """
    A point as it is read: how much, how sure, of how many, when.

    `outside` says whether the unbiased value lies outside its own interval, which was cut to the possible
    range.
    """
    estimate, half_width, metric = point.shown, point.half_width, point.metric
    is_median, unit = isinstance(estimate, Quantile), estimate.unit
    ends = (estimate.lower, estimate.upper)
    if is_median and ends in pairwise(map(float, metric.mechanism.points)):
        certainty = labels.WITHIN_A_BUCKET
    else:
        certainty = labels.certainty(estimate.value, *ends, half_width)
    return {
        "lead": _LEADS[metric.kind] if not metric.absent or metric.labels else _LEAD_OF_PRESENT,
        "value": labels.rounded(estimate.value)
        if is_median
        else labels.plus_minus(estimate.value, half_width),
        "unit": labels.plural(unit),
        "aloud": "" if is_median else labels.aloud(estimate.value, half_width, unit),
        "interval": interval(point),
        "certainty": certainty,
        "reports": f"{point.reports:,}",
        "when": labels.span(point.start, point.end),
        "provisional": point.provisional,
        "outside": not estimate.lower <= estimate.value <= estimate.upper,
    }


def interval(point: Point) -> str:
    """Both ends of a point's interval; those of a median are edges, and are not rounded by their distance."""
    estimate = point.shown
    if not isinstance(estimate, Quantile):
        return labels.between(estimate.lower, estimate.upper)
    return f"{labels.rounded(estimate.lower, 4)} to {labels.rounded(estimate.upper, 4)}"


def mark(point: Point, name: str = "") -> Mark:
    """A point on a chart; its tooltip starts with the name of its line, if it has one."""
    shown, estimate = headline(point), point.shown
    value = f"{shown['value']} {shown['unit']}".strip()
    so_far = ", so far" if point.provisional else ""
    tip = f"{value} ({shown['interval']}), {shown['reports']} reports{so_far}"
    tip = f"{name}: {tip}" if name else tip
    ends = (estimate.lower, estimate.upper)
    return Mark(point.start, point.end, estimate.value, *ends, point.provisional, point.version, tip)
