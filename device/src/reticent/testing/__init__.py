"""For tests of a host program: a device with a clock of its own and a transport that records, in a sandbox."""

from __future__ import annotations

from reticent.testing.device import ManualClock, RecordingTransport, Sandbox, sandbox

__all__ = ["ManualClock", "RecordingTransport", "Sandbox", "sandbox"]
