"""A copy of a store holds what the store holds, whatever kind both are, and however often it is interrupted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.shared.postgres import PostgresServer

from reticent_collector.cli.root import reticent as command
from reticent_collector.results import problems, write_results
from reticent_collector.stores import (
    Appended,
    Count,
    PeriodKey,
    RoundKey,
    SqliteBackend,
    Steps,
    Store,
    copy_store,
    create_key,
)
from reticent_collector.testing import Bench

Open = Callable[[str], Store]
SEALED, PRUNED, OPEN = (100, 101, 124), 102, 600_000
KINDS = ("sqlite", "postgres", "lake")


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], str]:
    """The address of an empty store of a kind."""

    def make(kind: str, name: str) -> str:
        if kind == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            return server.new_store()
        return f"{kind}:///{tmp_path / name}"

    return make


def filled(url: str, opened: Open) -> Bench:
    """A store with sealed, pruned and open rounds, two keys and results."""
    bench = Bench(lambda: opened(url))
    for number in (*SEALED, PRUNED, OPEN):
        bench.append(bench.reports(220, number))
    for number in (*SEALED, PRUNED):
        assert bench.store.seal(bench.key(number))
    assert bench.store.prune(bench.key(PRUNED))
    for role in ("ingest", "reader"):
        bench.store.add_key(create_key(role, "for a test", 100)[1])
    bench.store.revoke_key(bench.store.keys()[0].id, 500)
    bench.store.take_step(bench.key(OPEN))
    write_results(bench.store)
    return bench


def content(store: Store, name: str) -> dict[str, Any]:
    """All that a store has to say about its history."""
    assert store.table is not None
    periods = sorted(store.table.written(name))
    return {
        "plans": store.plans(),
        "keys": store.keys(),
        "rounds": [(info.key, info.reports) for info in store.rounds() if info.state == "sealed"],
        "counts": {number: store.counts(RoundKey(name, 1, number)) for number in (*SEALED, PRUNED)},
        "results": {
            period: sorted(store.table.results(period), key=lambda row: json.dumps(row, sort_keys=True))
            for period in periods
        },
        "comparisons": {
            period: sorted(store.table.comparisons(period), key=lambda row: json.dumps(row, sort_keys=True))
            for period in periods
        },
    }


def run(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(command, ["store", "copy", *arguments, "--json"])
    answer: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == (3 if answer["problems"] else 0)
    return answer


@pytest.mark.parametrize(("kind", "other"), list(itertools.pairwise((*KINDS, KINDS[0]))))
def test_a_copy_holds_what_the_store_holds(
    kind: str, other: str, address: Callable[[str, str], str], opened: Open
) -> None:
    source, target = address(kind, "from"), address(other, "to")
    bench = filled(source, opened)
    answer = run(source, target)
    assert answer["problems"] == []
    assert (answer["plans"], answer["keys"], answer["rounds"], answer["same"]) == (1, 2, 4, 0)
    assert (answer["reports"], answer["not_sealed"]) == (3 * 220, 1)
    there = opened(target)
    assert content(there, bench.name) == content(bench.store, bench.name)
    assert len(content(there, bench.name)["results"]) == answer["periods"] > 5
    assert any(content(there, bench.name)["comparisons"].values())
    assert there.verify() == []
    late = bench.append([*bench.reports(2, PRUNED), *bench.reports(3, SEALED[0])], there)
    assert late == {bench.key(PRUNED): Appended(late=2), bench.key(SEALED[0]): Appended(late=3)}
    again = run(source, target)
    assert [again[name] for name in ("plans", "keys", "rounds", "same", "periods")] == [0, 0, 0, 3, 0]
    assert again["reports"] == 3 * 220
    assert bench.store.revoke_key(bench.store.keys()[1].id, 600)
    assert run(source, target)["keys"] == 1
    assert there.keys() == bench.store.keys()


@pytest.mark.parametrize(
    ("kind", "other"), [("sqlite", "postgres"), ("postgres", "sqlite"), ("lake", "sqlite")]
)
def test_open_rounds_are_copied_when_asked_for_and_count_once(
    kind: str, other: str, address: Callable[[str, str], str], opened: Open
) -> None:
    source, target = address(kind, "from"), address(other, "to")
    bench = filled(source, opened)
    key = bench.key(OPEN)
    for _ in range(2):
        assert run(source, target, "--open")["open_rounds"] == 1
    there = opened(target)
    assert there.counts(key) == bench.store.counts(key)
    assert there.seal(key)
    assert {info.reports for info in there.rounds() if info.key == key} == {220}
    (problem,) = run(source, target, "--open")["problems"]
    assert "too late" in problem


def test_readers_go_on_from_what_they_were_shown(address: Callable[[str, str], str], opened: Open) -> None:
    """Else the step of the new store could differ from the old one by a few reports."""
    source, target = address("sqlite", "from"), address("sqlite", "to")
    bench = filled(source, opened)
    key = bench.key(OPEN)
    bench.append(bench.reports(2200, OPEN))
    bench.store.take_step(key)
    run(source, target, "--open")
    there = opened(target)
    assert isinstance(bench.store.backend, Steps)
    assert isinstance(there.backend, Steps)
    assert bench.store.backend.step(key) is not None
    assert there.backend.step(key) == bench.store.backend.step(key)
    assert there.shown(key) == bench.store.shown(key)


def test_an_interrupted_copy_goes_on(
    address: Callable[[str, str], str], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before each change in turn."""
    source, target = address("sqlite", "from"), address("sqlite", "to")
    bench = filled(source, opened)
    changes = [0]

    def interrupting(name: str, most: int) -> None:
        real: Any = getattr(SqliteBackend, name)

        def change(self: SqliteBackend, *arguments: Any) -> Any:
            if changes[0] >= most:
                raise InterruptedError
            changes[0] += 1
            return real(self, *arguments)

        monkeypatch.setattr(SqliteBackend, name, change)

    there = opened(target)
    for most in range(4):
        changes[0] = 0
        with monkeypatch.context():
            for name in ("put_sealed", "put_results", "add_key"):
                interrupting(name, most)
            with pytest.raises(InterruptedError):
                copy_store(bench.store, there)
        monkeypatch.undo()
    copied = copy_store(bench.store, there)
    assert copied.problems == []
    assert content(there, bench.name) == content(bench.store, bench.name)


