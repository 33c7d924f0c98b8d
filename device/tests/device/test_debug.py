"""Slips of a developer: raised by name in debug mode and in a sandbox, noted and never raised without."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.shared.devices import HERE, Make

from reticent.device import Consent, Device, Policy
from reticent.errors import UsageError
from reticent.plan import Plan
from reticent.testing import ManualClock, sandbox

CHOICE = """
[metrics.command]
kind = "choice"
labels = ["build", "test"]
mechanism = "hadamard-bit"
epsilon = 1.0
flip = 0.2
"""

SLIPS: dict[str, tuple[Callable[[Device], object], str]] = {
    "an unknown metric": (
        lambda device: device.add("editor_secs"),
        "metric 'editor_secs': plan app-usage has ",
    ),
    "no metric": (lambda device: device.set(7, 1), "metric 7: "),  # type: ignore[arg-type]
    "an unknown label": (
        lambda device: device.choose("command", "deploy"),
        "'deploy' is none of its labels build, test",
    ),
    "no number": (lambda device: device.add("editor_seconds", "4711"), "expected a number, got a str."),
    "a round to come": (
        lambda device: device.add("editor_seconds", round=HERE + 9),
        f"round {HERE + 9}: expected",
    ),
    "no round": (lambda device: device.add("editor_seconds", round=-1), "round -1: expected"),
    "no consent": (lambda device: device.set_consent("yes"), "consent 'yes': expected unset, "),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("consent", ["granted", "unset", "local"])
@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_raised_by_name_in_debug_mode_alone(
    slip: str, consent: Consent, device_of: Make, plan_text: str
) -> None:
    plan, (act, message) = Plan.from_toml(plan_text + CHOICE), SLIPS[slip]
    with pytest.raises(UsageError) as caught:
        act(device_of(plan, debug=True, consent=consent))
    assert message in str(caught.value)
    assert "4711" not in str(caught.value)
    act(device_of(plan, consent=consent))


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ({"system": "linux"}, "segment 'system': plan app-usage has os."),
        ({"os": "plan9"}, "segment os = 'plan9': plan app-usage has windows, linux."),
    ],
)
@pytest.mark.parametrize("consent", ["granted", "unset"])
def test_segments(segment: Mapping[str, object], message: str, consent: Consent, device_of: Make) -> None:
    with pytest.raises(UsageError) as caught:
        device_of(debug=True, segment=segment, consent=consent)
    assert str(caught.value) == message
    device_of(segment=segment, consent=consent)


@pytest.mark.parametrize("consent", ["granted", "unset"])
def test_an_expired_plan(consent: Consent, device_of: Make, plan_text: str, clock: ManualClock) -> None:
    plan = Plan.from_toml(plan_text.replace("version = 1", "version = 1\nexpires = 2024-10-05"))
    device = device_of(plan, debug=True, consent=consent)
    device.add("editor_seconds", 5)
    clock.advance(3 * 86_400)
    with pytest.raises(UsageError, match="expired on 2024-10-05"):
        device.add("editor_seconds", 5)
    with pytest.raises(UsageError, match="expired on 2024-10-05"):
        device_of(plan, debug=True, consent=consent)
    device_of(plan, consent=consent).add("editor_seconds", 5)


@pytest.mark.parametrize("consent", ["granted", "unset"])
def test_a_plan_that_is_refused(consent: Consent, device_of: Make) -> None:
    with pytest.raises(UsageError, match=r"is refused: .*\(max_epsilon\)"):
        device_of(debug=True, policy=Policy(max_epsilon=0.1), consent=consent)
    device_of(policy=Policy(max_epsilon=0.1), consent=consent)


def test_a_closed_device(device_of: Make) -> None:
    device = device_of(debug=True)
    device.close()
    with pytest.raises(UsageError, match="the device is closed"):
        device.add("editor_seconds")


def test_a_sandbox_is_in_debug_mode(plan: Plan) -> None:
    with sandbox(plan, policy=Policy.unlimited()) as box, pytest.raises(UsageError, match="'editor_secs'"):
        box.device.add("editor_secs")
    with sandbox(plan, policy=Policy.unlimited(), debug=False) as box:
        box.device.add("editor_secs")
        assert box.device.status().notes == {"unknown-metric: editor_secs": 1}
