"""Lives of a device that end at a chosen call, in processes of their own; and what must hold after each."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from tests.faults.crash.scenarios import Scenario, nothing
from tests.faults.crash.world import ADDED, LATE, MARKER, PLANS, VALUES, Kept, R, Seen, Wire, World, kept_in
from tests.shared.devices import SECONDS
from tests.shared.state_files import what_is_in

from reticent.reports import from_json, to_json
from reticent.testing import ManualClock


def check_the_bytes(seen: Seen) -> None:
    """The same bytes or none: one payload per round and per id, each the law's for a secret on record."""
    reports = [from_json(body) for body in seen.bodies]
    assert len({report.round for report in reports}) == len(reports), "two payloads for one round"
    assert len({report.id for report in reports}) == len(reports), "two payloads for one id"
    lives = [kept for kept in (seen.before, seen.after) if kept is not None]
    for body, report in zip(seen.bodies, reports, strict=True):
        plan = PLANS[report.version]
        law = (
            to_json(kept.identity.law(plan, report.round, values))
            for kept in lives
            for values in candidates()
        )
        assert body in law, "bytes that no secret on record gives"


def candidates() -> Iterator[dict[str, int | Fraction]]:
    """Every set of values that a round of a scenario can have."""
    bases: list[dict[str, int | Fraction]] = [{}, VALUES, {"editor_seconds": MARKER}, {"saves": 3}]
    bases += ({"editor_seconds": total} for total in ADDED)
    for base in bases:
        yield {**base}
        yield {**base, **LATE}


def check_the_secret(seen: Seen) -> None:
    """It is the same, or a later epoch says why not. Where nothing was ever told, a wiped file begins again."""
    before, after = seen.before, seen.after
    if before is None:
        assert (after.identity.epoch, after.reasons) == (0, ("enrolled",)), "not a fresh start"
    elif after.identity.secret == before.identity.secret:
        assert after == before
    elif after.identity.epoch == 0:
        assert after.reasons == ("enrolled",)
        assert seen.bodies == set(), "a silent redraw"
    else:
        assert after.identity.epoch > before.identity.epoch, "a silent redraw"
        assert after.reasons[-1].split(":")[0] in ("forgotten", "quarantined"), "a silent redraw"


def check_the_folder(folder: Path, forgotten: bytes) -> None:
    """Nothing lies about that should not: no draft, no value of a round that is over, no forgotten secret."""
    assert not [file.name for file in folder.iterdir() if ".new" in file.name]
    needed = str(MARKER) in what_is_in(folder / "state").totals.values()
    for file in folder.iterdir():
        if "quarantined" not in file.name:
            content = file.read_bytes()
            assert needed or str(MARKER).encode() not in content, f"a value lingers in {file.name}"
            assert not forgotten or forgotten not in content, f"a secret lingers in {file.name}"


class Life(NamedTuple):
    """How a run ended."""

    killed: bool
    said: list[tuple[str, bytes]]


def heard(line: bytes) -> tuple[str, bytes]:
    kind, _, body = line.partition(b" ")
    return kind.decode(), body


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
            if device.consent == "unset":  # the choice went with a broken file: the person is asked again
                assert device.set_consent("granted")
            after = kept_in(self.folder)
            assert after is not None
            forgotten = forgotten_secret(self.before, after)
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


def forgotten_secret(before: Kept | None, after: Kept) -> bytes:
    """The secret that the device had, if it has another one now."""
    if before is None or before.identity.secret == after.identity.secret:
        return b""
    return before.identity.secret
