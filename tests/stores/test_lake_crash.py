"""
Collectors that die at any step, and steps of several that come in any order.

A lake does everything by a few operations on files. Here each of them, one after the other, is the moment at
which a collector dies, or at which another one does all of its own work.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import tacit.stores.lake.files as files_module
from tacit.plan import Plan
from tacit.stores import RoundKey
from tacit.stores.lake import Files, LakeStore, LocalFiles, open_lake

KEY = RoundKey("small", 1, 7)
Step = Callable[[int], None]


class DiedError(BaseException):
    """A process ends here: nothing after it happens."""


class Stepping(Files):
    """Files that call `step` before and after each operation, with its number."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.step: Step = lambda number: None
        self.steps = 0

    def _do(self, work: Callable[[], Any]) -> Any:
        for moment in (lambda: None, work):
            result = moment()
            self.steps += 1
            self.step(self.steps)
        return result

    @property
    def url(self) -> str:
        return self.inner.url

    def read(self, path: str) -> bytes | None:
        return self._do(lambda: self.inner.read(path))

    def put(self, path: str, data: bytes) -> None:
        self._do(lambda: self.inner.put(path, data))

    def put_new(self, path: str, data: bytes) -> bool:
        return self._do(lambda: self.inner.put_new(path, data))

    def names(self, folder: str) -> list[str]:
        return self._do(lambda: self.inner.names(folder))

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._do(lambda path=path: self.inner.remove([path]))

    def open(self) -> None:
        self.inner.open()


def group(numbers: Iterable[int]) -> bytes:
    return b"".join(number.to_bytes(16) + (b"\x80" if number % 3 else b"\x00") for number in numbers)


