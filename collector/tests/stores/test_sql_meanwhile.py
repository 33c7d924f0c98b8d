"""
What others do in the middle of an append or a seal, at every point of it, on both databases.

Nothing is left to luck: the one in the middle is held at a point until what the others do is done, or waits for it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from reticent.errors import StoreError
from reticent.reports import Report
from reticent_collector.stores import Appended, PostgresBackend, SqliteBackend, Store
from reticent_collector.testing import Bench


class Meanwhile:
    """A store whose append or seal is held at a point, while something is done beside it."""

    def __init__(self, bench: Bench, url: str) -> None:
        self.bench, self.url = bench, url
        self.store, self.other = bench.store, bench.open()
        assert isinstance(self.store, Store)
        assert isinstance(self.other, Store)
        self.has_waited = threading.Event()
        self.accepted: list[Report] = []
        self.failed: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def append(self, reports: list[Report], store: Store | None = None) -> None:
        """Append until it is accepted or late, as a collector's devices do."""
        answer = self.again(lambda: self.bench.append(reports, store)[self.bench.key(7)])
        assert answer == Appended(late=len(reports)) or not answer.late
        self.accepted += reports if not answer.late else []

    def seal(self, store: Store) -> None:
        self.again(lambda: store.seal(self.bench.key(7)))

    def again(self, work: Callable[[], Any]) -> Any:
        """Do something until it is done: who waits for SQLite gives up soon, and tries again."""
        for _ in range(300):
            try:
                return work()
            except StoreError:
                self.has_waited.set()
                time.sleep(0.01)
        raise AssertionError("it never worked")

    def beside(self, work: Callable[[], object]) -> None:
        """Begin to do something; returns when it is done, or waits for the one that is held."""

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.failed.append(error)

        self._threads.append(threading.Thread(target=guarded))
        self._threads[-1].start()
        end = time.monotonic() + 30
        while self._threads[-1].is_alive() and not self.has_waited.is_set() and not self._is_locked():
            assert time.monotonic() < end
            time.sleep(0.005)

    def _is_locked(self) -> bool:
        if not self.url.startswith("postgresql"):
            return False
        with psycopg.connect(self.url) as connection:
            query = "SELECT datname FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            return (self.url.partition("?")[0].rpartition("/")[2],) in connection.execute(query).fetchall()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        assert self.failed == []

    @contextmanager
    def held(self, point: str, patch: pytest.MonkeyPatch, work: Callable[[], object]) -> Iterator[None]:
        """The next put of the store is held at a point while work is done beside it."""
        backend, done = self.store.backend, [False]
        put, commit = backend.put, backend._writer.commit

        def now(name: str) -> None:
            if name == point and not done[0]:
                done[0] = True
                self.beside(work)

        def held_put(groups: Any) -> Any:
            now("before put")
            return put(groups)

        def held_commit(connection: Any) -> None:
            now("before commit")
            commit(connection)
            now("after commit")

        with patch.context() as patched:
            patched.setattr(backend, "put", held_put)
            patched.setattr(backend._writer, "commit", held_commit)
            yield
        assert done[0]
        self.join()


