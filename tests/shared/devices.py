"""Plans that devices are tried with, the round they live in, and what is in their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.shared.state_files import what_is_in

from reticent.device import Device, SecretDraws, answer
from reticent.device.state import DeviceState
from reticent.plan import Plan
from reticent.reports import Report
from reticent.testing import ManualClock

HERE = 80_000
"""The round, of six hours, in which most devices are enrolled; the first they answer is the next."""
SECONDS = 21_600

Make = Callable[..., Device]
"""The fixture `device_of`."""
InFile = Callable[[], DeviceState]
"""The fixture `in_file`."""


def clock_in(number: int = HERE, seconds: float = 60.0) -> ManualClock:
    """A clock that stands so many seconds into a round of six hours."""
    return ManualClock(number * SECONDS + seconds)


def with_epsilon(plan_text: str, version: int, epsilon: str) -> Plan:
    """A version of the plan that asks for something else about opened files."""
    text = plan_text.replace("version = 1", f"version = {version}")
    return Plan.from_toml(text.replace("epsilon = 2.0", f"epsilon = {epsilon}"))


class Identity(NamedTuple):
    """Who a device is: all that its reports depend on, besides the plan, the round and the values."""

    secret: bytes
    epoch: int

    def law(self, plan: Plan, number: int, values: Mapping[str, object]) -> Report:
        """The report by the pure law."""
        return answer(SecretDraws(self.secret, plan.name, self.epoch), plan, number, values).report


def identity(state: Path) -> Identity:
    """Who the device on a state file is."""
    held = what_is_in(state)
    return Identity(held.secret, held.epoch)
