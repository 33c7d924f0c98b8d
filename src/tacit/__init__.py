"""
Private telemetry for counters.

A device answers with noisy bits; bits add up to counts; counts, un-biased, are estimates.

    from tacit import Device

    with Device("plan.toml", state="telemetry.db", endpoint="https://telemetry.example.org") as device:
        device.add("editor_seconds", 12)

`import tacit` needs the standard library alone and loads nothing until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.counts import HistogramCounts, MeanCounts, count_reports
    from tacit.device import Device, Policy, Receipt
    from tacit.errors import ParameterError, PlanError, ReportError, StateError, TacitError
    from tacit.estimates import Estimate, HistogramEstimate, estimate
    from tacit.plan import Metric, Plan
    from tacit.reports import Report

_HOME = {
    "Device": "tacit.device",
    "Estimate": "tacit.estimates",
    "HistogramCounts": "tacit.counts",
    "HistogramEstimate": "tacit.estimates",
    "MeanCounts": "tacit.counts",
    "Metric": "tacit.plan",
    "ParameterError": "tacit.errors",
    "Plan": "tacit.plan",
    "PlanError": "tacit.errors",
    "Policy": "tacit.device",
    "Receipt": "tacit.device",
    "Report": "tacit.reports",
    "ReportError": "tacit.errors",
    "StateError": "tacit.errors",
    "TacitError": "tacit.errors",
    "count_reports": "tacit.counts",
    "estimate": "tacit.estimates",
}

__all__ = [
    "Device",
    "Estimate",
    "HistogramCounts",
    "HistogramEstimate",
    "MeanCounts",
    "Metric",
    "ParameterError",
    "Plan",
    "PlanError",
    "Policy",
    "Receipt",
    "Report",
    "ReportError",
    "StateError",
    "TacitError",
    "count_reports",
    "estimate",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
