"""
For tests: a device with a clock of its own, a transport that records, and every law that a store must hold.

`sandbox` lets a host program test what it would send, with the standard library alone. `check_store` asserts
all that reticent relies on, on a store of your own; it needs what the collector needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent import imported_when_used
from reticent.testing.device import ManualClock, RecordingTransport, Sandbox, sandbox

if TYPE_CHECKING:
    from reticent_collector.testing.store import check_store
    from reticent_collector.testing.store_bench import Bench, BrokenLawError

__all__ = [
    "Bench",
    "BrokenLawError",
    "ManualClock",
    "RecordingTransport",
    "Sandbox",
    "check_store",
    "sandbox",
]

__getattr__ = imported_when_used(
    "reticent.testing", {"store": "check_store", "store_bench": "Bench BrokenLawError"}
)
