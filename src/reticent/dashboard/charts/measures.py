"""Lengths to compare: how far a figure may be off, and where in its range it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reticent.dashboard.charts.svg import (
    Frame,
    both,
    line,
    rect,
    text,
)


@dataclass(frozen=True, slots=True)
class Measure:
    """One way a figure may be off: how far, said how, drawn how."""

    name: str
    about: str
    """What the name means, where there is room for it."""
    reach: float
    said: str
    kind: str


def measures(rows: Sequence[Measure], label: str) -> Markup:
    """Lengths under each other, to compare how far a figure may be off, and why."""
    frames = (
        Frame(960, 44 * len(rows), top=0, left=0, right=2, bottom=0),
        Frame(380, 44 * len(rows), top=0, left=0, right=2, bottom=0, name="narrow"),
    )
    return both(*(_measures(rows, frame, label) for frame in frames))


def _measures(rows: Sequence[Measure], frame: Frame, label: str) -> str:
    scale = frame.horizontal(0, max(row.reach for row in rows) or 1)
    parts = [frame.open(label, "measures")]
    for place, row in enumerate(rows):
        y = 44 * place
        name = row.name if frame.name == "narrow" else f"{row.name}: {row.about}"
        parts.append(text(0, y + 15, name))
        parts.append(text(frame.width - frame.right, y + 15, row.said, "figure", anchor="end"))
        parts.append(rect(0, y + 22, frame.width - frame.right, 9, "track"))
        parts.append(rect(0, y + 22, max(scale(row.reach), 1.5), 9, f"measure {row.kind}"))
    return "".join([*parts, "</svg>"])


def gauge(value: float, lower: float, upper: float, top: float, label: str) -> Markup:
    """Where in the whole range a figure is, and how much of the range its interval leaves open."""
    frame = Frame(360, 22, top=0, bottom=0, left=6, right=6, name="gauge")
    place = frame.horizontal(0, top)
    shown = min(max(value, 0.0), top)
    parts = [
        frame.open(label, "gauge"),
        rect(frame.left, 9, frame.width - frame.left - frame.right, 4, "track"),
        rect(place(lower), 6, max(place(upper) - place(lower), 2), 10, "reach"),
        line(place(shown), 2, place(shown), 20, "needle"),
        "</svg>",
    ]
    return Markup("".join(parts))  # noqa: S704
