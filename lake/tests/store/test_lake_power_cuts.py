"""
The power is cut at any call to the operating system, and takes with it all that was not synced.

First during the work of one collector. Then, at each call of it in turn, another collector does its own work
up to any of its syncs of a folder, and is held up there: the first goes on with names that may not last. What
either has promised must outlive the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, count
from pathlib import Path
from typing import Any

import pytest
from tests.shared.disks import Disk
from tests.shared.lakes import NEW, DiedError, mixed_group
from tests.shared.writers import KEY

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores import Count, Store, open_store
from reticent_lake.store import LakeBackend

OTHERS = range(2000, 2025)


@dataclass
class Promises:
    """What was said to devices and readers before the cut."""

    accepted: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    under_way: list[set[int]] = field(default_factory=list)
    final: Count | None = None


class Site:
    """A lake on a disk whose power can be cut, and what its collectors have promised."""

    def __init__(self, folder: Path, plan: Plan, patch: pytest.MonkeyPatch) -> None:
        self.disk = Disk(folder, patch)
        self.plan, self.url = plan, f"lake:///{folder}/new/lake"
        self.promises = Promises()
        self.one: Store
        self.two: Store
        self._checked: set[str] = set()

    def open(self) -> Store:
        return open_store(self.url)

    def append(self, store: Store, numbers: range) -> None:
        self.promises.under_way.append(set(numbers))
        try:
            (answer,) = store.append({KEY: mixed_group(numbers)}).values()
        except StoreError:  # swept away with its folder before it was synced: nothing is promised
            assert store.backend.seals.is_sealed(KEY)
            return
        self.promises.under_way.remove(set(numbers))
        (self.promises.late if answer.late else self.promises.accepted).update(numbers)

    def seal(self, store: Store) -> None:
        store.seal(KEY)
        self.read(store)

    def read(self, store: Store) -> None:
        self.promises.final = store.backend.final(KEY) or self.promises.final

    def check(self) -> None:
        """Each promise outlives each kind of power cut: what was accepted is counted, what was late is not."""
        accepted = self.promises.accepted
        for image in self.disk.images("new/lake"):
            moment = repr((sorted(image.files), self.promises))
            if moment in self._checked or (not accepted and not image.files):
                continue
            self._checked.add(moment)
            store = Store(LakeBackend(image))
            if not accepted:  # after that the plan must be known
                store.register(self.plan)
            store.seal(KEY)
            final = store.backend.final(KEY)
            reports, ones = (final.reports, final.counts[()]["minutes"].ones) if final else (0, 0)  # type: ignore[union-attr]
            possible = [
                accepted.union(*some)
                for size in range(3)
                for some in combinations(self.promises.under_way, size)
            ]
            assert (reports, ones) in [(len(ids), sum(1 for n in ids if n % 3)) for ids in possible]
            assert self.promises.final in (None, final)
            assert store.verify() == []
            assert LakeBackend(image).parts(KEY) == []


Work = Callable[[Site], object]
Build = Callable[[int], Site]


@pytest.fixture
def build(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """
    Makes lakes, each on a disk of its own, with so many groups of reports by the first of two collectors.

    Four parts are merged, so that all calls of a merge can be tried.
    """
    numbers = count(1)

    def make(groups: int) -> Site:
        monkeypatch.undo()
        monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
        site = Site(tmp_path / str(next(numbers)), plan, monkeypatch)
        if groups >= 0:
            site.one, site.two = site.open(), site.open()
            site.one.register(plan)
        for number in range(groups):
            site.append(site.one, range(10 * number, 10 * number + 10))
        return site

    yield make
    monkeypatch.undo()


def cut_at_every_call(site: Site, work: Work) -> None:
    site.disk.step = lambda call: site.check()
    work(site)
    site.check()


def held_up_at_every_sync(
    build: Build, groups: int, held_up: Work, work: Work, *, first: bool = False
) -> int:
    """
    Hold up one collector at each of its syncs of a folder, while another works; cut the power at each call.

    The one begins at each call of the other, or with `first` before all of them. Returns how many trials.
    """
    trials = 0
    for place in count(0):
        for sync in count(1):
            site = build(groups)
            calls = syncs = 0

            def until_sync(call: str, sync: int = sync) -> None:
                nonlocal syncs
                syncs += call == "sync a changed Folder"
                if syncs >= sync:  # nor does it clear up
                    raise DiedError

            def until_place(call: str, site: Site = site, place: int = place, hold: Any = until_sync) -> None:
                nonlocal calls
                calls += 1
                if calls > place:
                    site.disk.step = hold
                    with suppress(DiedError):
                        held_up(site)
                    site.disk.step = lambda call: site.check()

            site.disk.step = until_place
            if place == 0:
                until_place("")
            work(site)
            site.check()
            trials += 1
            if syncs < sync:  # its work was done before: all syncs were tried
                break
        if first or calls <= place:
            return trials
    raise AssertionError


def appending(site: Site) -> None:
    site.append(site.one, NEW)


def sealing(site: Site) -> None:
    site.seal(site.one)


@pytest.mark.parametrize("groups", [0, 2, 3], ids=["new round", "known round", "merging"])
def test_append(build: Build, groups: int) -> None:
    cut_at_every_call(build(groups), appending)


def test_seal(build: Build) -> None:
    cut_at_every_call(build(2), sealing)


@pytest.mark.long
@pytest.mark.parametrize("groups", [0, 2, 3], ids=["new round", "known round", "merging"])
def test_the_same_reports_come_to_another_collector(build: Build, groups: int) -> None:
    """It says that it knows them when it has seen the first one's part, so that part must last."""
    held_up_at_every_sync(build, groups, appending, lambda site: site.append(site.two, NEW))


@pytest.mark.parametrize("groups", [0, 3], ids=["new round", "merging"])
def test_other_reports_come_to_another_collector(build: Build, groups: int) -> None:
    """It takes for granted what the first has made: folders too."""
    held_up_at_every_sync(build, groups, appending, lambda site: site.append(site.two, OTHERS))


@pytest.mark.parametrize("groups", [2, 3], ids=["known round", "merging"])
def test_a_seal_while_another_collector_appends(build: Build, groups: int) -> None:
    held_up_at_every_sync(build, groups, appending, lambda site: site.seal(site.two), first=True)


def test_two_seal(build: Build) -> None:
    """Who sees the counts removes the parts, so the counts must last."""
    held_up_at_every_sync(build, 2, sealing, lambda site: site.seal(site.two), first=True)


def test_a_start_while_another_collector_seals(build: Build) -> None:
    """It removes the parts of sealed rounds."""
    held_up_at_every_sync(build, 2, sealing, lambda site: site.open(), first=True)


def test_a_reader_while_another_collector_seals(build: Build) -> None:
    held_up_at_every_sync(build, 2, sealing, lambda site: site.read(site.two), first=True)


@pytest.mark.long
def test_an_append_while_another_collector_seals(build: Build) -> None:
    """What is late by a list that may not last is not counted by the next list either."""

    def append(site: Site) -> None:
        site.append(site.two, OTHERS)

    held_up_at_every_sync(build, 2, sealing, append)


def test_two_collectors_open_a_new_lake(build: Build) -> None:
    """The second finds the folder, `lake.json` and the plan, and takes them for granted."""

    def begin(site: Site, numbers: range) -> None:
        store = site.open()
        store.register(site.plan)
        site.append(store, numbers)

    held_up_at_every_sync(
        build, -1, lambda site: begin(site, NEW), lambda site: begin(site, OTHERS), first=True
    )
