"""What can happen."""

from __future__ import annotations

from enum import StrEnum


class Fate(StrEnum):
    """What happens to a request on its way."""

    ARRIVES = "arrives"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    DOUBLED = "arrives twice"
    HELD = "held back, to arrive later or never"
    DEVICE_DIES = "the device dies while it sends"
    POWER_CUT = "the power of the device is cut while it sends"
    COLLECTOR_DIES_BEFORE = "the collector dies before the commit"
    COLLECTOR_DIES_AFTER = "the collector dies between commit and answer"
    SEALED_MEANWHILE = "its round is sealed between the check and the commit"
    COMMIT_UNCERTAIN = "the commit happens and seems to have failed"


class DeviceEvent(StrEnum):
    """What happens to a device."""

    RESTARTED = "restarted"
    KILLED = "killed"
    POWER_CUT = "power cut"
    UPGRADED = "brings the next version of the plan"
    FULL_AT_WRITE = "write"
    FULL_AT_COMMIT = "commit"
    BACKED_UP = "backed up"
    PAUSE = "pause"
    RESUME = "resume"
    FORGET = "forget"


class CollectorEvent(StrEnum):
    """What happens to the collector."""

    SEALS = "seals what is due"
    KILLED = "killed"
    KILLED_SEALING = "killed while a round is closing"
    UPGRADED = "serves the next version of the plan"
    DISK = "its disk is full, or has room again"