class Memory(Files):
    """Files in a dictionary: as quick as can be, and every operation at once, as the law of `Files` says."""

    url = "memory"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def put(self, path: str, data: bytes) -> None:
        assert path not in self.files
        self.files[path] = data

    def put_new(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(path, data) is data

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        return sorted(
            {path.removeprefix(prefix).split("/")[0] for path in list(self.files) if path.startswith(prefix)}
        )

    def remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.files.pop(path, None)


class Bay:
    """A lake in memory with some reports in it, and a collector whose every step can be watched."""

    def __init__(self, plan: Plan, groups: int = 2) -> None:
        self.plan = plan
        self.files = Memory()
        self.watched = Stepping(self.files)
        self.store = LakeStore(self.watched)
        self.store.register(plan)
        self.sent: set[int] = set()
        for number in range(groups):
            self.append(self.store, range(10 * number, 10 * number + 10))
        self.watched.steps = 0

    def other(self) -> LakeStore:
        return LakeStore(self.files)

    def append(self, store: LakeStore, numbers: Iterable[int]) -> bool:
        """Append; whether it was accepted, which is remembered."""
        numbers = list(numbers)
        (answer,) = store.append({KEY: group(numbers)}).values()
        if not answer.late:
            self.sent |= set(numbers)
        return not answer.late

    def check(self, maybe: Iterable[int] = ()) -> None:
        """The round holds what was accepted, and of what was under way all or nothing; each once."""
        store = self.other()
        store.seal(KEY)
        found = store.final(KEY)
        assert found is not None
        possible = [self.sent, self.sent | set(maybe)]
        assert found.reports in {len(each) for each in possible}
        ones = {len(each): sum(1 for number in each if number % 3) for each in possible}
        counts = found.counts[()]["minutes"]
        assert (counts.reports, counts.ones) == (found.reports, ones[found.reports])
        assert store.verify() == []
        assert store.segments(KEY) == []
        assert self.other().seals.listed(KEY) == ([], [])


def every_step(plan: Plan, work: Callable[[Bay], object], groups: int = 2) -> int:
    """How many steps work takes."""
    bay = Bay(plan, groups)
    work(bay)
    assert bay.watched.steps > 3
    return bay.watched.steps


def die_at(bay: Bay, place: int, work: Callable[[Bay], object]) -> None:
    def step(number: int) -> None:
        if number >= place:  # the dead do nothing more, also no clearing up
            raise DiedError

    bay.watched.step = step
    with pytest.raises(DiedError):
        work(bay)


def meanwhile(bay: Bay, place: int, work: Callable[[Bay], object], other: Callable[[], object]) -> object:
    """Do work, and something else in the middle of it."""

    def step(number: int) -> None:
        if number == place:
            bay.watched.step = lambda number: None
            other()

    bay.watched.step = step
    return work(bay)


NEW = range(1000, 1040)


def appending(bay: Bay) -> bool:
    return bay.append(bay.store, NEW)


def sealing(bay: Bay) -> bool:
    return bay.store.seal(KEY)


def test_dying_anywhere_in_append(plan: Plan) -> None:
    for place in range(1, every_step(plan, appending) + 1):
        bay = Bay(plan)
        die_at(bay, place, appending)
        bay.check(maybe=NEW)
        bay = Bay(plan)
        die_at(bay, place, appending)
        assert bay.append(bay.other(), NEW)  # sent again, to another collector
        bay.check()


def test_dying_anywhere_in_append_while_the_round_closes(plan: Plan) -> None:
    def closing(bay: Bay) -> None:
        bay.other().seals.close(KEY)
        appending(bay)

    for place in range(1, every_step(plan, closing) + 1):
        bay = Bay(plan)
        die_at(bay, place, closing)
        bay.check(maybe=NEW)


def test_dying_anywhere_in_seal(plan: Plan) -> None:
    for place in range(1, every_step(plan, sealing) + 1):
        bay = Bay(plan)
        die_at(bay, place, sealing)
        seen = LakeStore(bay.files).final(KEY)
        bay.check()
        assert seen in (None, bay.other().final(KEY))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Merge four segments at a time, so that all steps of it can be tried."""
    monkeypatch.setattr("tacit.stores.lake.memory.MERGED_AT_ONCE", 4)
    return 4


def test_dying_anywhere_in_a_merge(plan: Plan, few: int) -> None:
    """The append that makes it four merges them."""
    steps = every_step(plan, appending, few - 1)
    assert steps == every_step(plan, appending, 1) + 2 * (few + 2)  # put, look, remove each
    for place in range(1, steps + 1):
        bay = Bay(plan, few - 1)
        die_at(bay, place, appending)
        bay.check(maybe=NEW)


def test_a_seal_anywhere_in_append(plan: Plan) -> None:
    """Accepted is counted, late is not: whenever another collector seals."""
    answers = set()
    for place in range(1, every_step(plan, appending) + 1):
        bay = Bay(plan)
        answers.add(meanwhile(bay, place, appending, lambda bay=bay: bay.other().seal(KEY)))
        bay.check()
    assert answers == {True, False}


def test_half_a_seal_anywhere_in_append(plan: Plan) -> None:
    """The sealer dies after each of its own steps, or is slow: the one who appends finds out by itself."""
    for place in range(1, every_step(plan, appending) + 1):
        for end in range(1, every_step(plan, sealing) + 1):
            bay = Bay(plan)
            watched = Stepping(bay.files)
            other = LakeStore(watched)
            watched.steps = 0

            def dies(number: int, end: int = end) -> None:
                if number >= end:
                    raise DiedError

            def seal(watched: Stepping = watched, other: LakeStore = other, dies: Step = dies) -> None:
                watched.step = dies
                with pytest.raises(DiedError):
                    other.seal(KEY)

            meanwhile(bay, place, appending, seal)
            bay.check()


def test_appends_anywhere_in_a_seal(plan: Plan) -> None:
    answers = set()
    for place in range(1, every_step(plan, sealing) + 1):
        bay = Bay(plan)
        other = bay.other()
        other.load_open_rounds()
        meanwhile(bay, place, sealing, lambda bay=bay, other=other: answers.add(bay.append(other, NEW)))
        bay.check()
    assert answers == {True, False}


def test_another_seal_anywhere_in_a_seal(plan: Plan) -> None:
    """Exactly one of two says that it sealed."""
    for place in range(1, every_step(plan, sealing) + 1):
        bay = Bay(plan)
        said: list[object] = []
        said.append(
            meanwhile(bay, place, sealing, lambda bay=bay, said=said: said.append(bay.other().seal(KEY)))
        )
        assert sorted(map(bool, said)) == [False, True]
        bay.check()


def test_a_seal_anywhere_in_a_merge(plan: Plan, few: int) -> None:
    for place in range(1, every_step(plan, appending, few - 1) + 1):
        bay = Bay(plan, few - 1)
        meanwhile(bay, place, appending, lambda bay=bay: bay.other().seal(KEY))
        bay.check()


def test_a_round_frozen_anywhere_in_a_merge(plan: Plan, few: int) -> None:
    """The list may have parts that are removed right after: then it has what they were merged into."""
    for place in range(1, every_step(plan, appending, few - 1) + 1):
        bay = Bay(plan, few - 1)
        other = bay.other()

        def freeze(other: LakeStore = other) -> None:
            other.seals.close(KEY)
            other.seals.frozen(KEY)

        meanwhile(bay, place, appending, freeze)
        bay.check()


@pytest.mark.parametrize("work", ["seal", "count", "counts"])
def test_a_merge_anywhere_in_a_seal_or_a_count(plan: Plan, few: int, work: str) -> None:
    place, reached = 1, True
    while reached:
        bay, happened = Bay(plan), []
        other = bay.other()
        for number in range(few - 1):
            bay.append(other, range(100 + 10 * number, 110 + 10 * number))
        bay.watched.steps = 0

        def merge(bay: Bay = bay, other: LakeStore = other, happened: list[bool] = happened) -> None:
            happened.append(bay.append(other, NEW))

        found: Any = meanwhile(bay, place, lambda bay: getattr(bay.store, work)(KEY), merge)
        if work == "count":
            assert found.reports in (50, 50 + len(NEW))
        if work == "counts":
            assert found[()]["minutes"].devices in (50, 50 + len(NEW))
        bay.check()
        place, reached = place + 1, bool(happened)
    assert place > 10


def test_appending_and_sealing_at_once(plan: Plan, tmp_path: Path) -> None:
    """Threads with stores of their own on one folder, in whatever order it happens."""
    for turn in range(6):
        url, accepted, lock = f"lake:///{tmp_path / str(turn)}", set[int](), threading.Lock()
        stores = [open_lake(url) for _ in range(4)]
        stores[0].register(plan)
        stores[0].append({KEY: group([0])})

        def append(
            place: int,
            stores: list[LakeStore] = stores,
            accepted: set[int] = accepted,
            lock: threading.Lock = lock,
        ) -> None:
            for number in range(12):
                numbers = range(1 + 20 * number + 5 * place, 21 + 20 * number + 5 * place)
                if not stores[place].append({KEY: group(numbers)})[KEY].late:
                    with lock:
                        accepted.update(numbers)

        def seal(place: int, turn: int = turn, stores: list[LakeStore] = stores) -> None:
            threading.Event().wait(0.01 * turn)
            stores[place].seal(KEY)

        threads = [threading.Thread(target=append, args=(place,)) for place in (0, 1)]
        threads += [threading.Thread(target=seal, args=(place,)) for place in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        accepted.add(0)
        final = stores[0].final(KEY)
        assert final is not None
        assert final.reports == len(accepted)
        assert final.counts[()]["minutes"].ones == sum(1 for number in accepted if number % 3)  # type: ignore[union-attr]


# The folder of a real file system, call by call


class Calls:
    """The calls that change files, which die at a chosen one; `write` after half of its bytes."""

    NAMES = ("open", "fchmod", "write", "fsync", "close", "link", "unlink", "mkdir", "chmod")

    def __init__(self, patch: pytest.MonkeyPatch, die_at: int = 10**9) -> None:
        self.made: list[str] = []
        self.done: set[str] = set()
        self._die_at = die_at
        for name in self.NAMES:
            patch.setattr(files_module.os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if len(self.made) >= self._die_at:
                if name == "write" and len(self.made) == self._die_at:
                    call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                self.made.append("dead")
                raise DiedError
            self.made.append(name)
            result = call(*arguments, **options)
            self.done.add(name)
            return result

        return watched


def test_a_file_is_synced_before_it_has_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(tmp_path / "lake")
    files.open()
    files.put("reports/first", b"1")
    with monkeypatch.context() as patch:
        calls = Calls(patch)
        files.put("reports/second", b"2")
    assert calls.made == [
        "open",
        "fchmod",
        "write",
        "fsync",
        "close",
        "link",
        "unlink",
        "open",
        "fsync",
        "close",
    ]


def test_dying_at_any_call_leaves_whole_segments_only(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, died = 0, True
    while died:
        url = f"lake:///{tmp_path / str(place)}"
        store = open_lake(url)
        store.register(plan)
        store.append({KEY._replace(round=6): group(range(5))})
        with monkeypatch.context() as patch:
            calls = Calls(patch, die_at=place)
            died = False
            try:
                store.append({KEY: group(range(30))})
            except DiedError:
                died = True
        assert died == ("dead" in calls.made)
        fresh = open_lake(url)
        assert fresh.verify() == []
        stored = fresh.load_open_rounds() - 5
        assert stored in ((0, 30) if died else (30,))
        assert (stored == 30) == ("link" in calls.done)
        fresh.append({KEY: group(range(30))})
        assert fresh.seal(KEY)
        assert [info.reports for info in fresh.rounds()] == [30, 5]
        place += 1
    assert place > 10


def test_what_died_in_the_middle_of_a_write_is_thrown_away_after_a_day(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "lake")
    files.open()
    old, new = (tmp_path / "lake" / "tmp" / name for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    files.open()
    assert (old.exists(), new.exists()) == (False, True)


def test_of_many_who_make_a_file_one_succeeds(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "lake")
    files.open()
    for turn in range(5):
        said: list[tuple[bool, bytes]] = []
        start = threading.Barrier(8)

        def make(place: int, turn: int = turn, start: threading.Barrier = start, said: Any = said) -> None:
            start.wait(10)
            text = f"{place}".encode() * 1000
            said.append((files.put_new(f"a/b{turn}/c", text), text))

        threads = [threading.Thread(target=make, args=(place,)) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        (winner,) = [text for made, text in said if made]
        assert len(said) == 8
        assert files.read(f"a/b{turn}/c") == winner


WRITER = """
import sys
from tacit.stores import RoundKey, open_store
store, start = open_store("lake:///" + sys.argv[1]), int(sys.argv[2])
key = RoundKey("small", 1, 7)
for number in range(start, start + 100_000):
    ids = range(40 * number - 10, 40 * number + 40)     # ten of the group before come again
    store.append({key: b"".join((2**64 + each).to_bytes(16) + b"\\x80" for each in ids)})
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_what_was_acknowledged_outlives_kill_9(tmp_path: Path, plan: Plan) -> None:
    """A writer is killed at random moments; each group whose append returned is there, and none twice."""
    path = tmp_path / "lake"
    open_lake(f"lake:///{path}").register(plan)
    draws, start, told = random.Random(11), 1, []
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(start)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        threading.Timer(draws.random() * 0.3, writer.kill).start()
        lines += writer.stdout.readlines()
        assert writer.wait(60) == -signal.SIGKILL
        writer.stdout.close()
        told += [int(line) for line in lines if line.endswith("\n")]
        start = told[-1] + 1
    last = told[-1]
    assert told == list(range(1, last + 1))
    found = open_lake(f"lake:///{path}")
    assert found.verify() == []
    length = found.load_open_rounds()
    assert 40 * last + 10 <= length <= 40 * (last + 1) + 10
    assert found.counts(KEY)[()]["minutes"].devices == length
    assert found.seal(KEY)
    assert found.rounds()[0].reports == length
