"""
Lives of a real device, each ended by SIGKILL or by a power cut at one more call that touches its files.

A program of its own, run by `test_crash_matrix.py` with `crash_points.c` loaded before the C library:

    python crash_driver.py SCENARIO FOLDER kill|middle|twice|power [--stride N] [--sabotage NAME]

It prints how many calls there were and how many lives ended, and fails at the first broken promise.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from struct import unpack
from typing import Any, NamedTuple

from tacit.device import Accepted, Device, Outcome, Retry
from tacit.device.answer import answer
from tacit.device.prf import SecretDraws
from tacit.device.transport import Transport
from tacit.plan import Plan
from tacit.reports import Report
from tacit.reports.codec import from_json, to_json
from tacit.testing import ManualClock

R = 80_000
"""The round in which the device is enrolled; the first it answers by itself is the next."""
SECONDS = 21_600
MARKER = Fraction(12_345_678_901, 2_000_003)
"""A value that is easily found in a file."""

TEXT = """
[plan]
name = "app-usage"
version = 1
round = "6h"
grace = "6h"

[metrics.editor_seconds]
kind = "mean"
max_value = 21600
step = 5400
epsilon = 1.0
flip = 0.2

[metrics.browser_seconds]
kind = "mean"
max_value = 1000
epsilon = 20.0

[metrics.editor_hours]
kind = "histogram"
max_value = 21600
buckets = 32
mechanism = "d-bit-flip"
bits = 4
epsilon = 1.0
"""
MORE = """
[metrics.saves]
kind = "histogram"
max_value = 64
buckets = 8
mechanism = "hadamard-bit"
epsilon = 2.0
"""
ONE = Plan.from_toml(TEXT)
TWO = Plan.from_toml(TEXT.replace("version = 1", "version = 2") + MORE)
PLANS = {1: ONE, 2: TWO}

VALUES = {"editor_seconds": MARKER, "editor_hours": 7_000}
LATE = {"browser_seconds": 1_000}
"""Comes after the restart. At ε = 20 it turns the bit of its metric all but certainly (e⁻²⁰ is 2 in 10⁹)."""

Check = Callable[["Seen"], None]


class World(NamedTuple):
    """Where a device lives, and what it is heard to say."""

    folder: Path
    clock: ManualClock
    say: Callable[[str, bytes], None]

    def device(self, plan: Plan = ONE, transport: Transport | None = None) -> Device:
        return Device(plan, self.folder / "state", clock=self.clock, transport=transport)

    def goto(self, number: int, seconds: float = 60.0) -> None:
        """Let time pass to so many seconds into a round; a restart takes place after that."""
        self.clock.now = number * SECONDS + seconds
        self.say("clock", str(self.clock.now).encode())


@dataclass
class Wire:
    """A transport that says what it carries before anybody acknowledges it."""

    say: Callable[[str, bytes], None]
    outcomes: list[Outcome] = field(default_factory=list)

    def send(self, body: bytes, timeout: float) -> Outcome:
        self.say("told", body)
        return self.outcomes.pop(0) if self.outcomes else Accepted()


class Kept(NamedTuple):
    """What a state file holds about its device."""

    secret: bytes
    epoch: int
    reasons: tuple[str, ...]


@dataclass
class Seen:
    """One crash: what was told before it and after it, and what was in the file."""

    folder: Path
    power: bool
    before: Kept | None
    said: list[tuple[str, bytes]]
    after: Kept
    recorded: dict[str, int | Fraction]
    paused: bool
    told_again: list[bytes]

    def heard(self, kind: str) -> list[bytes]:
        return [body for said, body in self.said if said == kind]

    @property
    def bodies(self) -> set[bytes]:
        return {*self.heard("told"), *self.told_again}

    @property
    def rounds(self) -> set[int]:
        return {from_json(body).round for body in self.bodies}


# What must hold after every crash


def check_the_bytes(seen: Seen) -> None:
    """The same bytes or none: one payload per round and per id, each the law's for a secret on record."""
    reports = [from_json(body) for body in seen.bodies]
    assert len({report.round for report in reports}) == len(reports), "two payloads for one round"
    assert len({report.id for report in reports}) == len(reports), "two payloads for one id"
    lives = [kept for kept in (seen.before, seen.after) if kept is not None]
    for body, report in zip(seen.bodies, reports, strict=True):
        plan = PLANS[report.version]
        law = (
            to_json(
                answer(SecretDraws(kept.secret, plan.name, kept.epoch), plan, report.round, values).report
            )
            for kept in lives
            for values in candidates()
        )
        assert body in law, "bytes that no secret on record gives"


