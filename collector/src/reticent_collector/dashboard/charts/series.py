"""Charts over time: lines, each with the band of its interval, and reports per round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import isnan
from statistics import median
from typing import NamedTuple

from markupsafe import Markup, escape

from reticent_collector.dashboard.charts import svg
from reticent_collector.dashboard.charts.svg import NARROW, SPARK, WIDE, Frame, Scale
from reticent_collector.dashboard.labels import span

FEW = 45  # up to so many periods, each has a marker
MANY = 150  # more periods are drawn by pixel column, and each line in its own strip
SPREAD = 8  # markers on a line with more than `FEW` periods, where lines must be distinguished
STRIP = 130
SHORT_STRIP = 84
BETWEEN = 30
COLUMNS = {"wide": 4.0, "narrow": 3.0, "spark": 2.0}  # pixels of a column, by frame
WIDEST_BOX = 26.0
BESIDE = 5.0  # pixels between the whiskers of lines in one period
LESS_PRECISE = 4.0  # lines with intervals so many times as wide have an axis of their own


@dataclass(frozen=True, slots=True)
class Mark:
    """
    One period on a chart; a nan value means an interval alone, which is drawn as a box.

    A hollow one is not the whole period: reports still come in, or some of its rounds are missing. No line goes to it.
    """

    start: int
    end: int
    value: float
    lower: float
    upper: float
    hollow: bool = False
    version: int = 1
    tip: str = ""
    asked: object = ()  # marks of one line are joined where the same was asked: versions of a plan may differ
    around: tuple[float, float] | None = None  # of a box: where the middle half of devices lies

    @property
    def middle(self) -> float:
        """The time a mark stands at."""
        return (self.start + self.end) / 2

    @property
    def middle_value(self) -> float:
        """The middle of its interval."""
        return (self.lower + self.upper) / 2

    @property
    def boxed(self) -> bool:
        """Whether there is an interval without a value."""
        return isnan(self.value)


@dataclass(frozen=True, slots=True)
class Line:
    """The marks of one segment, or of the whole fleet, in the order of time."""

    marks: Sequence[Mark]
    name: str = ""
    shade: int = 0  # colour, dashes and marker; those of a tag are always the same

    @property
    def long(self) -> bool:
        """Whether it has more marks than can be told apart."""
        return len(self.marks) > MANY


class Flag(NamedTuple):
    """Something that happened: a release, or a note of a reader."""

    at: int
    text: str


class _Panel(NamedTuple):
    """Lines on one axis."""

    lines: Sequence[Line]
    title: str
    values: Sequence[float]  # of the axis
    full: bool  # as high as a chart by itself


def series(lines: Sequence[Line], label: str, unit: str, flags: Sequence[Flag] = ()) -> Markup:
    """
    A chart of some lines over time, in both sizes.

    Long lines that are compared stand in strips below each other, as do lines that would hide each other. Lines with
    far wider intervals than the others have an axis of their own, so that a few devices do not flatten the lines of
    many.
    """
    panels = _panels(lines, unit)
    marks = sorted((mark for drawn in lines for mark in drawn.marks), key=lambda mark: mark.start)
    times_of = marks[0].start, max(mark.end for mark in marks)
    breaks = {mark.asked: mark for mark in reversed(marks)}  # the first mark of each set of parameters
    begins = {mark.version: mark.start for mark in breaks.values()}
    flags = [flag for flag in flags if times_of[0] <= flag.at < times_of[1]]

    def draw(base: Frame) -> Markup:
        whole, frames = _below_each_other(base, panels)
        times = frames[0].horizontal(*times_of)
        parts = [svg.time_axis(frames[-1], times, margin=frames[-1].right + 18)]
        for panel, frame in zip(panels, frames, strict=True):
            levels = frame.vertical(panel.values[0], panel.values[-1])
            parts.append(svg.grid_in(frame, levels, panel.values, panel.title))
            parts += _version_rules(begins, frame, times, named=panel is panels[0])
            parts += _flag_rules(flags, frame, times)
            for place, drawn in enumerate(panel.lines):
                beside = BESIDE * (place - (len(panel.lines) - 1) / 2)  # whiskers of one period
                parts.append(_line(drawn, times, levels, len(lines), frame.name, beside))
            parts += _hit_areas(_tips(panel.lines), frame, times)
        return whole.chart("series", label, parts)

    return svg.both(draw)


def _panels(lines: Sequence[Line], unit: str) -> list[_Panel]:
    """The lines on each axis, in the order in which they stand below each other."""

    def panel(group: Sequence[Line], name: str, ends: tuple[float, float], full: bool = False) -> _Panel:
        title = ", ".join(filter(None, (name, unit)))
        return _Panel(group, title, svg.ticks(*ends, 5 if full else 4), full)

    alike, apart = _by_precision(lines)
    own = "few reports, an axis of its own"
    if len(lines) > 1 and (any(drawn.long for drawn in lines) or _hide_each_other(alike)):
        common = _ends_of(alike)
        strips = [panel([drawn], drawn.name, common) for drawn in alike]
        return strips + [panel([drawn], f"{drawn.name} ({own})", _ends_of([drawn])) for drawn in apart]
    first = panel(alike, "", _ends_of(alike), full=True)
    return [first, *(panel([drawn], f"{drawn.name} ({own})", _ends_of([drawn])) for drawn in apart)]


def _hide_each_other(lines: Sequence[Line]) -> bool:
    """Whether the bands of three or more lines lie over each other, so that none could be seen."""
    middles = [median(mark.middle_value for mark in drawn.marks) for drawn in lines]
    width = median([mark.upper - mark.lower for drawn in lines for mark in drawn.marks])
    return len(lines) > 2 and max(middles) - min(middles) < width / 2


def _by_precision(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Lines that share an axis, and those whose intervals are so wide that they would flatten the others on it."""
    widths = [median(mark.upper - mark.lower for mark in drawn.marks) for drawn in lines]
    narrow = LESS_PRECISE * min((width for width in widths if width > 0), default=0.0)
    low, high = _ends_of(
        [drawn for drawn, width in zip(lines, widths, strict=True) if width <= narrow] or lines
    )
    alike: list[Line] = []
    apart: list[Line] = []
    for drawn, width in zip(lines, widths, strict=True):
        bottom, top = _ends_of([drawn])
        flattens = width > narrow and max(high, top) - min(low, bottom) > 1.5 * (high - low)
        (apart if flattens else alike).append(drawn)
    return alike, apart


