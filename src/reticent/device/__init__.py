"""
From values to reports, in somebody else's program. Standard library only.

    prf, clamp, answers            the law: a report is a function of secret, plan, round and values
    schema, statefile, quarantine  the file it all rests in
    totals, plans, outbox,         its tables: values, plans and pauses, reports, what was told, faults
    ledger, faults
    policy, receipt                what the host allows; what the person can see
    transport                      the way to the collector
    engine, device, fork           all of it together, and the quiet shell around it

Importing this loads nothing until a name is used: a guest does not slow down its host's start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent.device.answers import Answer, answer
    from reticent.device.clamp import clamped, in_range
    from reticent.device.device import Consent, Device
    from reticent.device.ledger import Entry, Epoch
    from reticent.device.policy import Policy
    from reticent.device.prf import Draws, SecretDraws
    from reticent.device.receipt import Receipt, Status, Told
    from reticent.device.statefile import StateFile
    from reticent.device.transport import Accepted, HttpTransport, Outcome, Rejected, Retry, Transport

_HOME = {
    "Accepted": "transport",
    "Answer": "answers",
    "Consent": "device",
    "Device": "device",
    "Draws": "prf",
    "Entry": "ledger",
    "Epoch": "ledger",
    "HttpTransport": "transport",
    "Outcome": "transport",
    "Policy": "policy",
    "Receipt": "receipt",
    "Rejected": "transport",
    "Retry": "transport",
    "SecretDraws": "prf",
    "StateFile": "statefile",
    "Status": "receipt",
    "Told": "receipt",
    "Transport": "transport",
    "answer": "answers",
    "clamped": "clamp",
    "in_range": "clamp",
}

__all__ = [
    "Accepted",
    "Answer",
    "Consent",
    "Device",
    "Draws",
    "Entry",
    "Epoch",
    "HttpTransport",
    "Outcome",
    "Policy",
    "Receipt",
    "Rejected",
    "Retry",
    "SecretDraws",
    "StateFile",
    "Status",
    "Told",
    "Transport",
    "answer",
    "clamped",
    "in_range",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'reticent.device' has no attribute {name!r}")
    return getattr(import_module(f"reticent.device.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
