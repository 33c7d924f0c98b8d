"""Charts of one period: shares per bucket and cumulative shares with their intervals, and lengths to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan

from markupsafe import Markup

from reticent_collector.dashboard.charts import svg
from reticent_collector.dashboard.charts.svg import NARROW, SPARK, WIDE, Frame, Scale
from reticent_collector.estimates.distribution import CumulativeEstimate, Quantile

_WIDE, _NARROW = replace(WIDE, bottom=46), replace(NARROW, bottom=46)  # with room for a unit below the axis


class BucketAxis:
    """The place of each bucket edge: to scale where buckets are alike, else equally spaced. Labels have names."""

    def __init__(self, edges: Sequence[float], frame: Frame, names: Sequence[str] = ()) -> None:
        edges = edges or range(len(names) + 1)
        self._names = names
        widths = [right - left for left, right in pairwise(edges)]
        self.even = max(widths) < 1.01 * min(widths)
        scale = frame.horizontal(edges[0], edges[-1]) if self.even else frame.horizontal(0, len(edges) - 1)
        self.edges = edges
        self.places = [scale(edge if self.even else place) for place, edge in enumerate(edges)]
        self.spans = list(pairwise(self.places))  # from where to where each bucket goes
        self._frame = frame

    def at(self, value: float) -> float:
        """The place of a value, between the edges around it."""
        for (left, right), (start, end) in zip(pairwise(self.edges), self.spans, strict=True):
            if value <= right:
                return Scale(left, right, start, end)(value)
        return self.places[-1]

    def drawn(self, unit: str) -> str:
        """Labels below: names, round numbers where buckets are to scale, or edges, as far as they fit."""
        frame = self._frame
        last = self.edges[-1]
        most = max(2, (frame.width - frame.left) // 80)
        if self._names:
            step = -(-len(self._names) // most)
            middles = [(left + right) / 2 for left, right in self.spans]
            return svg.axis_below(frame, zip(middles[::step], self._names[::step], strict=True))
        if self.even and len(self.spans) > most:
            values = [tick for tick in svg.ticks(self.edges[0], last, most) if tick <= last]
        else:
            values = list(self.edges[:: -(-len(self.edges) // (most + 1))])
        axis = svg.axis_below(frame, zip(map(self.at, values), svg.tick_texts(values), strict=True))
        if not unit:
            return axis
        return axis + svg.text(frame.width - frame.right, frame.floor + 36, unit, "unit", anchor="end")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bucket: the number that is drawn, with its interval, in the unit of the chart; its name, for a label."""

    value: float
    lower: float
    upper: float
    tip: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """The buckets of the whole fleet, or of a tag, with its name and colour."""

    bars: Sequence[Bar]
    name: str = ""
    shade: int = 0


def histogram(
    edges: Sequence[float], groups: Sequence[Bars], label: str, unit: str, amount: str = "% of devices"
) -> Markup:
    """Shares per bucket, or other amounts, with simultaneous intervals; groups share their scales."""
    every = [bar for group in groups for bar in group.bars]
    low = min(0.0, *(min(bar.value, bar.lower) for bar in every))
    high = max(max(bar.value, bar.upper) for bar in every)
    several = len(groups) > 1

    def draw(base: Frame) -> Markup:
        values = svg.ticks(low, high, 4 if several else 5)
        height = base.floor - base.top if not several else 96 if base.name == "narrow" else 120
        whole = replace(base, height=base.top + len(groups) * (height + 32) - 32 + base.bottom)
        parts = []
        for place, group in enumerate(groups):
            top = base.top + place * (height + 32)
            frame = replace(whole, top=top, bottom=whole.height - top - height)
            levels = frame.vertical(values[0], values[-1])
            title = f"{group.name}, {amount}" if group.name else amount
            frame, rules = svg.grid(frame, levels, values, title)
            axis = BucketAxis(edges, frame, _names(edges, group.bars))
            parts += [
                rules,
                axis.drawn(unit) if place == len(groups) - 1 else "",
                f'<g class="shade-{group.shade}">',
                _bars(axis, levels, group.bars),
                _whiskers(axis, levels, group.bars),
                "</g>",
            ]
            for bar, (left, right) in zip(group.bars, axis.spans, strict=True):
                parts.append(svg.rect(left, frame.top, right - left, frame.floor - frame.top, "hit", bar.tip))
        return whole.chart("histogram", label, parts)

    return svg.both(draw, _WIDE, _NARROW)


def small_histogram(edges: Sequence[float], bars: Sequence[Bar], label: str) -> Markup:
    """The shape of a histogram, with its intervals: for a row of a table."""
    frame = SPARK
    axis = BucketAxis(edges, frame, _names(edges, bars))
    levels = frame.vertical(0, max(max(bar.upper, bar.value) for bar in bars))
    parts = [
        svg.line(frame.left, levels(0), frame.width - frame.right, levels(0), "zero"),
        _bars(axis, levels, bars),
        _whiskers(axis, levels, bars),
    ]
    return frame.chart("histogram", label, parts)


def _names(edges: Sequence[float], bars: Sequence[Bar]) -> list[str]:
    return [] if edges else [bar.name for bar in bars]


