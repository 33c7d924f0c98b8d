"""A guest does not slow down its host's start."""

from __future__ import annotations

import subprocess
import sys

import pytest

MEASURE = """
import sys, time
start = time.perf_counter()
import tacit
from tacit.device import Device
took = time.perf_counter() - start
heavy = {"sqlite3", "http.client", "ssl", "email", "numpy", "asyncio"}
print(took, *heavy.intersection(sys.modules))
"""


def test_importing_the_device_is_quick_and_loads_nothing_heavy() -> None:
    """A sanity check, not a measurement: the best of five, with twice the promise to spare."""
    results = [
        subprocess.run(
            [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(5)
    ]
    assert all(len(result) == 1 for result in results), results
    assert min(float(result[0]) for result in results) < 0.1


def test_names_appear_when_they_are_used() -> None:
    import tacit.device

    assert dir(tacit.device) == sorted(tacit.device.__all__)
    for name in tacit.device.__all__:
        assert getattr(tacit.device, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Devise'"):
        _ = tacit.device.Devise
