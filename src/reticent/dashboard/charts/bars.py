"""Bars: a histogram whose every share has its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from reticent.dashboard.charts.scales import Scale
from reticent.dashboard.charts.steps import Steps
from reticent.dashboard.charts.svg import (
    HALF_SPARK,
    NARROW,
    WIDE,
    Frame,
    both,
    grid,
    level_axis,
    line,
    rect,
    room_for,
    whisker,
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bucket: its raw share with the interval, and the share after Norm-Sub."""

    value: float
    lower: float
    upper: float
    projected: float
    tip: str = ""


def histogram(edges: Sequence[float], bars: Sequence[Bar], label: str, unit: str) -> Markup:
    """Shares per bucket with simultaneous intervals; raw and Norm-Sub bars, of which CSS shows one kind."""
    frames = (replace(WIDE, bottom=46), replace(NARROW, bottom=46))
    return both(*(_histogram(edges, bars, frame, label, unit) for frame in frames))


def _histogram(edges: Sequence[float], bars: Sequence[Bar], base: Frame, label: str, unit: str) -> str:
    low = min(0.0, *(min(bar.value, bar.lower) for bar in bars))
    high = max(max(bar.value, bar.upper, bar.projected) for bar in bars)
    levels, values, texts = level_axis(base, 100 * low, 100 * high)
    frame = replace(base, left=room_for(texts))
    steps = Steps.of(edges, frame)
    return "".join(
        [
            frame.open(label, "histogram"),
            grid(frame, levels, values, texts, "% of devices"),
            steps.axis(frame, unit),
            _bars(steps, levels, [bar.value for bar in bars], "raw"),
            _bars(steps, levels, [bar.projected for bar in bars], "norm-sub"),
            *_whiskers(steps, levels, bars),
            *_columns(steps, frame, bars),
            "</svg>",
        ]
    )


def _bars(steps: Steps, levels: Scale, shares: Sequence[float], kind: str) -> str:
    zero = levels(0)
    parts = []
    for share, (left, right) in zip(shares, pairwise(steps.places), strict=True):
        gap = min(2.0, (right - left) * 0.15)
        top = levels(100 * share)
        parts.append(rect(left + gap / 2, min(top, zero), right - left - gap, abs(top - zero), "bar"))
    return f'<g class="bars {kind}">{"".join(parts)}</g>'


def _whiskers(steps: Steps, levels: Scale, bars: Sequence[Bar]) -> list[str]:
    found = []
    for bar, (left, right) in zip(bars, pairwise(steps.places), strict=True):
        cap = min(5.0, (right - left) * 0.25)
        ends = levels(100 * bar.lower), levels(100 * bar.upper)
        found.append(whisker((left + right) / 2, *ends, "whisker", cap))
    return found


def _columns(steps: Steps, frame: Frame, bars: Sequence[Bar]) -> list[str]:
    height = frame.height - frame.top - frame.bottom
    return [
        rect(left, frame.top, right - left, height, "hit", bar.tip)
        for bar, (left, right) in zip(bars, pairwise(steps.places), strict=True)
    ]


def small_histogram(
    edges: Sequence[float], bars: Sequence[Bar], label: str, frame: Frame = HALF_SPARK
) -> Markup:
    """The shape of a histogram, Norm-Sub, with the raw intervals: for a card."""
    steps = Steps.of(edges, frame)
    high = max(max(bar.upper, bar.projected) for bar in bars)
    levels = frame.vertical(0, 100 * high)
    parts = [
        frame.open(label, "histogram"),
        line(frame.left, levels(0), frame.width - frame.right, levels(0), "zero"),
        _bars(steps, levels, [bar.projected for bar in bars], "norm-sub"),
        *_whiskers(steps, levels, bars),
        "</svg>",
    ]
    return Markup("".join(parts))  # noqa: S704
