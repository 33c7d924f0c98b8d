"""Charts over time: lines that never go without the band of their interval, and reports per round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape

from reticent.dashboard.charts import svg
from reticent.dashboard.charts.svg import NARROW, SPARK, WIDE, Frame, Scale
from reticent.dashboard.labels import span

FEW = 45
"""Up to so many rounds, each has a dot."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One period on a chart: a value, its interval, and what is said about it; hollow and dashed while open."""

    start: int
    end: int
    value: float
    lower: float
    upper: float
    open: bool = False
    version: int = 1
    tip: str = ""

    @property
    def middle(self) -> float:
        """The time a mark stands at."""
        return (self.start + self.end) / 2


@dataclass(frozen=True, slots=True)
class Line:
    """The marks of one segment, or of the whole fleet, in the order of time."""

    marks: Sequence[Mark]
    name: str = ""
    shade: int = 0
    """Which colour of the palette."""
    shown: bool = True
    """Whether it is visible at first."""


def series(lines: Sequence[Line], label: str, unit: str) -> Markup:
    """A chart of some lines over time, in both sizes."""
    marks = sorted((mark for drawn in lines for mark in drawn.marks), key=lambda mark: mark.start)
    values = svg.ticks(*_ends(marks, from_zero=True))
    begins: dict[int, int] = {}
    tips: dict[tuple[int, int], list[str]] = {}
    for mark in marks:
        begins.setdefault(mark.version, mark.start)
        tips.setdefault((mark.start, mark.end), []).append(mark.tip)
    dots = len({mark.start for mark in marks}) <= FEW and len(lines) == 1

    def draw(base: Frame) -> Markup:
        levels = base.vertical(values[0], values[-1])
        frame, rules = svg.grid(base, levels, values, unit)
        times = frame.horizontal(marks[0].start, max(mark.end for mark in marks))
        parts = [rules, svg.time_axis(frame, times, margin=frame.right + 18)]
        for version, start in sorted(begins.items())[1:]:
            x = times(start)
            parts.append(svg.line(x, frame.top, x, frame.floor, "version"))
            parts.append(svg.text(x + 4, frame.top + 9, f"version {version}", "note"))
        parts += [_line(drawn, times, levels, dots) for drawn in lines]
        for (start, end), sentences in sorted(tips.items()):
            x, tip = times(start), "\n".join([span(start, end), *sentences])
            parts.append(svg.rect(x, frame.top, times(end) - x, frame.floor - frame.top, "hit", tip))
        return frame.chart("series", label, parts)

    return svg.both(draw)


def spark(marks: Sequence[Mark], label: str, frame: Frame = SPARK) -> Markup:
    """A small chart without axes: the shape, and how sure it is."""
    times, levels = frame.horizontal(marks[0].start, marks[-1].end), frame.vertical(*_ends(marks))
    parts = [_line(Line(marks), times, levels, dots=False)]
    sealed = [mark for mark in marks if not mark.open]
    if sealed:
        parts.append(svg.dot(times(sealed[-1].middle), levels(sealed[-1].value), "dot", 3.5))
    return frame.chart("series", label, parts)


def _ends(marks: Sequence[Mark], from_zero: bool = False) -> tuple[float, float]:
    """The lowest and the highest that is drawn, down to 0 where that is wanted and not far."""
    ends = [end for mark in marks for end in (mark.value, mark.lower, mark.upper)]
    low, high = min(ends), max(ends)
    if from_zero and 0 < low < 0.6 * high:
        low = 0
    return (low, high) if high > low else (low - 1, high + 1)


def runs(marks: Sequence[Mark]) -> list[list[Mark]]:
    """
    Marks of rounds that follow each other without a gap, version by version.

    >>> marks = [Mark(start, start + 1, 0, 0, 0) for start in (0, 1, 3)]
    >>> [len(run) for run in runs(marks)]
    [2, 1]
    """
    together: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: (mark.version, mark.start)):
        last = together[-1][-1] if together else None
        if last and last.version == mark.version and last.end == mark.start:
            together[-1].append(mark)
        else:
            together.append([mark])
    return together


def _line(drawn: Line, times: Scale, levels: Scale, dots: bool) -> str:
    """A line in its band, run by run; a round that stands alone, or is open, has a whisker."""
    parts = []
    for run in runs(drawn.marks):
        sealed = [mark for mark in run if not mark.open]
        provisional = [mark for mark in run if mark.open]
        parts.append(_stretch(sealed, times, levels, ""))
        if provisional:
            parts.append(_stretch(sealed[-1:] + provisional, times, levels, " open"))
        alone = len(run) == 1
        for mark in run:
            x, kind = times(mark.middle), " open" if mark.open else ""
            if alone or mark.open:
                parts.append(svg.whisker(x, levels(mark.lower), levels(mark.upper), f"whisker{kind}"))
            if alone or mark.open or dots:
                radius = 3.5 if alone or mark.open else 2.6
                parts.append(svg.dot(x, levels(mark.value), f"dot{kind}", radius))
    name = f' data-line="{escape(drawn.name)}"' if drawn.name else ""
    hidden = "" if drawn.shown else " off"
    return f'<g class="line shade-{drawn.shade}{hidden}"{name}>{"".join(parts)}</g>'


def _stretch(marks: Sequence[Mark], times: Scale, levels: Scale, kind: str) -> str:
    """A band with its two edges, and the line in it."""
    if len(marks) < 2:
        return ""
    upper = [(times(mark.middle), levels(mark.upper)) for mark in marks]
    lower = [(times(mark.middle), levels(mark.lower)) for mark in marks]
    return (
        svg.path([*upper, *reversed(lower)], f"band{kind}", closed=True)
        + svg.path(upper, f"edge{kind}")
        + svg.path(lower, f"edge{kind}")
        + svg.path([(times(mark.middle), levels(mark.value)) for mark in marks], f"middle{kind}")
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
    values = svg.ticks(0, max(1, *(bar.reports for bar in rounds)), 4)

    def draw(base: Frame) -> Markup:
        levels = base.vertical(values[0], values[-1])
        frame, rules = svg.grid(base, levels, values, "reports")
        times = frame.horizontal(rounds[0].start, rounds[-1].end)
        parts = [rules, svg.time_axis(frame, times)]
        for bar in rounds:
            left, right, top = times(bar.start), times(bar.end), levels(bar.reports)
            gap = min(2.0, (right - left) * 0.2)
            kind = "bar open" if bar.open else "bar"
            parts.append(svg.rect(left + gap / 2, top, right - left - gap, frame.floor - top, kind))
            parts.append(svg.rect(left, frame.top, right - left, frame.floor - frame.top, "hit", bar.tip))
        return frame.chart("reports", label, parts)

    return svg.both(draw, replace(WIDE, height=240), replace(NARROW, height=220))
