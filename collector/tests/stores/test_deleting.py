"""One metric is deleted from the history: its counts and figures are gone, and everything else stays as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.shared.collectors import make_reports

from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent_collector.results import Results, Selection, plan_rows, problems, write_results
from reticent_collector.stores import CountsByTags, DeletedMetric, Layout, RoundKey, Store, copy_store
from reticent_collector.stores.sql import SqlBackend
from reticent_collector.stores.transactions import Transaction

Open = Callable[[str], Store]
PLAN = """
min_reports = 10
[plan]
name = "app"
version = {version}
round = "1h"
[metrics.minutes]
kind = "mean"
max_value = 60
epsilon = 1.0
[metrics.files]
kind = "histogram"
max_value = 60
buckets = 4
mechanism = "hadamard-bit"
epsilon = 1.0
{more}
[segments]
os = ["windows", "macos"]
"""
LAST = """
[metrics.secrets]
kind = "mean"
max_value = 10
epsilon = 1.0
"""
OLD = Plan.from_toml(PLAN.format(version=1, more=LAST))
NEW = Plan.from_toml(PLAN.format(version=2, more=""))
SEALED, OPEN = (100, 101), 102
ALIKE = Plan.from_toml(OLD.text.replace('name = "app"', 'name = "alike"'))
ALIKE_KEY = RoundKey("alike", 1, SEALED[0])
GONE = DeletedMetric("app", 1, "secrets")


def key(number: int, version: int = 1) -> RoundKey:
    return RoundKey("app", version, number)


def append(store: Store, plan: Plan, number: int, count: int = 60) -> None:
    reports = make_reports(plan, number, count)
    store.append({key(number, plan.version): b"".join(map(Layout(plan).pack, reports))})


@pytest.fixture
def history(url: str, opened: Open) -> Store:
    """Sealed rounds and an open one of a version with a metric that the newest version no longer has."""
    store = opened(url)
    store.register(OLD)
    for number in (*SEALED, OPEN):
        append(store, OLD, number)
    for number in SEALED:
        assert store.seal(key(number))
    store.register(NEW)
    store.register(ALIKE)
    store.append({ALIKE_KEY: b"".join(map(Layout(ALIKE).pack, make_reports(ALIKE, SEALED[0], 60)))})
    assert store.seal(ALIKE_KEY)
    append(store, NEW, SEALED[-1])
    assert store.seal(key(SEALED[-1], 2))
    write_results(store)
    return store


def rows_of(store: Store, table: str) -> list[Any]:
    """All rows of a table but those of the metric, as the database has them."""
    backend = store.backend
    assert isinstance(backend, SqlBackend)
    where = "" if table in ("rounds", "periods") else f" WHERE NOT {OURS[table]}"
    return sorted(backend.read(f"SELECT * FROM {table}{where}"), key=repr)  # noqa: S608


OURS = {
    "counts": "(metric = 'secrets' AND round_id IN (SELECT id FROM rounds WHERE plan = 'app'))",
    "results": "(metric = 'secrets' AND plan = 'app')",
    "comparisons": "(metric = 'secrets' AND plan = 'app')",
}


def held(store: Store, table: str) -> int:
    """How many rows a table has about the metric."""
    backend = store.backend
    assert isinstance(backend, SqlBackend)
    return int(backend.read(f"SELECT count(*) FROM {table} WHERE {OURS[table]}")[0][0])  # noqa: S608


def is_well(store: Store) -> bool:
    return [*store.verify(), *problems(store)] == []


def test_its_counts_and_figures_are_gone_and_all_others_stay(history: Store) -> None:
    kept = {table: rows_of(history, table) for table in ("rounds", "counts", "results", "periods")}
    assert held(history, "counts") == 2 * 3  # rounds, and tags with those that are not declared
    assert held(history, "results") > 0
    history.delete_metric("app", "secrets")
    assert {table: rows_of(history, table) for table in kept} == kept
    assert (held(history, "counts"), held(history, "results")) == (0, 0)
    assert history.deleted() == {GONE}
    assert is_well(history)
    assert write_results(history) == 0, "nothing has to be written again"
    history.delete_metric("app", "secrets")
    assert history.deleted() == {GONE}


@pytest.mark.parametrize("table", [True, False], ids=["from the table", "from the counts"])
def test_readers_see_no_trace_of_it(history: Store, table: bool) -> None:
    results = Results(history)

    def figures(**selection: Any) -> list[Any]:
        confidence = 0.95 if table else 0.9
        answers = results.estimates(Selection("app", every="round", confidence=confidence, **selection))
        shown = answers.to_dict()
        return [*shown["estimates"], *shown["withheld"]]

    def others() -> list[Any]:
        return [row for row in figures() + figures(by="os") if row["metric"] != "secrets"]

    before = others()
    assert figures(metric="secrets")
    assert [metric.name for metric in results.ended("app")] == ["secrets"]
    assert {row["metric"]: row["ended"] for row in plan_rows(results, "app")} == {
        "minutes": 0,
        "files": 0,
        "secrets": 1,
    }
    history.delete_metric("app", "secrets")
    assert figures() + figures(by="os") == before == others()
    assert results.ended("app") == []
    assert [row["metric"] for row in plan_rows(results, "app")] == ["minutes", "files"]
    for ask in (lambda: figures(metric="secrets"), lambda: results.metric("app", "secrets")):
        with pytest.raises(ParameterError, match="expected one of minutes, files, got secrets"):
            ask()


def test_an_open_round_is_sealed_without_it(history: Store) -> None:
    expected = {
        tags: {name: counts for name, counts in by_metric.items() if name != "secrets"}
        for tags, by_metric in history.counts(key(OPEN)).items()
    }
    history.delete_metric("app", "secrets")
    append(history, OLD, OPEN)
    assert history.seal(key(OPEN))
    assert history.counts(key(OPEN)) == expected
    assert is_well(history)
    write_results(history)
    assert (held(history, "counts"), held(history, "results")) == (0, 0)
    assert is_well(history)


def test_figures_that_were_computed_before_are_not_written_after(history: Store) -> None:
    table = history.table
    assert table is not None
    period = max(period for period in table.written("app") if (period.every, period.version) == ("round", 1))
    rows = table.results(period)
    assert {row["metric"] for row in rows} == {"minutes", "files", "secrets"}
    history.delete_metric("app", "secrets")
    table.drop_results(period)
    table.put_results(period, rows)
    assert {row["metric"] for row in table.results(period)} == {"minutes", "files"}
    assert is_well(history)


def test_its_comparisons_go_with_it_and_do_not_come_back(history: Store) -> None:
    table = history.table
    assert table is not None
    assert history.seal(key(OPEN))
    write_results(history)
    (week,) = (period for period in table.written("app") if period.every == "week")
    rows, comparisons = table.results(week), table.comparisons(week)
    kept = rows_of(history, "comparisons")
    assert kept
    assert held(history, "comparisons") > 0
    history.delete_metric("app", "secrets")
    for put_again in (False, True):
        if put_again:  # they were computed before
            table.drop_results(week)
            table.put_results(week, rows, comparisons)
        assert held(history, "comparisons") == 0
        assert rows_of(history, "comparisons") == kept
        assert is_well(history)


def test_a_later_version_may_ask_it_again(history: Store) -> None:
    """What it counts is its own: nothing of the deleted answers comes back with the name, even if it is remembered."""
    results = Results(history)
    asked = Selection("app", metric="secrets", every="round", confidence=0.9)
    assert [result.added for result in results.estimates(asked)] == [(1,), (1,)]
    history.delete_metric("app", "secrets")
    again = Plan.from_toml(PLAN.format(version=3, more=LAST))
    history.register(again)
    append(history, again, SEALED[0])
    append(history, again, SEALED[1], 40)
    for number in SEALED:
        assert history.seal(key(number, 3))
    own = [((3,), 40), ((3,), 60)]
    assert [(result.added, result.estimate.devices) for result in results.estimates(asked)] == own
    write_results(history)
    written = list(results.estimates(replace(asked, confidence=0.95)))
    assert [(result.added, result.estimate.devices) for result in written] == own
    assert [result.by_round for result in written] == [{}, {}], "they are from the table"
    assert is_well(history)
    with pytest.raises(StoreError, match="version of the plan, 3, still asks it"):
        history.delete_metric("app", "secrets")


def counts_kept(store: Store) -> dict[RoundKey, CountsByTags]:
    return {info.key: store.counts(info.key) for info in store.rounds() if info.state == "sealed"}


def test_what_cannot_be_deleted_is_refused_and_nothing_changes(history: Store) -> None:
    alone = "[plan]\nname = 'one'\nversion = {}\nround = '1h'\n[metrics.{}]\nkind = 'flag'\nepsilon = 1.0\n"
    for version, name in ((1, "old"), (2, "new")):
        history.register(Plan.from_toml(alone.format(version, name)))
    some = PLAN.replace('name = "app"', 'name = "some"') + "[answers]\nmetrics = 2\n"
    for version, more in ((1, LAST), (2, LAST.replace("secrets", "other"))):
        history.register(Plan.from_toml(some.format(version=version, more=more)))
    before = counts_kept(history)
    for plan, metric, reason in (
        ("app", "minutes", "the newest version of the plan, 2, still asks it"),
        ("app", "nothing", "no version of the plan asks it"),
        ("one", "old", "version 1 has no other metric"),
        ("some", "secrets", "devices answer some of the metrics of version 1"),
    ):
        with pytest.raises(StoreError, match=reason):
            history.delete_metric(plan, metric)
    assert counts_kept(history) == before
    assert history.deleted() == set()
    assert is_well(history)


def test_a_failure_in_the_middle_changes_nothing(history: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever statement is the last one: all of it is one transaction."""
    backend = history.backend
    assert isinstance(backend, SqlBackend)
    before = counts_kept(history), held(history, "results")
    sealing = backend.sealing
    for statements in range(3):

        @contextmanager
        def failing(statements: int = statements) -> Iterator[Transaction]:
            with sealing() as transaction:
                left = iter(range(statements))

                def execute(*arguments: Any) -> list[Any]:
                    if next(left, None) is None:
                        raise StoreError("the machine stopped")
                    return transaction.execute(*arguments)

                yield Transaction(execute)

        monkeypatch.setattr(backend, "sealing", failing)
        with pytest.raises(StoreError, match="the machine stopped"):
            history.delete_metric("app", "secrets")
        monkeypatch.setattr(backend, "sealing", sealing)
        assert (counts_kept(history), held(history, "results")) == before
        assert history.deleted() == set()