def candidates() -> Iterator[dict[str, int | Fraction]]:
    """Every set of values that a round of a scenario can have."""
    for base in (
        {},
        VALUES,
        {"editor_seconds": MARKER},
        {"saves": 3},
        *({"editor_seconds": total} for total in ADDED),
    ):
        yield {**base}
        yield {**base, **LATE}


def check_the_secret(seen: Seen) -> None:
    """It is the same, or a later epoch says why not."""
    if seen.before is None:
        assert seen.after[1:] == (0, ("enrolled",)), "not a fresh start"
    elif seen.after.secret == seen.before.secret:
        assert seen.after[1:] == seen.before[1:]
    else:
        assert seen.after.epoch > seen.before.epoch, "a silent redraw"
        assert seen.after.reasons[-1].split(":")[0] in ("forgotten", "quarantined"), "a silent redraw"


def check_the_folder(folder: Path, forgotten: bytes) -> None:
    """Nothing lies about that should not: no draft, no value of a round that is over, no forgotten secret."""
    assert not [file.name for file in folder.iterdir() if ".new" in file.name]
    with closing(sqlite3.connect(folder / "state")) as connection:
        needed = connection.execute("SELECT 1 FROM totals WHERE value = ?", (str(MARKER),)).fetchone()
    for file in folder.iterdir():
        if "quarantined" not in file.name:
            content = file.read_bytes()
            assert needed or str(MARKER).encode() not in content, f"a value lingers in {file.name}"
            assert not forgotten or forgotten not in content, f"a secret lingers in {file.name}"


# Scenarios: what is there before, what happens, and what may follow

ADDED = (0, 1, 21, 321)


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


def resumes(world: World) -> None:
    with world.device() as device:
        assert device.resume()
        world.say("resumed", b"")


def reopens(world: World) -> None:
    world.device().close()


def every_round(*numbers: int) -> Check:
    def check(seen: Seen) -> None:
        assert seen.rounds == set(numbers), seen.rounds

    return check


def check_adds(seen: Seen) -> None:
    """Each `add` is there whole or not at all, in order; a kill loses none that had returned."""
    total, returned = seen.recorded.get("editor_seconds", 0), len(seen.heard("added"))
    assert total in ADDED
    assert seen.power or ADDED.index(int(total)) in (returned, returned + 1)
    assert seen.rounds == {R + 1, R + 2}


def check_upgrade(seen: Seen) -> None:
    versions = {from_json(body).round: from_json(body).version for body in seen.bodies}
    assert versions == {R + 1: 1, R + 2: 2, R + 3: 2}, versions


def check_forget(seen: Seen) -> None:
    """Done or not; once it has returned, done."""
    assert seen.after.epoch >= 1 or not seen.heard("forgotten")
    assert seen.rounds == ({R + 3} if seen.after.epoch else {R + 1, R + 2, R + 3})


def check_pause(seen: Seen) -> None:
    assert seen.paused or not seen.heard("paused")
    assert seen.rounds == (set() if seen.paused else {R + 1, R + 2, R + 3})


def check_resume(seen: Seen) -> None:
    assert not (seen.paused and seen.heard("resumed"))
    assert seen.rounds == (set() if seen.paused else {R + 2, R + 3})


