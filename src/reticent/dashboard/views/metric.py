"""What the pages of means and histograms share."""

from __future__ import annotations

from typing import Any

from reticent.dashboard import charts, words
from reticent.dashboard.asking import CONFIDENCES, ROUNDS, Asked
from reticent.estimates import Estimate
from reticent.plan import Metric, Plan

DISHONEST = 0.01
"""The share of dishonest reports that pages speak of."""


def about(plan: Plan, metric: Metric, asked: Asked) -> dict[str, Any]:
    """What a twin says before its figures."""
    return {
        "plan": plan.name,
        "version": plan.version,
        "metric": metric.name,
        "kind": metric.kind,
        "unit": metric.unit,
        "description": metric.description,
        "max_value": float(metric.max_value),
        "confidence": asked.confidence / 100,
        "rounds": asked.rounds,
    }


Options = list[tuple[object, str]]
"""(value, text) of each choice of a list."""


def choices(plan: Plan, asked: Asked) -> dict[str, Options]:
    """What can be picked on a metric's page."""
    return {
        "rounds": round_choices(asked),
        "confidences": [(level, f"{level} %") for level in CONFIDENCES],
        "segments": [("", "nothing"), *((segment.name, segment.name) for segment in plan.segments)],
        "tags": [
            ("", "all"),
            *((f"{each.name}:{tag}", f"{each.name} {tag}") for each in plan.segments for tag in each.tags),
        ],
    }


def round_choices(asked: Asked) -> Options:
    """How many rounds can be shown; also the number that was asked for."""
    return [(count, f"last {count}") for count in sorted({*ROUNDS, asked.rounds})]


def makeup(figure: Estimate, unit: str, scale: float = 1.0) -> dict[str, Any]:
    """What a half-width is made of, and what it compares with; `scale` is 100 for a share in percent."""
    said = words.plural(unit)

    def measure(name: str, about: str, reach: float, kind: str) -> charts.Measure:
        return charts.Measure(name, about, reach, f"± {words.rounded(scale * reach)} {said}".rstrip(), kind)

    moved = figure.manipulation_bound(DISHONEST)
    rows = [
        measure("Privacy noise", "what devices add to hide their values", figure.noise_half_width, "noise"),
        measure("Sampling", "what would remain without privacy", figure.sampling_half_width, "sampling"),
        measure("Together", "this half-width; squares add up", figure.half_width, "whole"),
        measure("The paper's bound", "what its theorem would grant", figure.paper_bound, "paper"),
        measure("1 % dishonest", "if so many reports were made up", moved, "moved"),
    ]
    return {
        "chart": charts.measures(rows, "how far the figure may be off, and why"),
        "noise_share": words.percent(figure.noise_share),
        "moved": f"{words.rounded(scale * moved)} {said}".rstrip(),
        "exceeds": moved > figure.half_width,
    }
