"""Single stories told to the simulator by hand: what it found, and the one exception that the laws have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.simulator.machine import CollectorEvent, DeviceEvent, System
from tests.simulator.witness import LAYOUTS
from tests.simulator.world import PLANS, VALUES

from reticent.device import Device, Policy
from reticent.reports import from_json


@pytest.fixture
def system() -> Iterator[System]:
    """A system at rest; its laws are checked once more in the end."""
    made = System()
    try:
        made.begin(seed=1)
        yield made
        made.the_laws_hold()
    finally:
        made.teardown()


def sent_by(system: System, name: str, number: int) -> set[bytes]:
    """All that ever left a device about a round."""
    seen = system.witness
    return {body for report_id in seen.told[name, number] for body in seen.payloads[report_id]}


def test_a_round_that_a_backup_does_not_know_may_be_answered_again_and_counts_once(system: System) -> None:
    """docs/reference/device.md, Limits: the second report has the same id, other bits; the smaller counts."""
    phone = system.phones[0]
    for value in VALUES:  # as many rounds: in some of them the bits differ
        phone.back_up()
        assert phone.device is not None
        number = phone.device.current_round
        system.live_through_a_round(value=value, fates=[])
        first = sent_by(system, "one", number)
        assert len(first) == 1
        system.restore(phone=0, how="stopped", fates=[])
        both = sent_by(system, "one", number)
        assert first <= both
        if len(both) == 2:
            break
    assert len({from_json(body).id for body in both}) == 1
    assert len({from_json(body).bits for body in both}) == 2
    system.the_laws_hold()
    (key,) = (key for key in system.witness.acknowledged if key.round == number)
    assert len(system.witness.acknowledged[key]) == 2  # of two devices, one report each
    smaller = min(map(from_json, both), key=LAYOUTS[key.version].pack)
    assert system.witness.counted[key][smaller.id].endswith(smaller.bits)


def test_a_backup_from_before_an_upgrade_answers_a_round_under_both_versions(system: System) -> None:
    """The ids of two versions differ, so both count, each in the round of its own version."""
    phone = system.phones[0]
    system.collector(CollectorEvent.UPGRADED)
    system.flush(phone, [])  # the backup knows of a round that can still be answered
    phone.back_up()
    system.device(phone=0, event=DeviceEvent.UPGRADED)
    assert phone.device is not None
    number = phone.device.current_round + 1
    system.wait(3600)
    system.live_through_a_round(value=918_273_645_001, fates=[])
    system.restore(phone=0, how="stopped", fates=[])
    assert {from_json(body).version for body in sent_by(system, "one", number)} == {1, 2}
    assert sum(len(ids) for key, ids in system.witness.acknowledged.items() if key.round == number) == 3


def test_a_full_disk_at_the_start_makes_a_silent_device(system: System) -> None:
    """Found: fill the disk, cut the power, start. An error came out of the constructor."""
    phone = system.phones[0]
    phone.stop()
    for where in ("write", "commit"):
        phone.full = where
        device = Device(PLANS[1], phone.path, consent="granted", clock=phone.clock, policy=Policy.unlimited())
        assert "the disk is full" in device.status().problem
    phone.full = ""
    phone.start()
