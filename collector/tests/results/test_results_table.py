# ruff: noqa: S608
"""The table of results: what readers are shown, written once after the seal, whatever dies in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.shared.plans import SHOP
from tests.shared.postgres import PostgresServer

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.cli.root import reticent as command
from reticent_collector.columns import COLUMNS
from reticent_collector.dashboard.points import PointReader
from reticent_collector.estimates import estimates_to_frame
from reticent_collector.http import Sealer
from reticent_collector.results import Results, Selection, problems, write_results
from reticent_collector.stores import FEW, Layout, PeriodKey, RoundKey, Store, open_store, sql_tables, sqlite
from reticent_lake.frames import estimates_from_frame

PLAN = SHOP + '[segments]\nos = ["windows", "linux", "macos"]\n'
HOURS_6 = 21_600
MONDAY = 345_600 // HOURS_6 + 28 * 2_900
"""The number of a round with which a week begins."""
LATER = (MONDAY + 300) * HOURS_6
"""When all rounds of the tests, and their months, are over."""


def later() -> float:
    return LATER


def fill(store: Store, rounds: range, devices: int = 95, seal: bool = True, text: str = PLAN) -> None:
    """Sealed rounds with reports of Windows (60), Linux (30) and macOS (5, which are too few to be shown)."""
    plan = Plan.from_toml(text)
    layout = Layout(plan)
    store.register(plan)
    for number in rounds:
        reports = [
            Report(
                "shop",
                plan.version,
                number,
                place.to_bytes(8) + number.to_bytes(8),
                bytes([place * (number % 5 + 3) * 37 % 256 & ~((1 << (-plan.bits % 8)) - 1)]),
                place * 7 % 256,
                {"os": "windows" if place < 60 else "linux" if place < 90 else "macos"},
            )
            for place in range(devices)
        ]
        key = RoundKey("shop", plan.version, number)
        store.append({key: b"".join(map(layout.pack, reports))})
        if seal:
            store.seal(key)


@pytest.fixture(autouse=True)
def _nobody_waits_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sql_tables, sqlite):
        monkeypatch.setattr(module, "_TURN_SECONDS", 0)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_database()
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as opened:
        yield opened


@pytest.fixture
def in_memory() -> Iterator[Store]:
    with closing(open_store("memory:")) as opened:
        yield opened


def query(store: Store, statement: str) -> list[tuple[Any, ...]]:
    with store.backend.reading() as transaction:
        return transaction.execute(statement)


def change(store: Store, statement: str) -> None:
    with store.backend.writing() as transaction:
        transaction.execute(statement)


def table(store: Store) -> dict[PeriodKey, list[dict[str, Any]]]:
    """What is in the table, by period."""
    return {key: store.table.results(key) for key in sorted(store.table.written("shop"))}


def test_the_table_says_what_readers_are_shown(store: Store) -> None:
    fill(store, range(MONDAY, MONDAY + 30))
    results, schema = Results(store, later), estimates_to_frame([]).schema
    computed = {
        every: [
            figure
            for by in (None, "os")
            for figure in results.estimates(Selection("shop", every=every, by=by))
        ]
        for every in ("round", "day", "week", "month")
    }
    assert write_results(store, later) == 30 + 8 + 2 + 1
    assert write_results(store, later) == 0
    for every, told in computed.items():
        kept = [row for key, of_period in table(store).items() if key.every == every for row in of_period]
        assert {row["segment"] for row in kept} == {"{}", '{"os":"windows"}', f'{{"os":"{FEW}"}}'}
        assert min(row["devices"] for row in kept) >= 20
        assert {(row["state"], row["confidence"]) for row in kept} == {("sealed", 0.95)}
        for row in kept:
            row |= {name: datetime.fromisoformat(row[name]) for name in ("start_time", "end_time")}
        back = estimates_from_frame(pa.Table.from_pylist(kept, schema=schema))
        expected = estimates_from_frame(estimates_to_frame(told))
        assert sorted(map(repr, back)) == sorted(map(repr, expected))
    baselines = query(store, "SELECT DISTINCT CAST(baseline_segment AS TEXT) FROM differences")
    assert [json.loads(text) for (text,) in baselines] == [{"os": "windows"}], "rare tags are not one tag"
    assert list(problems(store, later)) == []


def test_only_what_is_final_is_written(in_memory: Store) -> None:
    """A day is written once no report on any of its rounds can come any more, and with it nothing later."""
    fill(in_memory, range(MONDAY, MONDAY + 3))
    closes = (MONDAY + 4) * HOURS_6 + 3600  # of the last round of the day, on which nobody has reported

    def written(now: float) -> list[str]:
        write_results(in_memory, lambda: now)
        return sorted(key.every for key in table(in_memory))

    assert written(closes + 59) == ["round"] * 3
    assert written(closes + 60) == ["day", *["round"] * 3]
    fill(in_memory, range(MONDAY + 4, MONDAY + 5), devices=19)  # too few: written, and empty
    assert written(LATER) == ["day", "day", "month", *["round"] * 4, "week"]
    assert [
        len(rows) == 0 for key, rows in table(in_memory).items() if key.start >= (MONDAY + 4) * HOURS_6
    ] == [True] * 2


@pytest.mark.parametrize("moment", ["before", "after"])
def test_whoever_dies_between_two_steps_is_completed(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """At each transaction: what was there stays as it was, histograms are whole, and the next pass completes it."""
    monkeypatch.setattr(sql_tables, "_RESULTS_AT_ONCE", 4)
    fill(store, range(MONDAY, MONDAY + 1))
    write_results(store, later)
    whole, real = table(store), store.backend.sealing
    steps = 0

    class PowerCutError(Exception):
        pass

    def cut_at(step: int) -> Callable[[], Any]:
        left = iter(range(step, -1, -1))

        @contextmanager
        def sealing() -> Iterator[Any]:
            last = next(left) == 0
            if last and moment == "before":
                raise PowerCutError
            with real() as transaction:
                yield transaction
            if last:
                raise PowerCutError

        return sealing

    for steps in range(100):
        for statement in ("DELETE FROM results", "DELETE FROM periods"):
            change(store, statement)
        with monkeypatch.context() as patched:
            patched.setattr(store.backend, "sealing", cut_at(steps))
            try:
                write_results(store, later)
                break
            except PowerCutError:
                pass
        of_figures = "SELECT count(*) FROM results GROUP BY every, metric, CAST(segment AS TEXT)"
        assert {number for (number,) in query(store, of_figures)} <= {1, 4}
        for key, rows in table(store).items():
            assert rows == whole[key], "a period is said to be written before all of it is there"
        write_results(store, later)
        assert table(store) == whole
    assert steps >= 4 * 3  # round, day, week and month, each in at least two parts and its mark


def test_whoever_dies_while_the_table_is_rebuilt_is_completed(
    in_memory: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 1))
    write_results(in_memory, later)
    whole, real, step = table(in_memory), in_memory.backend.sealing, 0
    for step in range(100):
        left = iter(range(step, -1, -1))

        @contextmanager
        def sealing(left: Iterator[int] = left) -> Iterator[Any]:
            if next(left) == 0:
                raise StoreError("the power went out")
            with real() as transaction:
                yield transaction

        with monkeypatch.context() as patched, suppress(StoreError):
            patched.setattr(in_memory.backend, "sealing", sealing)
            write_results(in_memory, later, rebuild=True)
            break
        write_results(in_memory, later)
        assert table(in_memory) == whole
    assert step >= 4 * 5  # of each period: a mark and two metrics removed, rows and a mark written


def test_two_collectors_write_at_once(url: str, store: Store) -> None:
    if url == "memory:":
        pytest.skip("one process")
    fill(store, range(MONDAY, MONDAY + 8))
    with closing(open_store(url)) as other:
        threads = [threading.Thread(target=write_results, args=(one, later)) for one in (store, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    kept = table(store)
    assert len(kept) == 8 + 2 + 1 + 1
    assert query(store, "SELECT count(*) FROM results") == [(sum(map(len, kept.values())),)]
    assert list(problems(store, later)) == []


def test_a_collector_writes_after_it_seals_and_completes_what_others_left(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'store.db'}")) as store:
        fill(store, range(MONDAY, MONDAY + 1))  # sealed, and then whoever did it died
        done, again = threading.Event(), threading.Event()
        real = store.backend.put_results

        def put_results(key: PeriodKey, *rows: Any) -> None:
            real(key, *rows)
            if key.every == "round":  # it is the last of those that ended by then
                (again if done.is_set() else done).set()

        store.backend.put_results = put_results
        sealer = Sealer(store, later, every=0.01)
        assert done.wait(30)
        assert sorted(key.every for key in table(store)) == ["day", "month", "round", "week"]
        fill(store, range(MONDAY + 150, MONDAY + 151), seal=False)  # in September
        assert again.wait(30), "it does not wait for a minute to be over"
        sealer.stop()
        assert sealer.sealed == 1
        assert len(table(store)) == 8


def test_a_backlog_of_results_does_not_keep_a_round_from_its_seal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn of no time writes one period; a round that is due meanwhile is sealed before the next."""
    monkeypatch.setattr("reticent_collector.http.writing.TURN_SECONDS", 0.0)
    with closing(open_store(f"sqlite:///{tmp_path / 'store.db'}")) as store:
        fill(store, range(MONDAY, MONDAY + 4))
        events, done = [], threading.Event()
        put, seal = store.backend.put_results, store.seal

        def put_results(key: PeriodKey, *rows: Any) -> None:
            put(key, *rows)
            events.append(key.every)
            if len(events) == 1:
                fill(store, range(MONDAY + 150, MONDAY + 151), seal=False)
            if events.count("round") == 5:
                done.set()

        def seal_noted(key: RoundKey) -> bool:
            events.append("seal")
            return seal(key)

        store.backend.put_results = put_results
        monkeypatch.setattr(store, "seal", seal_noted)
        sealer = Sealer(store, later, every=0.01)
        assert done.wait(30), "what is left is written in the next turn, not after a minute"
        sealer.stop()
        assert events[:3] == ["month", "seal", "month"]
        assert len(table(store)) == 4 + 1 + 1 + 1 + 4


