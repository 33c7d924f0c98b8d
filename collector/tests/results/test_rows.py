# ruff: noqa: S608
"""Sealed figures come from the table of results: the same as from the counts, and never of other rounds or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from tests.shared.plans import SHOP
from tests.shared.postgres import PostgresServer

from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.estimates.table import csv_text
from reticent_collector.results import Estimates, Result, Results, Selection, reader, rows, write_results
from reticent_collector.stores import FEW, Layout, PeriodKey, RoundKey, Store, open_store, sql_tables, sqlite

PLAN = (
    SHOP
    + """
[metrics.spread]
kind = "histogram"
unit = "minute"
max_value = 60
buckets = 4
mechanism = "d-bit-flip"
bits = 1
epsilon = 4.0
[segments]
os = ["windows", "linux", "macos"]
channel = ["stable", "beta"]
"""
)
SAMPLED = PLAN.replace("flip = 0.1\n", "").replace(
    "[metrics.minutes]", '[answers]\nkind = "sampled"\nwindow = "2d"\nmetrics = 2\n[metrics.minutes]'
)
HOURS_6 = 21_600
MONDAY = 345_600 // HOURS_6 + 28 * 2_900
LATER = (MONDAY + 300) * HOURS_6
EVERY = ("round", "day", "week", "month")
SELECTIONS = [
    Selection("shop", every=every, by=by, segment=segment)
    for every in EVERY
    for by, segment in (
        (None, {}), ("os", {}), ("channel", {}), (None, {"os": "linux"}), (None, {"os": FEW}), ("os", {"os": "linux"}),
    )
]  # fmt: skip


def later() -> float:
    return LATER


def reports_on(plan: Plan, number: int, count: int) -> list[Report]:
    """Reports whose answers and cohorts depend on the round; of Linux there are some, of macOS too few."""
    reports = []
    for place in range(count):
        mixed = (place * 2_654_435_761 + number * 40_503) % 2**32
        bits = (mixed >> 8) % 2**plan.bits << (-plan.bits % 8)
        asked = None
        if plan.asked_bytes:
            left_out = place % 3
            asked = bytes([0b1110_0000 & ~(0b1000_0000 >> left_out)])
            widths = [metric.mechanism.bits for metric in plan.metrics]
            above = sum(widths[left_out + 1 :]) + (-plan.bits % 8)
            bits &= ~((2 ** widths[left_out] - 1) << above)
        tags = {
            "os": "windows" if place < 0.6 * count else "linux" if place < 0.95 * count else "macos",
            "channel": "beta" if place % 3 == 0 else "stable",
        }
        identity = place.to_bytes(8) + number.to_bytes(8)
        packed = bits.to_bytes(-(-plan.bits // 8))
        reports.append(
            Report(plan.name, 1, number, identity, packed, crc32(identity) & 255, tags, asked=asked)
        )
    return reports


def fill(store: Store, numbers: range, text: str = PLAN, count: int = 60) -> None:
    """Sealed rounds; every ninth is missing, and every seventh has too few reports."""
    plan = Plan.from_toml(text)
    store.register(plan)
    layout = Layout(plan)
    for number in numbers:
        if number % 9 == 4:
            continue
        key = RoundKey(plan.name, plan.version, number)
        reports = reports_on(plan, number, 12 if number % 7 == 3 else count)
        store.append({key: b"".join(map(layout.pack, reports))})
        store.seal(key)


@pytest.fixture(autouse=True)
def _nobody_waits_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sql_tables, sqlite):
        monkeypatch.setattr(module, "_TURN_SECONDS", 0)


@pytest.fixture(params=["memory", "sqlite", "postgres", "lake"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = {"sqlite": f"sqlite:///{tmp_path / 'store.db'}", "lake": f"lake:///{tmp_path / 'lake'}"}
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url["postgres"] = server.new_database()
    with closing(open_store(url.get(request.param, "memory:"))) as opened:
        yield opened


@pytest.fixture
def in_memory() -> Iterator[Store]:
    with closing(open_store("memory:")) as opened:
        yield opened


def change(store: Store, statement: str) -> None:
    with store.backend.writing() as transaction:
        transaction.execute(statement)


def plain(estimates: Estimates) -> tuple[Any, str]:
    return estimates.to_dict(), csv_text(estimates.rows)


def computed(store: Store, selection: Selection) -> Estimates:
    """The figures from the counts alone."""
    results = Results(store, later)
    figures = []
    for period in results.periods(selection):
        figures += results.computed(period, selection.metrics(period.metrics), selection)
    return Estimates(figures)


def counts_are_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        pytest.fail("a sealed figure that is in the table was computed again")

    monkeypatch.setattr(store, "counts", read)
    monkeypatch.setattr(store, "metric_counts", read)


def is_from_table(result: Result) -> bool:
    return not result.by_round


# The same figures


def test_figures_of_the_table_are_those_of_the_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, range(MONDAY, MONDAY + 10))
    before = [plain(Results(store, later).estimates(selection)) for selection in SELECTIONS]
    assert any(answer["withheld"] for answer, _ in before)
    assert any("balance" in figure for answer, _ in before for figure in answer["estimates"])
    write_results(store, later)
    counts_are_not_read(store, monkeypatch)
    results = Results(store, later)
    after = [plain(results.estimates(selection)) for selection in SELECTIONS]
    assert after == before
    with_one_metric = [replace(selection, metric="spread") for selection in SELECTIONS]
    for selection, (answer, _) in zip(with_one_metric, before, strict=True):
        expected = [figure for figure in answer["estimates"] if figure["metric"] == "spread"]
        assert results.estimates(selection).to_dict()["estimates"] == expected


def test_plans_that_ask_some_metrics_in_windows(in_memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 16), SAMPLED)
    asked = [replace(one, every=every) for one in SELECTIONS[:6] for every in ("round", "window", "week")]
    before = [plain(Results(in_memory, later).estimates(selection)) for selection in asked]
    assert any(answer["estimates"] for answer, _ in before)
    write_results(in_memory, later)
    counts_are_not_read(in_memory, monkeypatch)
    assert [plain(Results(in_memory, later).estimates(selection)) for selection in asked] == before


def test_many_periods_are_one_query(in_memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 30))
    write_results(in_memory, later)
    calls: list[int] = []
    real = in_memory.backend.written_rows

    def watched(periods: Any, *rest: Any) -> Any:
        calls.append(len(periods))
        return real(periods, *rest)

    monkeypatch.setattr(in_memory.backend, "written_rows", watched)
    results = Results(in_memory, later)
    assert len({result.start for result in results.estimates(Selection("shop", every="round"))}) > 20
    assert len(calls) == 1
    monkeypatch.setattr(rows, "NUMBERS_AT_ONCE", 90)  # of nine numbers a round, twice
    results.estimates(Selection("shop", every="round"))
    assert calls[1:] == [5] * (calls[0] // 5) + [calls[0] % 5] * (calls[0] % 5 > 0)


def test_a_histogram_of_the_table_is_given_its_counts(in_memory: Store) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 8))
    selection = Selection("shop", "spread", every="round", segment={"os": "linux"})
    before = computed(in_memory, selection)
    write_results(in_memory, later)
    results = Results(in_memory, later)
    for result, expected in zip(results.estimates(selection), before, strict=True):
        assert is_from_table(result)
        counted = results.with_counts(result)
        assert (counted.by_round, counted.cumulative) == (expected.by_round, expected.cumulative)
        assert result.median is not None
        assert isnan(result.median.value), "the table has its interval only"
        assert results.with_counts(counted) is counted


# What the table does not have


@pytest.mark.parametrize(
    "selection",
    [
        Selection("shop", every="day", confidence=0.9),
        Selection("shop", every="day", segment={"os": "linux"}, by="channel"),
        Selection("shop", every="day", segment={"os": "windows", "channel": "beta"}),
    ],
)
def test_what_is_not_in_the_table_is_computed_once(
    in_memory: Store, monkeypatch: pytest.MonkeyPatch, selection: Selection
) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 8), count=150)
    write_results(in_memory, later)
    expected = plain(computed(in_memory, selection))
    calls: list[int] = []
    real = reader.average

    def watched(*arguments: Any) -> Any:
        calls.append(1)
        return real(*arguments)

    monkeypatch.setattr(reader, "average", watched)
    results = Results(in_memory, later)
    found = results.estimates(selection)
    assert plain(found) == expected
    assert {result.estimate.confidence for result in found} == {selection.confidence}
    assert len(calls) == len(found) > 0
    assert plain(results.estimates(selection)) == expected
    assert len(calls) == len(found), "it is in memory"


def test_open_periods_are_computed_beside_those_of_the_table(in_memory: Store) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 6))
    now = (MONDAY + 6) * HOURS_6 + 3700.0  # the second day is not over
    write_results(in_memory, lambda: now)
    days = Results(in_memory, lambda: now).estimates(Selection("shop", "minutes", every="day"))
    assert [(day.state, is_from_table(day)) for day in days] == [("open", False), ("sealed", True)]


def test_uneven_cohorts_are_told_with_their_rows(in_memory: Store) -> None:
    plan = Plan.from_toml(PLAN)
    in_memory.register(plan)
    layout, key = Layout(plan), RoundKey("shop", 1, MONDAY)
    reports = [replace(report, cohort=7) for report in reports_on(plan, MONDAY, 300)]
    in_memory.append({key: b"".join(map(layout.pack, reports))})
    in_memory.seal(key)
    selection = Selection("shop", "spread", every="round")
    expected = plain(computed(in_memory, selection))
    write_results(in_memory, later)
    (result,) = results = Results(in_memory, later).estimates(selection)
    assert plain(results) == expected
    assert result.balance is not None
    assert not result.balance.even
    assert result.balance.over


# Rows that are not those of the period


@pytest.fixture
def written(in_memory: Store) -> Store:
    """Two days, written."""
    fill(in_memory, range(MONDAY, MONDAY + 8))
    assert write_results(in_memory, later) > 0
    return in_memory


DAY = "every = 'day' AND metric = 'spread' AND segment = '{}'"


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM periods",
        "UPDATE periods SET end_time = start_time",
        f"DELETE FROM results WHERE {DAY}",
        f"DELETE FROM results WHERE {DAY} AND bucket = 3",
        f"DELETE FROM results WHERE {DAY} AND bucket = 1",
        f"UPDATE results SET rounds = rounds - 1 WHERE {DAY}",
        f"UPDATE results SET rounds = NULL WHERE {DAY}",
        f"UPDATE results SET confidence = 0.9 WHERE {DAY}",
        f"UPDATE results SET value = value + 9 WHERE {DAY} AND bucket = 2",
        f"UPDATE results SET lower = lower / 2 + 0.1 WHERE {DAY} AND bucket = 2",
        f"UPDATE results SET uncut_upper = uncut_upper + 1 WHERE {DAY}",
        f"UPDATE results SET half_width = 2 * half_width WHERE {DAY}",
        f"UPDATE results SET reports = devices + 1 WHERE {DAY}",
        f"UPDATE results SET value = 'x' WHERE {DAY}",
        f"UPDATE results SET kind = 'choice' WHERE {DAY}",
        f"UPDATE results SET label = 'other' WHERE {DAY} AND bucket = 0",
        f"UPDATE results SET median_lower = NULL WHERE {DAY}",
    ],
)
def test_rows_that_do_not_fit_are_computed_instead(written: Store, damage: str) -> None:
    selection = Selection("shop", "spread", every="day")
    expected = plain(computed(written, selection))
    assert plain(Results(written, later).estimates(selection)) == expected
    assert all(map(is_from_table, Results(written, later).estimates(selection)))
    change(written, damage)
    found = Results(written, later).estimates(selection)
    assert plain(found) == expected
    assert not any(map(is_from_table, found))


def test_rows_of_a_writer_that_was_killed_are_not_shown(in_memory: Store) -> None:
    """It wrote a day, but for its mark; then a round came after all, from a collector whose clock was behind."""
    fill(in_memory, range(MONDAY, MONDAY + 2))
    write_results(in_memory, later)
    change(in_memory, "CREATE TABLE old_results AS SELECT * FROM results WHERE every = 'day'")
    change(in_memory, "CREATE TABLE old_periods AS SELECT * FROM periods WHERE every = 'day'")
    fill(in_memory, range(MONDAY + 2, MONDAY + 4))  # its seal removes them
    change(in_memory, "INSERT INTO results SELECT * FROM old_results")
    selection = Selection("shop", every="day", by="os")
    expected = plain(computed(in_memory, selection))
    assert plain(Results(in_memory, later).estimates(selection)) == expected, "there is no mark"
    change(in_memory, "INSERT INTO periods SELECT * FROM old_periods")
    assert plain(Results(in_memory, later).estimates(selection)) == expected, "it is of fewer rounds"


def test_what_was_pruned_is_not_shown(store: Store) -> None:
    fill(store, range(MONDAY, MONDAY + 8))
    write_results(store, later)
    results = Results(store, later)
    for every in EVERY:  # all of it is in memory, if anything is
        results.estimates(Selection("shop", every=every))
    assert store.prune(RoundKey("shop", 1, MONDAY + 1))
    for selection in (Selection("shop", every=every) for every in EVERY):
        expected = plain(computed(store, selection))
        assert plain(results.estimates(selection)) == expected
        write_results(store, later)
        assert plain(results.estimates(selection)) == expected
    assert MONDAY + 1 not in {result.round for result in results.estimates(Selection("shop", every="round"))}


def test_a_period_with_a_damaged_round_is_not_read_from_the_table(written: Store) -> None:
    selection = Selection("shop", "minutes", every="day")
    change(written, "UPDATE counts SET ones = 'x' || ones WHERE round_id = 1")
    with pytest.raises(Exception, match="damaged"):
        written.counts(RoundKey("shop", 1, MONDAY))  # from now on the store lists it
    later_day, day = Results(written, later).estimates(selection)
    assert (later_day.state, is_from_table(later_day)) == ("sealed", True)
    assert (day.state, is_from_table(day)) == ("open", False)


def test_changes_are_computed_once(written: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(written, later)
    first = [change.to_dict() for change in results.changes(Selection("shop", every="round"))]
    assert first
    monkeypatch.setattr(reader, "difference_of", lambda *_: pytest.fail("it was computed again"))
    assert [change.to_dict() for change in results.changes(Selection("shop", every="round"))] == first


# In which order they are written


@pytest.mark.parametrize("rebuild", [False, True])
def test_the_newest_are_written_first(
    in_memory: Store, monkeypatch: pytest.MonkeyPatch, rebuild: bool
) -> None:
    fill(in_memory, range(MONDAY, MONDAY + 16))
    if rebuild:
        write_results(in_memory, later)
    keys: list[PeriodKey] = []
    real: Callable[..., None] = in_memory.backend.put_results

    def put_results(key: PeriodKey, *figures: Any) -> None:
        keys.append(key)
        real(key, *figures)

    monkeypatch.setattr(in_memory.backend, "put_results", put_results)
    write_results(in_memory, later, rebuild=rebuild)
    assert len(keys) > 16
    assert [key.end for key in keys] == sorted((key.end for key in keys), reverse=True)
    lengths: dict[int, list[int]] = {}
    for key in keys:
        lengths.setdefault(key.end, []).append(key.end - key.start)
    assert all(of_end == sorted(of_end) for of_end in lengths.values()), "rounds before days"
