"""Single stories told to the simulator by hand: what it found, and the one exception that the laws have."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tacit.device import Device
from tacit.errors import StateError
from tacit.reports import from_json


@pytest.fixture
def system(machine: ModuleType) -> Iterator[Any]:
    """A system at rest; its laws are checked once more in the end."""
    made = machine.System()
    try:
        made.begin(seed=1)
        yield made
        made.the_laws_hold()
    finally:
        made.teardown()


def sent_by(system: Any, name: str, number: int) -> set[bytes]:
    """All that ever left a device about a round."""
    return {body for report_id in system.told[name, number] for body in system.payloads[report_id]}


def test_a_round_that_a_backup_does_not_know_may_be_answered_again_and_counts_once(
    system: Any, machine: ModuleType
) -> None:
    """docs/reference/device.md, Limits: the second report has the same id and other bits; the first one stands."""
    phone = system.phones[0]
    for value in machine.world.VALUES:  # as many rounds: in some of them the bits differ
        phone.back_up()
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
    (key,) = (key for key in system.acknowledged if key.round == number)
    assert len(system.acknowledged[key]) == 2  # of two devices, one report each
    (record,) = (each for name, each in system.counted[key].items() if name == from_json(min(first)).id)
    assert record.endswith(from_json(min(first)).bits)


def test_a_backup_from_before_an_upgrade_answers_a_round_under_both_versions(
    system: Any, machine: ModuleType
) -> None:
    """The ids of two versions differ, so both count, each in the round of its own version."""
    phone = system.phones[0]
    system.collector(machine.CollectorEvent.UPGRADED)
    phone.back_up()
    system.device(phone=0, event=machine.DeviceEvent.UPGRADED)
    number = phone.device.current_round + 1
    system.wait(3600)
    system.live_through_a_round(value=918_273_645_001, fates=[])
    system.restore(phone=0, how="stopped", fates=[])
    assert {from_json(body).version for body in sent_by(system, "one", number)} == {1, 2}
    assert sum(len(ids) for key, ids in system.acknowledged.items() if key.round == number) == 3


def test_a_full_disk_at_the_start_is_a_state_error(system: Any, machine: ModuleType) -> None:
    """Found: fill the disk, cut the power, start. `sqlite3.OperationalError` came out of the constructor."""
    phone = system.phones[0]
    phone.stop()
    for where in ("write", "commit"):
        phone.full = where
        with pytest.raises(StateError, match="the disk is full"):
            Device(machine.world.PLANS[1], phone.path, clock=phone.clock)
    phone.full = ""
    phone.start()


def test_a_locked_state_file_at_the_start_is_a_state_error(tmp_path: Path, machine: ModuleType) -> None:
    """The same with nothing simulated: another process writes for longer than the device waits (2 s)."""
    path, plan = tmp_path / "state", machine.world.PLANS[0]
    Device(plan, path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match="locked by another process"):
            Device(plan, path)