def test_check_finds_what_is_not_as_the_counts_say_and_rebuild_makes_it_so(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'store.db'}"

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        outcome = CliRunner().invoke(command, ["store", *arguments, "--store", address, "--json"])
        return outcome.exit_code, json.loads(outcome.stdout)

    with closing(open_store(address)) as store:
        fill(store, range(MONDAY, MONDAY + 2))
        assert run("results") == (0, {"store": address, "periods": 5})
        whole = table(store)
        assert run("check") == (0, {"store": address, "problems": []})
        day = "every = 'day' AND metric = 'minutes' AND segment = '{}'"
        for statement, told in (
            (f"UPDATE results SET value = value + 1 WHERE {day}", "1 of 15 rows are changed"),
            (f"UPDATE results SET reports = reports + 1 WHERE {day}", "1 of 15 rows are changed"),
            (f"DELETE FROM results WHERE {day}", "1 of 15 rows are missing"),
            (f'UPDATE results SET segment = \'{{"os":"macos"}}\' WHERE {day}', "1 of 15 rows are too many"),
            ("UPDATE periods SET every = 'window' WHERE every = 'day'", "there are no final counts for them"),
        ):
            change(store, statement)
            code, answer = run("check")
            assert code == 3
            assert any(told in problem for problem in answer["problems"]), answer
            assert run("results", "--rebuild")[0] == 0
            assert table(store) == whole
        assert query(store, "SELECT count(*) FROM results") == [(sum(map(len, whole.values())),)]


