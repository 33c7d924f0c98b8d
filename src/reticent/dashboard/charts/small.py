"""Small bars over time: how many, against what is usual."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from reticent.dashboard.charts import svg
from reticent.dashboard.charts.series import RoundBar
from reticent.dashboard.charts.svg import Frame

FRAME = Frame(480, 110, top=20, right=4, bottom=22, left=4, name="small")


def small_bars(
    bars: Sequence[RoundBar], label: str, unit: str = "", usual: float = 0.0, shade: int = 0
) -> Markup:
    """Bars without an axis: the highest is labelled, and a dashed line is the usual number."""
    highest = max(1.0, usual, *(bar.reports for bar in bars))
    times, levels = FRAME.horizontal(bars[0].start, bars[-1].end), FRAME.vertical(0, highest)
    parts = [
        svg.text(FRAME.left, 12, f"{svg.tick_texts([highest])[0]} {unit}".strip(), "unit"),
        svg.line(FRAME.left, FRAME.floor, FRAME.width - FRAME.right, FRAME.floor, "zero"),
    ]
    for bar in bars:
        left, right, top = times(bar.start), times(bar.end), levels(bar.reports)
        gap, kind = min(1.5, (right - left) * 0.2), "bar open" if bar.open else "bar"
        if bar.reports:
            parts.append(svg.rect(left + gap / 2, top, right - left - gap, FRAME.floor - top, kind))
        parts.append(svg.rect(left, FRAME.top, right - left, FRAME.floor - FRAME.top, "hit", bar.tip))
    if usual:
        y = levels(usual)
        parts.append(svg.line(FRAME.left, y, FRAME.width - FRAME.right, y, "usual"))
    parts.append(svg.time_axis(FRAME, times, margin=30))
    return FRAME.chart(f"reports small shade-{shade}", label, parts)