def _below_each_other(base: Frame, panels: Sequence[_Panel]) -> tuple[Frame, list[Frame]]:
    """The frame of the whole chart, and that of each panel in it: all with the same left and right ends."""
    strip = SHORT_STRIP if base.name == "narrow" else STRIP
    left = max(svg.room_for(panel.values) for panel in panels)
    heights = [base.floor - base.top if panel.full else strip for panel in panels]
    whole = base.top + sum(heights) + BETWEEN * (len(panels) - 1) + base.bottom
    frames, top = [], base.top
    for height in heights:
        frames.append(replace(base, height=whole, left=left, top=top, bottom=whole - top - height))
        top += height + BETWEEN
    return replace(base, height=whole, left=left), frames


def _version_rules(begins: Mapping[int, int], frame: Frame, times: Scale, named: bool) -> Iterator[str]:
    """A vertical rule where a version of the plan asks with other parameters than the one before."""
    for version, start in sorted(begins.items())[1:]:
        x = times(start)
        yield svg.line(x, frame.top, x, frame.floor, "version")
        if named:
            is_left = x < frame.width * 0.6
            text = f"other parameters from version {version}"
            yield svg.text(
                x + 4 if is_left else x - 4, frame.top + 9, text, "note", "start" if is_left else "end"
            )


