"""The edges of a histogram's buckets along a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from reticent.dashboard.charts.scales import Scale, tick_texts, ticks
from reticent.dashboard.charts.svg import (
    Frame,
    line,
    text,
)


@dataclass(frozen=True, slots=True)
class Steps:
    """Where each edge of the buckets lies: to scale where buckets are alike, else equally far apart."""

    places: tuple[float, ...]
    edges: tuple[float, ...]

    @classmethod
    def of(cls, edges: Sequence[float], frame: Frame) -> Steps:
        """The edges of a histogram in a frame."""
        widths = [right - left for left, right in pairwise(edges)]
        even = max(widths) < 1.01 * min(widths)
        inside = frame.horizontal(edges[0], edges[-1]) if even else frame.horizontal(0, len(edges) - 1)
        return cls(tuple(inside(edge if even else place) for place, edge in enumerate(edges)), tuple(edges))

    def at(self, value: float) -> float:
        """Where a value lies, between the edges around it."""
        for (left, right), (start, end) in zip(pairwise(self.edges), pairwise(self.places), strict=True):
            if value <= right:
                return Scale(left, right, start, end)(value)
        return self.places[-1]

    def axis(self, frame: Frame, unit: str) -> str:
        """Labels below: round numbers where buckets are to scale, else edges as far as they fit."""
        bottom, most = frame.height - frame.bottom, max(2, (frame.width - frame.left) // 80)
        spans = [right - left for left, right in pairwise(self.places)]
        edges = [right - left for left, right in pairwise(self.edges)]
        if max(edges) < 1.01 * min(edges) and len(spans) > most:
            values = [tick for tick in ticks(self.edges[0], self.edges[-1], most) if tick <= self.edges[-1]]
        else:
            values = list(self.edges[:: -(-len(self.edges) // (most + 1))])
        parts = []
        for value, content in zip(values, tick_texts(values), strict=True):
            x = self.at(value)
            parts.append(line(x, bottom, x, bottom + 5, "tick"))
            parts.append(text(x, bottom + 19, content, anchor="end" if x > frame.width - 24 else "middle"))
        if unit:
            parts.append(text(frame.width - frame.right, bottom + 36, unit, "unit", anchor="end"))
        return "".join(parts)
