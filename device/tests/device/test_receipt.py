from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.shared.devices import HERE, Make

from reticent.device import Device, Rejected
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport


def test_a_receipt_shows_every_bit_that_was_told(device_of: Make, plan: Plan) -> None:
    device = device_of()
    device.add("editor_seconds", 9_000)
    report = device.report(HERE)
    assert report is not None
    [told] = device.receipt().reports
    assert (told.round, told.version, told.id, told.state) == (HERE, 1, report.id.hex(), "waiting")
    assert list(told.bits) == [metric.name for metric in plan.metrics]
    assert [len(bits) for bits in told.bits.values()] == [1, 1, 4, 1]
    joined = "".join(told.bits.values())
    assert int(joined.ljust(8, "0"), 2).to_bytes(1, "big") == report.bits


def test_losses_grow_with_the_answers_used_and_not_with_reports(device_of: Make, clock: ManualClock) -> None:
    """A mean on one step with ε = 0.5: one remembered answer 0.5, both 1.0, ever after 1.0."""
    device = device_of()

    def loss(value: int) -> tuple[int, float]:
        clock.advance(21_600)
        device.set("browser_seconds", value)
        device.report(device.current_round)
        [entry] = [entry for entry in device.receipt().losses if entry.metric == "browser_seconds"]
        return entry.classes_seen, entry.loss

    assert [loss(0) for _ in range(3)] == [(1, 0.5)] * 3
    assert [loss(21_600), loss(0), loss(21_600)] == [(2, 1.0)] * 3
    receipt = device.receipt()
    assert receipt.total_loss == pytest.approx(sum(entry.loss for entry in receipt.losses))
    assert receipt.total_loss <= receipt.total_lifetime


def test_as_json_and_as_text(device_of: Make, clock: ManualClock, transport: RecordingTransport) -> None:
    transport.outcomes = [Rejected("late")]
    device = device_of(transport=transport)
    clock.advance(2 * 21_600)
    device.flush()
    receipt = device.receipt()
    plain = json.loads(json.dumps(receipt.to_dict()))
    assert plain["reports"][0]["state"] == "rejected"
    assert plain["reports"][0]["code"] == "late"
    assert plain["epochs"] == [{"number": 0, "began_in": HERE, "reason": "enrolled"}]
    assert plain["total_loss"] == receipt.total_loss
    text = str(receipt)
    assert f"round {HERE + 1} (2024-10-04 06:00 to 12:00 UTC)  v1  rejected (late)" in text
    assert "editor_seconds, epoch 0: 1.0 / " in text
    status = device.status()
    assert json.loads(json.dumps(status.to_dict()))["rejected"] == 1
    assert "1 rejected" in str(status)
    assert str(status).startswith("Plan app-usage version 1: active")


def test_it_needs_nothing_but_the_state_file(device_of: Make, state: Path, clock: ManualClock) -> None:
    device = device_of()
    device.add("editor_seconds", 9_000)
    device.report(HERE)
    with Device.open(state, clock=clock) as alone:
        assert alone.receipt() == device.receipt()
        assert replace(alone.status(), sends=False).to_dict() == device.status().to_dict()
        assert alone.plan == device.plan
        assert alone.forget()
    assert device.status().epoch == 1
