"""How many reports came, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from reticent.dashboard.charts.scales import time_ticks
from reticent.dashboard.charts.svg import (
    NARROW,
    WIDE,
    Frame,
    both,
    grid,
    level_axis,
    line,
    rect,
    room_for,
    text,
)


@dataclass(frozen=True, slots=True)
class RoundBar:
    """The reports of one round."""

    start: int
    end: int
    reports: int
    open: bool
    tip: str


def reports_per_round(rounds: Sequence[RoundBar], label: str) -> Markup:
    """How many reports came in each round; open rounds are hollow."""
    frames = (replace(WIDE, height=240), replace(NARROW, height=220))
    return both(*(_reports(rounds, frame, label) for frame in frames))


def _reports(rounds: Sequence[RoundBar], base: Frame, label: str) -> str:
    levels, values, texts = level_axis(base, 0, max(1, *(each.reports for each in rounds)), 4)
    frame = replace(base, left=room_for(texts))
    times = frame.horizontal(rounds[0].start, rounds[-1].end)
    bottom = frame.height - frame.bottom
    parts = [frame.open(label, "reports"), grid(frame, levels, values, texts, "reports")]
    for at, content in time_ticks(times.low, times.high, frame.time_labels):
        x = times(at)
        parts.append(line(x, bottom, x, bottom + 5, "tick"))
        parts.append(text(x, bottom + 19, content, anchor="end" if x > frame.width - 24 else "middle"))
    for each in rounds:
        left, right, top = times(each.start), times(each.end), levels(each.reports)
        gap = min(2.0, (right - left) * 0.2)
        kind = "bar open" if each.open else "bar"
        parts.append(rect(left + gap / 2, top, right - left - gap, bottom - top, kind))
        parts.append(rect(left, frame.top, right - left, bottom - frame.top, "hit", each.tip))
    return "".join([*parts, "</svg>"])