def compared_rounds(store: Store) -> list[tuple[Any, ...]]:
    """The rounds of which each day is compared with the one before."""
    return query(
        store,
        "SELECT DISTINCT start_time, rounds FROM changes WHERE every = 'day' AND against = 'before' ORDER BY 1",
    )


def test_a_round_that_is_sealed_late_is_in_all_that_is_compared_with_it(store: Store) -> None:
    """The next day and those a week and four weeks after it are compared again, and no other is touched."""
    days = (0, 1, 2, 7, 28)
    late = MONDAY + 1
    for day in days:
        first = MONDAY + 4 * day
        fill(store, range(first, first + 4 if day else first + 1))
    write_results(store, later)
    assert [rounds for _, rounds in compared_rounds(store)] == [1, 4]
    fill(store, range(late, late + 1))
    write_results(store, later)
    assert list(problems(store, later)) == []
    assert [rounds for _, rounds in compared_rounds(store)] == [2, 4]
    weekly = query(store, "SELECT DISTINCT against, rounds FROM changes WHERE every = 'day' ORDER BY 1, 2")
    assert weekly == [("4-weeks", 2), ("before", 2), ("before", 4), ("week", 2)]


def test_a_round_that_makes_a_day_final_makes_comparisons_with_it(store: Store) -> None:
    """It was not sealed in time, so its day was open when later ones were written."""
    fill(store, range(MONDAY, MONDAY + 1), seal=False)
    fill(store, range(MONDAY + 1, MONDAY + 8))
    write_results(store, later)
    assert compared_rounds(store) == []
    assert store.seal(RoundKey("shop", 1, MONDAY))
    write_results(store, later)
    assert [rounds for _, rounds in compared_rounds(store)] == [4]
    assert list(problems(store, later)) == []


