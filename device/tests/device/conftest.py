from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.shared.devices import HERE, InFile, Make
from tests.shared.plans import GROUPED
from tests.shared.state_files import what_is_in

from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where there is a file system for that: none of these tests cuts the power, and syncs are slow."""
    memory = "/dev/shm"  # noqa: S108
    root = memory if os.access(memory, os.W_OK) else None
    with TemporaryDirectory(prefix="reticent-", dir=root, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def plan_text() -> str:
    return GROUPED


@pytest.fixture(scope="session")
def plan(plan_text: str) -> Plan:
    return Plan.from_toml(plan_text)


@pytest.fixture
def clock(plan: Plan) -> ManualClock:
    """A tenth of a round into round 80,000."""
    return ManualClock(plan.round(HERE).start + plan.round_seconds / 10)


@pytest.fixture
def transport() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def device_of(plan: Plan, state: Path, clock: ManualClock) -> Iterator[Make]:
    """Makes devices on the one state file, closed in the end; without limits, unless the test sets some."""
    made: list[Device] = []

    def make(asked: Plan = plan, **options: object) -> Device:
        options.setdefault("policy", Policy.unlimited())
        options.setdefault("consent", "granted")
        device = Device(asked, state, clock=clock, **options)  # type: ignore[arg-type]
        made.append(device)
        return device

    yield make
    for device in made:
        device.close()


@pytest.fixture
def in_file(state: Path) -> InFile:
    """Looks into the state file from outside."""
    return lambda: what_is_in(state)
