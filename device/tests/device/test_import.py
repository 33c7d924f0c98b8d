"""A guest does not slow down its host's start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


STARTED = """
import sys
from reticent import Device, Policy
lifted = Policy(do_not_track=False, silent_in_ci=False, silent_in_containers=False)
device = Device(sys.argv[1], sys.argv[2], consent="granted", policy=lifted, endpoint="https://telemetry.example.org")
device.add("editor_seconds")
print(*sys.modules)
device.close()
"""


def test_a_device_loads_what_it_needs_to_record(tmp_path: Path) -> None:
    """
    Modules of reticent's: 40 where it finds its file, 3 of losses more where it makes one.

    No HTTP, no TLS; and no `inspect`, which `dataclasses` loads and which takes as long as SQLite.
    """
    plan = Path(__file__).parents[3] / "examples/plan.toml"
    for most in (43, 40):
        script = [sys.executable, "-c", STARTED, str(plan), str(tmp_path / "state")]
        done = subprocess.run(script, capture_output=True, text=True, check=True)
        loaded = set(done.stdout.split())
        heavy = {"http.client", "ssl", "email", "numpy", "asyncio", "logging", "subprocess"}
        assert not (heavy | {"pathlib", "difflib", "dataclasses", "inspect"}) & loaded
        extra = {name for name in loaded if name.split(".")[0] == "reticent"} - {"reticent.device.transport"}
        assert len(extra) <= most, sorted(extra)


def test_names_appear_when_they_are_used() -> None:
    import reticent.device

    assert dir(reticent.device) == sorted(reticent.device.__all__)
    for name in reticent.device.__all__:
        assert getattr(reticent.device, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Devise'"):
        _ = reticent.device.Devise
