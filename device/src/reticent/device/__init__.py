"""
From values to reports, in another program. Standard library only.

    prf, totals, answers           the law: a report is a function of secret, plan, round and values
    state                          all that a device keeps: one frozen document
    engine                         what happens to it, as functions (state, moment) -> state, with
    totals, plans, consent,        values, plans taken up, what the person allows,
    rounds, ledger, outbox         rounds answered, losses, reports on their way
    schema, statefile, quarantine, the file that it rests in
    locks
    session, pending               a running program on it: what waits in memory, and each event on its way to the disk
    policy                         what the host allows
    preview, receipt               what the person can see
    transport, exchange            the way to the collector
    process, device                threads, forks and the end of the program; and the quiet shell around it all

Importing this loads nothing until a name is used: a guest does not slow down its host's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent import imported_when_used

if TYPE_CHECKING:
    from reticent.device.answers import Answer, answer
    from reticent.device.device import Device
    from reticent.device.ledger import Entry
    from reticent.device.policy import Policy
    from reticent.device.preview import Preview
    from reticent.device.prf import Draws, SecretDraws
    from reticent.device.receipt import Receipt, Status, Told
    from reticent.device.state import Consent, Epoch
    from reticent.device.statefile import StateFile
    from reticent.device.totals import clamped, in_range
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
    "device", "policy", "prf", "totals", "answers", "transport", "state", "ledger", "statefile", "receipt", "preview",
)  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
