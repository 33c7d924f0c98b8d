"""
PostgreSQL stops for a while, or hangs, which is worse: it takes statements and says nothing.

Every report gets 202 or 503 with Retry-After, what waits is bounded, and when the database is back reports
are taken again sooner than it was away.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from tests.shared.clients import Client, at_work, check_all_counted
from tests.shared.collectors import Service, in_thread, make_reports, usage
from tests.shared.postgres import PostgresServer

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.http import Collector
from reticent_collector.stores import Layout, PostgresBackend, RoundKey, open_store

A_MINUTE = pytest.param(60.0, marks=[pytest.mark.soak, pytest.mark.timeout(600)])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that give up soon: 0.5 s for a statement, 0.25 more, and the least that libpq takes to connect."""
    monkeypatch.setattr(PostgresBackend, "statement_seconds", 0.5)
    monkeypatch.setattr("reticent_collector.stores.postgres._MARGIN_SECONDS", 0.25)
    monkeypatch.setattr("reticent_collector.stores.postgres._CONNECT_SECONDS", 2)
    monkeypatch.setattr("reticent_collector.stores.postgres._REFUSED_SECONDS", 0.5)


def check_came_back(clients: list[Client], back: float, outage: float) -> float:
    """Reports are taken again sooner after the outage than it lasted; returns how much sooner or later."""
    after = min(time for client in clients for time in client.times if time > back) - back
    assert after <= outage
    return after


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
@pytest.mark.parametrize("outage", [2.0, A_MINUTE])
def test_a_database_that_is_stopped_and_comes_back(
    postgres: PostgresServer, tmp_path: Path, eventually: Callable[..., float], outage: float, how: int
) -> None:
    url = postgres.new_database()
    service = Service(tmp_path, usage(), store=url).start("--clock-skew", "0")
    try:
        with at_work([service], patience=outage + 60) as clients:
            eventually(lambda: all(len(client.acknowledged) > 5 for client in clients))
            postgres.stop(how)
            try:
                eventually(lambda: all(client.refused["unavailable"] > 2 for client in clients))
                assert service.get("/readyz").status == 503
                assert service.get("/healthz").status == 200
                assert service.get("/v1/rounds").status == 503
                time.sleep(outage)
            finally:
                postgres.start()
            back = time.monotonic()
            eventually(lambda: all(client.times[-1:] > [back] for client in clients), outage + 10)
            eventually(lambda: service.get("/readyz").status == 200)
    finally:
        assert service.stop() == 0
    print(f"first 202 {check_came_back(clients, back, outage):.2f} s after the database was back")  # noqa: T201
    assert check_all_counted(clients, url, service.plans[0]) > 20
    assert sum(client.lost_answers for client in clients) == 0
    assert "Traceback" not in service.log


@pytest.mark.usefixtures("impatient")
def test_a_statement_is_not_waited_for_for_ever(postgres: PostgresServer) -> None:
    """
    The server hangs; append, seal, ping and reading give up; when it is back all of them work at once.

    What was under way when it hung may or may not have happened: appended again, it is counted once.
    """
    plan = Plan.from_toml(usage())
    store = open_store(postgres.new_database())
    store.register(plan)
    key, layout = RoundKey(plan.name, plan.version, 7), Layout(plan)
    reports = [b"".join(map(layout.pack, make_reports(plan, 7, 10, seed))) for seed in range(3)]
    store.append({key: reports[0]})
    store.rounds()
    work = (store.ping, store.rounds, lambda: store.append({key: reports[1]}), lambda: store.seal(key))
    with postgres.hung(), ThreadPoolExecutor(len(work)) as threads:
        for given_up in [threads.submit(each) for each in work]:
            with pytest.raises(StoreError, match=r"no answer for 0\.75 s|timeout"):
                given_up.result(60)  # tells a hang from a wait: 0.75 s each, or 2 s to connect
    store.append({key: reports[1] + reports[2]})
    store.ping()
    assert store.seal(key)
    assert [info.reports for info in store.rounds()] == [30]
    assert store.verify() == []
    store.close()


@pytest.mark.usefixtures("impatient")
def test_a_row_that_somebody_holds_is_not_waited_for_for_ever(postgres: PostgresServer) -> None:
    """The server itself ends the statement, so that nothing of it is left to be carried out later."""
    plan, url = Plan.from_toml(usage()), postgres.new_database()
    store = open_store(url)
    store.register(plan)
    key, reports = RoundKey(plan.name, plan.version, 7), make_reports(plan, 7, 10)
    records = b"".join(map(Layout(plan).pack, reports))
    store.append({key: records})
    with psycopg.connect(url) as holder:
        holder.execute("SELECT * FROM reticent.rounds FOR UPDATE")
        for work in (lambda: store.append({key: records}), lambda: store.seal(key)):
            with pytest.raises(StoreError, match="statement timeout"):
                work()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        assert holder.execute(waiting).fetchone() == (0,)
    assert store.append({key: records})[key].accepted == 10
    assert store.seal(key)
    store.close()


