"""What must hold in each of several paths, where one of them could be forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shared.devices import HEAD, HERE, SECONDS, Make, identity

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
def test_which_of_several_labels_counts(device_of: Make, state: Path, pick: str, saved: bool) -> None:
    """Whether they are merged in memory or in the file."""
    plan = Plan.from_toml(HEAD + CHOICE.format(pick=pick))
    device = device_of(plan)
    expected, other = ("build", "run") if pick == "first" else ("run", "build")
    for label in ("build", "test", "run"):
        device.choose("command", label)
        assert not saved or device.save()
    report = device.report(HERE)
    assert report == identity(state).law(plan, HERE, {"command": expected})
    draws = identity(state)
    assert any(
        draws.law(plan, number, {"command": expected}) != draws.law(plan, number, {"command": other})
        for number in range(HERE, HERE + 20)
    ), "it would be seen"


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
