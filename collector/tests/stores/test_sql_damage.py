"""A damaged round is set aside: it has no figures, everything else is served, and what can be read is saved."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.shared.collectors import in_thread, make_reports, usage
from tests.shared.plans import BARE

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import Report, to_ndjson
from reticent_collector import dashboard
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Collector
from reticent_collector.results import write_results
from reticent_collector.stores import Appended, DamagedError, Layout, PeriodKey, RoundKey, Store
from reticent_collector.testing import Bench

Open = Callable[[str], Store]
PAGE = 16_384  # bytes of a page of a new file
CUT = "UPDATE records_1 SET records = substr(records, 1, length(records) - {}) WHERE number = 2"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def execute(store: Store, *statements: str) -> list[Any]:
    rows: list[Any] = []
    with store.backend.writing() as transaction:
        for statement in statements:
            rows += transaction.execute(statement)
    return rows


def everything(store: Store) -> list[Any]:
    return execute(store, "SELECT * FROM records_1 ORDER BY number", "SELECT * FROM rounds ORDER BY id")


@pytest.mark.parametrize("missing", [1, 5, 19])
def test_a_group_that_is_cut_off_keeps_its_whole_reports(
    bench: Bench, store: Store, url: str, missing: int
) -> None:
    groups = [bench.reports(10) for _ in range(3)]
    for group in groups:
        bench.append(group)
    execute(store, CUT.format(missing))
    other, key, before = bench.open(), bench.key(7), everything(store)
    assert isinstance(other, Store)
    assert other.stored_reports() == 29, "whatever can be read is known"
    for work in (other.counts, other.seal, other.backend.count):
        with pytest.raises(DamagedError, match=r"round 7 of .* is damaged.*\n  Hint: reticent store repair"):
            work(key)
    assert [bool(info.damage) for info in other.rounds(bench.name)] == [True]
    assert list(other.damaged) == [key]
    new = bench.reports(4)
    assert bench.append(new, other) == {key: Appended(accepted=4)}, "it takes reports all the same"
    execute(store, "DELETE FROM records_1 WHERE number > 3")

    shown = run("store", "repair", "--store", url)
    assert shown.exit_code == 3
    assert "1 of 3 groups are not whole records" in shown.output
    assert "29 reports can be read. To do: keep the 9 reports" in shown.output
    assert everything(store) == before, "shown, and nothing else"
    bench.append(new, bench.open())
    done = run("store", "repair", "--store", url, "--yes")
    assert (done.exit_code, "29" in done.output or "33" in done.output) == (0, True)
    assert run("store", "repair", "--store", url).output.endswith("no round is damaged.\n")

    saved = [*groups[0], *groups[1][:9], *groups[2], *new]
    assert other.counts(key) == bench.expected(saved), "the repaired log is counted"
    assert bench.append(groups[1], other) == {key: Appended(accepted=10)}
    assert other.seal(key)
    assert other.counts(key) == bench.expected([*saved, groups[1][9]])
    ((number, records),) = execute(store, "SELECT * FROM damaged_1")
    assert (number, bytes(records)) == next((place, bytes(kept)) for place, kept, *_ in before if place == 2)
    assert store.verify() == []


def test_a_group_that_lacks_its_beginning_is_not_taken_for_reports(bench: Bench, store: Store) -> None:
    """What follows is shifted: tags that do not exist, padding that is not 0."""
    for _ in range(2):
        bench.append(bench.reports(10))
    execute(store, "UPDATE records_1 SET records = substr(records, 2) WHERE number = 2")
    repair = store.repair(bench.key(7), dry=False)
    assert repair is not None
    assert repair.readable == 10
    assert bench.states(bench.open()) == {bench.key(7): ("open", 10)}
    assert [len(records) for _, records in execute(store, "SELECT * FROM damaged_1")] == [
        10 * bench.layout.width - 1
    ]


def test_a_table_that_is_gone_keeps_no_other_round_from_taking_reports(bench: Bench, url: str) -> None:
    bench.append(bench.reports(10))
    bench.append(bench.reports(10, 8))
    store = bench.open()
    assert isinstance(store, Store)
    execute(store, "DROP TABLE records_1")
    assert store.stored_reports() == 10
    both = [*bench.reports(2), *bench.reports(3, 8)]
    for at in (bench.store, store):
        answers = bench.append(both, at)
        assert answers[bench.key(7)] == Appended(refused=2)
        assert answers[bench.key(8)].late == answers[bench.key(8)].refused == 0
    with pytest.raises(DamagedError, match="records_1"):
        store.counts(bench.key(7))
    assert store.counts(bench.key(8)) == bench.store.counts(bench.key(8))
    assert "records_1 is missing" in run("store", "repair", "--store", url, "--yes").output
    assert bench.append(both, store)[bench.key(7)] == Appended(accepted=2)
    assert store.seal(bench.key(7))
    assert store.verify() == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_pages_that_cannot_be_read_lose_only_what_is_on_them(bench: Bench, url: str) -> None:
    """Bytes of the file itself are overwritten: each of the pages of a round in turn, but for the first."""
    path, key = Path(url.removeprefix("sqlite:///")), bench.key(7)
    groups = [bench.reports(120) for _ in range(40)]
    bench.append(bench.reports(3, 6))
    for group in groups:
        bench.append(group)
    bench.append(bench.reports(7, 8))
    bench.store.close()
    whole = path.read_bytes()
    pages = [page for page in range(len(whole) // PAGE) if groups_on(bench, groups, whole, page)]
    assert len(pages) > 5
    for page in pages:
        lost = groups_on(bench, groups, whole, page)
        path.write_bytes(whole[: PAGE * page] + b"\xff" * PAGE + whole[PAGE * (page + 1) :])
        store = bench.open()
        assert isinstance(store, Store)
        assert store.stored_reports() >= 10
        with pytest.raises(DamagedError):
            store.counts(key)
        assert {info.key.round: bool(info.damage) for info in store.rounds()} == {6: False, 7: True, 8: False}
        answers = bench.append([*bench.reports(2), *bench.reports(1, 8)], store)
        assert answers[bench.key(8)] == Appended(accepted=1)
        repair = store.repair(key, dry=False)
        assert repair is not None
        kept = [report for group in groups if group not in lost for report in group]
        assert repair.readable >= len(kept) + answers[key].accepted
        assert store.repair(key) is None
        assert sum(counts["minutes"].devices for counts in store.counts(key).values()) == repair.readable
        assert bench.append(kept, store)[key] == Appended(accepted=len(kept))
        assert store.seal(key)
        assert execute(store, "SELECT count(*) FROM sqlite_master WHERE name = 'damaged_2_1'") == [(1,)]
        assert store.prune(key)
        assert key not in [info.key for info in store.rounds()]
        store.close()
        for file in path.parent.glob("store.db-*"):
            file.unlink()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_round_that_was_repaired_can_be_repaired_again(bench: Bench, url: str) -> None:
    """Of a failing disk, more pages go bad; all that was replaced is kept until the round is pruned."""
    path, key = Path(url.removeprefix("sqlite:///")), bench.key(7)
    groups = [bench.reports(120) for _ in range(40)]
    for group in groups:
        bench.append(group)
    for _ in range(3):
        bench.store.close()
        whole = path.read_bytes()
        page = next(n for n in reversed(range(len(whole) // PAGE)) if groups_on(bench, groups, whole, n))
        path.write_bytes(whole[: PAGE * page] + b"\xff" * PAGE + whole[PAGE * (page + 1) :])
        store = bench.store = bench.open()
        assert isinstance(store, Store)
        repair = store.repair(key, dry=False)
        assert repair is not None
        assert store.repair(key) is None
        assert sum(counts["minutes"].devices for counts in store.counts(key).values()) == repair.readable
    execute(store, CUT.format(1))
    assert store.repair(key, dry=False) is not None
    kept = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'damaged_%'"
    assert execute(store, kept) == [(4,)]
    assert store.seal(key)
    assert store.prune(key)


def groups_on(bench: Bench, groups: list[list[Report]], file: bytes, page: int) -> list[list[Report]]:
    """The groups that have a report on a page of a file."""
    text = file[PAGE * page : PAGE * (page + 1)]
    return [group for group in groups if any(bench.layout.pack(report)[:16] in text for report in group)]


def test_counts_that_cannot_be_read_are_said_to_be_lost(bench: Bench, store: Store, url: str) -> None:
    bench.append(bench.reports(10))
    bench.append(bench.reports(10, 8))
    for number in (7, 8):
        store.seal(bench.key(number))
    wrong = "[" if url.startswith("sqlite") else "{}"
    execute(store, f"UPDATE counts SET ones = '{wrong}' WHERE metric = 'minutes' AND round_id = 1")  # noqa: S608
    with pytest.raises(DamagedError):
        store.counts(bench.key(7))
    assert store.counts(bench.key(8))
    assert {info.key.round: bool(info.damage) for info in store.rounds(bench.name)} == {7: True, 8: False}
    shown = run("store", "repair", "--store", url, "--yes")
    assert shown.exit_code == 3
    assert "the counts of minutes cannot be read" in shown.output
    assert "To do: nothing; only a backup of the store has it" in shown.output


def test_one_damaged_round_does_not_keep_the_collector_from_serving(url: str, opened: Open) -> None:
    """Two plans, one group cut off: the rest has its figures, on every path, and the repair is noticed."""
    plans = [Plan.from_toml(text) for text in (usage(), BARE)]
    store, clock = opened(url), [time.time()]
    keys = [RoundKey(plan.name, plan.version, plan.round_at(clock[0])) for plan in plans]
    for plan, key in zip(plans, keys, strict=True):
        store.register(plan)
        for seed in range(2):
            reports = make_reports(plan, key.round, 150, seed)
            store.append({key: b"".join(map(Layout(plan).pack, reports))})
    execute(store, CUT.format(3))
    app = Collector(plans, opened(url), clock=lambda: clock[0], seal_every=0.05, pages=dashboard)
    with in_thread(app) as service:
        body = to_ndjson(make_reports(plans[0], keys[0].round, 10, "new"))
        assert service.post(body, "application/x-ndjson").json["accepted"] == 10
        bare = service.get("/v1/estimates?plan=bare").json
        assert ([each["reports"] for each in bare["estimates"]], bare["damaged"]) == ([300], [])
        usage_now = service.get("/v1/estimates?plan=app-usage").json
        assert usage_now["estimates"] == []
        assert [each["round"] for each in usage_now["damaged"]] == [keys[0].round]
        assert "not whole records" in usage_now["damaged"][0]["reason"]
        states = {each["plan"]: each["state"] for each in service.get("/v1/rounds").json["rounds"]}
        assert states == {"app-usage": "damaged", "bare": "open"}
        for path in ("/metrics", "/readyz", "/", "/plans/app-usage", "/plans/bare", "/health"):
            assert service.get(path).status == 200, path
        assert "damaged" in service.get("/plans/app-usage", accept="text/html").body.decode()

        clock[0] += 2 * 86_400  # both are due, with their day: one is sealed, the other when it is repaired
        until(lambda: app.health().sealed == 1)
        assert json.loads(run("store", "repair", "--store", url, "--yes", "--json").stdout)["rounds"]
        until(lambda: app.health().sealed == 2)
        estimate = service.get("/v1/estimates?plan=app-usage&metric=minutes&every=day").json
        assert [(each["state"], each["reports"]) for each in estimate["estimates"]] == [("sealed", 309)]
        assert estimate["damaged"] == []


def test_what_a_damaged_round_cannot_take_is_not_acknowledged_and_the_rest_counts_once(
    url: str, opened: Open
) -> None:
    """A batch is answered as a whole: its healthy part is stored, and is a repeat when the batch comes again."""
    plans = [Plan.from_toml(text) for text in (usage(), BARE)]
    store, now = opened(url), time.time()
    gone, whole = ([*make_reports(plan, plan.round_at(now), 3)] for plan in plans)
    for plan, reports in zip(plans, (gone, whole), strict=True):
        store.register(plan)
        key = RoundKey(plan.name, plan.version, reports[0].round)
        store.append({key: Layout(plan).pack(reports[0])})
    execute(store, "DROP TABLE records_1")
    with in_thread(Collector(plans, opened(url), clock=lambda: now, seal_every=None)) as service:
        for sent, status in (([gone[1], whole[1]], 503), ([gone[1]], 503), ([whole[2]], 202)):
            assert service.post(to_ndjson(sent), "application/x-ndjson").status == status
        assert [service.send(report).status for report in (gone[1], whole[2])] == [503, 202]
        assert "records_1 is missing" in run("store", "repair", "--store", url, "--yes").output
        assert service.post(to_ndjson([gone[1], whole[1]]), "application/x-ndjson").status == 202
    bare, repaired = (info.key for info in opened(url).rounds())
    assert [store.seal(bare), store.seal(repaired)] == [True, True]
    assert [info.reports for info in opened(url).rounds()] == [1, 3]


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


# Retention


def test_old_results_are_removed_for_ever_and_their_rounds_stay_closed(
    bench: Bench, store: Store, url: str
) -> None:
    numbers = [100, 119, 300_000, 300_001]  # rounds of an hour; 119 ends at midnight
    reports = {number: bench.reports(10, number) for number in numbers}
    for number in numbers:
        bench.append(reports[number])
    execute(store, CUT.format(3).replace("records_1", "records_2").replace("number = 2", "number = 1"))
    store.repair(bench.key(119), dry=False)
    for number in numbers[1:3]:
        assert store.seal(bench.key(number))
    final, plan = store.counts(bench.key(300_000)), ("--store", url, "--plan", bench.name)
    before = bench.states()

    shown = run("store", "prune", *plan, "--before", "1970-01-06", "--json")
    assert [row["round"] for row in json.loads(shown.stdout)["rounds"]] == [119]
    assert json.loads(shown.stdout)["not_sealed"] == 1
    assert bench.states() == before, "shown, and nothing else"
    done = run("store", "prune", *plan, "--older-than", "9000d", "--yes")
    assert "1 round removed" in done.output
    assert "Not removed, because not sealed: 1 round." in done.output

    other = bench.open()
    assert isinstance(other, Store)
    for at in (store, other):
        assert set(bench.states(at)) == {bench.key(number) for number in (100, 300_000, 300_001)}
        assert at.counts(bench.key(119)) == {}
        assert bench.append(reports[119], at) == {bench.key(119): Appended(late=10)}, "it never opens again"
        assert not at.seal(bench.key(119))
        assert not at.prune(bench.key(119))
        assert not at.prune(bench.key(100)), "it is not sealed"
        assert at.counts(bench.key(300_000)) == final
        assert at.repair(bench.key(119)) is None
        assert bench.key(119) not in at.unsealed()
    assert [info.key.round for info in other.rounds(bench.name, last=2)] == [300_001, 300_000]
    assert store.verify() == []
    assert execute(store, "SELECT count(*) FROM counts WHERE round_id = 2") == [(0,)]
    with pytest.raises(StoreError, match="damaged_2"):
        execute(store, "SELECT * FROM damaged_2")
    assert run("store", "prune", *plan, "--older-than", "9000d", "--yes").output.startswith(
        "no rounds removed"
    )


@pytest.mark.parametrize(
    "options", [[], ["--before", "2020-01-01", "--older-than", "3d"], ["--older-than", "soon"]]
)
def test_a_time_is_needed(url: str, store: Store, options: list[str]) -> None:
    assert run("store", "prune", "--store", url, "--yes", *options).exit_code == 2


def test_a_round_that_a_repair_left_empty_is_well(bench: Bench, store: Store) -> None:
    """Its records are lost; it goes on without them, and a check has nothing more to say."""
    key, reports = bench.key(7), bench.reports(10)
    bench.append(reports)
    execute(store, "DROP TABLE records_1")
    assert [problem for problem in store.verify() if "records_1 is missing" in problem]
    assert store.repair(key, dry=False) is not None
    assert store.verify() == []
    execute(store, "DROP TABLE damaged_1")
    assert [problem for problem in store.verify() if "records_1 is empty" in problem], "nothing explains it"
    execute(store, "CREATE TABLE damaged_1 (number INTEGER, records INTEGER)")
    again = bench.open()
    assert again.seal(key)
    assert (again.counts(key), again.verify()) == ({}, [])


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_prune_gives_the_space_back(bench: Bench, store: Store, url: str) -> None:
    """While a collector has the file open, and goes on with it."""
    path = Path(url.removeprefix("sqlite:///"))
    for number in range(100, 160):
        bench.append(bench.reports(300, number))
        store.seal(bench.key(number))
    bench.append(bench.reports(20, 500_000))
    with closing(sqlite3.connect(path)) as outside:
        outside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = path.stat().st_size
    done = run("store", "prune", "--store", url, "--older-than", "9000d", "--yes")
    assert "60 rounds removed." in done.output
    assert path.stat().st_size < before * 2 / 3
    assert execute(store, "PRAGMA freelist_count") == [(0,)]
    assert bench.append(bench.reports(5, 500_000))[bench.key(500_000)] == Appended(accepted=5)
    assert store.seal(bench.key(500_000))
    assert store.verify() == []


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_prune_gives_the_space_of_postgresql_back(bench: Bench, store: Store, url: str) -> None:
    for number in range(100, 130):
        bench.append(bench.reports(300, number))
        store.seal(bench.key(number))
    size = "SELECT pg_total_relation_size('counts')"
    ((before,),) = execute(store, size)
    done = run("store", "prune", "--store", url, "--older-than", "9000d", "--yes")
    assert "30 rounds removed." in done.output
    ((after,),) = execute(store, size)
    assert after < before / 4
    assert bench.append(bench.reports(5, 500_000))[bench.key(500_000)] == Appended(accepted=5)
    assert store.seal(bench.key(500_000))


def test_pruning_a_round_of_the_31st_removes_its_month(bench: Bench, store: Store) -> None:
    """The month begins 30 days and 23 hours before the round: nearly as long as a month can be."""
    table, number = store.table, 31 * 24 - 1  # 1970-01-31 from 23:00
    assert table is not None
    bench.append(bench.reports(200, number))
    bench.append(bench.reports(200, 31 * 24))  # and a round of the next month
    for sealed in (number, 31 * 24):
        assert store.seal(bench.key(sealed))
    write_results(store)
    written = {(period.every, period.start // 86_400) for period in table.written(bench.name)}
    assert {("month", 0), ("month", 31), ("day", 30), ("day", 31), ("week", 25)} <= written
    assert store.prune(bench.key(number))
    left = {(period.every, period.start // 86_400) for period in table.written(bench.name)}
    assert left == {("round", 31), ("day", 31), ("month", 31)}
    gone = PeriodKey(bench.name, 1, "month", 0, 31 * 86_400)
    assert table.results(gone) == []
