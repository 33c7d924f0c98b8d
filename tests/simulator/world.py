"""
Real parts in one process: devices on state files, a collector on a store, and between them a wire that lies.

Nothing of reticent is replaced. What is simulated is what lies outside of it: clocks (`ManualClock`), the
chance that the operating system offers (seeded), the socket (bytes handed from one end to the other), the
death of a process (its files as they are at that moment, opened anew elsewhere), a power cut (its files as of
the last sync) and a full disk. Here is what devices (`phone.py`) and the collector (`service.py`) share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from reticent.plan import Plan

HOUR = 3600
LARGEST = 10**12
VALUES = tuple(918_273_645_001 + 7_654_321_987 * place for place in range(10))
"""What devices measure: numbers so long that none is found anywhere by chance."""

PLAN = """
min_reports = 1
[plan]
name = "app-usage"
version = {version}
round = "1h"
grace = "2h"
owner = "telemetry@example.org"

[metrics.bytes_written]
kind = "mean"
max_value = {largest}
step = {step}
epsilon = {version}.0
flip = 0.2

[metrics.bytes_read]
kind = "histogram"
max_value = {largest}
buckets = 8
mechanism = "d-bit-flip"
bits = 7
epsilon = 1.0
flip = 0.1

[segments]
os = ["linux", "macos"]
"""
PLANS = tuple(
    Plan.from_toml(PLAN.format(version=version, largest=LARGEST, step=LARGEST // 10)) for version in (1, 2, 3)
)
METRICS = tuple(PLANS[0].by_name)
START = 450_000 * HOUR
"""The beginning of round 450,000."""

Files = tuple[bytes, bytes]
"""A database and its log."""


def files_of(path: Path) -> Files:
    """What a process that dies now leaves behind."""
    log = path.with_name(path.name + "-wal")
    return path.read_bytes(), log.read_bytes() if log.exists() else b""


def put_files(path: Path, files: Files) -> None:
    """The same, at another place."""
    path.write_bytes(files[0])
    path.chmod(0o600)
    if files[1]:
        path.with_name(path.name + "-wal").write_bytes(files[1])


@contextmanager
def seeded_chance(seed: int) -> Iterator[None]:
    """Within, the operating system draws secrets and jitter from a seed: a sequence can be run again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", Random(seed).randbytes)
        yield
