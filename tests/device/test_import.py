"""A guest does not slow down its host's start."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
from reticent import Device
print(*{"sqlite3", "http.client", "ssl", "email", "numpy", "asyncio"}.intersection(sys.modules))
"""


def test_importing_the_device_loads_nothing_heavy() -> None:
    """What takes long is not loaded; how long the rest takes is measured by benchmarks/device.py."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_names_appear_when_they_are_used() -> None:
    import reticent.device

    assert dir(reticent.device) == sorted(reticent.device.__all__)
    for name in reticent.device.__all__:
        assert getattr(reticent.device, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Devise'"):
        _ = reticent.device.Devise