def test_a_day_that_is_final_after_a_later_one_is_compared_with_it(in_memory: Store) -> None:
    """Devices of an older version of the plan had more time; of the last round of their day there is no report."""
    older = PLAN.replace('grace = "1h"', 'grace = "3d"')
    fill(in_memory, range(MONDAY, MONDAY + 3), text=older)
    fill(in_memory, range(MONDAY + 4, MONDAY + 8), text=PLAN.replace("version = 1", "version = 2"))
    closed = (MONDAY + 8) * HOURS_6 + 7200
    write_results(in_memory, lambda: closed)
    assert [key.start for key in table(in_memory) if key.every == "day"] == [(MONDAY + 4) * HOURS_6]
    assert compared_rounds(in_memory) == []
    write_results(in_memory, later)
    assert [rounds for _, rounds in compared_rounds(in_memory)] == [3]
    assert list(problems(in_memory, later)) == []


def test_a_round_that_is_sealed_while_days_are_written_is_in_what_is_compared_with_it(
    in_memory: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 3))
    fill(in_memory, range(MONDAY + 4, MONDAY + 8))
    put: Callable[..., None] = in_memory.backend.put_results

    def put_results(key: PeriodKey, *rows: Any) -> None:
        made = [[*some] for some in rows]
        if key.every == "day":
            fill(in_memory, range(MONDAY + 3, MONDAY + 4))  # after the figures were computed
        put(key, *made)

    monkeypatch.setattr(in_memory.backend, "put_results", put_results)
    write_results(in_memory, later)
    write_results(in_memory, later)
    assert [rounds for _, rounds in compared_rounds(in_memory)] == [4]
    assert list(problems(in_memory, later)) == []


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("DELETE FROM comparisons WHERE metric = 'minutes'", "rows are missing"),
        ("UPDATE comparisons SET lower = lower - 1 WHERE metric = 'minutes'", "rows are changed"),
    ],
)
def test_comparisons_that_differ_from_the_counts_are_told(in_memory: Store, damage: str, what: str) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 8))
    write_results(in_memory, later)
    change(in_memory, damage)
    told = [*problems(in_memory, later)]
    assert told
    assert all("of the comparisons" in text and what in text for text in told)
    write_results(in_memory, later, rebuild=True)
    assert list(problems(in_memory, later)) == []


def test_pruning_removes_the_figures_a_round_is_in(store: Store) -> None:
    fill(store, range(MONDAY, MONDAY + 8))
    write_results(store, later)
    before = table(store)
    assert store.prune(RoundKey("shop", 1, MONDAY + 1))
    assert [key for key in before if key not in table(store)] == [
        key
        for key in before
        if key.start <= (MONDAY + 1) * HOURS_6 < key.end or key[2:4] == ("day", (MONDAY + 4) * HOURS_6)
    ], "the day after was compared with it"
    assert query(store, "SELECT count(*) FROM comparisons") == [(0,)], "the next day's were against that day"
    assert write_results(store, later) == 4, "the day, week and month, and the day that is compared with it"
    assert query(store, "SELECT count(*) FROM changes")[0][0] > 0
    assert query(store, "SELECT count(*) FROM results") == [(sum(map(len, table(store).values())),)]
    assert list(problems(store, later)) == []


def test_a_store_that_can_only_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'store.db'}"
    with closing(open_store(address)) as store:
        fill(store, range(MONDAY, MONDAY + 1))
    with closing(open_store(address, readonly=True)) as reader:
        with pytest.raises(StoreError, match="is opened read-only"):
            write_results(reader, later)
        assert list(problems(reader, later)) == []
    with closing(open_store(address)) as store:
        assert write_results(store, later) == 4


