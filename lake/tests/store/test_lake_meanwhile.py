"""
Steps of several collectors that come in any order.

At each operation on files that one of them does, another does all of its own work, or a part of it and dies.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.shared.lakes import (
    NEW,
    Bay,
    DiedError,
    Step,
    Stepping,
    appending,
    every_step,
    meanwhile,
    mixed_group,
    sealing,
)
from tests.shared.writers import KEY

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores import Store, open_store
from reticent_lake.store import LakeBackend, folder_of


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
            other = Store(LakeBackend(watched))
            watched.steps = 0

            def dies(number: int, end: int = end) -> None:
                if number >= end:
                    raise DiedError

            def seal(watched: Stepping = watched, other: Store = other, dies: Step = dies) -> None:
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
        other.stored_reports()
        meanwhile(bay, place, sealing, lambda bay=bay, other=other: answers.add(bay.append(other, NEW)))
        bay.check()
    assert answers == {True, False}


def test_a_seal_and_an_append_by_turns(plan: Plan) -> None:
    """Each does some steps, then the rest: the list of one is older than the part of the other, or newer."""

    def append_late(bay: Bay) -> None:
        bay.other().backend.seals.close(KEY)
        appending(bay)

    for seal_steps in range(1, every_step(plan, sealing) + 1):
        for append_steps in range(1, every_step(plan, append_late) + 3):
            bay = Bay(plan)
            watched = Stepping(bay.files)
            other = Store(LakeBackend(watched))
            watched.steps = 0
            mine, others = threading.Semaphore(0), threading.Semaphore(0)

            def seal_pauses(
                number: int, place: int = seal_steps, mine: Any = mine, others: Any = others
            ) -> None:
                if number == place:
                    mine.release()
                    others.acquire(timeout=10)

            def append_pauses(
                number: int, place: int = append_steps, mine: Any = mine, others: Any = others
            ) -> None:
                if number == place:
                    others.release()
                    mine.acquire(timeout=10)

            def seal(other: Store = other, mine: Any = mine) -> None:
                other.seal(KEY)
                mine.release()

            watched.step, bay.watched.step = seal_pauses, append_pauses
            sealer = threading.Thread(target=seal)
            sealer.start()
            mine.acquire(timeout=10)
            appending(bay)
            others.release()
            sealer.join(10)
            assert not bay.files.names(folder_of(KEY))  # also what was late is gone
            bay.check()


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


def test_a_seal_and_a_prune_anywhere_in_a_seal(plan: Plan) -> None:
    """What was pruned is never there again, however long another process took to count it."""
    for place in range(1, every_step(plan, sealing) + 1):
        bay = Bay(plan)

        def other(bay: Bay = bay) -> None:
            store = bay.other()
            store.seal(KEY)
            assert store.prune(KEY)

        with suppress(StoreError):  # its parts are gone
            meanwhile(bay, place, sealing, other)
        assert bay.other().rounds() == []
        assert [path for path in bay.files.files if path.startswith("counts/")] == []


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

        def freeze(other: Store = other) -> None:
            other.backend.seals.close(KEY)
            other.backend.seals.frozen(KEY)

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

        def merge(bay: Bay = bay, other: Store = other, happened: list[bool] = happened) -> None:
            happened.append(bay.append(other, NEW))

        worker = bay.store.backend if work == "count" else bay.store
        result: Any = meanwhile(bay, place, lambda bay, worker=worker: getattr(worker, work)(KEY), merge)
        if work == "count":
            assert result.reports in (50, 50 + len(NEW))
        if work == "counts":
            assert result[()]["minutes"].devices in (50, 50 + len(NEW))
        bay.check()
        place, reached = place + 1, bool(happened)
    assert place > 10


def test_a_merge_and_the_start_of_a_seal_anywhere_in_a_count(plan: Plan, few: int) -> None:
    """RoundParts that were merged before the list was frozen are not missed."""
    place, reached = 1, True
    while reached:
        bay, happened = Bay(plan), []
        other = bay.other()
        for number in range(few - 1):
            bay.append(other, range(100 + 10 * number, 110 + 10 * number))
        bay.watched.steps = 0

        def merge(bay: Bay = bay, other: Store = other, happened: list[bool] = happened) -> None:
            happened.append(bay.append(other, NEW))
            other.backend.close_round(KEY)

        result: Any = meanwhile(bay, place, lambda bay: bay.store.backend.count(KEY), merge)
        assert result.reports in (50, 50 + len(NEW))
        place, reached = place + 1, bool(happened)
    assert place > 10


def test_appending_and_sealing_at_once(plan: Plan, tmp_path: Path) -> None:
    """Threads with stores of their own on one folder, in whatever order it happens."""
    for turn in range(6):
        url, accepted, lock = f"lake:///{tmp_path / str(turn)}", set[int](), threading.Lock()
        stores = [open_store(url) for _ in range(4)]
        stores[0].register(plan)
        stores[0].append({KEY: mixed_group([0])})

        def append(
            place: int,
            stores: list[Store] = stores,
            accepted: set[int] = accepted,
            lock: threading.Lock = lock,
        ) -> None:
            for number in range(12):
                numbers = range(1 + 20 * number + 5 * place, 21 + 20 * number + 5 * place)
                if not stores[place].append({KEY: mixed_group(numbers)})[KEY].late:
                    with lock:
                        accepted.update(numbers)

        def seal(place: int, turn: int = turn, stores: list[Store] = stores) -> None:
            threading.Event().wait(0.01 * turn)
            stores[place].seal(KEY)

        threads = [threading.Thread(target=append, args=(place,)) for place in (0, 1)]
        threads += [threading.Thread(target=seal, args=(place,)) for place in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        accepted.add(0)
        final = stores[0].backend.final(KEY)
        assert final is not None
        assert final.reports == len(accepted)
        assert final.counts[()]["minutes"].ones == sum(1 for number in accepted if number % 3)  # type: ignore[union-attr]
