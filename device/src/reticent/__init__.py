"""
Private telemetry for counters.

A device answers with noisy bits; bits add up to counts; counts, debiased, are estimates.

    from reticent import Device

    address = "https://telemetry.example.org"
    with Device("plan.toml", state="telemetry.db", consent="granted", endpoint=address) as device:
        device.add("editor_seconds", 12)

`import reticent` needs the standard library alone and loads nothing until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from reticent.device import Device, Policy, Receipt
    from reticent.errors import ParameterError, PlanError, ReportError, ReticentError, StateError
    from reticent.plan import Metric, Plan
    from reticent.reports import Report

__all__ = [
    "Device",
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
]


def imported_when_used(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, given the names that each of its modules exports, with spaces between."""
    module_of = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return get


__getattr__ = imported_when_used(
    "reticent",
    {
        "device": "Device Policy Receipt",
        "errors": "ParameterError PlanError ReportError ReticentError StateError",
        "plan": "Metric Plan",
        "reports": "Report",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