def test_views_and_types_are_those_that_tools_read(url: str, store: Store) -> None:
    fill(store, range(MONDAY, MONDAY + 33))
    write_results(store, later)
    names = [column.name for column in COLUMNS]
    for view, periods in (("daily", 9), ("weekly", 2)):
        assert query(store, f"SELECT count(DISTINCT start_time) FROM {view}") == [(periods,)]
    newest = query(
        store, "SELECT every, count(DISTINCT start_time), min(round) FROM latest GROUP BY every ORDER BY 1"
    )
    assert [(every, number) for every, number, _ in newest] == [
        ("day", 1),
        ("month", 1),
        ("round", 1),
        ("week", 1),
    ]
    assert newest[2] == ("round", 1, MONDAY + 32)
    if url.startswith("postgresql"):
        types = query(
            store,
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = 'reticent' AND table_name = 'results' ORDER BY ordinal_position",
        )
        assert [name for name, _ in types] == names
        assert dict(types)["start_time"] == "timestamp with time zone"
        assert (dict(types)["segment"], dict(types)["value"]) == ("jsonb", "double precision")
    else:
        declared = query(store, "SELECT name, type FROM pragma_table_info('results')")
        assert [name for name, _ in declared] == names
        assert dict(declared)["start_time"] == "TIMESTAMP"
        moments = query(store, "SELECT DISTINCT strftime('%s', start_time) FROM weekly ORDER BY 1")
        assert [int(moment) for (moment,) in moments] == [MONDAY * HOURS_6, (MONDAY + 28) * HOURS_6]


def test_damage_keeps_a_period_from_being_written_and_what_is_written_from_being_lost(
    in_memory: Store,
) -> None:
    """The damage is found only when the counts are read, after the store listed the round as sealed."""
    fill(in_memory, range(MONDAY, MONDAY + 4))
    change(in_memory, "UPDATE counts SET ones = 'x' || ones WHERE round_id = 1 AND metric = 'minutes'")
    assert write_results(in_memory, later) == 3
    assert sorted(key.every for key in table(in_memory)) == ["round"] * 3
    change(in_memory, "UPDATE counts SET ones = substr(ones, 2) WHERE round_id = 1 AND metric = 'minutes'")
    in_memory = Store(in_memory.backend)  # it was repaired, and the collector is started again
    assert write_results(in_memory, later) == 4
    whole = table(in_memory)
    change(in_memory, "UPDATE counts SET ones = 'x' || ones WHERE round_id = 1 AND metric = 'minutes'")
    for _ in range(2):  # the second time the damage is known from the start
        assert write_results(in_memory, later, rebuild=True) == 3
        assert table(in_memory) == whole


def test_what_pages_remember_of_a_day_is_all_of_it(in_memory: Store) -> None:
    """Damage that is found while a page is made, and repaired later, is in no page after that."""
    fill(in_memory, range(MONDAY, MONDAY + 3))
    reader = PointReader(Results(in_memory, later))

    def rounds() -> list[int]:
        plan = Plan.from_toml(PLAN)
        return [
            point.result.rounds for point in reader.points(plan, Selection(plan.name, "minutes", every="day"))
        ]

    change(in_memory, "UPDATE counts SET ones = 'x' || ones WHERE round_id = 1 AND metric = 'minutes'")
    assert rounds() == rounds() == [2]
    change(in_memory, "UPDATE counts SET ones = substr(ones, 2) WHERE round_id = 1 AND metric = 'minutes'")
    assert rounds() == rounds() == [3]
    fill(in_memory, range(MONDAY + 3, MONDAY + 4))  # a clock was ahead, and the day was not over
    assert rounds() == [4]


