"""What the ± of a figure is made of."""

from __future__ import annotations

from typing import Any

from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.views import unit_for
from reticent_collector.estimates import Estimate
from reticent_collector.figures import Unit

DISHONEST = 0.01  # the share of dishonest reports that pages mention


def makeup(estimate: Estimate, unit: Unit | None = None) -> dict[str, Any]:
    """What a half-width is made of, and what it compares with."""
    moved = estimate.manipulation_bound(DISHONEST)
    reaches = [
        ("Privacy noise", "added by devices to hide their values", estimate.noise_half_width, "noise"),
        ("Sampling", "what remains without privacy noise", estimate.sampling_half_width, "sampling"),
        ("Total", "this half-width; the squares of both add up", estimate.half_width, "whole"),
        ("Bound of the paper", "the half-width by its theorem", estimate.paper_bound, "paper"),
        ("1 % dishonest", "the shift if 1 % of reports were false", moved, "moved"),
    ]
    unit = unit or unit_for(estimate, max(reach for _, _, reach, _ in reaches))

    def text(reach: float) -> str:
        return f"{labels.rounded(reach / unit.size, 2)} {unit.name}".rstrip()

    rows = [
        charts.Measure(name, about, reach, f"± {text(reach)}", kind) for name, about, reach, kind in reaches
    ]
    return {
        "chart": charts.measures(rows, "sources of error of the figure"),
        "noise_share": labels.percent(estimate.noise_share),
        "moved": text(moved),
        "exceeds": moved > estimate.half_width,
    }
