"""
From values to reports, in another program. Standard library only.

    prf, clamp, answers            the law: a report is a function of secret, plan, round and values
    schema, statefile, quarantine, the file it all rests in
    locks
    totals, plans, outbox,         its tables: values, plans and pauses, reports, the ledger, faults
    ledger, faults
    backlog                        what waits in memory to be written
    consent, policy                what the person and the host allow
    preview, receipt, words, page  what the person can see
    rounds                         which rounds are answered
    transport, exchange            the way to the collector
    process                        its threads; what a fork and the end of the program mean; its engine
    engine, device                 all of it together, and the quiet shell around it

Importing this loads nothing until a name is used: a guest does not slow down its host's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent import imported_when_used

if TYPE_CHECKING:
    from reticent.device.answers import Answer, answer
    from reticent.device.clamp import clamped, in_range
    from reticent.device.device import Device
    from reticent.device.ledger import Entry
    from reticent.device.policy import Policy
    from reticent.device.preview import Preview, PreviewedAnswer
    from reticent.device.prf import Draws, SecretDraws
    from reticent.device.receipt import Receipt, Status, Told
    from reticent.device.state import Consent, Epoch
    from reticent.device.statefile import StateFile
    from reticent.device.transport import Accepted, HttpTransport, Outcome, Rejected, Retry, Transport

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
    "Preview",
    "PreviewedAnswer",
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

__getattr__ = imported_when_used(
    "reticent.device",
    "device", "policy", "prf", "clamp", "answers", "transport", "state", "ledger", "statefile", "receipt", "preview",
)  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
