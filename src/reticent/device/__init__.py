"""
From values to reports, in somebody else's program. Standard library only.

    prf, values, answer    the law: a report is a function of secret, plan, round and values
    schema, opening, state the file it all rests in
    totals, held, outbox,  its tables: values, plans, reports, what was told, pauses, faults
    ledger, pauses, notes
    policy, receipt        what the host allows; what the person can see
    transport, sending     the way to the collector
    core, device           all of it together, and the quiet shell around it

Importing this loads nothing until a name is used: a guest does not slow down its host's start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent.device.answer import Answer
    from reticent.device.device import Device
    from reticent.device.policy import Policy
    from reticent.device.prf import Draws, SecretDraws
    from reticent.device.receipt import Receipt, Status
    from reticent.device.transport import Accepted, HttpTransport, Outcome, Rejected, Retry, Transport

_HOME = {
    "Accepted": "transport",
    "Answer": "answer",
    "Device": "device",
    "Draws": "prf",
    "HttpTransport": "transport",
    "Outcome": "transport",
    "Policy": "policy",
    "Receipt": "receipt",
    "Rejected": "transport",
    "Retry": "transport",
    "SecretDraws": "prf",
    "Status": "receipt",
    "Transport": "transport",
}

__all__ = [
    "Accepted",
    "Answer",
    "Device",
    "Draws",
    "HttpTransport",
    "Outcome",
    "Policy",
    "Receipt",
    "Rejected",
    "Retry",
    "SecretDraws",
    "Status",
    "Transport",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'reticent.device' has no attribute {name!r}")
    return getattr(import_module(f"reticent.device.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