def test_it_waits_for_a_seal_that_is_under_way(history: Store, url: str, opened: Open) -> None:
    """A seal that saw no deletion commits before it, so what it stored is deleted too."""
    backend = history.backend
    assert isinstance(backend, SqlBackend)
    other = opened(url)
    deletion = threading.Thread(target=other.delete_metric, args=("app", "secrets"))
    count = history.backend.final(key(SEALED[0]))
    assert count is not None
    with backend.sealing() as transaction:
        transaction.execute("DELETE FROM counts WHERE round_id = 1")
        backend._put_counts(transaction, key(SEALED[0]), 1, count)
        deletion.start()
        deletion.join(0.3)
        assert deletion.is_alive()
    deletion.join(20)
    assert not deletion.is_alive()
    assert held(history, "counts") == 0
    assert is_well(history)


def test_the_check_tells_of_counts_that_are_still_there(history: Store) -> None:
    backend = history.backend
    assert isinstance(backend, SqlBackend)
    with backend.sealing() as transaction:
        transaction.execute("INSERT INTO deleted VALUES (?, ?, ?)", *GONE)
    assert [line for line in history.verify() if "secrets: is deleted, and has counts" in line] != []


def test_a_copy_leaves_it_out_too(history: Store, opened: Open, tmp_path: Any) -> None:
    target = opened(f"sqlite:///{tmp_path / 'copy.db'}")
    copy_store(history, target)
    history.delete_metric("app", "secrets")
    copied = copy_store(history, target)
    assert (copied.problems, target.deleted()) == ([], {GONE})
    assert (held(target, "counts"), held(target, "results")) == (0, 0)
    assert is_well(target)
    lake = opened(f"lake:///{tmp_path / 'lake'}")
    with pytest.raises(StoreError, match=r"lake: cannot keep that secrets of plan app .* was deleted"):
        copy_store(history, lake)


def test_a_lake_refuses(opened: Open, tmp_path: Any) -> None:
    lake = opened(f"lake:///{tmp_path / 'lake'}")
    lake.register(OLD)
    lake.register(NEW)
    with pytest.raises(StoreError, match=r"only stores in SQLite and PostgreSQL .*\n  Hint: .*prune"):
        lake.delete_metric("app", "secrets")