def _flag_rules(flags: Sequence[Flag], frame: Frame, times: Scale) -> Iterator[str]:
    """A vertical rule and a number for each flag; the page lists them by number."""
    free_from = 0.0
    for place, flag in enumerate(flags, 1):
        x = times(flag.at)
        yield svg.line(x, frame.top, x, frame.floor, "flag")
        if x >= free_from:
            yield svg.text(x + 3, frame.floor - 4, str(place), "note flag-number")
            free_from = x + 18


def _tips(lines: Sequence[Line]) -> dict[tuple[int, int], list[str]]:
    """By period: what is there of each line."""
    tips: dict[tuple[int, int], list[str]] = {}
    for drawn in lines:
        for mark in drawn.marks:
            if mark.tip:
                tips.setdefault((mark.start, mark.end), []).append(mark.tip)
    return tips


def _hit_areas(tips: Mapping[tuple[int, int], Sequence[str]], frame: Frame, times: Scale) -> Iterator[str]:
    """Over each period, what the pointer shows."""
    for (start, end), sentences in sorted(tips.items()):
        x = times(start)
        tip = "\n".join([span(start, end), *sentences])
        yield svg.rect(x, frame.top, times(end) - x, frame.floor - frame.top, "hit", tip)


def spark(marks: Sequence[Mark], label: str, frame: Frame = SPARK) -> Markup:
    """A small chart without axes."""
    times = frame.horizontal(marks[0].start, marks[-1].end)
    levels = frame.vertical(*_ends(marks))
    parts = [_line(Line(marks), times, levels, 1, "spark")]
    whole = [mark for mark in marks if not mark.hollow]
    if whole and not whole[-1].boxed:
        parts.append(svg.marker(times(whole[-1].middle), levels(whole[-1].value), "dot", 0))
    return frame.chart("series", label, parts)


def key(shade: int) -> Markup:
    """A line's colour, dashes and marker, for a legend."""
    drawn = svg.line(0, 6, 30, 6, "middle") + svg.marker(15, 6, "dot", shade)
    return Markup(  # noqa: S704
        '<svg class="chart key-line" viewBox="0 0 30 12" aria-hidden="true">'
        f'<g class="line shade-{shade}">{drawn}</g></svg>'
    )


def _ends(marks: Sequence[Mark], from_zero: bool = False) -> tuple[float, float]:
    """The lowest and the highest that is drawn, down to 0 where that is wanted and near."""
    ends = [
        end
        for mark in marks
        for end in (mark.value, mark.lower, mark.upper, *(mark.around or ()))
        if not isnan(end)
    ]
    low, high = min(ends), max(ends)
    if from_zero and 0 < low < 0.6 * high:
        low = 0
    return (low, high) if high > low else (low - 1, high + 1)


def _ends_of(lines: Sequence[Line]) -> tuple[float, float]:
    """The same for an axis."""
    return _ends([mark for drawn in lines for mark in drawn.marks], from_zero=True)


def runs(marks: Sequence[Mark]) -> list[list[Mark]]:
    """
    Marks of consecutive periods in which the same was asked; hollow ones apart from whole ones.

    >>> marks = [Mark(start, start + 1, 0, 0, 0, hollow=start > 3) for start in (0, 1, 3, 4)]
    >>> [len(run) for run in runs(marks)]
    [2, 1, 1]
    """
    together: list[list[Mark]] = []
    order = {asked: place for place, asked in enumerate(dict.fromkeys(mark.asked for mark in marks))}
    for mark in sorted(marks, key=lambda mark: (order[mark.asked], mark.start)):
        last = together[-1][-1] if together else None
        if last and (last.asked, last.end, last.hollow) == (mark.asked, mark.start, mark.hollow):
            together[-1].append(mark)
        else:
            together.append([mark])
    return together


