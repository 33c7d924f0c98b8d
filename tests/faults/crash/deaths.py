"""
Ways to die at every call in turn: killed, killed again after the restart, without power.

What a power cut leaves is a disk replayed from a log of calls, of which only what was synced is certain.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from struct import unpack
from typing import NamedTuple

from tests.faults.crash.laboratory import Laboratory, Life, heard


class Call(NamedTuple):
    """A call that `crash_points.c` logged."""

    kind: str
    """c: created, w: written, t: truncated, f: synced, r: renamed, u: unlinked; s: the device said a word."""
    path: str
    other: str
    place: int
    data: bytes


@dataclass
class Inode:
    """A file: as programs see it, as it is on the disk for certain, and the writes in between."""

    now: bytearray
    synced: bytes
    since: list[tuple[str, int, bytes]] = field(default_factory=list)

    def change(self, kind: str, place: int, data: bytes) -> None:
        change(self.now, kind, place, data)
        self.since.append((kind, place, data))

    def survives(self, luck: random.Random | None) -> bytes:
        """What a power cut leaves: what was synced; by `luck`, also some sectors of what was not."""
        content = bytearray(self.synced)
        for kind, place, data in self.since if luck else ():
            for start in range(0, max(len(data), 1), 512):
                if luck is not None and luck.random() < 0.5:
                    change(content, kind, place + start, data[start : start + 512])
        return bytes(content)


def change(content: bytearray, kind: str, place: int, data: bytes) -> None:
    if kind == "t":
        del content[place:]
    content.extend(bytes(max(0, place - len(content))))
    content[place : place + len(data)] = data


class Disk:
    """
    Files and their names, replayed from a log of calls.

    A file's content is safe once the file is synced, its name once the folder is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = {
            str(file): Inode(bytearray(content), content)
            for file, content in ((file, file.read_bytes()) for file in folder.iterdir())
            if not file.name.endswith("-shm")
        }
        self.safe = dict(self.names)

    def apply(self, call: Call) -> None:
        kind, path, other, place, data = call
        if kind == "c":
            self.names[path] = Inode(bytearray(), b"")
        elif kind == "u":
            self.names.pop(path, None)
        elif kind == "r":
            self.names[other] = self.names.pop(path)
        elif kind == "f" and path == str(self.folder):
            self.safe = dict(self.names)
        elif kind == "f":
            self.names[path].synced, self.names[path].since = bytes(self.names[path].now), []
        elif kind in "wt" and path in self.names:
            self.names[path].change(kind, place, data)

    def cut(self, luck: random.Random | None) -> None:
        """Leave in the folder what a power cut at this moment would."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        names = self.names if luck is not None and luck.random() < 0.5 else self.safe
        for path, inode in names.items():
            Path(path).write_bytes(inode.survives(luck))
            Path(path).chmod(0o600)


def calls_of(log: bytes) -> Iterator[Call]:
    """The calls in a log of `crash_points.c`."""
    at = 0
    while at < len(log):
        kind, *sizes, place = unpack("<cIIIq", log[at : at + 21])
        at += 21
        parts = []
        for size in sizes:
            parts.append(log[at : at + size])
            at += size
        path, other, data = parts
        yield Call(kind.decode(), path.decode(), other.decode(), place, data)


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
