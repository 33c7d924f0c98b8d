"""Plans that change under a device: which of them a round is answered by, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.shared.devices import HERE, Make, identity, with_epsilon

from reticent.device import Device, Policy
from reticent.errors import StateError
from reticent.plan import Plan
from reticent.testing import ManualClock


def test_a_round_is_answered_under_the_plan_it_began_with(
    device_of: Make, clock: ManualClock, plan_text: str, state: Path, plan: Plan
) -> None:
    device_of().close()
    clock.advance(21_600)
    newer = with_epsilon(plan_text, 2, "1.0")
    device = device_of(newer)
    device.set("opened_files", 30)
    clock.advance(21_600)
    old = device.report(HERE + 1)
    device.set("opened_files", 30)
    clock.advance(21_600)
    new = device.report(HERE + 2)
    assert old is not None
    assert new is not None
    assert (old.version, new.version) == (1, 2)
    assert old == identity(state).law(plan, HERE + 1, {"opened_files": 30})
    assert new == identity(state).law(newer, HERE + 2, {"opened_files": 30})


def test_an_older_process_answers_under_the_newer_plan_when_it_is_due(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    old = device_of()
    device_of(with_epsilon(plan_text, 2, "1.0"))
    clock.advance(21_600)
    clock.advance(21_600)
    report = old.report()
    assert report is not None
    assert report.version == 2


def test_a_plan_built_by_hand_serves_as_long_as_it_is_handed_in(
    state: Path, clock: ManualClock, plan: Plan
) -> None:
    by_hand = replace(plan, text="")
    with Device(by_hand, state, consent="granted", clock=clock, policy=Policy.unlimited()) as device:
        assert device.report(HERE) is not None
    with Device.open(state, clock=clock) as alone:
        assert alone.plan is None
        assert alone.report(HERE - 1) is None
        assert alone.status().version == 1
        assert len(alone.receipt().reports) == 1


def test_another_plan_built_by_hand_does_not_serve_for_the_one_held(
    state: Path, clock: ManualClock, plan: Plan, plan_text: str
) -> None:
    """Its bits would be read by the collector as answers to the questions of the plan that was held."""
    by_hand = replace(plan, text="")
    with Device(by_hand, state, consent="granted", clock=clock, policy=Policy.unlimited()):
        clock.advance(plan.round_seconds)
    other = replace(Plan.from_toml(with_epsilon(plan_text, 1, "1.9").text), text="")
    with Device(other, state, consent="granted", clock=clock, policy=Policy.unlimited()) as device:
        clock.advance(plan.round_seconds)
        assert device.report() is None
        assert device.report(HERE + 1) is None
        assert not device.receipt().reports
    with Device(by_hand, state, consent="granted", clock=clock, policy=Policy.unlimited()) as device:
        assert not device.status().refused


def test_changed_parameters_without_a_new_version_are_refused(
    device_of: Make, plan: Plan, plan_text: str, state: Path
) -> None:
    """What is answered is the version 1 that the device holds."""
    device_of().close()
    device = device_of(with_epsilon(plan_text, 1, "1.9"))
    device.add("opened_files", 3)
    assert device.report(HERE) == identity(state).law(plan, HERE, {"opened_files": 3})
    [reason] = device.status().refused
    assert reason.startswith("version 1 asks something else than the version 1 that this device holds")


def test_other_words_in_a_plan_are_no_other_plan(device_of: Make, plan_text: str) -> None:
    device_of().close()
    described = plan_text.replace("max_value = 64", 'max_value = 64\nunit = "file"\ndescription = "open"')
    device = device_of(Plan.from_toml(described))
    assert device.status().refused == ()


def test_an_older_version_is_refused(device_of: Make, plan_text: str) -> None:
    device_of(with_epsilon(plan_text, 2, "1.0")).close()
    device = device_of()
    report = device.report(HERE)
    assert report is not None
    assert report.version == 2
    [reason] = device.status().refused
    assert reason == "version 1 is older than version 2, which this device holds"


def test_an_expired_plan_is_not_answered(state: Path, plan_text: str, clock: ManualClock) -> None:
    """Round 80,000 of six hours begins on 2024-10-04; on the day of expiry devices have stopped."""
    for expires, answers in (("2024-10-03", False), ("2024-10-04", False), ("2024-10-05", True)):
        text = plan_text.replace('grace = "6h"', f'grace = "6h"\nexpires = {expires}')
        with Device(
            Plan.from_toml(text),
            state.with_name(expires),
            consent="granted",
            clock=clock,
            policy=Policy.unlimited(),
        ) as device:
            assert (device.report(HERE) is not None) == answers
            status = device.status()
            assert status.active == answers
            assert status.plan_expired == ("" if answers else expires)
            assert (f"the plan expired on {expires}" in str(status)) == (not answers)
            clock.now, now = 2.0**50, clock.now  # no calendar has that day
            assert device.status().plan_expired == expires
            clock.now = now


def test_another_round_length_needs_another_name(device_of: Make, plan_text: str) -> None:
    device_of().close()
    with pytest.raises(StateError, match="another round length needs another plan name"):
        device_of(Plan.from_toml(plan_text.replace('round = "6h"', 'round = "3h"')), debug=True)
