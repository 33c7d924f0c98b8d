"""What the person wishes: a pause, to be forgotten, not to be tracked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, InFile, Make, identity
from tests.shared.state_files import damage, drop

from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport


def test_a_pause_silences_the_rounds_it_overlaps(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, in_file: InFile
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    device.add("editor_seconds", 100)
    assert device.pause()
    assert in_file().totals == {}
    device.add("editor_seconds", 100)
    assert device.report(HERE + 1) is None
    clock.advance(21_600)
    assert device.flush() == 0
    assert device.status().paused
    assert device.resume()
    device.add("editor_seconds", 100)
    clock.advance(21_600)
    clock.advance(21_600)
    device.flush()
    assert [report.round for report in transport.reports] == [HERE + 3]
    assert device.report(HERE + 1) is None
    assert device.report(HERE + 2) is None
    assert in_file().epoch == 0


def test_a_pause_holds_back_what_waits_and_resume_lets_it_go(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    first = device.report(HERE + 1)
    device.pause()
    assert device.flush() == 0
    assert device.resume()
    assert device.flush() == 1
    assert transport.reports == [first]


def test_a_device_sleeps_through_a_pause_although_a_report_is_due(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    device = device_of(transport=transport)
    clock.advance(2 * SECONDS)
    assert device.report() is not None
    clock.advance(0.8 * SECONDS)  # beyond its place in the round
    device.pause()
    assert device._send_soon() > 60
    assert (device.status().waiting, device.status().next_try) == (1, None)


def test_a_pause_by_another_process_counts(device_of: Make, state: Path, clock: ManualClock) -> None:
    device = device_of()
    with Device.open(state, clock=clock) as other:
        assert other.pause()
    device.add("editor_seconds", 5)
    assert device.report(HERE) is None
    assert device.status().paused
    assert not device.status().active


@pytest.mark.parametrize("how", ["removed", "removed, and another process paused"])
def test_a_pause_outlives_its_file(how: str, device_of: Make, state: Path, clock: ManualClock) -> None:
    device = device_of()
    other = device_of() if "another" in how else device
    assert other.pause()
    device.add("nothing of the plan")
    assert device.save()
    for file in state.parent.glob(f"{state.name}*"):
        file.unlink()
    clock.advance(2 * SECONDS)
    assert device.report() is None
    assert device.status().paused
    assert device.status().epoch == 1
    assert device.resume()
    assert device.set_consent("granted")
    clock.advance(2 * SECONDS)
    assert device.report() is not None


@pytest.mark.parametrize("is_whole", [True, False])
def test_after_damage_the_person_is_asked_again(device_of: Make, state: Path, is_whole: bool) -> None:
    device = device_of()
    assert device.pause()
    device.close()
    if is_whole:
        damage(state, "device", {"round_seconds": "7"})
    else:
        drop(state, "pauses")
    device = device_of()
    assert (device.consent, device.status().paused, device.status().epoch) == ("unset", False, 1)


def test_a_pause_is_kept_where_nothing_else_is(plan: Plan, state: Path, clock: ManualClock) -> None:
    device = Device(plan, state, clock=clock)
    assert device.resume()  # there is nothing to end
    assert device.forget()
    assert not state.exists()
    assert device.pause()
    device.close()
    later = Device(plan, state, clock=clock, consent="granted", policy=Policy.unlimited())
    assert later.status().paused
    later.add("editor_seconds", 5)
    clock.advance(SECONDS)
    assert later.report() is None
    assert later.resume()
    clock.advance(2 * SECONDS)
    assert later.report() is not None
    later.close()


def test_after_damage_the_person_is_asked_again_and_what_was_held_is_counted(
    device_of: Make, state: Path
) -> None:
    first = device_of()
    assert first.report(HERE) is not None
    assert first.forget()
    assert first.set_consent("granted")
    held = first.receipt().total_lifetime
    assert first.set_consent("denied")
    first.close()
    drop(state, "pauses")
    device = device_of()
    assert device.consent == "unset"
    assert device.status().epoch == 2
    assert device.receipt().total_loss >= held


def test_forget_is_a_new_epoch(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, in_file: InFile, state: Path
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    clock.advance(21_600)
    assert device.flush() == 1
    unsent = device.report(HERE + 2)
    assert unsent is not None
    device._work_on_state()
    device.add("editor_seconds", 77, round=HERE + 1)
    old = identity(state).secret
    before = device.receipt()
    assert device.forget()
    assert (in_file().epoch, in_file().secret == old) == (1, False)
    assert [file.name for file in state.parent.iterdir() if old in file.read_bytes()] == []
    assert device.flush() == 0
    assert device.report(HERE + 2) == unsent, "handed out before; the receipt stays"
    assert device.report(HERE) is None
    after = device.receipt()
    assert tuple(entry for entry in after.losses if entry.epoch == 0) == before.losses
    assert after.total_loss == before.total_loss
    assert [(told.round, told.state) for told in after.reports] == [
        (HERE + 1, "accepted"),
        (HERE + 2, "expired"),
    ]
    assert [(epoch.number, epoch.reason) for epoch in after.epochs] == [(0, "enrolled"), (1, "forgotten")]
    clock.advance(21_600)
    clock.advance(21_600)
    assert device.flush() == 1
    assert transport.reports[-1].round == HERE + 3
    assert {entry.epoch for entry in device.receipt().losses} == {0, 1}


@pytest.mark.parametrize("is_other", [False, True], ids=["this process", "another process"])
def test_a_file_that_is_lost_after_forget_is_yet_another_epoch(
    is_other: bool, device_of: Make, state: Path
) -> None:
    device = device_of()
    assert (device_of() if is_other else device).forget()
    device.report()
    for file in state.parent.glob(f"{state.name}*"):
        file.unlink()
    assert device.status().epoch == 2


def test_forget_leaves_no_value_in_the_file(device_of: Make, in_file: InFile) -> None:
    device = device_of()
    device.add("editor_seconds", 5)
    assert device.save()
    assert in_file().totals
    assert device.forget()
    assert in_file().totals == {}


def test_forget_drops_what_never_left(device_of: Make, clock: ManualClock, in_file: InFile) -> None:
    device = device_of()
    clock.advance(2 * 21_600)
    device.flush()
    assert device.status().waiting == 1
    assert device.forget()
    assert in_file().reports == {}
    assert device.report(HERE + 1) is None
    assert device.report(HERE + 2) is None, "it had begun"


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_do_not_track_leaves_no_trace(
    plan: Plan, state: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", value)
    with Device(
        plan, state, consent="granted", clock=clock, transport=RecordingTransport(), policy=Policy.unlimited()
    ) as device:
        device.add("editor_seconds", 5)
        assert device.report(HERE) is None
        assert device.flush() == 0
        assert device.status().silenced_by == ("DO_NOT_TRACK",)
        assert "DO_NOT_TRACK" in device.receipt().problem
    assert not state.exists()


def test_a_round_begun_under_do_not_track_is_never_answered(
    device_of: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answered with 0 after a restart without it, it would use a remembered answer of its own."""
    device = device_of()
    clock.advance(21_600)
    device.set("editor_seconds", 21_600)
    clock.advance(21_600)
    assert device.report() is not None
    told = device.receipt()
    device.close()

    clock.advance(21_600)
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    device_of().close()
    clock.advance(2 * 21_600)
    monkeypatch.delenv("DO_NOT_TRACK")
    device = device_of()
    for number in range(HERE + 2, HERE + 6):
        assert device.report(number) is None
    clock.advance(2 * 21_600)
    device.set("editor_seconds", 21_600, round=HERE + 6)
    assert device.report(HERE + 6) is not None
    assert len(device.receipt().reports) == len(told.reports) + 1


def test_do_not_track_and_a_pause_end_on_their_own(
    device_of: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of()
    device.pause()
    device.close()
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    device_of().close()
    monkeypatch.delenv("DO_NOT_TRACK")
    device = device_of()
    assert device.status().paused
    assert device.status().silenced_by == ()
    device.resume()
    clock.advance(2 * 21_600)
    assert device.report() is not None


def test_do_not_track_set_for_a_while_costs_the_round(
    device_of: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of()
    clock.advance(21_600)
    device.add("editor_seconds", 5)
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    device.add("editor_seconds", 5)
    device.save()
    monkeypatch.delenv("DO_NOT_TRACK")
    device.add("editor_seconds", 5)
    device.save()
    clock.advance(21_600)
    assert device.report(HERE + 1) is None
    clock.advance(21_600)
    assert device.report(HERE + 2) is not None


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_do_not_track_can_be_set_to_no(device_of: Make, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", value)
    assert device_of().report(HERE) is not None


def test_do_not_track_set_later_counts_too(device_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of()
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert device.report(HERE) is None
    assert device.status().silenced_by == ("DO_NOT_TRACK",)
