"""What must hold in each of several paths, where one of them could be forgotten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, Make, identity
from tests.shared.plans import APP_USAGE

from reticent.device import Device
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport

CHOICE = """
[metrics.command]
kind = "choice"
labels = ["build", "test", "run"]
pick = "{pick}"
mechanism = "d-bit-flip"
bits = 4
epsilon = 2.0
flip = 0.1
"""


@pytest.mark.parametrize("pick", ["first", "last"])
@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "from the file"])
def test_which_of_several_labels_counts(device_of: Make, pick: str, saved: bool) -> None:
    """Whether they are merged in memory or in the file."""
    plan = Plan.from_toml(APP_USAGE + CHOICE.format(pick=pick))
    device = device_of(plan)
    for label in ("build", "test", "run"):
        device.choose("command", label)
        assert not saved or device.save()
    assert device._recorded(HERE) == {"command": 0 if pick == "first" else 2}


def test_what_silences_another_process_holds_back_what_waits(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program runs under DO_NOT_TRACK, on the file of another that does not."""
    device = device_of(transport=transport)
    clock.advance(2 * SECONDS)
    device.report()
    with monkeypatch.context() as patch:
        patch.setenv("DO_NOT_TRACK", "1")
        device_of()
    assert device.flush() == 0
    assert transport.bodies == []


def test_what_another_process_forgot_is_not_remembered_here(
    device_of: Make, plan: Plan, state: Path, clock: ManualClock
) -> None:
    device, other = device_of(), device_of()
    device.report(HERE)
    assert other.forget()
    clock.advance(2 * SECONDS)
    device.set("editor_seconds", 5400, round=HERE + 1)
    assert device.report() == identity(state).law(plan, HERE + 1, {"editor_seconds": 5400})


WAYS: dict[str, Callable[[Device], object]] = {
    "report": lambda device: device.report(),
    "flush": lambda device: device.flush() == 1,
    "pause": lambda device: device.pause(),
    "forget": lambda device: device.forget(),
    "denied": lambda device: device.set_consent("denied"),
}


@pytest.mark.parametrize("way", WAYS)
def test_values_leave_all_files(
    device_of: Make, state: Path, clock: ManualClock, transport: RecordingTransport, way: str
) -> None:
    """With the answer, and with what keeps it from being given."""
    device = device_of(transport=transport)
    clock.advance(SECONDS)
    device.set("editor_seconds", 20_197)
    assert device.save()

    def is_there() -> bool:
        return any(b"20197" in file.read_bytes() for file in state.parent.iterdir())

    assert is_there()
    if way in ("report", "flush"):
        clock.advance(SECONDS)
    assert WAYS[way](device)
    assert not is_there()


def test_the_round_under_way_at_forget_is_never_answered(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    device = device_of(transport=transport)
    clock.advance(SECONDS)
    assert device.forget()
    clock.advance(SECONDS)
    assert device.report() is None
    assert device.report(HERE + 1) is None
    assert device.flush() == 0
    clock.advance(SECONDS)
    assert device.flush() == 1


def test_receipts_that_are_summed_up_stay_in_the_ledger(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent.device.outbox.MOST_RECEIPTS", 1)
    device, losses = device_of(transport=transport), []
    for number in range(75):
        device.set("editor_seconds", 21_600 if number == 2 else 0)
        clock.advance(SECONDS)
        device.flush(timeout=30)
        losses.append([(entry.classes_seen, entry.loss) for entry in device.receipt().losses])
    assert device.receipt().earlier
    assert losses[-1] == losses[2] != losses[1]
