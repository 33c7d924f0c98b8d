"""The share of devices at or below each value, in a band around all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from reticent.dashboard.charts.scales import tick_texts
from reticent.dashboard.charts.steps import Steps
from reticent.dashboard.charts.svg import (
    NARROW,
    WIDE,
    Frame,
    both,
    dot,
    grid,
    line,
    path,
    room_for,
    text,
)


@dataclass(frozen=True, slots=True)
class Level:
    """A quantile on the cumulative chart: its share, value and interval."""

    level: float
    value: float
    lower: float
    upper: float


def cumulative(
    edges: Sequence[float],
    values: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    quantiles: Sequence[Level],
    label: str,
    unit: str,
) -> Markup:
    """
    The share of devices at or below each value, in its band, with quantiles read off the band.

    Between two edges nothing is known but that the share does not fall: so the lower edge of the band keeps
    the height of the edge before, and the upper one has that of the edge after.
    """
    frames = (replace(WIDE, bottom=46), replace(NARROW, bottom=46))
    return both(
        *(_cumulative(edges, (values, lower, upper), quantiles, frame, label, unit) for frame in frames)
    )


def _cumulative(
    edges: Sequence[float],
    shares: tuple[Sequence[float], Sequence[float], Sequence[float]],
    quantiles: Sequence[Level],
    base: Frame,
    label: str,
    unit: str,
) -> str:
    values, lower, upper = shares
    low, high = min(0.0, *values), max(1.0, *values)
    levels = base.vertical(100 * low, 100 * high)
    marks = [0.0, 25, 50, 75, 100]
    frame = replace(base, left=room_for(["100"]))
    steps = Steps.of(edges, frame)
    up = _stairs(steps.places, [levels(100 * share) for share in upper], early=True)
    down = _stairs(steps.places, [levels(100 * share) for share in lower], early=False)
    parts = [
        frame.open(label, "cumulative"),
        grid(frame, levels, marks, tick_texts(marks), "% of devices at or below"),
        steps.axis(frame, unit),
        '<g class="line shade-0">',
        path([*up, *reversed(down)], "band", closed=True),
        path(up, "edge"),
        path(down, "edge"),
        path(zip(steps.places, (levels(100 * share) for share in values), strict=True), "middle"),
        "</g>",
    ]
    for each in quantiles:
        y, left, right = levels(100 * each.level), steps.at(each.lower), steps.at(each.upper)
        parts.append('<g class="quantile">')
        parts += [line(left, y, right, y, "whisker"), dot(steps.at(each.value), y, "dot", 4)]
        parts += [line(x, y - 4, x, y + 4, "whisker") for x in (left, right)]
        beside, anchor = (right + 7, "start") if right < frame.width - 60 else (left - 7, "end")
        parts += [text(beside, y + 4, f"{100 * each.level:g} %", "note", anchor), "</g>"]
    return "".join([*parts, "</svg>"])


def _stairs(places: Sequence[float], heights: Sequence[float], early: bool) -> list[tuple[float, float]]:
    """A staircase through heights at places that takes the next height at once, or as late as it can."""
    found = [(places[0], heights[0])]
    for (left, right), (before, after) in zip(pairwise(places), pairwise(heights), strict=True):
        found += [(left, after), (right, after)] if early else [(right, before), (right, after)]
    return found
