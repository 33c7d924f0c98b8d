"""The shared store: several collectors, restarts of the server, schema versions, passwords."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from reticent.errors import StoreError
from reticent.reports import Report
from reticent_collector.stores import Appended, Store, open_store
from reticent_collector.testing import Bench

Open = Callable[[str], Store]


@pytest.fixture
def url(postgres: Any) -> str:
    """Only PostgreSQL here."""
    address: str = postgres.new_database()
    return address


def sql(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_collectors_append_while_another_seals(bench: Bench) -> None:
    """Every report is sent to both collectors, in another order; what was acknowledged is counted once."""
    key, reports = bench.key(7), bench.reports(4000)
    stores = [bench.store, bench.open(), bench.open()]
    acknowledged: dict[bytes, Report] = {}
    late: list[Report] = []
    part_way = threading.Event()

    def collect(place: int) -> None:
        for start in range(0, 4000, 100):
            first = start if place else 3900 - start
            answer = bench.append(group := reports[first : first + 100], stores[place])[key]
            assert answer.accepted == 100 or answer == Appended(late=100)
            if answer.late:
                late.extend(group)
            else:
                acknowledged.update({report.id: report for report in group})
            if start == 1500:
                part_way.set()

    def seal() -> None:
        part_way.wait(60)
        assert stores[2].seal(key)

    threads = [threading.Thread(target=collect, args=(place,)) for place in (0, 1)]
    threads.append(threading.Thread(target=seal))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert late, "the seal came too late to be tested"
    for store in stores:
        assert store.counts(key) == bench.expected(acknowledged.values())
        assert bench.states(store) == {key: ("sealed", len(acknowledged))}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["shutdown", "crash"])
def test_a_restart_of_the_server_loses_and_doubles_nothing(bench: Bench, postgres: Any, how: int) -> None:
    """
    A collector that tries each group until it is taken, while the server goes away and comes back.

    A commit whose answer was lost may have happened: the group is sent again, and counts once.
    """
    key, groups = bench.key(7), [bench.reports(20) for _ in range(60)]
    failures: list[str] = []
    part_way, down = threading.Event(), threading.Event()

    def collect() -> None:
        for number, group in enumerate(groups):
            if number == 20:
                part_way.set()
                down.wait(60)
            for _ in range(2000):
                try:
                    answer = bench.append(group)[key]
                except StoreError as error:
                    failures.append(str(error))
                    time.sleep(0.02)
                else:
                    assert answer.accepted == 20
                    break

    thread = threading.Thread(target=collect)
    thread.start()
    part_way.wait(60)
    postgres.stop(how)
    down.set()
    while not failures:
        time.sleep(0.01)
    with pytest.raises(StoreError):
        bench.store.ping()
    with pytest.raises(StoreError):
        bench.store.rounds()
    postgres.start()
    thread.join(120)
    everything = [report for group in groups for report in group]
    assert failures
    assert bench.store.counts(key) == bench.expected(everything)
    assert bench.store.verify() == []
    assert bench.store.seal(key)
    assert bench.store.counts(key) == bench.expected(everything)


def test_a_commit_whose_answer_was_lost_counts_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    key, reports = bench.key(7), bench.reports(50)
    bench.append(reports[:10])
    connections = type(bench.store.backend._writer)
    commit = connections.commit

    def commit_then_break(self: Any, connection: Any) -> None:
        commit(self, connection)
        connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(connections, "commit", commit_then_break)
        with pytest.raises(StoreError, match="server closed the connection"):
            bench.store.append({key: b"".join(map(bench.layout.pack, reports))})
    assert bench.append(reports)[key] == Appended(accepted=50)
    assert bench.states() == {key: ("open", 110)}  # the commit that seemed to fail stored 50 of them
    assert bench.store.counts(key) == bench.expected(reports)
    assert bench.store.seal(key)
    assert bench.store.counts(key) == bench.expected(reports)
    assert bench.states() == {key: ("sealed", 50)}


def test_an_idle_connection_that_died_is_not_noticed(bench: Bench, url: str) -> None:
    """Every connection of the store is cut while nothing goes on."""
    bench.append(bench.reports(5))
    bench.states()
    sql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    time.sleep(0.1)
    assert bench.append(bench.reports(5)) == {bench.key(7): Appended(accepted=5)}
    assert bench.states() == {bench.key(7): ("open", 10)}


def test_many_idle_connections_that_died_are_not_noticed(bench: Bench, url: str) -> None:
    """Eight pages were read at once; then the server was restarted, and each of the eight connections is broken."""
    backend = bench.store.backend
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(backend.reading()).execute("SELECT 1")
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    assert sql(url, f"SELECT count(*) {others}") >= [(8,)]
    sql(url, f"SELECT pg_terminate_backend(pid) {others}")
    time.sleep(0.1)
    for _ in range(8):
        assert bench.states() == {}


def test_numbers_that_were_rolled_back_leave_gaps_that_do_no_harm(bench: Bench, url: str) -> None:
    reports = bench.reports(100)
    other = bench.open()
    for start in range(0, 100, 10):
        bench.append(reports[start : start + 10], other)
        sql(url, "SELECT nextval('reticent.records_1_number_seq')")
    assert bench.store.counts(bench.key(7)) == bench.expected(reports)
    assert bench.store.seal(bench.key(7))
    assert other.counts(bench.key(7)) == bench.expected(reports)


def test_a_database_that_would_not_wait_for_the_disk_is_made_to(url: str, opened: Open) -> None:
    """Whatever the database or the role prefers: a commit is durable when it returns."""
    name = sql(url, "SELECT current_database()")[0][0]
    sql(url, f"ALTER DATABASE {name} SET synchronous_commit TO off")
    sql(url, f"ALTER DATABASE {name} SET default_transaction_isolation TO 'serializable'")
    with opened(url).backend.writing() as transaction:
        assert transaction.execute("SHOW synchronous_commit") == [("on",)]
        assert transaction.execute("SHOW transaction_isolation") == [("read committed",)]


def test_a_database_that_can_only_be_read_is_noticed(bench: Bench, url: str, opened: Open) -> None:
    bench.store.ping()
    name = sql(url, "SELECT current_database()")[0][0]
    sql(url, f"ALTER DATABASE {name} SET default_transaction_read_only TO on")
    with pytest.raises(StoreError, match="is read-only at the moment"):
        opened(url).ping()


def test_every_column_has_a_comment(bench: Bench, url: str) -> None:
    bench.append(bench.reports(1))
    bare = sql(
        url,
        "SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
        " WHERE relnamespace = 'reticent'::regnamespace AND relkind = 'r' AND attnum > 0"
        " AND col_description(attrelid, attnum) IS NULL",
    )
    tables = sql(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'reticent' ORDER BY 1")
    assert sql(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []
    assert bare == []
    assert [name for (name,) in tables] == [
        "admin_log",
        "comparisons",
        "counts",
        "deleted",
        "keys",
        "notes",
        "periods",
        "plans",
        "records_1",
        "results",
        "rounds",
        "schema_version",
        "steps",
    ]


def test_a_store_of_version_2_is_refused_and_left_as_it_is(url: str) -> None:
    sql(url, "CREATE TABLE reticent_schema AS SELECT 2 AS version")
    with pytest.raises(StoreError, match=r"number 2, .*\n  Hint: .*reticent export of that version"):
        open_store(url)
    assert sql(url, "SELECT to_regnamespace('reticent')") == [(None,)]


def test_two_installations_share_a_database(url: str) -> None:
    first, second = open_store(url), open_store(f"{url}{'&' if '?' in url else '?'}schema=beta_2")
    with closing(first), closing(second):
        Bench(lambda: first)
        assert (len(first.plans()), second.plans()) == (1, [])
        assert second.url.endswith("?schema=beta_2")
    with pytest.raises(StoreError, match="schema: expected small letters, digits and _, got x;drop"):
        open_store(f"{url}{'&' if '?' in url else '?'}schema=x;drop")


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("version", "age"), [(2, "a version of reticent before 0.1.0"), (99, "a newer version")]
)
def test_another_schema_version_is_refused(
    bench: Bench, url: str, version: int, age: str, readonly: bool
) -> None:
    sql(url, f"UPDATE reticent.schema_version SET version = {version}")  # noqa: S608
    with pytest.raises(
        StoreError,
        match=f"was written by {age}.*: its schema is number {version}, .*; it was not changed",
    ):
        open_store(url, readonly=readonly)


def test_another_programs_tables_are_left_as_they_are(url: str) -> None:
    sql(url, "CREATE SCHEMA reticent; CREATE TABLE reticent.rounds (bullets INTEGER)")
    with pytest.raises(StoreError, match='relation "rounds" already exists'):
        open_store(url)
    assert sql(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'reticent'") == [("rounds",)]
    with pytest.raises(StoreError, match="has no tables of reticent"):
        open_store(url, readonly=True)


def test_many_collectors_start_on_an_empty_database(url: str) -> None:
    made: list[Store] = []
    threads = [threading.Thread(target=lambda: made.append(open_store(url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    for store in made:
        store.close()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@127.0.0.1:1/db",
        "postgresql://me:hunter2%ZZ@127.0.0.1:1/db",
        "postgresql://me:hun/hunter2@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=hunter2",
        "postgresql://me@127.0.0.1:1/db?passwd=hunter2",
        "postgresql://me:hunter2@[::1/db",
        "postgresql://me:hunter2@127.0.0.1:notaport/db",
    ],
)
def test_no_password_is_ever_told(address: str) -> None:
    for readonly in (False, True):
        with pytest.raises(StoreError) as refused:
            open_store(address, readonly=readonly)
        told: BaseException | None = refused.value
        while told is not None:
            assert "hunter2" not in str(told)
            told = told.__cause__


def test_the_address_has_user_host_and_database(bench: Bench) -> None:
    assert bench.store.url.startswith("postgresql://postgres@%2F")
    assert bench.store.url.rpartition("/")[2].startswith("test_")
