"""What both databases do the same: closing, memory, several collectors, verify."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores import Appended, RoundKey, Store
from reticent_collector.testing import Bench

Open = Callable[[str], Store]


def interrupted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this store's process dies, as it were, between closing and counting."""

    def dies(*_: object, **named: object) -> None:
        raise StoreError("the power went out")

    monkeypatch.setattr(store.backend, "count", dies)


def test_a_closing_round_takes_nothing_and_anyone_may_finish_it(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, reports = bench.key(7), bench.reports(300)
    bench.append(reports)
    with monkeypatch.context() as patch:
        interrupted(store, patch)
        with pytest.raises(StoreError, match="the power went out"):
            store.seal(key)
    assert bench.states() == {key: ("closing", 300)}
    assert store.unsealed() == [key]
    assert bench.append(bench.reports(5)) == {key: Appended(late=5)}
    assert store.counts(key) == bench.expected(reports)
    other = bench.open()
    assert bench.append(bench.reports(5), other) == {key: Appended(late=5)}
    assert other.counts(key) == bench.expected(reports)
    assert other.seal(key)
    for each in (store, other):
        assert each.counts(key) == bench.expected(reports)
        assert bench.states(each) == {key: ("sealed", 300)}


def test_rounds_are_locked_in_one_order(bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two collectors that open the same rounds at once do not wait for each other."""
    put, orders = store.backend.put, []
    monkeypatch.setattr(store.backend, "put", lambda groups: (orders.append(list(groups)), put(groups))[1])
    bench.append([*bench.reports(1, 9), *bench.reports(1, 7), *bench.reports(1, 8)])
    assert orders == [[bench.key(7), bench.key(8), bench.key(9)]]


def test_two_that_seal_at_once_agree(bench: Bench, store: Store) -> None:
    reports = bench.reports(2000)
    for start in range(0, 2000, 50):
        bench.append(reports[start : start + 50])
    stores = [store, bench.open(), bench.open()]
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda s=each: answers.append(s.seal(bench.key(7)))) for each in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, True]
    assert [each.counts(bench.key(7)) for each in stores] == [bench.expected(reports)] * 3
    assert store.verify() == []


def test_what_is_late_leaves_nothing(bench: Bench, store: Store) -> None:
    bench.append(bench.reports(100))
    reader = bench.open()
    assert bench.states(reader) == {bench.key(7): ("open", 100)}
    assert reader.unsealed() == [bench.key(7)]
    store.seal(bench.key(7))
    assert store.open_reports == 0
    before = tables(store)
    for each in (store, reader):
        assert bench.append(bench.reports(10), each) == {bench.key(7): Appended(late=10)}
        assert each.open_reports == 0
    assert tables(store) == before


def tables(store: Store) -> tuple[object, ...]:
    with store.backend.reading() as transaction:
        rounds = transaction.execute(
            "SELECT id, plan, version, round, state, reports FROM rounds ORDER BY id"
        )
        return tuple(rounds), tuple(sorted(store.backend.record_tables(transaction)))


def test_a_round_that_another_sealed_is_let_go_of(bench: Bench, store: Store) -> None:
    other = bench.open()
    bench.append(bench.reports(10), other)
    bench.append(bench.reports(10))
    assert other.open_reports == 10
    store.seal(bench.key(7))
    other.rounds()
    assert other.open_reports == 0


def test_open_rounds_are_known_whatever_size_groups_had(bench: Bench, store: Store) -> None:
    reports = bench.reports(700)
    for report in reports[:100]:
        bench.append([report])
    bench.append(reports[100:])
    other = bench.open()
    assert other.stored_reports() == other.open_reports == 700
    assert bench.append(reports, other) == {bench.key(7): Appended(accepted=700)}


def test_reading_a_round_in_small_parts_gives_the_same(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = bench.reports(500)
    other = bench.open()
    for number, start in enumerate(range(0, 500, 10)):
        bench.append(reports[start : start + 10], store if number % 3 else other)
    monkeypatch.setattr("reticent_collector.stores.sql._BYTES_AT_ONCE", 100)
    monkeypatch.setattr("reticent_collector.stores.sql._GROUPS_AT_ONCE", 7)
    for each in (store, other, bench.open()):
        assert each.counts(bench.key(7)) == bench.expected(reports)
    assert store.seal(bench.key(7))
    assert other.counts(bench.key(7)) == bench.expected(reports)


def test_appending_does_not_wait_for_reading(bench: Bench, store: Store) -> None:
    """While somebody reads, for however long, reports are taken and rounds listed."""
    bench.append(bench.reports(10))
    with store.backend.reading() as transaction:
        transaction.execute("SELECT * FROM rounds")
        done = threading.Event()

        def work() -> None:
            bench.append(bench.reports(10))
            bench.states()
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert done.wait(30)
        thread.join()


def test_an_append_that_fails_changes_nothing(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = bench.reports(20)
    bench.append(reports[:10])

    number_of = store.backend._open_number

    def fails(transaction: object, key: RoundKey) -> int:
        if key.round == 8:  # what was put into round 7 is undone with it
            raise StoreError("not now")
        return number_of(transaction, key)

    with monkeypatch.context() as patch:
        patch.setattr(store.backend, "_open_number", fails)
        with pytest.raises(StoreError, match="not now"):
            bench.append([*reports, *bench.reports(5, 8)])
    assert bench.states() == {bench.key(7): ("open", 10)}
    assert store.counts(bench.key(7)) == bench.expected(reports[:10])
    assert bench.append(reports) == {bench.key(7): Appended(accepted=20)}


def test_a_plan_without_its_text_is_refused_and_not_kept(bench: Bench, store: Store) -> None:
    bare = Plan("bare", 1, 3600, 0, bench.plan.metrics)
    with pytest.raises(StoreError, match="plan bare version 1 cannot be stored without its"):
        store.register(bare)
    assert [plan.name for plan in store.plans()] == [bench.name]


def damaged(store: Store, *statements: str) -> list[str]:
    with store.backend.writing() as transaction:
        for statement in statements:
            transaction.execute(statement)
    return store.verify()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "UPDATE plans SET text = 'nonsense'",
            ["cannot be read: plan: is not valid TOML", "is not registered"],
        ),
        ("UPDATE plans SET version = 9", ["holds the text of", "its plan is not registered"]),
        ("DROP TABLE records_1", ["round 7 of check-.*: records_1 is missing, and the reports with it"]),
        ("DELETE FROM records_1", ["records_1 is empty"]),
        ("UPDATE records_1 SET records = substr(records, 2)", ["1 of 1 groups are not whole records"]),
        ("CREATE TABLE records_77 (number INTEGER)", ["records_77 belongs to no round"]),
        ("CREATE TABLE records_2 (number INTEGER)", ["round 6 of check-.*: records_2 is still there"]),
        (
            "UPDATE rounds SET reports = 11 WHERE id = 2",
            ["expected the counts of 11 reports, got those of 10"],
        ),
        (
            "DELETE FROM counts WHERE metric = 'words'",
            ["words: expected the counts of 10 reports, got those of 0"],
        ),
        (
            "UPDATE counts SET ones = '[99999]' WHERE metric = 'minutes'",
            ["the counts of minutes cannot be read"],
        ),
        ("UPDATE counts SET ones = '[' WHERE metric = 'minutes'", ["the counts of minutes cannot be read"]),
        ("UPDATE counts SET metric = 'cats' WHERE metric = 'words'", ["the counts of cats cannot be read"]),
        (
            "UPDATE rounds SET state = 'ajar' WHERE id = 1",
            ["expected open, closing, sealed or pruned, got ajar"],
        ),
    ],
)
def test_verify_names_what_is_wrong(bench: Bench, store: Store, statement: str, told: list[str]) -> None:
    bench.append(bench.reports(10))
    bench.append(bench.reports(10, 6))
    store.seal(bench.key(6))
    assert store.verify() == []
    if store.url.startswith("postgresql"):  # where a list has a type
        statement = statement.replace("'[99999]'", "'{99999}'").replace("'['", "'{}'")
    problems = damaged(store, statement)
    assert problems
    for each in told:
        assert any(re.search(each, problem) for problem in problems), problems


def test_a_damaged_round_is_not_counted_wrong(bench: Bench, store: Store) -> None:
    bench.append(bench.reports(10))
    damaged(store, "UPDATE records_1 SET records = substr(records, 2)")
    other = bench.open()
    with pytest.raises(StoreError, match="is damaged: group 1: records: expected whole records"):
        other.seal(bench.key(7))
    assert bench.states(other)[bench.key(7)][0] == "closing"
