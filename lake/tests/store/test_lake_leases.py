"""One collector seals a round and the others leave it to it; where that fails, the result is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shared.lakes import Bay, Memory, die_at, every_step, meanwhile
from tests.shared.writers import KEY

from reticent.plan import Plan
from reticent_collector.stores import Store
from reticent_lake.frames import DuckDB
from reticent_lake.store import LakeBackend, Leases, LocalFiles, folder_of


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_a_lease_is_held_while_it_is_renewed_and_runs_out_by_the_clock_of_who_waits() -> None:
    files, clocks = Memory(), [Clock(0.0), Clock(1e6)]
    one, two = (Leases(files, str(place), 10.0, clock) for place, clock in enumerate(clocks))
    assert one.take(KEY)
    assert not two.take(KEY)
    for _ in range(5):
        clocks[1].now += 9.0
        assert not two.take(KEY)
        assert one.take(KEY)  # renewed
        clocks[1].now += 9.0
        assert not two.take(KEY)  # another lease than the one that was watched
    clocks[1].now += 9.9
    assert not two.take(KEY)
    clocks[1].now += 0.2
    assert two.take(KEY)
    assert not one.take(KEY)
    assert len(files.names(folder_of(KEY, "seals"))) == 1
    one.release(KEY)  # it is not its own any more
    assert not one.take(KEY)
    two.release(KEY)
    assert files.files == {}
    assert one.take(KEY)


def test_of_two_who_take_over_one_succeeds() -> None:
    """The other's step comes at each point of the first one's."""

    class Meddled(Memory):
        def put_new(self, path: str, data: bytes) -> bool:
            if meddle:
                meddle.pop()()
            return super().put_new(path, data)

    meddle = []
    files, clock = Meddled(), Clock(0.0)
    dead, one, two = (Leases(files, name, 10.0, clock) for name in ("dead", "one", "two"))
    assert dead.take(KEY)
    assert not one.take(KEY)
    assert not two.take(KEY)
    clock.now += 11
    answers: list[bool] = []
    meddle.append(lambda: answers.append(two.take(KEY)))
    answers.append(one.take(KEY))
    assert sorted(answers) == [False, True]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"{"])
def test_a_damaged_lease_runs_out_too(text: bytes) -> None:
    files, clock = Memory(), Clock(0.0)
    files.files[f"{folder_of(KEY, 'seals')}/lease-00000007.json"] = text
    lease = Leases(files, "one", 10.0, clock)
    assert not lease.take(KEY)
    clock.now += 11
    assert lease.take(KEY)


def claiming(bay: Bay) -> bool:
    with bay.store.claim(KEY) as is_mine:
        return is_mine and bay.store.seal(KEY)


def test_one_of_two_collectors_counts_a_round(plan: Plan) -> None:
    for place in range(1, every_step(plan, claiming) + 1):
        bay = Bay(plan)
        other = bay.other()
        other.stored_reports()
        counted: list[bool] = []

        def claim_too(bay: Bay = bay, other: Store = other, counted: list[bool] = counted) -> None:
            with other.claim(KEY) as is_mine:
                counted.append(is_mine)
                if is_mine:
                    other.seal(KEY)

        sealed = meanwhile(bay, place, claiming, claim_too)
        assert sealed or counted == [True]
        other.sweep()
        assert other.stored_reports() == 0  # also of a round that it left to the other
        bay.check()
        assert not [path for path in bay.files.files if "lease" in path]


def test_dying_anywhere_with_a_lease(plan: Plan) -> None:
    """Whoever finds the round due later seals it, at once by hand, or when the lease has run out."""
    for place in range(1, every_step(plan, claiming) + 1):
        bay = Bay(plan)
        die_at(bay, place, claiming)
        clock = Clock(0.0)
        other = bay.other()
        other.backend.leases = Leases(bay.files, "other", 10.0, clock)
        for _ in range(2):
            with other.claim(KEY) as is_mine:
                if is_mine:
                    other.seal(KEY)
            clock.now += 11
        assert other.unsealed() == []
        bay.check()


def test_a_lost_lease_does_not_stop_a_seal(plan: Plan) -> None:
    """Two seal at once when one was taken for dead: one of them says that it sealed."""
    bay = Bay(plan)
    other = bay.other()
    with bay.store.claim(KEY) as is_mine:
        assert is_mine
        bay.files.remove([path for path in bay.files.files if "lease" in path])
        with other.claim(KEY) as is_others:
            assert is_others
            assert sorted([bay.store.seal(KEY), other.seal(KEY)]) == [False, True]
    bay.check()


@pytest.mark.long
def test_an_engine_that_seals_dies_anywhere_or_meets_a_collector(plan: Plan, tmp_path: Path) -> None:
    """DuckDB and a collector with NumPy: whoever dies or is quicker at whichever step, there is one result."""
    start, places = tmp_path / "start", range(1, 100)

    def bay(name: str) -> Bay:
        return Bay(plan, files=LocalFiles(tmp_path / name), engine=DuckDB(threads=1))

    first = bay("first")
    assert claiming(first)
    steps = first.watched.steps
    first.check()
    assert steps < len(places)
    for place in places[:steps]:
        dying, met = bay(f"{start}-{place}-a"), bay(f"{start}-{place}-b")
        die_at(dying, place, claiming)
        seen = LakeBackend(dying.files).final(KEY)
        dying.check()
        assert seen in (None, dying.other().backend.final(KEY))
        collector = met.other()
        sealed: list[bool] = []
        sealed.append(bool(meanwhile(met, place, claiming, lambda: sealed.append(collector.seal(KEY)))))  # noqa: B023
        assert sorted(sealed) == [False, True]
        met.check()
