"""Scenarios: what is there before, what happens, and what may follow."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.faults.crash.world import ADDED, MARKER, ONE, TWO, VALUES, R, Seen, Wire, World
from tests.shared import layouts
from tests.shared.state_files import what_is_in

from reticent.device import Device, Retry, schema
from reticent.plan import Plan
from reticent.reports import from_json, to_json

Check = Callable[[Seen], None]

# What is there before


def nothing(world: World) -> None:
    world.goto(R)


def enrolled(world: World) -> None:
    world.goto(R)
    world.device().close()
    world.goto(R + 1)


def measured(world: World) -> None:
    enrolled(world)
    with world.device() as device:
        for name, value in VALUES.items():
            device.add(name, value)


def waiting(world: World) -> None:
    measured(world)
    world.goto(R + 2)
    with world.device() as device:
        device.flush()
        device.add("editor_seconds", MARKER)


def paused(world: World) -> None:
    measured(world)
    with world.device() as device:
        device.pause()


def damage(folder: Path) -> None:
    """Two pages in the middle are zeros."""
    content = bytearray((folder / "state").read_bytes())
    content[4096 : 3 * 4096] = bytes(2 * 4096)
    (folder / "state").write_bytes(content)


def damage_with_a_log(folder: Path) -> None:
    damage(folder)
    for suffix in ("-wal", "-shm"):
        (folder / f"state{suffix}").write_bytes(b"x" * 5_000)


def later_version(_: Path) -> None:
    """From now on the program is one of a later version, with two more layouts of the state file."""
    schema.STEPS = (*schema.STEPS, *layouts.STEPS)
    schema.TABLES.update(layouts.TABLES)


# What happens


def starts(world: World) -> None:
    tell(world, world.device(), R)


def tell(world: World, device: Device, number: int) -> None:
    report = device.report(number)
    assert report is not None
    world.say("told", to_json(report))
    device.close()


def adds(world: World) -> None:
    with world.device() as device:
        for amount in (1, 20, 300):
            device.add("editor_seconds", amount)
            device.save()
            world.say("added", b"")


def closes(world: World) -> None:
    world.goto(R + 2)
    with world.device() as device:
        device.flush()
        world.say("answered", b"")


def answers(world: World) -> None:
    tell(world, world.device(), R + 1)


def sends(world: World) -> None:
    with closing(world.device(transport=Wire(world.say))) as device:
        device.flush(timeout=30.0)


def retries(world: World) -> None:
    wire = Wire(world.say, [Retry()])
    device = world.device(transport=wire)
    device.flush(timeout=30.0)
    world.goto(R + 2, 3_600.0)
    device.flush(timeout=30.0)
    device.close()


def upgrades(world: World) -> None:
    device = world.device(TWO, Wire(world.say))
    world.goto(R + 2)
    device.set("saves", 3)
    device.flush(timeout=30.0)
    world.goto(R + 3)
    device.flush(timeout=30.0)
    device.close()


def forgets(world: World) -> None:
    with world.device() as device:
        assert device.forget()
        world.say("forgotten", b"")


def pauses(world: World) -> None:
    with world.device() as device:
        assert device.pause()
        world.say("paused", b"")


def denies(world: World) -> None:
    with world.device() as device:
        assert device.set_consent("denied")
        world.say("denied", b"")


def resumes(world: World) -> None:
    with world.device() as device:
        assert device.resume()
        world.say("resumed", b"")


def reopens(world: World) -> None:
    world.device().close()


# What may follow


def every_round(*numbers: int) -> Check:
    def check(seen: Seen) -> None:
        assert seen.rounds == set(numbers), seen.rounds

    return check


def check_adds(seen: Seen) -> None:
    """Each `add` is there whole or not at all, in order; a kill loses none that was saved."""
    total, returned = seen.recorded.get("editor_seconds", 0), len(seen.heard("added"))
    assert total in ADDED
    assert seen.power or ADDED.index(int(total)) in (returned, returned + 1)
    assert seen.rounds == {R + 1, R + 2}


def check_upgrade(seen: Seen) -> None:
    versions = {from_json(body).round: from_json(body).version for body in seen.bodies}
    expected = {R + 1: 1, R + 2: 2, R + 3: 2}
    clocks = seen.heard("clock")
    if len(clocks) > len(set(clocks)) > 1 and R + 1 not in versions:
        # It died between claiming the first report and sending it, and again in a second life that had come
        # a round further: no collector takes that report any more.
        del expected[R + 1]
    assert versions == expected, versions


def check_forget(seen: Seen) -> None:
    """Done or not; once it has returned, done."""
    assert seen.after.identity.epoch >= 1 or not seen.heard("forgotten")
    assert seen.rounds == ({R + 3} if seen.after.identity.epoch else {R + 1, R + 2, R + 3})


def check_pause(seen: Seen) -> None:
    assert seen.paused or not seen.heard("paused")
    assert seen.rounds == (set() if seen.paused else {R + 1, R + 2, R + 3})


def check_denied(seen: Seen) -> None:
    """Done or not; once it has returned, done, and nothing leaves any more."""
    held = what_is_in(seen.folder / "state")
    choice = held.consent.choice
    assert choice == "denied" or not seen.heard("denied")
    assert seen.rounds == (set() if choice == "denied" else {R + 1, R + 2, R + 3})
    assert choice != "denied" or not (held.totals or held.reports)


def check_resume(seen: Seen) -> None:
    assert not (seen.paused and seen.heard("resumed"))
    assert seen.rounds == (set() if seen.paused else {R + 2, R + 3})


def check_quarantine(seen: Seen) -> None:
    """Rounds that had begun under the lost secret stay unanswered."""
    assert seen.before is not None
    assert seen.after.identity.epoch >= 1
    assert seen.after.identity.secret != seen.before.identity.secret
    assert seen.after.reasons[-1].startswith("quarantined: ")
    assert seen.rounds == {R + 2, R + 3}


def check_layout(seen: Seen) -> None:
    """The same device, whichever layout the crash left; the next start finished the upgrade."""
    assert seen.after == seen.before
    with closing(sqlite3.connect(seen.folder / "state")) as connection:
        assert schema.layout_of(connection) == schema.known_layout() == 4
    assert seen.rounds == {R + 1, R + 2, R + 3}


class Scenario(NamedTuple):
    """`ends`: the last round answered after the restart. `damage`: what befalls the files beforehand."""

    before: Callable[[World], None]
    act: Callable[[World], None]
    check: Check
    ends: int
    plan: Plan = ONE
    damage: Callable[[Path], None] | None = None


SCENARIOS = {
    "first-start": Scenario(nothing, starts, every_round(R, R + 1), R + 1),
    "add": Scenario(enrolled, adds, check_adds, R + 2),
    "close": Scenario(measured, closes, every_round(R + 1, R + 2), R + 2),
    "answer": Scenario(measured, answers, every_round(R + 1, R + 2), R + 2),
    "send": Scenario(waiting, sends, every_round(R + 1, R + 2, R + 3), R + 3),
    "retry": Scenario(waiting, retries, every_round(R + 1, R + 2, R + 3), R + 3),
    "upgrade": Scenario(measured, upgrades, check_upgrade, R + 3, TWO),
    "forget": Scenario(waiting, forgets, check_forget, R + 3),
    "pause": Scenario(waiting, pauses, check_pause, R + 3),
    "deny": Scenario(waiting, denies, check_denied, R + 3),
    "resume": Scenario(paused, resumes, check_resume, R + 3),
    "layout": Scenario(waiting, sends, check_layout, R + 3, damage=later_version),
    "quarantine": Scenario(measured, reopens, check_quarantine, R + 3, damage=damage),
    "quarantine-log": Scenario(measured, reopens, check_quarantine, R + 3, damage=damage_with_a_log),
}
