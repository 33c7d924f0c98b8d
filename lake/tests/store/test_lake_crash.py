"""
Collectors that die at any step.

A lake does everything by a few operations on files. Here each of them, one after the other, is the moment at
which a collector dies; then each call to the operating system; then any moment at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.shared.lakes import (
    NEW,
    Bay,
    DiedError,
    appending,
    die_at,
    every_step,
    mixed_group,
    new_lake,
    sealing,
)
from tests.shared.writers import KEY, check_written, killed_writers

from reticent.plan import Plan
from reticent_collector.stores import open_store
from reticent_lake.store import LakeBackend, LocalFiles


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
        bay.other().backend.seals.close(KEY)
        appending(bay)

    for place in range(1, every_step(plan, closing) + 1):
        bay = Bay(plan)
        die_at(bay, place, closing)
        bay.check(maybe=NEW)


def test_dying_anywhere_in_seal(plan: Plan) -> None:
    for place in range(1, every_step(plan, sealing) + 1):
        bay = Bay(plan)
        die_at(bay, place, sealing)
        seen = LakeBackend(bay.files).final(KEY)
        bay.check()
        assert seen in (None, bay.other().backend.final(KEY))


def test_dying_anywhere_in_a_merge(plan: Plan, few: int) -> None:
    """The append that makes it four merges them."""
    steps = every_step(plan, appending, few - 1)
    assert steps == every_step(plan, appending, 1) + 2 * (few + 2)  # put, look, remove each
    for place in range(1, steps + 1):
        bay = Bay(plan, few - 1)
        die_at(bay, place, appending)
        bay.check(maybe=NEW)


# The folder of a real file system, call by call


class Calls:
    """The calls that change files, which die at a chosen one; `write` after half of its bytes."""

    NAMES = ("open", "fchmod", "write", "fsync", "close", "link", "unlink", "mkdir", "chmod")

    def __init__(self, patch: pytest.MonkeyPatch, die_at: int = 10**9) -> None:
        self.made: list[str] = []
        self.done: set[str] = set()
        self._die_at = die_at
        for name in self.NAMES:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

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


def test_a_file_that_another_process_just_made_is_durable_once_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That process may die before it syncs the folder; whoever finds the file may already rely on it."""
    first, second = LocalFiles(tmp_path / "lake"), LocalFiles(tmp_path / "lake")
    for files in (first, second):
        files.open()
    assert first.put_new("seals/closing.json", b"1")
    with monkeypatch.context() as patch:
        calls = Calls(patch)
        assert not second.put_new("seals/closing.json", b"2")
    after = calls.made.index("unlink") + 1
    assert calls.made[after : after + 3] == ["open", "fsync", "close"]


def test_dying_at_any_call_leaves_whole_parts_only(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, died = 0, True
    while died:
        url = f"lake:///{tmp_path / str(place)}"
        store = open_store(url)
        store.register(plan)
        store.append({KEY._replace(round=6): mixed_group(range(5))})
        with monkeypatch.context() as patch:
            calls = Calls(patch, die_at=place)
            died = False
            try:
                store.append({KEY: mixed_group(range(30))})
            except DiedError:
                died = True
        assert died == ("dead" in calls.made)
        fresh = open_store(url)
        assert fresh.verify() == []
        stored = fresh.stored_reports() - 5
        assert stored in ((0, 30) if died else (30,))
        assert (stored == 30) == ("link" in calls.done)
        fresh.append({KEY: mixed_group(range(30))})
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


def test_what_was_acknowledged_outlives_kill_9(tmp_path: Path, plan: Plan) -> None:
    """A writer is killed at random moments; each group whose append returned is there, and none twice."""
    url = new_lake(tmp_path / "lake", plan).url
    last = killed_writers(url, kills=2, longest=0.3)
    check_written(open_store(url), last)
