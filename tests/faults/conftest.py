from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.processes import run_script

PRELUDE = """
import os, signal, sys, threading
from pathlib import Path
from reticent.device import Device, Policy
from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan
from reticent.reports import to_json
from reticent.testing import ManualClock, RecordingTransport

HERE = 80_000
PLAN = Plan("app-usage", 1, 21_600, 21_600, tuple(
    Metric(f"metric_{n}", OneBitMean(1, 1000) if n % 2 else HadamardBit(1, Buckets.even(1024, 32)), Flip(0.2))
    for n in range(6)
))

def device(path, **options):
    options = {"consent": "granted", "policy": Policy.unlimited(), **options}
    return Device(PLAN, path, clock=ManualClock(HERE * 21_600 + 60.0), **options)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs a script in a process of its own, where it may fork and kill; returns what it prints."""

    def start(script: str, *arguments: object, timeout: float = 60.0) -> str:
        return run_script(tmp_path, PRELUDE, script, *arguments, timeout=timeout).stdout

    return start
