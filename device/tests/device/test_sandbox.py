"""reticent.testing: a host's own tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shared.plans import TOOL

from reticent.device import Device, Policy, Retry
from reticent.errors import UsageError
from reticent.plan import Plan
from reticent.testing import sandbox


def test_a_host_sees_what_it_recorded_and_what_was_sent(plan: Plan) -> None:
    with sandbox(plan, segment={"os": "linux"}, policy=Policy.unlimited()) as box:
        box.device.add("editor_seconds", 3)
        box.device.add("editor_seconds", 0.5)
        assert box.values() == {"editor_seconds": 3.5}
        first = box.round
        box.next_round()
        box.next_round()
        assert [report.round for report in box.reports] == [first, first + 1]
        assert box.reports[0].segment == {"os": "linux"}
        assert box.values(first) == {}
        where = box.state
        assert where.exists()
    assert not where.exists()


def test_outcomes_can_be_played(plan: Plan) -> None:
    with sandbox(plan, policy=Policy.unlimited()) as box:
        box.transport.outcomes = [Retry()]
        box.next_round()
        assert box.device.status().waiting == 1
        box.clock.advance(60)
        assert box.device.flush() == 1
        assert box.transport.bodies[0] == box.transport.bodies[1]


def test_a_policy_can_be_tried(plan: Plan) -> None:
    with sandbox(plan, policy=Policy(max_epsilon=0.1), debug=False) as box:
        box.next_round()
        assert box.reports == []
        assert sum("max_epsilon" in reason for reason in box.device.status().refused) == 4


def test_a_sandbox_has_the_limits_of_a_device(plan: Plan) -> None:
    """A program's tests find out that its plan would be refused."""
    with pytest.raises(UsageError, match=r"version 1 is refused: .*\(least_flip\)"), sandbox(plan):
        pass


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(TOOL)
    return path


def test_a_sandbox_takes_the_path_of_a_plan_and_shows_labels(tool: Path) -> None:
    with sandbox(tool) as box:
        box.device.choose("command", "test")
        assert box.values() == {"command": "test"}
        box.device.close()
        assert box.values() == {"command": "test"}


def test_a_sandbox_reaches_the_device_of_a_program(tool: Path) -> None:
    original = Device.__init__
    with sandbox() as box:
        with pytest.raises(UsageError, match="has not opened a device"):
            box.values()
        with Device(str(tool), state="/nowhere/state", endpoint="https://example.org") as device:
            device.add("failed")
        first = box.round
        assert box.values() == {"failed": 1}
        box.next_round()
        assert [report.round for report in box.reports] == [first]
    assert Device.__init__ is original
