"""The parts of charts: scales and ticks, frames, and SVG elements with escaped text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from markupsafe import Markup, escape

from reticent_collector.dashboard.labels import number

_STEPS = (60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800, 1_209_600)
_WEEK = 604_800
_MONDAY = 345_600
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 600)


@dataclass(frozen=True, slots=True)
class Scale:
    """
    A straight line from [low, high] to pixels [start, end].

    >>> Scale(0, 10, start=100, end=200)(5)
    150.0
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """
    Round numbers that cover [low, high]: at most about `most` of them, steps of 1, 2, 2.5 or 5 times 10^k.

    >>> ticks(0, 97), ticks(-0.03, 0.11)
    ([0, 20, 40, 60, 80, 100], [-0.05, 0.0, 0.05, 0.1, 0.15])
    """
    if not high > low:
        low = low - (abs(low) or 1) / 2
        high = high + (abs(high) or 1) / 2
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    places = max(0, 1 - math.floor(math.log10(step)))
    return [
        round(place * step, places) if places else round(place * step) for place in range(first, last + 1)
    ]


def tick_texts(values: Sequence[float]) -> list[str]:
    """
    Tick labels: all with as many decimals as the step needs, millions as M.

    >>> tick_texts([0, 2.5, 5]), tick_texts([0, 500_000, 1_000_000])
    (['0', '2.5', '5'], ['0', '0.5 M', '1 M'])
    """
    largest = max(abs(value) for value in values)
    scale, suffix = next(
        ((scale, suffix) for scale, suffix in ((1e9, " G"), (1e6, " M")) if largest >= scale), (1.0, "")
    )
    short = [number(value / scale, 6).rstrip("0").rstrip(".") for value in values]
    return ["0" if value == 0 else text + suffix for value, text in zip(values, short, strict=True)]