def _bars(axis: BucketAxis, levels: Scale, bars: Sequence[Bar]) -> str:
    zero = levels(0)
    parts = []
    for bar, (left, right) in zip(bars, axis.spans, strict=True):
        gap = min(2.0, (right - left) * 0.15)
        top = levels(bar.value)
        parts.append(svg.rect(left + gap / 2, min(top, zero), right - left - gap, abs(top - zero), "bar"))
    return f'<g class="bars">{"".join(parts)}</g>'


def _whiskers(axis: BucketAxis, levels: Scale, bars: Sequence[Bar]) -> str:
    parts = []
    for bar, (left, right) in zip(bars, axis.spans, strict=True):
        cap = min(5.0, (right - left) * 0.25)
        ends = levels(bar.lower), levels(bar.upper)
        parts.append(svg.whisker((left + right) / 2, *ends, "whisker", cap))
    return "".join(parts)


def cumulative_chart(
    below: CumulativeEstimate, quantiles: Sequence[Quantile], label: str, unit: str
) -> Markup:
    """
    The share of devices at or below each value, in its band, with quantiles read off the band.

    Between two edges only this is known: the share does not fall. So the lower end of the band keeps the height of the
    edge before, and the upper end has that of the edge after. Estimates stand at the edges.
    """
    known = [share for share in below.values if not isnan(share)]

    def draw(base: Frame) -> Markup:
        levels = base.vertical(100 * min(0.0, *known), 100 * max(1.0, *known))
        frame, rules = svg.grid(base, levels, [0, 25, 50, 75, 100], "% of devices at or below")
        axis = BucketAxis(below.edges, frame)
        middle, low, high = (
            [(x, levels(100 * share)) for x, share in zip(axis.places, shares, strict=True)]
            for shares in (below.values, below.lower, below.upper)
        )
        up, down = high[:1], low[:1]
        for (left, _), (right, top) in pairwise(high):
            up += [(left, top), (right, top)]
        for (_, before), (right, after) in pairwise(low):
            down += [(right, before), (right, after)]
        parts = [
            rules,
            axis.drawn(unit),
            '<g class="line shade-0">',
            svg.path([*up, *reversed(down)], "band", closed=True),
            svg.path(up, "edge"),
            svg.path(down, "edge"),
            *(svg.dot(x, y, "dot", 2.6) for x, y in middle if not isnan(y)),
            "</g>",
        ]
        for quantile in quantiles:
            y = levels(100 * quantile.level)
            left = axis.at(quantile.lower)
            right = axis.at(quantile.upper)
            parts.append('<g class="quantile">')
            parts.append(svg.line(left, y, right, y, "whisker"))
            parts += [svg.line(x, y - 4, x, y + 4, "whisker") for x in (left, right)]
            places = [
                (right + 7, y + 4, "start"),
                (left - 7, y + 4, "end"),
                ((left + right) / 2, y - 6, "middle"),
            ]
            fits = (right < frame.width - 60, left > frame.left + 50, True)
            x, height, anchor = next(place for place, fit in zip(places, fits, strict=True) if fit)
            parts += [svg.text(x, height, f"{100 * quantile.level:g} %", "note", anchor), "</g>"]
        return frame.chart("cumulative", label, parts)

    return svg.both(draw, _WIDE, _NARROW)


@dataclass(frozen=True, slots=True)
class Measure:
    """One reason why an estimate may be off: how far, in words, and how it is drawn."""

    name: str
    about: str
    reach: float
    text: str
    kind: str


def measures(rows: Sequence[Measure], label: str) -> Markup:
    """Lengths below each other, to compare how far an estimate may be off, and why."""

    def draw(frame: Frame) -> Markup:
        scale = frame.horizontal(0, max(row.reach for row in rows) or 1)
        right = frame.width - frame.right
        parts = []
        for place, row in enumerate(rows):
            y = 44 * place
            name = row.name if frame.name == "narrow" else f"{row.name}: {row.about}"
            parts.append(svg.text(0, y + 15, name))
            parts.append(svg.text(right, y + 15, row.text, "figure", anchor="end"))
            parts.append(svg.rect(0, y + 22, right, 9, "track"))
            parts.append(svg.rect(0, y + 22, max(scale(row.reach), 1.5), 9, f"measure {row.kind}"))
        return frame.chart("measures", label, parts)

    wide = Frame(960, 44 * len(rows), top=0, left=0, right=2, bottom=0)
    return svg.both(draw, wide, replace(wide, width=380, name="narrow"))


def gauge(value: float, lower: float, upper: float, top: float, label: str) -> Markup:
    """Where in the whole range an estimate is, and how much of the range its interval covers."""
    frame = Frame(360, 22, top=0, bottom=0, left=6, right=6, name="gauge")
    place = frame.horizontal(0, top)
    needle = place(min(max(value, 0.0), top))
    parts = [
        svg.rect(frame.left, 9, frame.width - frame.left - frame.right, 4, "track"),
        svg.rect(place(lower), 6, max(place(upper) - place(lower), 2), 10, "reach"),
        svg.line(needle, 2, needle, 20, "needle"),
    ]
    return frame.chart("gauge", label, parts)