def check_quarantine(seen: Seen) -> None:
    """Rounds that had begun under the lost secret stay unanswered."""
    assert seen.before is not None
    assert seen.after.epoch >= 1
    assert seen.after.secret != seen.before.secret
    assert seen.after.reasons[-1].startswith("quarantined: ")
    assert seen.rounds == {R + 2, R + 3}


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
    "resume": Scenario(paused, resumes, check_resume, R + 3),
    "quarantine": Scenario(measured, reopens, check_quarantine, R + 3, damage=damage),
    "quarantine-log": Scenario(measured, reopens, check_quarantine, R + 3, damage=damage_with_a_log),
}


# Lives and deaths


class Laboratory:
    """Prepares a scenario once, and lets it end at any of its calls."""

    def __init__(self, scenario: Scenario, root: Path) -> None:
        self.scenario = scenario
        self.base, self.folder, self.aside = root / "base", root / "life", root / "aside"
        self.shim = ctypes.CDLL(None)
        for folder in (self.base, self.aside):
            folder.mkdir()
        clock = ManualClock()
        scenario.before(World(self.base, clock, lambda *_: None))
        self.start = clock.now
        self.before = kept_in(self.base)
        if scenario.damage:
            scenario.damage(self.base)
        for file in self.base.iterdir():
            file.chmod(0o600)
        os.chdir(self.aside)
        os.environ["TMPDIR"] = os.environ["SQLITE_TMPDIR"] = os.environ["HOME"] = str(self.aside)

    def fresh(self) -> None:
        """The folder as it was before the scenario."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.base, self.folder)

    def live(self, after: int, *, middle: bool = False, log: Path | None = None) -> Life:
        """One run in a process of its own, killed at the call after so many (-1: never)."""
        reading, writing = os.pipe()
        strangers_reading, strangers = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                self._act(writing, strangers, after, middle, log)
            except BaseException as error:  # whatever it is, the parent must hear of it
                os.write(2, f"{error!r}\n".encode())
                os._exit(1)
            os._exit(0)
        os.close(writing)
        os.close(strangers)
        with os.fdopen(reading, "rb") as pipe, os.fdopen(strangers_reading, "rb") as elsewhere:
            said = [heard(line) for line in pipe.read().splitlines()]
            opened = elsewhere.read().decode().split()
        _, status = os.waitpid(child, 0)
        assert status in (0, 9), status
        assert opened == [], f"files elsewhere: {opened}"
        assert list(self.aside.iterdir()) == [], "files elsewhere"
        for file in self.folder.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file.name
        return Life(status == 9, said)

    def _act(self, writing: int, strangers: int, after: int, middle: bool, log: Path | None) -> None:
        record = -1 if log is None else os.open(log, os.O_CREAT | os.O_WRONLY, 0o600)

        def say(kind: str, body: bytes) -> None:
            line = kind.encode() + b" " + body
            self.shim.crash_say(line, ctypes.c_size_t(len(line)))
            os.write(writing, line + b"\n")

        os.umask(0)
        world = World(self.folder, ManualClock(self.start), say)
        self.shim.crash_arm(str(self.folder).encode(), ctypes.c_long(after), int(middle), record, strangers)
        self.scenario.act(world)
        say("calls", str(self.shim.crash_seen()).encode())

    def restart(self, said: list[tuple[str, bytes]], *, power: bool = False) -> None:
        """Start again where it ended, two hours later; send all there is; check every promise."""
        clock = ManualClock(float(([self.start, *(float(b) for kind, b in said if kind == "clock")])[-1]))
        again: list[bytes] = []
        world = World(self.folder, clock, lambda kind, body: again.append(body))
        with closing(world.device(self.scenario.plan, Wire(world.say))) as device:
            after = kept_in(self.folder)
            assert after is not None
            forgotten = self.before.secret if self.before and self.before.secret != after.secret else b""
            check_the_folder(self.folder, forgotten)
            recorded, is_paused = device._recorded(R + 1), device.status().paused
            for name, value in LATE.items():
                device.add(name, value, round=int(clock.now // SECONDS))
                device.add(name, value, round=R + 1)
            if self.scenario.before is nothing:
                report = device.report(R)
                assert report is not None
                again.append(to_json(report))
            clock.advance(7_200.0)
            device.flush(timeout=30.0)
            while clock.now < (self.scenario.ends + 1) * SECONDS:
                clock.advance(SECONDS)
                device.flush(timeout=30.0)
            seen = Seen(self.folder, power, self.before, said, after, recorded, is_paused, again)
            for check in (check_the_bytes, check_the_secret, self.scenario.check):
                check(seen)
            check_the_folder(self.folder, forgotten)


class Life(NamedTuple):
    """How a run ended."""

    killed: bool
    said: list[tuple[str, bytes]]


def heard(line: bytes) -> tuple[str, bytes]:
    kind, _, body = line.partition(b" ")
    return kind.decode(), body


def kept_in(folder: Path) -> Kept | None:
    if not (folder / "state").exists():
        return None
    with closing(sqlite3.connect(folder / "state")) as connection:
        [(secret, epoch)] = connection.execute("SELECT secret, epoch FROM device")
        reasons = tuple(
            reason for (reason,) in connection.execute("SELECT reason FROM epochs ORDER BY epoch")
        )
    return Kept(secret, epoch, reasons)


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


# Power cuts


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

    def apply(self, kind: str, path: str, other: str, place: int, data: bytes) -> None:
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


def events(log: bytes) -> Iterator[tuple[str, str, str, int, bytes]]:
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
        yield kind.decode(), path.decode(), other.decode(), place, data


def power(laboratory: Laboratory, stride: int) -> dict[str, int]:
    """One run is logged; the power is cut after each of its calls: nothing unsynced survives, or some."""
    laboratory.fresh()
    disk = Disk(laboratory.folder)
    log = laboratory.aside.parent / "log"
    life = laboratory.live(-1, log=log)
    luck, said, cuts = random.Random(11), [], 0
    for number, (kind, *rest) in enumerate(events(log.read_bytes())):
        if kind == "s":
            said.append(heard(rest[3]))
        else:
            disk.apply(kind, *rest)
        for chance in (None, luck) if kind in "sf" or number % stride == 0 else ():
            disk.cut(chance)
            laboratory.restart(said, power=True)
            cuts += 1
    assert said == life.said
    return {"calls": int(dict(life.said)["calls"]), "cuts": cuts}


# Devices that break the law, to show that the laboratory would see it


def tells_too_early() -> None:
    """Bytes leave before they are in the file."""
    from tacit.device import core

    def report(self: core.Core, number: int) -> Report:
        with self.state.view() as connection:
            draws = self._draws_of(core.myself(connection))
            return answer(draws, ONE, number, core.totals.read(connection, number)).report

    core.Core.report = report  # type: ignore[assignment,method-assign]


def never_syncs() -> None:
    """Fast, and all is well until the power goes."""

    class Careless(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            careless = sql.startswith("PRAGMA synchronous")
            return super().execute("PRAGMA synchronous = OFF" if careless else sql, *parameters)

    plain = sqlite3.connect
    sqlite3.connect = lambda *a, **o: plain(*a, factory=Careless, **o)  # type: ignore[assignment,misc]


def draws_anew() -> None:
    """A broken file is removed, and then a new one made: between the two, nothing tells of the first."""
    from tacit.device import opening

    opening._set_aside = lambda path, epoch: path.unlink()


SABOTAGE = {"tells-too-early": tells_too_early, "never-syncs": never_syncs, "draws-anew": draws_anew}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("mode", choices=("kill", "middle", "twice", "power"))
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--sabotage", choices=SABOTAGE)
    options = parser.parse_args()
    if options.sabotage:
        SABOTAGE[options.sabotage]()
    laboratory = Laboratory(SCENARIOS[options.scenario], options.folder)
    if options.mode in ("kill", "middle"):
        found = kill(laboratory, options.stride, middle=options.mode == "middle")
    else:
        found = (twice if options.mode == "twice" else power)(laboratory, options.stride)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
