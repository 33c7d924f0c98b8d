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


def imported_when_used(package: str, *modules: str) -> Callable[[str], Any]:
    """
    The `__getattr__` of a package whose `__all__` is imported when it is used.

    A name is looked for in `modules` in turn; those after the one that has it are not imported.
    """

    def get(name: str) -> Any:
        if name in import_module(package).__all__:
            for module in modules:
                home = import_module(f"{package}.{module}")
                if hasattr(home, name):
                    return getattr(home, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


__getattr__ = imported_when_used("reticent", "device", "errors", "plan", "reports")


def __dir__() -> list[str]:
    return sorted(__all__)