def test_a_figure_that_lacks_a_damaged_round_is_never_called_final(in_memory: Store) -> None:
    """The first reader finds the damage, and is told the same as the second one, and as after a repair."""
    fill(in_memory, range(MONDAY, MONDAY + 8))
    damage = "UPDATE counts SET ones = 'x' || ones WHERE round_id = 6 AND metric = 'minutes'"
    change(in_memory, damage)
    for _ in range(2):
        later_day, day = Results(in_memory, later).estimates(Selection("shop", "minutes", every="day"))
        assert (later_day.state, later_day.rounds_missing, day.state) == ("open", 1, "sealed")
    change(in_memory, damage.replace("'x' || ones", "substr(ones, 2)"))
    again = Store(in_memory.backend)
    assert Results(again, later).estimates(Selection("shop", "minutes", every="day"))[0].state == "sealed"
    change(in_memory, damage)
    rounds = Results(again, later).estimates(Selection("shop", "minutes", rounds=[MONDAY + 5]))
    assert (rounds, rounds.withheld) == ([], []), "it has enough reports"


def test_a_change_that_lacks_a_damaged_round_is_not_remembered(in_memory: Store) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 8))
    reader = PointReader(Results(in_memory, later))
    (period, _) = reader.results.periods(Selection("shop", every="day"))
    damage = "UPDATE counts SET ones = 'x' || ones WHERE round_id = 6 AND metric = 'minutes'"
    change(in_memory, damage)
    assert len(reader.changes(period, Selection("shop", "minutes"))["minutes"].figure.by_round) == 3
    change(in_memory, damage.replace("'x' || ones", "substr(ones, 2)"))
    assert len(reader.changes(period, Selection("shop", "minutes"))["minutes"].figure.by_round) == 4


def test_a_round_that_comes_after_its_day_was_written_is_in_it(store: Store) -> None:
    """A collector whose clock was ahead took the day for finished."""
    fill(store, range(MONDAY, MONDAY + 3))
    write_results(store, later)
    fill(store, range(MONDAY + 3, MONDAY + 4))
    write_results(store, later)
    assert list(problems(store, later)) == []


def test_a_round_that_comes_while_its_day_is_written_is_in_it(store: Store) -> None:
    """One collector's clock was ahead; others, whose clocks are not, open and seal a round of the day meanwhile."""
    fill(store, range(MONDAY, MONDAY + 3))
    others = [lambda: fill(store, range(MONDAY + 3, MONDAY + 4))]
    write_results(store, later, progress=lambda done, _: others.pop()() if done == 2 and others else None)
    assert not others
    write_results(store, later)
    assert list(problems(store, later)) == []


def test_versions_of_a_plan_have_periods_that_the_newest_has_not(in_memory: Store) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 4))
    write_results(in_memory, later)
    before = table(in_memory)
    newer = PLAN.replace("version = 1", "version = 2").replace('round = "6h"', 'round = "2d"')
    in_memory.register(Plan.from_toml(newer))
    assert list(problems(in_memory, later)) == []
    write_results(in_memory, later, rebuild=True)
    assert table(in_memory) == before


def test_figures_of_a_divided_plan_whose_parameters_changed_within_a_day_are_told_apart(
    in_memory: Store,
) -> None:
    """The rows of a metric under other parameters have its name too."""
    text = SHOP.replace("min_reports = 20", "min_reports = 2") + "[answers]\nmetrics = 1\n"
    for version, flip, ones in ((1, "0.1", 10), (2, "0.2", 30)):
        plan = Plan.from_toml(
            text.replace("version = 1", f"version = {version}").replace("flip = 0.1", f"flip = {flip}")
        )
        in_memory.register(plan)
        layout = Layout(plan)
        for number in range(MONDAY + 2 * version - 2, MONDAY + 2 * version):
            key = RoundKey("shop", version, number)
            reports = [
                Report("shop", version, number, place.to_bytes(16), bits, place, {}, asked)
                for place in range(80)
                for bits, asked in [
                    (b"\x80" if place < ones else b"\0", b"\x80") if place < 40 else (b"\0", b"\x40")
                ]
            ]
            in_memory.append({key: b"".join(map(layout.pack, reports))})
            in_memory.seal(key)
    write_results(in_memory, later)
    selection = Selection("shop", "minutes", every="day")
    figures = Results(in_memory, later).estimates(selection)
    period = figures[0].period
    computed = [*Results(in_memory, later).computed(period, period.metrics, selection)]
    assert [figure.versions for figure in figures] == ["2", "1"]
    assert [figure.estimate.value for figure in figures] == [
        one.estimate.value for one in computed if one.metric.name == "minutes"
    ]
