"""A device with one mean, one choice and a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.shared.devices import InFile, clock_in
from tests.shared.plans import COMMAND
from tests.shared.state_files import what_is_in

from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.testing import ManualClock

SAVES = """
[plan]
name = "app-usage"
version = 1
round = "6h"

[metrics.saves]
kind = "mean"
max_value = 10
epsilon = 1.0
flip = 0.2
"""
TEXT = SAVES + COMMAND


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)


@pytest.fixture
def text() -> str:
    return TEXT


@pytest.fixture
def clock() -> ManualClock:
    return clock_in()


@pytest.fixture
def make(state: Path, clock: ManualClock) -> Iterator[Callable[..., Device]]:
    """Makes devices that are closed in the end."""
    made: list[Device] = []

    def device(plan: object = None, path: object = state, **options: object) -> Device:
        options = {"consent": "granted", "policy": Policy.unlimited(), "clock": clock, **options}
        plan = Plan.from_toml(TEXT) if plan is None else plan
        made.append(Device(plan, path, **options))  # type: ignore[arg-type]
        return made[-1]

    yield device
    while made:
        made.pop().close()


@pytest.fixture
def in_file(state: Path) -> InFile:
    """Looks into the state file from outside."""
    return lambda: what_is_in(state)
