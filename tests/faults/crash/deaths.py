"""Ways to die at every call in turn: killed, killed again after the restart, without power."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tests.faults.crash.disk import Disk, calls_of
from tests.faults.crash.laboratory import Laboratory, Life, heard


def kill(laboratory: Laboratory, stride: int, *, middle: bool) -> dict[str, int]:
    """Die at every call in turn, until a run comes to its end: then there was no other call to die at."""
    killed, after, life = 0, 0, Life(True, [])
    while life.killed:
        laboratory.fresh()
        life = laboratory.live(after, middle=middle)
        laboratory.restart(life.said)
        killed, after = killed + life.killed, after + stride
    calls = int(dict(life.said)["calls"])
    assert killed == -(-calls // stride), (killed, calls)
    return {"calls": calls, "killed": killed}


def twice(laboratory: Laboratory, stride: int) -> dict[str, int]:
    """Die at a call, start again, die again somewhere, and only then live on; places from a fixed seed."""
    places, killed, after, life = random.Random(7), 0, 0, Life(True, [])
    while life.killed:
        laboratory.fresh()
        life = laboratory.live(after, middle=True)
        second = laboratory.live(places.randrange(30), middle=True) if life.killed else life
        laboratory.restart([*life.said, *second.said])
        killed, after = killed + life.killed + second.killed, after + stride
    return {"calls": int(dict(life.said)["calls"]), "killed": killed}


def power(laboratory: Laboratory, stride: int) -> dict[str, int]:
    """One run is logged; the power is cut after each of its calls: nothing unsynced survives, or some."""
    laboratory.fresh()
    disk = Disk(laboratory.folder)
    log = laboratory.aside.parent / "log"
    life = laboratory.live(-1, log=log)
    luck, said, cuts = random.Random(11), [], 0
    for number, call in enumerate(calls_of(log.read_bytes())):
        if call.kind == "s":
            said.append(heard(call.data))
        else:
            disk.apply(call)
        for chance in (None, luck) if call.kind in "sf" or number % stride == 0 else ():
            disk.cut(chance)
            laboratory.restart(said, power=True)
            cuts += 1
    assert said == life.said
    return {"calls": int(dict(life.said)["calls"]), "cuts": cuts}


MODES: dict[str, Callable[[Laboratory, int], dict[str, int]]] = {
    "kill": partial(kill, middle=False),
    "middle": partial(kill, middle=True),
    "twice": twice,
    "power": power,
}
