"""Figures over time: lines that never go without the band of their interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup, escape

from reticent.dashboard.charts.scales import Scale, time_ticks
from reticent.dashboard.charts.svg import (
    NARROW,
    SPARK,
    WIDE,
    Frame,
    both,
    dot,
    grid,
    level_axis,
    line,
    path,
    rect,
    room_for,
    text,
    whisker,
)
from reticent.dashboard.words import span

FEW = 45
"""Up to so many rounds, each has a dot."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One round on a chart: a value, its interval, and what is said about it."""

    start: int
    end: int
    value: float
    lower: float
    upper: float
    open: bool = False
    """Provisional: drawn hollow and dashed."""
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


@dataclass(frozen=True, slots=True)
class _Drawing:
    frame: Frame
    times: Scale
    levels: Scale
    dots: bool
    lines: Sequence[Line] = field(default_factory=tuple)

    def place(self, mark: Mark) -> tuple[float, float]:
        return self.times(mark.middle), self.levels(mark.value)


def series(lines: Sequence[Line], label: str, unit: str) -> Markup:
    """A chart of some lines over time, in both sizes."""
    return both(_chart(lines, WIDE, label, unit), _chart(lines, NARROW, label, unit))


def spark(marks: Sequence[Mark], label: str, frame: Frame = SPARK) -> Markup:
    """A small chart without axes: the shape, and how sure it is."""
    levels = _range([Line(marks)], from_zero=False)
    drawing = _Drawing(
        frame, frame.horizontal(marks[0].start, marks[-1].end), frame.vertical(*levels), dots=False
    )
    parts = [frame.open(label, "series"), _line(drawing, Line(marks))]
    sealed = [mark for mark in marks if not mark.open]
    if sealed:
        parts.append(dot(*drawing.place(sealed[-1]), "dot", 3.5))
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704


def _chart(lines: Sequence[Line], base: Frame, label: str, unit: str) -> str:
    marks = [mark for each in lines for mark in each.marks]
    levels, values, texts = level_axis(base, *_range(lines))
    frame = replace(base, left=room_for(texts))
    times = frame.horizontal(min(mark.start for mark in marks), max(mark.end for mark in marks))
    rounds = len({mark.start for mark in marks})
    drawing = _Drawing(frame, times, levels, dots=rounds <= FEW and len(lines) == 1, lines=lines)
    return "".join(
        [
            frame.open(label, "series"),
            grid(frame, levels, values, texts, unit),
            _time_axis(frame, times),
            *(_versions(drawing, marks)),
            *(_line(drawing, each) for each in lines),
            *_hits(drawing, lines),
            "</svg>",
        ]
    )


def _range(lines: Sequence[Line], from_zero: bool = True) -> tuple[float, float]:
    """From the lowest to the highest that is drawn, down to 0 where that is not far."""
    ends = [end for each in lines for mark in each.marks for end in (mark.value, mark.lower, mark.upper)]
    low, high = min(ends), max(ends)
    if from_zero and 0 < low < 0.6 * high:
        low = 0
    return (low, high) if high > low else (low - 1, high + 1)


def _time_axis(frame: Frame, times: Scale) -> str:
    bottom = frame.height - frame.bottom
    parts = []
    for at, content in time_ticks(times.low, times.high, frame.time_labels):
        x = times(at)
        parts.append(line(x, bottom, x, bottom + 5, "tick"))
        near_end = x > frame.width - frame.right - 18
        parts.append(
            text(min(x, frame.width - 2), bottom + 19, content, anchor="end" if near_end else "middle")
        )
    return "".join(parts)


def _versions(drawing: _Drawing, marks: Sequence[Mark]) -> Iterator[str]:
    """A dotted line where a newer version of the plan begins."""
    first: dict[int, int] = {}
    for mark in sorted(marks, key=lambda mark: mark.start):
        first.setdefault(mark.version, mark.start)
    for version, start in sorted(first.items())[1:]:
        x = drawing.times(start)
        yield line(x, drawing.frame.top, x, drawing.frame.height - drawing.frame.bottom, "version")
        yield text(x + 4, drawing.frame.top + 9, f"version {version}", "note")


def runs(marks: Sequence[Mark]) -> list[list[Mark]]:
    """
    Marks of rounds that follow each other without a gap, version by version.

    >>> marks = [Mark(start, start + 1, 0, 0, 0) for start in (0, 1, 3)]
    >>> [len(run) for run in runs(marks)]
    [2, 1]
    """
    found: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: (mark.version, mark.start)):
        last = found[-1][-1] if found else None
        if last and last.version == mark.version and last.end == mark.start:
            found[-1].append(mark)
        else:
            found.append([mark])
    return found


def _line(drawing: _Drawing, drawn: Line) -> str:
    parts = []
    for run in runs(drawn.marks):
        sealed = [mark for mark in run if not mark.open]
        provisional = [mark for mark in run if mark.open]
        parts.append(_stretch(drawing, sealed, ""))
        parts.append(_stretch(drawing, sealed[-1:] + provisional if provisional else [], " open"))
        for mark in run:
            parts.append(_mark(drawing, mark, alone=len(run) == 1))
    name = f' data-line="{escape(drawn.name)}"' if drawn.name else ""
    hidden = "" if drawn.shown else " off"
    return f'<g class="line shade-{drawn.shade}{hidden}"{name}>{"".join(parts)}</g>'


def _stretch(drawing: _Drawing, marks: Sequence[Mark], kind: str) -> str:
    """A band with its two edges, and the line in it."""
    if len(marks) < 2:
        return ""
    upper = [(drawing.times(mark.middle), drawing.levels(mark.upper)) for mark in marks]
    lower = [(drawing.times(mark.middle), drawing.levels(mark.lower)) for mark in marks]
    return (
        path([*upper, *reversed(lower)], f"band{kind}", closed=True)
        + path(upper, f"edge{kind}")
        + path(lower, f"edge{kind}")
        + path([drawing.place(mark) for mark in marks], f"middle{kind}")
    )


def _mark(drawing: _Drawing, mark: Mark, alone: bool) -> str:
    x, y = drawing.place(mark)
    parts = []
    if alone or mark.open:
        ends = drawing.levels(mark.lower), drawing.levels(mark.upper)
        parts.append(whisker(x, *ends, "whisker open" if mark.open else "whisker"))
    if mark.open:
        parts.append(dot(x, y, "dot open", 3.5))
    elif alone or drawing.dots:
        parts.append(dot(x, y, "dot", 3.5 if alone else 2.6))
    return "".join(parts)


def _hits(drawing: _Drawing, lines: Sequence[Line]) -> Iterator[str]:
    """One invisible column per round, which says what is there."""
    tips: dict[tuple[int, int], list[str]] = {}
    for each in lines:
        for mark in each.marks:
            tips.setdefault((mark.start, mark.end), []).append(mark.tip)
    frame = drawing.frame
    for (start, end), said in sorted(tips.items()):
        x, right = drawing.times(start), drawing.times(end)
        yield rect(
            x,
            frame.top,
            right - x,
            frame.height - frame.top - frame.bottom,
            "hit",
            "\n".join([span(start, end), *said]),
        )
