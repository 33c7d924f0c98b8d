"""Pieces of SVG: the frame every chart is drawn in, its axes, and escaped text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from reticent.dashboard.charts.scales import Scale, tick_texts, ticks

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a chart and the room it keeps for labels; CSS shows the wide or the narrow one."""

    width: int
    height: int
    top: int = 26
    right: int = 14
    bottom: int = 30
    left: int = 48
    name: str = "wide"

    @property
    def time_labels(self) -> int:
        """How many labels of a time fit below."""
        return max(2, (self.width - self.left - self.right) // 72)

    def vertical(self, low: float, high: float) -> Scale:
        """Figures, upwards."""
        return Scale(low, high, start=self.height - self.bottom, end=self.top)

    def horizontal(self, low: float, high: float) -> Scale:
        """Times or values, to the right."""
        return Scale(low, high, start=self.left, end=self.width - self.right)

    def open(self, label: str, kind: str) -> str:
        """The opening tag; the label is what a screen reader says."""
        return (
            f'<svg class="chart {kind} {self.name}" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">'
        )


WIDE = Frame(960, 330)
NARROW = Frame(380, 280, name="narrow")
SPARK = Frame(480, 92, top=8, right=8, bottom=8, left=4, name="spark")
HALF_SPARK = Frame(230, 84, top=8, right=8, bottom=8, left=4, name="spark")


def both(wide: str, narrow: str) -> Markup:
    """A chart in both sizes, of which CSS shows one: text stays readable on a phone without a script."""
    return Markup(wide + narrow)  # noqa: S704  (all text in it went through `escape`)


def text(x: float, y: float, content: str, kind: str = "label", anchor: str = "start") -> str:
    """A label."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> str:
    """A rectangle, with a tooltip that needs no script."""
    room = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    shape = f'<rect x="{x:.1f}" y="{y:.1f}" {room} class="{kind}"'
    return f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>"


def dot(x: float, y: float, kind: str, radius: float = 3) -> str:
    """A round mark."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>'


def path(places: Iterable[Place], kind: str, closed: bool = False) -> str:
    """A line through places, or the area within them."""
    steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path d="M{steps}{"Z" if closed else ""}" class="{kind}"/>'


def whisker(x: float, low: float, high: float, kind: str, cap: float = 3) -> str:
    """An interval: a stem with a cap at both ends."""
    return (
        f'<path d="M{x - cap:.1f} {low:.1f}h{2 * cap:g}M{x - cap:.1f} {high:.1f}h{2 * cap:g}'
        f'M{x:.1f} {low:.1f}V{high:.1f}" class="{kind}"/>'
    )


def level_axis(frame: Frame, low: float, high: float, most: int = 5) -> tuple[Scale, list[float], list[str]]:
    """The scale of the figures, widened to round numbers, and its ticks."""
    values = ticks(low, high, most)
    return frame.vertical(values[0], values[-1]), values, tick_texts(values)


def room_for(texts: Sequence[str]) -> int:
    """Pixels that the longest of some labels takes, and a gap."""
    return round(7.2 * max(len(each) for each in texts)) + 16


def grid(frame: Frame, scale: Scale, values: Sequence[float], texts: Sequence[str], unit: str) -> str:
    """Horizontal lines at the ticks, their labels, and the unit above."""
    parts = [text(frame.left, 13, unit, "unit") if unit else ""]
    for value, content in zip(values, texts, strict=True):
        y = scale(value)
        parts.append(line(frame.left, y, frame.width - frame.right, y, "zero" if value == 0 else "rule"))
        parts.append(text(frame.left - 8, y + 4, content, anchor="end"))
    return "".join(parts)
