"""
Private telemetry for counters.

A device answers with noisy bits; bits add up to counts; counts, un-biased, are estimates.

    from reticent import Device

    address = "https://telemetry.example.org"
    with Device("plan.toml", state="telemetry.db", consent="granted", endpoint=address) as device:
        device.add("editor_seconds", 12)

`import reticent` needs the standard library alone and loads nothing until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent.counts import HistogramCounts, MeanCounts, count_reports
    from reticent.device import Device, Policy, Receipt
    from reticent.errors import ParameterError, PlanError, ReportError, ReticentError, StateError
    from reticent.estimates import Estimate, HistogramEstimate, estimate
    from reticent.plan import Metric, Plan
    from reticent.reports import Report

_HOME = {
    "Device": "reticent.device",
    "Estimate": "reticent.estimates",
    "HistogramCounts": "reticent.counts",
    "HistogramEstimate": "reticent.estimates",
    "MeanCounts": "reticent.counts",
    "Metric": "reticent.plan",
    "ParameterError": "reticent.errors",
    "Plan": "reticent.plan",
    "PlanError": "reticent.errors",
    "Policy": "reticent.device",
    "Receipt": "reticent.device",
    "Report": "reticent.reports",
    "ReportError": "reticent.errors",
    "StateError": "reticent.errors",
    "ReticentError": "reticent.errors",
    "count_reports": "reticent.counts",
    "estimate": "reticent.estimates",
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
    "ReticentError",
    "StateError",
    "count_reports",
    "estimate",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'reticent' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