def test_a_collector_that_stands_still_does_not_keep_others_from_sealing(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the round in the middle of an append; the server undoes that after a while, and tells it."""
    plan, url = Plan.from_toml(usage()), postgres.new_database()
    other, key = open_store(url), RoundKey(plan.name, plan.version, 7)
    other.register(plan)
    other.append({key: b"".join(map(Layout(plan).pack, make_reports(plan, 7, 10)))})
    monkeypatch.setattr("reticent_collector.stores.postgres._IDLE_SECONDS", 0.3)
    still = PostgresBackend(url)

    def hold_the_round() -> None:
        with still.writing() as transaction:
            transaction.execute("SELECT * FROM rounds FOR SHARE")
            assert other.seal(key)

    with pytest.raises(StoreError, match=r"idle-in-transaction|closed"):
        hold_the_round()
    assert [info.reports for info in still.rounds()] == [10]
    still.close()
    other.close()


@pytest.mark.usefixtures("impatient")
def test_a_commit_that_happens_after_it_was_given_up_is_counted_once(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server hangs at the very COMMIT, and carries it out when it wakes: the records are there twice."""
    plan, url = Plan.from_toml(usage()), postgres.new_database()
    store = open_store(url)
    store.register(plan)
    key, reports = RoundKey(plan.name, plan.version, 7), make_reports(Plan.from_toml(usage()), 7, 10)
    records = b"".join(map(Layout(plan).pack, reports))
    store.append({key: records[: len(records) // 10]})
    commit = store.backend._writer.commit

    def hang_at_commit(connection: object) -> None:
        with postgres.hung():
            commit(connection)

    with monkeypatch.context() as patch:
        patch.setattr(store.backend._writer, "commit", hang_at_commit)
        with pytest.raises(StoreError, match="no answer"):
            store.append({key: records})
    reader = open_store(url)
    end = time.monotonic() + 10
    while reader.rounds()[0].reports < 11 and time.monotonic() < end:
        time.sleep(0.05)
    assert reader.rounds()[0].reports == 11  # it did happen
    appended = store.append({key: records})[key]
    assert appended.accepted == 10
    assert store.seal(key)
    assert [info.reports for info in reader.rounds()] == [10]
    reader.close()
    store.close()


@pytest.mark.usefixtures("impatient")
def test_a_hung_database_does_not_hang_the_collector(
    postgres: PostgresServer, eventually: Callable[..., float]
) -> None:
    """More is sent than may wait: it is refused at once, while what waits gets its answer in bounded time."""
    plan, url = Plan.from_toml(usage()), postgres.new_database()
    app = Collector([plan], open_store(url), most_waiting=5)
    reports = make_reports(plan, plan.round_at(time.time()), 40)
    answers: list[tuple[int, str, str]] = []

    def send(each: object) -> None:
        answer = service.send(each)  # type: ignore[arg-type]
        code = answer.json.get("code", "accepted")
        answers.append((answer.status, code, answer.headers.get("retry-after", "")))

    with in_thread(app) as service:
        assert service.send(reports[0]).status == 202
        with postgres.hung():
            threads = [threading.Thread(target=send, args=(report,)) for report in reports[1:]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
            assert service.get("/healthz").status == 200
            assert service.get("/readyz").status == 503
            assert app.health().queue <= 5
        assert set(answers) == {(503, "busy", "1"), (503, "unavailable", "5")}
        eventually(lambda: service.get("/readyz").status == 200)
        for report in reports:
            assert service.send(report).status == 202
    store = open_store(url)
    (info,) = store.rounds()
    assert store.seal(info.key)
    assert [info.reports for info in store.rounds()] == [40]
    store.close()


def test_reports_are_taken_and_a_round_is_sealed_while_somebody_dumps_it(
    postgres: PostgresServer, eventually: Callable[..., float]
) -> None:
    """As pg_dump does, a reader holds the table of a round that is due: only the table stays until it is done."""
    plan, url, clock = Plan.from_toml(usage()), postgres.new_database(), [time.time()]
    app = Collector([plan], open_store(url), clock=lambda: clock[0], seal_every=0.05)

    def tables() -> list[tuple[str]]:
        with psycopg.connect(url) as connection:
            query = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'records%' ORDER BY 1"
            return connection.execute(query).fetchall()

    with in_thread(app) as service:
        for report in make_reports(plan, plan.round_at(clock[0]), 5):
            assert service.send(report).status == 202
        with psycopg.connect(url) as dump:
            dump.execute("LOCK TABLE reticent.records_1 IN ACCESS SHARE MODE")
            clock[0] += 86_400
            eventually(lambda: app.health().sealed == 1)
            for report in make_reports(plan, plan.round_at(clock[0]), 20, "next"):
                assert service.send(report).status == 202
            states = [(each["state"], each["reports"]) for each in service.get("/v1/rounds").json["rounds"]]
            assert states[-1] == ("sealed", 5)
            assert ("records_1",) in tables()
        eventually(lambda: tables() == [("records_2",)])
        assert app.health().failed_commits == 0


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_database_that_hangs_for_a_minute(
    postgres: PostgresServer, tmp_path: Path, eventually: Callable[..., float]
) -> None:
    """With the limits that are in use: 10 s for a statement, and a second for the server to say so."""
    url, outage = postgres.new_database(), 60.0
    service = Service(tmp_path, usage(), store=url).start("--clock-skew", "0")
    try:
        with at_work([service], patience=outage + 120) as clients:
            eventually(lambda: all(len(client.acknowledged) > 5 for client in clients))
            with postgres.hung():
                eventually(lambda: all(client.refused["unavailable"] > 0 for client in clients), 60)
                assert service.get("/readyz").status == 503
                time.sleep(outage)
            back = time.monotonic()
            eventually(lambda: all(client.times[-1:] > [back] for client in clients), outage)
            eventually(lambda: service.get("/readyz").status == 200)
    finally:
        assert service.stop() == 0
    print(f"first 202 {check_came_back(clients, back, outage):.2f} s after the database was back")  # noqa: T201
    assert check_all_counted(clients, url, service.plans[0]) > 20
    assert "Traceback" not in service.log


def test_a_start_waits_for_its_database(
    postgres: PostgresServer, tmp_path: Path, eventually: Callable[..., float]
) -> None:
    """It is started first, says what it waits for, and serves when the database is there."""
    url = postgres.new_database()
    service = Service(tmp_path, usage(), store=url)
    postgres.stop()
    try:
        starting = threading.Thread(target=service.start)
        starting.start()
        eventually(lambda: service.log_file.exists() and "waiting-for-database" in service.log)
    finally:
        postgres.start()
    starting.join(60)
    assert service.send(make_reports(service.plans[0], service.now(service.plans[0]), 1)[0]).status == 202
    assert service.stop() == 0
    assert "Traceback" not in service.log


OPENING = """
import os, signal, weakref
import reticent_collector.stores

class Thing:
    pass

def ask_to_stop(_):
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        pass

def open_store(url):
    thing = Thing()
    watched = weakref.ref(thing, ask_to_stop)
    del thing  # exceptions of a callback are ignored, as are those in the middle of an import
    os._exit(7)

reticent_collector.stores.open_store = open_store
from reticent.cli import main
main()
"""


def test_sigterm_ends_a_start_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(usage())
    command = ["serve", "plan.toml", "--store", "sqlite:///store.db", "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [sys.executable, "-c", OPENING, *command],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("seconds", "how", "code"), [("60", signal.SIGTERM, 0), ("0.5", None, 1), ("0", None, 1)]
)
def test_the_wait_ends(
    tmp_path: Path, eventually: Callable[..., float], seconds: str, how: int | None, code: int
) -> None:
    """With SIGTERM, or when it was long enough; then with one line that says why."""
    service = Service(tmp_path, usage(), store=f"postgresql://postgres@/nowhere?host={tmp_path}")

    def start() -> None:
        with pytest.raises(AssertionError):
            service.start("--wait-for-database", seconds)

    starting = threading.Thread(target=start)
    starting.start()
    if how is not None:
        eventually(lambda: service.log_file.exists() and "waiting-for-database" in service.log)
        assert service.stop(how) == code
    starting.join(60)
    assert service.process is not None
    assert service.process.poll() == code
    last = service.log.splitlines()[-1]
    assert "cannot be opened" in last
    assert ("waiting-for-database" in last) == (code == 0)
    assert service.log.count("waiting-for-database") == (seconds != "0")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "CREATE SCHEMA reticent; CREATE TABLE reticent.schema_version AS SELECT 99 AS version",
            "written by a newer version",
        ),
        ("CREATE SCHEMA reticent; CREATE TABLE reticent.rounds (bullets INTEGER)", "already exists"),
    ],
)
def test_what_will_never_be_there_is_not_waited_for(
    tmp_path: Path, postgres: PostgresServer, statement: str, reason: str
) -> None:
    """A schema of another version, or another program's tables: waiting would be for nothing."""
    url = postgres.new_database()
    with psycopg.connect(url) as connection:
        connection.execute(statement)
    service = Service(tmp_path, usage(), store=url)
    with pytest.raises(AssertionError, match=reason):
        service.start("--wait-for-database", "60")
    assert "waiting" not in service.log
