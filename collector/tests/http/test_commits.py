"""Group commit: what queued up during a commit goes into the next one, and everybody gets an answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from reticent.errors import StoreError
from reticent_collector.http import Committer, QueueFullError
from reticent_collector.stores import Appended, RoundKey

FIRST, SECOND = RoundKey("a", 1, 1), RoundKey("a", 1, 2)


class SlowStore:
    """Writes when it is let, and remembers its commits; fails with what it is told to."""

    def __init__(self) -> None:
        self.commits: list[dict[RoundKey, bytes]] = []
        self.may_go = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)
        self.failures: list[BaseException | None] = []
        self.sealed: set[RoundKey] = set()

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        self.entered.release()
        assert self.may_go.acquire(timeout=10)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.commits.append(dict(records))
        return {
            key: Appended(late=len(each)) if key in self.sealed else Appended(accepted=len(each))
            for key, each in records.items()
        }

    def go(self, times: int = 1) -> None:
        for _ in range(times):
            self.may_go.release()


class Bench:
    """A committer, its store, and a loop to be called back in."""

    def __init__(self, most: int = 100) -> None:
        self.store = SlowStore()
        self.loop = asyncio.new_event_loop()
        self.committer = Committer(self.store, self.loop, most)  # type: ignore[arg-type]
        self.answers: list[tuple[str, Any]] = []
        self.committer.read = self.read  # type: ignore[assignment]

    def submit(self, name: str, key: RoundKey = FIRST, reports: int = 1) -> None:
        def done(result: bool | StoreError) -> None:
            assert threading.current_thread() is threading.main_thread()
            self.answers.append((name, result))

        self.committer.submit({key: [name.encode()]}, reports, done)

    def submit_one(self, *names: str) -> None:
        """Single reports that one look at the connections brings."""
        for name in names:
            self.committer.submit_one(name)
        self.loop.run_until_complete(asyncio.sleep(0))

    def read(self, names: list[str]) -> list[tuple[dict[RoundKey, list[bytes]], Any]]:
        """Single reports: those in capitals are of another round, and digits cannot be read."""
        assert threading.current_thread() is not threading.main_thread()
        parts = []
        for key, is_of in (FIRST, str.islower), (SECOND, str.isupper), (None, str.isdigit):
            chosen = [name for name in names if is_of(name)]
            records = {key: [name.encode() for name in chosen]} if key else {}

            def done(result: object, chosen: list[str] = chosen, key: RoundKey | None = key) -> None:
                self.answers += [(name, key and result) for name in chosen]

            if chosen:
                parts.append((records, done))
        return parts

    def until(self, count: int) -> None:
        async def wait() -> None:
            while len(self.answers) < count:
                await asyncio.sleep(0.005)

        self.loop.run_until_complete(asyncio.wait_for(wait(), 10))


@pytest.fixture
def make() -> Iterator[Callable[..., Bench]]:
    benches: list[Bench] = []

    def made(most: int = 100) -> Bench:
        benches.append(Bench(most))
        return benches[-1]

    yield made
    for bench in benches:
        bench.store.go(100)
        bench.committer.stop()
        bench.loop.close()


def test_what_comes_during_a_commit_goes_into_the_next_one_in_order(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.submit("a")
    bench.store.entered.acquire()
    for name in "bcd":
        bench.submit(name)
    bench.submit("e", SECOND)
    assert bench.committer.waiting == 4
    assert bench.answers == []
    bench.store.go(2)
    bench.until(5)
    assert bench.store.commits == [{FIRST: b"a"}, {FIRST: b"bcd", SECOND: b"e"}]
    assert bench.answers == [("a", True), *((name, True) for name in "bcde")]
    assert (bench.committer.tally.commits, bench.committer.tally.accepted) == (2, 5)
    assert len(bench.committer.latencies) == 2


def test_the_next_group_begins_when_the_answers_to_the_last_are_given(make: Callable[..., Bench]) -> None:
    """So it holds what the loop read meanwhile: no clock is waited for."""
    bench = make()
    bench.store.go(10)
    bench.submit("a")
    bench.store.entered.acquire()
    until_written(bench, 1)
    for name in "bcd":  # the loop does not run: nobody was answered
        bench.submit(name)
    assert not bench.store.entered.acquire(timeout=0.1)
    bench.until(4)
    assert bench.store.commits == [{FIRST: b"a"}, {FIRST: b"bcd"}]


def test_single_reports_are_read_when_their_commit_begins_in_its_thread(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.submit_one("a")
    bench.store.entered.acquire()
    for name in ("b", "C", "1", "d"):
        bench.submit_one(name)
    bench.submit("e")
    assert bench.committer.waiting == 5
    bench.store.go(2)
    bench.until(6)
    assert bench.store.commits == [{FIRST: b"a"}, {FIRST: b"ebd", SECOND: b"C"}]
    assert sorted(bench.answers) == [("1", None), *((name, True) for name in ("C", "a", "b", "d", "e"))]


def test_single_reports_of_a_sealed_round_and_of_a_commit_that_fails(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.store.sealed, bench.store.failures = {SECOND}, [None, None, StoreError("disk full")]
    bench.submit_one("a")
    bench.store.entered.acquire()
    for name in ("b", "C", "1"):
        bench.submit_one(name)
    bench.store.go(2)
    bench.until(4)
    assert sorted(bench.answers[1:], key=str) == [("1", None), ("C", False), ("b", True)]
    for name in ("d", "2"):
        bench.submit_one(name)
    bench.store.go()
    bench.until(6)
    assert dict(bench.answers)["2"] is None
    assert isinstance(dict(bench.answers)["d"], StoreError)


def test_a_group_that_cannot_be_read_at_all_is_answered_without_a_commit(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.submit_one("1")
    bench.until(1)
    assert bench.answers == [("1", None)]
    assert (bench.store.commits, bench.committer.tally.commits) == ([], 0)


def test_too_many_single_reports_are_refused_and_stopping_writes_those_that_wait(
    make: Callable[..., Bench],
) -> None:
    bench = make(most=2)
    bench.submit_one("a")
    bench.store.entered.acquire()
    bench.submit_one("b")
    bench.submit_one("c")
    with pytest.raises(QueueFullError):
        bench.submit_one("d")
    bench.store.go(2)
    bench.committer.stop()
    assert bench.store.commits == [{FIRST: b"a"}, {FIRST: b"bc"}]
    with pytest.raises(QueueFullError):
        bench.submit_one("e")


def until_written(bench: Bench, commits: int) -> None:
    end = time.monotonic() + 10
    while len(bench.store.commits) < commits:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_nobody_is_answered_before_the_commit_is_done(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.submit("a")
    bench.store.entered.acquire()
    bench.loop.run_until_complete(asyncio.sleep(0.1))
    assert bench.answers == []
    bench.store.go()
    bench.until(1)


@pytest.mark.parametrize("failure", [StoreError("disk full"), RuntimeError("who knows"), KeyError("x")])
def test_a_commit_that_fails_answers_all_of_its_group_and_the_next_one_works(
    make: Callable[..., Bench], failure: Exception
) -> None:
    bench = make()
    bench.store.failures = [None, failure]
    bench.submit("a")
    bench.store.entered.acquire()
    bench.submit("b")
    bench.submit("c")
    bench.store.go(2)
    bench.until(3)
    assert bench.answers[0] == ("a", True)
    assert all(isinstance(result, StoreError) for _, result in bench.answers[1:])
    bench.submit("b")
    bench.store.go()
    bench.until(4)
    assert bench.store.commits[-1] == {FIRST: b"b"}
    assert bench.committer.tally.failed_commits == 1


@pytest.mark.parametrize("broken", [OSError(28, "No space left on device"), ValueError("closed file"), None])
def test_a_log_that_cannot_be_written_stops_no_commit(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, broken: Exception | None
) -> None:
    """It may be on the disk that is full, or its reader has gone."""

    class Log:
        def write(self, text: str) -> None:
            assert broken is not None
            raise broken

    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    monkeypatch.setattr("sys.stderr", Log() if broken else None)
    bench = make()
    bench.store.failures = [StoreError("disk full")]
    for turn, name in enumerate("ab", 1):
        bench.submit(name)
        bench.store.go()
        bench.until(turn)
    assert bench.answers[1] == ("b", True)


def test_a_round_sealed_meanwhile_answers_false_to_its_own_only(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.store.sealed = {SECOND}
    bench.submit("a")
    bench.store.entered.acquire()
    bench.submit("b", FIRST)
    bench.submit("c", SECOND)
    bench.store.go(2)
    bench.until(3)
    assert bench.answers[1:] == [("b", True), ("c", False)]


def test_too_much_waiting_is_refused_and_queues_nothing(make: Callable[..., Bench]) -> None:
    bench = make(most=3)
    bench.submit("a")
    bench.store.entered.acquire()
    bench.submit("b", reports=2)
    bench.submit("c")
    with pytest.raises(QueueFullError):
        bench.submit("d")
    bench.store.go(2)
    bench.until(3)
    assert bench.store.commits[-1] == {FIRST: b"bc"}
    bench.submit("d")
    bench.store.go()
    bench.until(4)


def test_a_batch_larger_than_the_queue_is_taken_when_nothing_waits(make: Callable[..., Bench]) -> None:
    """Otherwise it would be refused for ever, however often it is sent again."""
    bench = make(most=3)
    bench.submit("a", reports=10)
    bench.store.go()
    bench.until(1)
    assert bench.answers == [("a", True)]


def test_stopping_writes_what_waits_and_takes_nothing_more(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.submit("a")
    bench.store.entered.acquire()
    bench.submit("b")
    bench.store.go(2)
    bench.committer.stop()
    assert bench.store.commits == [{FIRST: b"a"}, {FIRST: b"b"}]
    with pytest.raises(QueueFullError):
        bench.submit("c")
    bench.until(2)


def test_one_answer_that_fails_does_not_swallow_the_others(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    bench = make()

    def fails(result: object) -> None:
        raise RuntimeError("secret")

    bench.submit("a")
    bench.store.entered.acquire()
    bench.committer.submit({FIRST: [b"x"]}, 1, fails)
    bench.submit("b")
    bench.store.go(2)
    bench.until(2)
    said = capsys.readouterr().err
    assert '"event": "answer-failed"' in said
    assert "secret" not in said


def test_a_closed_loop_does_not_keep_records_from_being_written() -> None:
    bench = Bench()
    bench.submit("a")
    bench.loop.close()
    bench.store.go()
    bench.committer.stop()
    assert bench.store.commits == [{FIRST: b"a"}]