def test_what_differs_is_said_and_not_changed(address: Callable[[str, str], str], opened: Open) -> None:
    source, target = address("sqlite", "from"), address("sqlite", "to")
    bench, there = filled(source, opened), opened(target)
    there.register(bench.plan)
    other = bench.reports(5, SEALED[0])
    bench.append(other, there)
    bench.append(bench.reports(5, SEALED[1]), there)
    there.seal(bench.key(SEALED[0]))
    problems = run(source, target)["problems"]
    assert [
        word for word in ("has other counts", "is open or pruned") for text in problems if word in text
    ] == [
        "has other counts",
        "is open or pruned",
    ]
    assert there.counts(bench.key(SEALED[0])) == bench.expected(other, SEALED[0])


def test_a_period_with_other_rounds_is_not_copied(address: Callable[[str, str], str], opened: Open) -> None:
    """Its figures would lack a round, and later ones may be compared with it."""
    source, target = address("sqlite", "from"), address("sqlite", "to")
    bench, there = filled(source, opened), opened(target)
    there.register(bench.plan)
    bench.append(bench.reports(300, 103), there)
    there.seal(bench.key(103))
    run(source, target)
    assert there.table is not None
    starts = {(period.every, period.start) for period in there.table.written(bench.name)}
    assert ("day", 4 * 86_400) not in starts
    assert ("day", 5 * 86_400) not in starts
    assert ("round", 100 * 3600) in starts


def test_a_period_that_changes_while_it_is_copied_is_written_by_the_collector(
    address: Callable[[str, str], str], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round is pruned in the one store, or sealed in the other, when the results of its day are under way."""
    source, target = address("sqlite", "from"), address("sqlite", "to")
    bench, there = filled(source, opened), opened(target)
    assert bench.store.table is not None
    assert there.table is not None
    read = bench.store.backend.results

    def results(period: PeriodKey) -> list[dict[str, object]]:
        bench.store.prune(bench.key(SEALED[0]))
        bench.append(bench.reports(300, SEALED[2] + 1), there)
        there.seal(bench.key(SEALED[2] + 1))
        return read(period)

    monkeypatch.setattr(bench.store.backend, "results", results)
    copy_store(bench.store, there)
    days = {period.start // 86_400 for period in there.table.written(bench.name) if period.every == "day"}
    assert days == set()
    write_results(there)
    assert list(problems(there)) == []


def test_a_damaged_round_keeps_no_other_from_being_copied(
    address: Callable[[str, str], str], opened: Open
) -> None:
    source, target = address("sqlite", "from"), address("sqlite", "to")
    bench = filled(source, opened)
    assert isinstance(bench.store.backend, SqliteBackend)
    with bench.store.backend.writing() as transaction:
        transaction.execute("UPDATE counts SET ones = '[' WHERE round_id = 1")
    answer = run(source, target)
    assert (len(answer["problems"]), answer["rounds"]) == (1, 3)
    assert "is damaged" in answer["problems"][0]


def test_a_round_that_exists_is_not_overwritten(address: Callable[[str, str], str], opened: Open) -> None:
    for kind in ("sqlite", "lake"):
        bench = filled(address(kind, kind), opened)
        backend: Any = bench.store.backend
        before = bench.store.counts(bench.key(SEALED[0]))
        for number in (SEALED[0], PRUNED, OPEN):
            assert not backend.put_sealed(bench.key(number), Count(0, {}))
        assert bench.store.counts(bench.key(SEALED[0])) == before
        assert bench.key(OPEN) in bench.store.unsealed()


def test_a_store_is_not_copied_into_itself_and_a_missing_one_not_made(tmp_path: Path) -> None:
    url, typo = f"sqlite:///{tmp_path / 'store.db'}", f"sqlite:///{tmp_path / 'typo.db'}"
    run_command = CliRunner().invoke
    assert run_command(command, ["store", "copy", typo, url]).exit_code == 1
    assert list(tmp_path.iterdir()) == []
    run_command(command, ["keys", "create", "--store", url, "--role", "reader"])
    assert run_command(command, ["store", "copy", url, url]).exit_code == 2