def _line(drawn: Line, times: Scale, levels: Scale, lines: int, size: str, beside: float = 0.0) -> str:
    """A line in its band, run by run; `lines` are on the chart."""
    parts: list[str] = []
    several = lines > 1
    every = 0 if size == "spark" else _marker_every(len(drawn.marks), several)
    for run in runs(drawn.marks):
        if run[0].boxed:
            is_short = size != "spark" and len(drawn.marks) <= FEW
            parts += _boxes(run, times, levels) if is_short else _steps(run, times, levels)
        elif run[0].hollow and not drawn.long:
            parts += [_lone([mark], times, levels, drawn.shade, beside, size) for mark in run]
        else:
            columns = _columns(run, times, size, lines) if drawn.long else [[mark] for mark in run]
            if len(columns) == 1:
                parts.append(_lone(columns[0], times, levels, drawn.shade, beside, size))
            else:
                parts.append(_stretch(columns, times, levels, has_edges=not several and size != "spark"))
                parts += _markers(run, times, levels, drawn.shade, every)
    name = f' data-line="{escape(drawn.name)}"' if drawn.name else ""
    dense = " dense" if drawn.long else ""
    return f'<g class="line shade-{drawn.shade}{dense}"{name}>{"".join(parts)}</g>'


def _columns(run: Sequence[Mark], times: Scale, size: str, lines: int) -> list[list[Mark]]:
    """The marks of a run by the column of pixels in which they stand; wider ones where strips share a page."""
    width = COLUMNS[size] * (max(2.0, lines / 2) if lines > 1 else 1)
    return [list(column) for _, column in groupby(run, lambda mark: int(times(mark.middle) // width))]


def _lone(marks: Sequence[Mark], times: Scale, levels: Scale, shade: int, beside: float, size: str) -> str:
    """One period, or some in one place, that no line goes to: a dot with a whisker."""
    x = times((marks[0].middle + marks[-1].middle) / 2) + beside
    is_small = size == "spark"
    kind = " open" if marks[0].hollow else ""
    ends = levels(min(mark.lower for mark in marks)), levels(max(mark.upper for mark in marks))
    value = levels(median(mark.value for mark in marks))
    whisker = svg.whisker(x, *ends, f"whisker{kind}", cap=1.5 if is_small else 3)
    return whisker + svg.marker(x, value, f"dot{kind}", shade, 2.0 if is_small else 3.2)


def _stretch(columns: Sequence[Sequence[Mark]], times: Scale, levels: Scale, has_edges: bool) -> str:
    """A band and the line in it; marks of a column get the band of all, and a line from the least to the greatest."""
    kind = " open" if columns[0][0].hollow else ""
    middles = [times((column[0].middle + column[-1].middle) / 2) for column in columns]
    upper = [
        (x, levels(max(mark.upper for mark in column))) for x, column in zip(middles, columns, strict=True)
    ]
    lower = [
        (x, levels(min(mark.lower for mark in column))) for x, column in zip(middles, columns, strict=True)
    ]
    parts = [svg.path([*upper, *reversed(lower)], f"band{kind}", closed=True)]
    if kind:
        return parts[0]
    if has_edges and all(len(column) == 1 for column in columns):
        parts += [svg.path(upper, "edge"), svg.path(lower, "edge")]
    values = [
        (x, levels(value))
        for x, column in zip(middles, columns, strict=True)
        for value in sorted({pick(mark.value for mark in column) for pick in (min, max)})
    ]
    return "".join([*parts, svg.path(values, "middle")])


def _marker_every(count: int, several: bool) -> int:
    """Of how many periods one has a marker, on a line of `count`; 0: none."""
    if count <= FEW:
        return 1
    return -(-count // SPREAD) if several and count <= MANY else 0


def _markers(run: Sequence[Mark], times: Scale, levels: Scale, shade: int, every: int) -> Iterator[str]:
    """The dots on a line."""
    for place, mark in enumerate(run):
        if every and place % every == 0:
            yield svg.marker(times(mark.middle), levels(mark.value), "dot", shade)


def _boxes(run: Sequence[Mark], times: Scale, levels: Scale) -> Iterator[str]:
    """Intervals without values: a box each, on a stem where the middle half of devices lies."""
    for mark in run:
        kind = " open" if mark.hollow else ""
        x, width = times(mark.middle), min(WIDEST_BOX, 0.7 * (times(mark.end) - times(mark.start)))
        if mark.around:
            yield svg.line(x, levels(mark.around[0]), x, levels(mark.around[1]), "stem")
        top = levels(mark.upper)
        yield svg.rect(x - width / 2, top, width, max(2.0, levels(mark.lower) - top), f"box{kind}")


def _steps(run: Sequence[Mark], times: Scale, levels: Scale) -> Iterator[str]:
    """The same of many periods: bands of steps."""
    kind = " open" if run[0].hollow else ""
    if all(mark.around for mark in run):
        around = [(mark, *(mark.around or (0.0, 0.0))) for mark in run]
        yield _step_band(around, times, levels, f"band{kind}")
    yield _step_band([(mark, mark.lower, mark.upper) for mark in run], times, levels, f"band steps{kind}")


def _step_band(ends: Sequence[tuple[Mark, float, float]], times: Scale, levels: Scale, kind: str) -> str:
    """A band whose ends hold for the whole of each period; corners on a level are left out."""
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    for mark, low, high in ends:
        for side, level in ((upper, levels(high)), (lower, levels(low))):
            if len(side) > 1 and side[-1][1] == level:
                side.pop()
            else:
                side.append((times(mark.start), level))
            side.append((times(mark.end), level))
    return svg.path([*upper, *reversed(lower)], kind, closed=True)


@dataclass(frozen=True, slots=True)
class RoundBar:
    """The reports of one round."""

    start: int
    end: int
    reports: int
    open: bool
    tip: str


def reports_per_round(rounds: Sequence[RoundBar], label: str) -> Markup:
    """Reports per round; open rounds are hollow."""
    values = svg.ticks(0, max(1, *(bar.reports for bar in rounds)), 4)

    def draw(base: Frame) -> Markup:
        levels = base.vertical(values[0], values[-1])
        frame, rules = svg.grid(base, levels, values, "reports")
        times = frame.horizontal(rounds[0].start, rounds[-1].end)
        parts = [rules, svg.time_axis(frame, times), *_bars(rounds, frame, times, levels)]
        return frame.chart("reports", label, parts)

    return svg.both(draw, replace(WIDE, height=240), replace(NARROW, height=220))


_SMALL = Frame(380, 110, top=20, right=4, bottom=22, left=4, name="small")


def small_bars(
    bars: Sequence[RoundBar], label: str, unit: str = "", usual: float = 0.0, shade: int = 0
) -> Markup:
    """Bars without an axis: the highest is labelled, and a dashed line is the usual number."""
    highest = max(1.0, usual, *(bar.reports for bar in bars))
    times = _SMALL.horizontal(bars[0].start, bars[-1].end)
    levels = _SMALL.vertical(0, highest)
    parts = [
        svg.text(_SMALL.left, 12, f"{svg.tick_texts([highest])[0]} {unit}".strip(), "unit"),
        svg.line(_SMALL.left, _SMALL.floor, _SMALL.width - _SMALL.right, _SMALL.floor, "zero"),
    ]
    parts += _bars(bars, _SMALL, times, levels)
    if usual:
        y = levels(usual)
        parts.append(svg.line(_SMALL.left, y, _SMALL.width - _SMALL.right, y, "usual"))
    parts.append(svg.time_axis(_SMALL, times, margin=30))
    return _SMALL.chart(f"reports small shade-{shade}", label, parts)


def _bars(bars: Sequence[RoundBar], frame: Frame, times: Scale, levels: Scale) -> Iterator[str]:
    for bar in bars:
        left = times(bar.start)
        right = times(bar.end)
        top = levels(bar.reports)
        gap = min(2.0, (right - left) * 0.2)
        kind = "bar open" if bar.open else "bar"
        if bar.reports:
            yield svg.rect(left + gap / 2, top, right - left - gap, frame.floor - top, kind)
        yield svg.rect(left, frame.top, right - left, frame.floor - frame.top, "hit", bar.tip)
