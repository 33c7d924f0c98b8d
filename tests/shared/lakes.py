"""A lake in memory, and a collector that stops at each of its steps: to die, or to let others work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pytest
from tests.shared.writers import KEY

from reticent.plan import Plan
from reticent_collector.stores import Store, open_store
from reticent_lake.store import CountingEngine, Files, LakeBackend

NEW = range(1000, 1040)
"""What a collector appends while something happens."""
Step = Callable[[int], None]
Result = TypeVar("Result")


def new_lake(folder: Path, plan: Plan) -> Store:
    """A lake in a folder, that knows a plan."""
    store = open_store(f"lake:///{folder}")
    store.register(plan)
    return store


def mixed_group(numbers: Iterable[int]) -> bytes:
    """Records of which a third, by their ids, have a 0."""
    return b"".join(number.to_bytes(16) + (b"\x80" if number % 3 else b"\x00") for number in numbers)


class DiedError(BaseException):
    """A process ends here: nothing after it happens."""


class Stepping(Files):
    """Files that call `step` before and after each operation, with its number."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.step: Step = lambda number: None
        self.steps = 0

    def _do(self, work: Callable[[], Result]) -> Result:
        self._tick()
        result = work()
        self._tick()
        return result

    def _tick(self) -> None:
        self.steps += 1
        self.step(self.steps)

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
            self._do(partial(self.inner.remove, [path]))

    def open(self) -> None:
        self.inner.open()

    def reader(self, path: str) -> BinaryIO:
        """What an engine reads: no step of the protocol."""
        return self.inner.reader(path)

    def location(self, path: str) -> tuple[str, Any]:
        return self.inner.location(path)


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
    """A lake with some reports in it, in memory if need not be elsewhere, and a collector that can be watched."""

    def __init__(
        self, plan: Plan, groups: int = 2, files: Files | None = None, engine: CountingEngine | None = None
    ) -> None:
        self.plan = plan
        self.files = files or Memory()
        self.watched = Stepping(self.files)
        self.store = Store(LakeBackend(self.watched))
        self.store.backend.engine = engine
        self.store.register(plan)
        self.sent: set[int] = set()
        for number in range(groups):
            self.append(self.store, range(10 * number, 10 * number + 10))
        self.watched.steps = 0

    def other(self) -> Store:
        return Store(LakeBackend(self.files))

    def append(self, store: Store, numbers: Iterable[int]) -> bool:
        """Append; whether it was accepted, which is remembered."""
        numbers = list(numbers)
        (answer,) = store.append({KEY: mixed_group(numbers)}).values()
        if not answer.late:
            self.sent |= set(numbers)
        return not answer.late

    def check(self, maybe: Iterable[int] = ()) -> None:
        """The round holds what was accepted, and of what was under way all or nothing; each once."""
        store = self.other()
        store.seal(KEY)
        found = store.backend.final(KEY)
        assert found is not None
        possible = [self.sent, self.sent | set(maybe)]
        assert found.reports in {len(each) for each in possible}
        ones = {len(each): sum(1 for number in each if number % 3) for each in possible}
        counts = found.counts[()]["minutes"]
        assert (counts.reports, counts.ones) == (found.reports, ones[found.reports])
        assert store.verify() == []
        assert store.backend.parts(KEY) == []
        assert self.other().backend.seals.listed(KEY) == ([], [])


def appending(bay: Bay) -> bool:
    return bay.append(bay.store, NEW)


def sealing(bay: Bay) -> bool:
    return bay.store.seal(KEY)


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