def time_ticks(start: float, end: float, most: int) -> list[tuple[float, str]]:
    """
    Times worth a label within [start, end], in UTC: whole minutes, hours, days, Mondays or months.

    >>> [text for _, text in time_ticks(1763683200, 1763683200 + 86_400, most=5)]
    ['21 Nov', '06:00', '12:00', '18:00', '22 Nov']
    """
    labels: list[tuple[float, str]] = []
    for step in _STEPS:
        if (end - start) / step <= most:
            offset = _MONDAY if step % _WEEK == 0 else 0
            first = math.ceil((start - offset) / step) * step + offset
            for seconds in range(first, math.floor(end) + 1, step):
                at = datetime.fromtimestamp(seconds, UTC)
                labels.append((seconds, f"{at:%H:%M}" if seconds % 86_400 else f"{at.day} {at:%b}"))
            return labels
    months = (end - start) / (30.4 * 86_400)
    step = next((step for step in _MONTHS if months / step <= most), _MONTHS[-1])
    january = datetime.fromtimestamp(start, UTC).year * 12
    for month in range(january, january + math.ceil(months) + 13):
        at = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
        if month % step == 0 and start <= at.timestamp() <= end:
            labels.append((at.timestamp(), f"{at:%Y}" if step % 12 == 0 else f"{at:%b %Y}"))
    return labels


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a chart and its margins for labels; CSS shows the wide or the narrow one."""

    width: int
    height: int
    top: int = 26
    right: int = 14
    bottom: int = 30
    left: int = 48
    name: str = "wide"

    @property
    def floor(self) -> int:
        """The height of the lower axis."""
        return self.height - self.bottom

    def vertical(self, low: float, high: float) -> Scale:
        """Values, upwards."""
        return Scale(low, high, start=self.floor, end=self.top)

    def horizontal(self, low: float, high: float) -> Scale:
        """Times or values, to the right."""
        return Scale(low, high, start=self.left, end=self.width - self.right)

    def chart(self, kind: str, label: str, parts: Iterable[str]) -> Markup:
        """The whole SVG; a screen reader says the label. All text in the parts is escaped by now."""
        opening = (
            f'<svg class="chart {kind} {self.name}" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">'
        )
        return Markup("".join([opening, *parts, "</svg>"]))  # noqa: S704


WIDE = Frame(960, 330)
NARROW = Frame(380, 280, name="narrow")
SPARK = Frame(200, 44, top=4, right=6, bottom=4, left=3, name="spark")


def both(draw: Callable[[Frame], Markup], wide: Frame = WIDE, narrow: Frame = NARROW) -> Markup:
    """A chart in both sizes, of which CSS shows one: text stays readable on a phone without a script."""
    return draw(wide) + draw(narrow)


def narrow(chart: Markup) -> Markup:
    """The second of both sizes alone."""
    wide, end, rest = str(chart).partition("</svg>")
    return Markup(rest or wide + end)  # noqa: S704  (a part of a chart)


PALETTE = ("#0067b1", "#c4500a", "#007f5c", "#a0458a", "#976700", "#3a93c8", "#4a5360", "#7d4310")
"""The light colours of dashboard.css: a file outside of a page has no style sheet."""
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "none", "7 3", "2 3", "9 3 2 3")


def alone(chart: Markup, keys: Sequence[tuple[str, int]] = (), title: str = "") -> str:
    """The first of both sizes as a file that needs nothing else: with its colours, a title and a legend."""
    opening, _, rest = str(chart).partition(">")  # MarkupSafe 2.1 would look for &gt;
    inside = rest.partition("</svg>")[0]
    width, height = (float(side) for side in opening.partition('viewBox="0 0 ')[2].partition('"')[0].split())
    rules = [
        "text{font:12.5px sans-serif;fill:#5a6472}.title{font-size:15px;fill:#1b2129}",
        ".rule{stroke:#e4e8ee}.zero,.tick{stroke:#b9c1cc}.version{stroke:#5a6472;stroke-dasharray:2 4}",
        ".hit{display:none}.histogram .whisker{stroke:#1b2129}.edge,.middle,.whisker{fill:none}",
        ".flag{stroke:#5a6472;stroke-dasharray:1 3}.box{fill-opacity:.5}.stem{stroke-width:1.6;stroke-opacity:.6}",
        ".band{fill-opacity:.19}.band.steps{fill-opacity:.34}.bar{fill-opacity:.42}.edge{stroke-opacity:.52}.middle{stroke-width:2}.whisker{stroke-width:1.4}",
    ]
    for shade, (colour, dashes) in enumerate(zip(PALETTE, DASHES, strict=True)):
        inner = f".shade-{shade} "
        rules.append(
            f"{inner}.band,{inner}.dot,{inner}.bar,{inner}.box{{fill:{colour}}}"
            f"{inner}.edge,{inner}.middle,{inner}.whisker,{inner}.stem{{stroke:{colour}}}{inner}.middle{{stroke-dasharray:{dashes}}}"
            f"{inner}.dot.open,{inner}.bar.open,{inner}.box.open{{fill:#fff;stroke:{colour}}}"
        )
    rules.append(".dense .middle{stroke-dasharray:none;stroke-width:1.4}")
    top = 30 if title else 4
    legend = []
    x = 8.0
    for name, shade in keys:
        legend.append(f'<g class="line shade-{shade}">{line(x, height + 14, x + 30, height + 14, "middle")}')
        legend.append(f"{marker(x + 15, height + 14, 'dot', shade)}</g>{text(x + 36, height + 18, name)}")
        x += 60 + 7.5 * len(name)
    whole = height + top + (30 if keys else 6)
    kind = opening.partition('class="')[2].partition('"')[0]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{whole:g}" '
        f'viewBox="0 0 {width:g} {whole:g}"><style>{"".join(rules)}</style>'
        '<rect width="100%" height="100%" fill="#fff"/>'
        f'{text(8, 19, title, "title")}<g class="{kind} shade-0" transform="translate(0 {top})">'
        f"{inside}{''.join(legend)}</g></svg>"
    )


def text(x: float, y: float, content: str, kind: str = "label", anchor: str = "start") -> str:
    """A label."""
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    opening = _short(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{anchored}')
    return f"{opening}>{escape(content)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return _short(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')


def rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> str:
    """A rectangle, with a tooltip that needs no script."""
    room = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    shape = _short(f'<rect x="{x:.1f}" y="{y:.1f}" {room} class="{kind}"')
    return f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>"


def dot(x: float, y: float, kind: str, radius: float = 3) -> str:
    """A round mark."""
    return _short(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>')


def _short(element: str) -> str:
    """The same element with whole numbers as such: a page has thousands of them."""
    return element.replace('.0"', '"')


def marker(x: float, y: float, kind: str, shade: int, radius: float = 3.2) -> str:
    """A mark whose shape goes with the colour: circle, square, triangle or diamond."""
    form = shade % 4
    r = radius
    if form == 0:
        return dot(x, y, kind, r)
    corners = (
        [(-r, -r), (r, -r), (r, r), (-r, r)],
        [(0, -1.3 * r), (1.2 * r, r), (-1.2 * r, r)],
        [(0, -1.4 * r), (1.4 * r, 0), (0, 1.4 * r), (-1.4 * r, 0)],
    )[form - 1]
    return path([(x + right, y + down) for right, down in corners], kind, closed=True)


def path(places: Iterable[tuple[float, float]], kind: str, closed: bool = False) -> str:
    """A line through places, or the area within them."""
    steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in places).replace(".0 ", " ").replace(".0L", "L")
    return f'<path d="M{steps}{"Z" if closed else ""}" class="{kind}"/>'


def whisker(x: float, low: float, high: float, kind: str, cap: float = 3) -> str:
    """An interval: a stem with a cap at both ends."""
    return (
        f'<path d="M{x - cap:.1f} {low:.1f}h{2 * cap:g}M{x - cap:.1f} {high:.1f}h{2 * cap:g}'
        f'M{x:.1f} {low:.1f}V{high:.1f}" class="{kind}"/>'
    )


def room_for(values: Sequence[float]) -> int:
    """How many pixels the labels of an axis need."""
    return round(7.2 * max(map(len, tick_texts(values)))) + 16


def grid(base: Frame, scale: Scale, values: Sequence[float], unit: str) -> tuple[Frame, str]:
    """Horizontal lines at the ticks, their labels, the unit above; and the frame with room for the labels."""
    frame = replace(base, left=room_for(values))
    return frame, grid_in(frame, scale, values, unit)


def grid_in(frame: Frame, scale: Scale, values: Sequence[float], unit: str) -> str:
    """The same in a frame that has the room."""
    parts = [text(frame.left, frame.top - 13, unit, "unit") if unit else ""]
    for value, content in zip(values, tick_texts(values), strict=True):
        y = scale(value)
        parts.append(line(frame.left, y, frame.width - frame.right, y, "zero" if value == 0 else "rule"))
        parts.append(text(frame.left - 8, y + 4, content, anchor="end"))
    return "".join(parts)


def axis_below(frame: Frame, labels: Iterable[tuple[float, str]], margin: int = 24) -> str:
    """Ticks and their labels below a chart; one near the right end is drawn to its left."""
    parts = []
    for x, content in labels:
        parts.append(line(x, frame.floor, x, frame.floor + 5, "tick"))
        anchor = "end" if x > frame.width - margin else "middle"
        parts.append(text(x, frame.floor + 19, content, anchor=anchor))
    return "".join(parts)


def time_axis(frame: Frame, times: Scale, margin: int = 24) -> str:
    """As many time labels as fit below a chart."""
    most = max(2, (frame.width - frame.left - frame.right) // 72)
    return axis_below(
        frame, [(times(at), content) for at, content in time_ticks(times.low, times.high, most)], margin
    )