@pytest.fixture
def meanwhile(bench: Bench, url: str, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    monkeypatch.setattr("reticent_collector.stores.sqlite_files.PATIENCE", 0.1)
    monkeypatch.setattr("reticent_collector.stores.sqlite_files.PLACE_SECONDS", 0.1)
    monkeypatch.setattr(
        "reticent_collector.stores.postgres._PLACE_SECONDS", 3.0
    )  # to connect takes a while too
    return Meanwhile(bench, url)


WORK: dict[str, Callable[[Meanwhile], object]] = {
    "it counts": lambda m: m.store.counts(m.bench.key(7)),
    "it lists": lambda m: m.store.rounds(),
    "it seals": lambda m: m.seal(m.store),
    "another counts": lambda m: m.other.counts(m.bench.key(7)),
    "another seals": lambda m: m.seal(m.other),
    "another appends": lambda m: m.append(m.shared, m.other),
    "another appends and seals": lambda m: (m.append(m.shared, m.other), m.seal(m.other)),
}


@pytest.mark.parametrize("is_first", [False, True], ids=["", "first group"])
@pytest.mark.parametrize("point", ["before put", "before commit", "after commit"])
@pytest.mark.parametrize("name", WORK)
def test_what_is_accepted_is_counted_once_whatever_happens_during_an_append(
    meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch, name: str, point: str, is_first: bool
) -> None:
    bench, key = meanwhile.bench, meanwhile.bench.key(7)
    before, mine, shared = bench.reports(5), bench.reports(10), bench.reports(3)
    meanwhile.shared = [*mine[:4], *shared]  # type: ignore[attr-defined]
    if not is_first:
        meanwhile.append(before)
        meanwhile.other.stored_reports()
    with meanwhile.held(point, monkeypatch, lambda: WORK[name](meanwhile)):
        meanwhile.append(mine)
    accepted = {report.id: report for report in meanwhile.accepted}.values()
    for store in (meanwhile.store, meanwhile.other):
        assert store.counts(key) == bench.expected(accepted)
    meanwhile.seal(meanwhile.other)
    for store in (meanwhile.store, meanwhile.other, bench.open()):
        assert store.counts(key) == bench.expected(accepted)
        assert bench.states(store) == ({key: ("sealed", len(accepted))} if accepted else {})
    assert meanwhile.store.verify() == []


# Sealing does not keep anybody waiting


def test_a_round_is_sealed_while_somebody_reads_its_table(
    bench: Bench, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pg_dump does: the counts are final at once, other rounds take reports, and the table goes later."""
    monkeypatch.setattr(PostgresBackend, "statement_seconds", math.inf)
    key, other, reports = bench.key(7), bench.key(8), bench.reports(10)
    store = bench.open()
    bench.append(reports, store)
    bench.append(bench.reports(1, 8), store)
    with bench.store.backend.reading() as reader:
        reader.execute("SELECT count(*) FROM records_1")
        assert store.seal(key)
        assert store.counts(key) == bench.expected(reports)
        assert bench.append(bench.reports(2, 8), store)[other].accepted == 2
        assert bench.append(bench.reports(2), store)[key] == Appended(late=2)
        store.sweep()
        if url.startswith("postgresql"):
            assert any("records_1 is still there" in problem for problem in store.verify())
    store.sweep()
    assert store.verify() == []
    assert store.counts(key) == bench.expected(reports)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_appends_do_not_wait_for_a_seal_that_waits(bench: Bench, url: str) -> None:
    """A round that another collector holds is waited for on a connection of its own."""
    bench.append(bench.reports(10))
    meanwhile = Meanwhile(bench, url)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT * FROM reticent.rounds FOR SHARE")
        meanwhile.beside(lambda: meanwhile.store.seal(bench.key(7)))
        assert meanwhile._is_locked()
        assert bench.append(bench.reports(5, 8))[bench.key(8)].accepted == 5
        assert meanwhile._is_locked(), "the seal still waits"
    meanwhile.join()
    assert bench.states()[bench.key(7)] == ("sealed", 10)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("dies_at", [None, 0, 1, 4])
def test_a_large_round_is_dropped_little_by_little(
    bench: Bench, url: str, monkeypatch: pytest.MonkeyPatch, dies_at: int | None
) -> None:
    """Others append in between; whoever dies in the middle leaves a sealed round, and the rest is swept later."""
    monkeypatch.setattr("reticent_collector.stores.sqlite._DROPPED_BYTES", 100)
    monkeypatch.setattr("reticent_collector.stores.sqlite_files.PATIENCE", 0.1)
    reports = [bench.reports(20) for _ in range(8)]
    for group in reports:
        bench.append(group)
    key, other, turns = bench.key(7), bench.open(), [0]
    expected = bench.expected(report for group in reports for report in group)
    drop, writing = SqliteBackend.drop_records, SqliteBackend.writing

    @contextmanager
    def between(self: SqliteBackend) -> Iterator[Any]:
        if turns[0] == dies_at:
            raise StoreError("the power went out")
        turns[0] += 1
        assert bench.append(bench.reports(1, 8), other)[bench.key(8)].accepted == 1
        with writing(self) as transaction:
            yield transaction

    def watched(self: SqliteBackend, number: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(self, "writing", between.__get__(self))
            drop(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteBackend, "drop_records", watched)
        assert bench.store.seal(key)
    assert turns[0] == (9 if dies_at is None else dies_at)
    assert bench.open().counts(key) == expected
    assert bool(other.verify()) == (dies_at is not None)
    other.sweep()
    assert other.verify() == []
    assert (other.counts(key), bench.states(other)[key]) == (expected, ("sealed", 160))
