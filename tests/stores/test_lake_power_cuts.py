"""
The power is cut at any call to the operating system, and takes with it all that was not synced.

One collector stops in the middle of its work, at each call in turn; another does all of its own work, on
files and folders that the first has named and perhaps not synced. What either has promised by then must
outlive the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.shared.disks import Disk
from tests.shared.lakes import NEW, DiedError, mixed_group
from tests.shared.writers import KEY

from reticent.plan import Plan
from reticent.stores import Count, LakeBackend, RoundStore, open_store

OTHERS = range(2000, 2025)


@dataclass
class Promises:
    """What was said to devices and readers before the cut."""

    accepted: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    under_way: set[int] = field(default_factory=set)
    final: Count | None = None


class Site:
    """A lake on a disk whose power can be cut, and what its collectors have promised."""

    def __init__(self, folder: Path, plan: Plan, patch: pytest.MonkeyPatch) -> None:
        self.disk = Disk(folder, patch)
        self.plan, self.url = plan, f"lake:///{folder}/new/lake"
        self.promises = Promises()

    def open(self) -> RoundStore:
        return open_store(self.url)

    def register(self, store: RoundStore) -> RoundStore:
        store.register(self.plan)
        return store

    def append(self, store: RoundStore, numbers: range) -> None:
        self.promises.under_way |= set(numbers)
        (answer,) = store.append({KEY: mixed_group(numbers)}).values()
        self.promises.under_way -= set(numbers)
        (self.promises.late if answer.late else self.promises.accepted).update(numbers)

    def seal(self, store: RoundStore) -> None:
        store.seal(KEY)
        self.read(store)

    def read(self, store: RoundStore) -> None:
        self.promises.final = store.backend.final(KEY) or self.promises.final

    def check(self) -> None:
        """Each promise outlives each kind of power cut: what was accepted is counted, what was late is not."""
        for image in self.disk.images("new/lake"):
            if self.promises == Promises() and not image.files:
                continue
            store = self.register(RoundStore(LakeBackend(image)))
            store.seal(KEY)
            final = store.backend.final(KEY)
            reports, ones = (final.reports, final.counts[()]["minutes"].ones) if final else (0, 0)
            possible = [self.promises.accepted, self.promises.accepted | self.promises.under_way]
            assert (reports, ones) in [(len(ids), sum(1 for n in ids if n % 3)) for ids in possible]
            assert self.promises.final in (None, final)
            assert store.verify() == []
            assert LakeBackend(image).parts(KEY) == []


@dataclass
class Scene:
    """Two collectors with some reports, as each trial begins."""

    site: Site
    one: RoundStore
    two: RoundStore


@pytest.fixture(autouse=True)
def four_parts_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all calls of a merge can be tried."""
    monkeypatch.setattr(LakeBackend, "merged_at_once", 4)


@pytest.fixture
def scenes(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Scene]]:
    """Makes lakes, each on a disk of its own, with so many groups of reports by the first collector."""
    made = 0

    def make(groups: int) -> Scene:
        nonlocal made
        made += 1
        monkeypatch.undo()
        monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
        site = Site(tmp_path / str(made), plan, monkeypatch)
        one, two = site.register(site.open()), site.open()
        for number in range(groups):
            site.append(one, range(10 * number, 10 * number + 10))
        site.disk.steps = 0
        return Scene(site, one, two)

    yield make
    monkeypatch.undo()


Work = Callable[[Scene], object]


def appending(scene: Scene) -> None:
    scene.site.append(scene.one, NEW)


def sealing(scene: Scene) -> None:
    scene.site.seal(scene.one)


def cut_at_every_call(make: Callable[[int], Scene], groups: int, work: Work, meanwhile: Work) -> int:
    """Stop the first collector at each call of its work, let the second do its own, and cut the power."""
    for place in range(1, 200):
        scene = make(groups)

        def stop(number: int, scene: Scene = scene, place: int = place) -> None:
            if number == place:
                scene.site.disk.step = lambda number: None
                meanwhile(scene)
                scene.site.check()

                def dead(number: int) -> None:
                    raise DiedError

                scene.site.disk.step = dead
            if number >= place:
                raise DiedError

        scene.site.disk.step = stop
        try:
            work(scene)
        except DiedError:
            continue
        scene.site.check()
        return place
    raise AssertionError("the work does not end")


def nothing(scene: Scene) -> None:
    pass


@pytest.mark.parametrize("groups", [0, 2, 3], ids=["new round", "known round", "merging"])
def test_append(scenes: Callable[[int], Scene], groups: int) -> None:
    assert cut_at_every_call(scenes, groups, appending, nothing) > 6


def test_seal(scenes: Callable[[int], Scene]) -> None:
    assert cut_at_every_call(scenes, 2, sealing, nothing) > 20


@pytest.mark.parametrize("groups", [0, 2, 3], ids=["new round", "known round", "merging"])
def test_the_same_reports_come_to_another_collector(scenes: Callable[[int], Scene], groups: int) -> None:
    """It says that it knows them when it has seen the first one's part, so that part must last."""
    cut_at_every_call(scenes, groups, appending, lambda scene: scene.site.append(scene.site.open(), NEW))


@pytest.mark.parametrize("groups", [0, 3], ids=["new round", "merging"])
def test_other_reports_come_to_another_collector(scenes: Callable[[int], Scene], groups: int) -> None:
    """Folders that the first has made are not synced perhaps."""
    cut_at_every_call(scenes, groups, appending, lambda scene: scene.site.append(scene.two, OTHERS))


@pytest.mark.parametrize("groups", [2, 3], ids=["known round", "merging"])
def test_another_collector_seals_while_one_appends(scenes: Callable[[int], Scene], groups: int) -> None:
    cut_at_every_call(scenes, groups, appending, lambda scene: scene.site.seal(scene.two))


def test_another_collector_seals_too(scenes: Callable[[int], Scene]) -> None:
    """It removes parts when it sees the counts, so these must last."""
    cut_at_every_call(scenes, 2, sealing, lambda scene: scene.site.seal(scene.two))


def test_another_collector_starts_while_one_seals(scenes: Callable[[int], Scene]) -> None:
    cut_at_every_call(scenes, 2, sealing, lambda scene: scene.site.open())


def test_another_collector_reads_while_one_seals(scenes: Callable[[int], Scene]) -> None:
    cut_at_every_call(scenes, 2, sealing, lambda scene: scene.site.read(scene.two))


def test_reports_come_to_another_collector_while_one_seals(scenes: Callable[[int], Scene]) -> None:
    cut_at_every_call(scenes, 2, sealing, lambda scene: scene.site.append(scene.two, OTHERS))


def test_two_collectors_open_a_new_lake(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second finds the folder, `lake.json` and the plan, and takes them for granted."""

    def make(groups: int) -> Scene:
        monkeypatch.undo()
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        site = Site(folder, plan, monkeypatch)
        return Scene(site, None, None)  # type: ignore[arg-type]

    def begin(scene: Scene) -> None:
        scene.site.append(scene.site.register(scene.site.open()), NEW)

    def begin_too(scene: Scene) -> None:
        scene.site.append(scene.site.register(scene.site.open()), OTHERS)

    assert cut_at_every_call(make, 0, begin, begin_too) > 30
