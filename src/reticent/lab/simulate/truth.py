"""What estimates aim at, which only a simulation knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import Mechanism
from reticent.plan import Plan

Floats = NDArray[np.float64]


def true_values(plan: Plan, values: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """
    Per metric, the numbers that a round's estimate aims at: the mean, or the share of devices per bucket.

    They are those of the values as a device takes them: cut to the range, and scaled to joint limits. What
    was cut off is lost to every estimate; `sums` tells how much that is.
    """
    inside = _in_range(plan, values)
    return {metric.name: _truth(metric.mechanism, inside[metric.name]) for metric in plan.metrics}


def sums(plan: Plan, values: Mapping[str, NDArray[Any]]) -> dict[str, tuple[float, float]]:
    """Per metric, what the values sum to, and what is left of it within ranges and joint limits."""
    inside = _in_range(plan, values)
    return {name: (float(values[name].sum(dtype=np.float64)), float(inside[name].sum())) for name in inside}


def _in_range(plan: Plan, values: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    inside = {
        name: np.clip(values[name].astype(np.float64), 0.0, float(top))
        for name, top in plan.max_values.items()
    }
    for group in plan.groups:
        total = np.sum([inside[name] for name in group.metrics], axis=0)
        factor = float(group.max_total) / np.maximum(total, float(group.max_total))
        for name in group.metrics:
            inside[name] = inside[name] * factor
    return inside


def _truth(mechanism: Mechanism, inside: Floats) -> Floats:
    if mechanism.kind == "mean":
        return np.array([inside.mean()])
    edges = np.array([float(edge) for edge in mechanism.points])
    buckets = np.searchsorted(edges[1:-1], inside, side="right")
    return np.bincount(buckets, minlength=len(edges) - 1) / len(inside)
