"""Charts over time: lines, each with the band of its interval, and reports per round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

from markupsafe import Markup, escape

from reticent_collector.dashboard.charts import svg
from reticent_collector.dashboard.charts.svg import NARROW, SPARK, WIDE, Frame, Scale
from reticent_collector.dashboard.labels import span

FEW = 45  # up to so many periods, each has a marker
MANY = 150  # more periods are drawn coarser, without tooltips, and each line in its own strip
SPREAD = 8  # markers on a line with more than `FEW` periods, where lines must be distinguished
STRIP = 130
SHORT_STRIP = 84
BETWEEN = 20


@dataclass(frozen=True, slots=True)
class Mark:
    """One period on a chart, hollow while open; a nan value means an interval alone, which is drawn as a step."""

    start: int
    end: int
    value: float
    lower: float
    upper: float
    open: bool = False
    version: int = 1
    tip: str = ""
    asked: object = ()  # marks of one line are joined where the same was asked: versions of a plan may differ

    @property
    def middle(self) -> float:
        """The time a mark stands at."""
        return (self.start + self.end) / 2

    @property
    def stepped(self) -> bool:
        """Whether there is an interval without a value."""
        return isnan(self.value)


@dataclass(frozen=True, slots=True)
class Line:
    """The marks of one segment, or of the whole fleet, in the order of time."""

    marks: Sequence[Mark]
    name: str = ""
    shade: int = 0  # colour, dashes and marker; those of a tag are always the same
    shown: bool = True  # whether it is visible at first


def series(lines: Sequence[Line], label: str, unit: str) -> Markup:
    """A chart of some lines over time, in both sizes. Long lines that are compared are stacked."""
    marks = sorted((mark for drawn in lines for mark in drawn.marks), key=lambda mark: mark.start)
    ends = _ends(marks, from_zero=True)
    many = max(len(drawn.marks) for drawn in lines) > MANY
    strips = many and sum(drawn.shown for drawn in lines) > 1
    breaks = {mark.asked: mark for mark in reversed(marks)}  # the first mark of each set of parameters
    begins = {mark.version: mark.start for mark in breaks.values()}
    tips: dict[tuple[int, int], list[str]] = {}
    for mark in marks if not many else ():
        tips.setdefault((mark.start, mark.end), []).append(mark.tip)

    def draw(base: Frame) -> Markup:
        values = svg.ticks(*ends, 4 if strips else 5)
        whole = base
        panels = [(base, lines, unit)]
        if strips:
            whole, panels = _strips(base, [drawn for drawn in lines if drawn.shown], unit)
        parts = []
        for panel, group, title in panels:
            levels = panel.vertical(values[0], values[-1])
            frame, rules = svg.grid(panel, levels, values, title)
            times = frame.horizontal(marks[0].start, max(mark.end for mark in marks))
            parts.append(rules)
            if panel is panels[-1][0]:
                parts.append(svg.time_axis(frame, times, margin=frame.right + 18))
            parts += _version_rules(begins, frame, times)
            parts += [_line(drawn, times, levels, len(lines) > 1, frame.name) for drawn in group]
            parts += _hit_areas(tips, frame, times)
        return whole.chart("series", label, parts)

    return svg.both(draw)


def _strips(
    base: Frame, lines: Sequence[Line], unit: str
) -> tuple[Frame, list[tuple[Frame, Sequence[Line], str]]]:
    """A frame as high as all lines need one below the other, and for each the strip it is in and its title."""
    height = SHORT_STRIP if base.name == "narrow" else STRIP
    whole = replace(base, height=base.top + len(lines) * (height + BETWEEN) + 12)
    strips: list[tuple[Frame, Sequence[Line], str]] = []
    for place, drawn in enumerate(lines):
        top = base.top + place * (height + BETWEEN)
        strip = replace(whole, top=top, bottom=whole.height - top - height)
        strips.append((strip, [drawn], f"{drawn.name}, {unit}" if unit else drawn.name))
    return whole, strips


def _version_rules(begins: Mapping[int, int], frame: Frame, times: Scale) -> Iterator[str]:
    """A vertical rule where a version of the plan asks with other parameters than the one before."""
    for version, start in sorted(begins.items())[1:]:
        x = times(start)
        yield svg.line(x, frame.top, x, frame.floor, "version")
        yield svg.text(x + 4, frame.top + 9, f"other parameters from version {version}", "note")


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
    parts = [_line(Line(marks), times, levels, False, "spark")]
    sealed = [mark for mark in marks if not mark.open]
    if sealed and not sealed[-1].stepped:
        parts.append(svg.marker(times(sealed[-1].middle), levels(sealed[-1].value), "dot", 0))
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
    ends = [end for mark in marks for end in (mark.value, mark.lower, mark.upper) if not isnan(end)]
    low, high = min(ends), max(ends)
    if from_zero and 0 < low < 0.6 * high:
        low = 0
    return (low, high) if high > low else (low - 1, high + 1)


def runs(marks: Sequence[Mark]) -> list[list[Mark]]:
    """
    Marks of consecutive rounds in which the same was asked.

    >>> marks = [Mark(start, start + 1, 0, 0, 0) for start in (0, 1, 3)]
    >>> [len(run) for run in runs(marks)]
    [2, 1]
    """
    together: list[list[Mark]] = []
    order = {asked: place for place, asked in enumerate(dict.fromkeys(mark.asked for mark in marks))}
    for mark in sorted(marks, key=lambda mark: (order[mark.asked], mark.start)):
        last = together[-1][-1] if together else None
        if last and last.asked == mark.asked and last.end == mark.start:
            together[-1].append(mark)
        else:
            together.append([mark])
    return together


def _line(drawn: Line, times: Scale, levels: Scale, several: bool, size: str) -> str:
    """A line in its band, run by run; a period that stands alone, or is open, has a whisker."""
    count = len(drawn.marks)
    most = 120 if size == "narrow" else 240
    at_once = -(-count // most) if count > MANY else 1
    parts: list[str] = []
    for run in runs(drawn.marks):
        sealed = [mark for mark in run if not mark.open]
        provisional = [mark for mark in run if mark.open]
        if run[0].stepped:
            parts += [_steps(marks, times, levels, size) for marks in (sealed, provisional) if marks]
            continue
        parts.append(_stretch(sealed, times, levels, "", at_once, size))
        if provisional:
            parts.append(_stretch(sealed[-1:] + provisional, times, levels, " open", 1, size))
        every = 0 if size == "spark" else _marker_every(count, several)
        parts += _markers(run, times, levels, drawn.shade, every)
    name = f' data-line="{escape(drawn.name)}"' if drawn.name else ""
    hidden = (" dense" if count > MANY else "") + ("" if drawn.shown else " off")
    return f'<g class="line shade-{drawn.shade}{hidden}"{name}>{"".join(parts)}</g>'


def _marker_every(count: int, several: bool) -> int:
    """Of how many periods one has a marker, on a line of `count`; 0: none."""
    if count <= FEW:
        return 1
    return -(-count // SPREAD) if several and count <= MANY else 0


def _markers(run: Sequence[Mark], times: Scale, levels: Scale, shade: int, every: int) -> Iterator[str]:
    """The dots on a line, and the whisker of a period that stands alone or is open."""
    for place, mark in enumerate(run):
        x = times(mark.middle)
        kind = " open" if mark.open else ""
        has_whisker = mark.open or len(run) == 1
        if has_whisker:
            yield svg.whisker(x, levels(mark.lower), levels(mark.upper), f"whisker{kind}")
        if has_whisker or (every and place % every == 0):
            yield svg.marker(x, levels(mark.value), f"dot{kind}", shade)


def _steps(marks: Sequence[Mark], times: Scale, levels: Scale, size: str) -> str:
    """An interval that holds for the whole of each period: a band of steps, with both of its edges."""
    kind = " open" if marks[0].open else ""
    upper = [(times(at), levels(mark.upper)) for mark in marks for at in (mark.start, mark.end)]
    lower = [(times(at), levels(mark.lower)) for mark in marks for at in (mark.start, mark.end)]
    band = svg.path([*upper, *reversed(lower)], f"band steps{kind}", closed=True)
    return band if size == "spark" else band + svg.path(upper, f"edge{kind}") + svg.path(lower, f"edge{kind}")


def _stretch(marks: Sequence[Mark], times: Scale, levels: Scale, kind: str, at_once: int, size: str) -> str:
    """A band and the line in it; marks that share a place get the band of all, and a line from least to greatest."""
    if len(marks) < 2:
        return ""
    groups = [marks[place : place + at_once] for place in range(0, len(marks), at_once)]
    middles = [times((group[0].middle + group[-1].middle) / 2) for group in groups]
    upper = [(x, levels(max(mark.upper for mark in group))) for x, group in zip(middles, groups, strict=True)]
    lower = [(x, levels(min(mark.lower for mark in group))) for x, group in zip(middles, groups, strict=True)]
    values = [
        (x, levels(value))
        for x, group in zip(middles, groups, strict=True)
        for value in sorted({pick(mark.value for mark in group) for pick in (min, max)})
    ]
    parts = [svg.path([*upper, *reversed(lower)], f"band{kind}", closed=True)]
    if at_once == 1 and size != "spark":
        parts += [svg.path(upper, f"edge{kind}"), svg.path(lower, f"edge{kind}")]
    return "".join([*parts, svg.path(values, f"middle{kind}")])


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


_SMALL = Frame(480, 110, top=20, right=4, bottom=22, left=4, name="small")


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
