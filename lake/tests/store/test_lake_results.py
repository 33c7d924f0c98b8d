"""The table of results in a lake: one line reads it, it is made once, and whoever stops in the middle is completed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow.parquet as pq
import pytest
from tests.shared.lakes import Bay, die_at, meanwhile, mixed_group
from tests.shared.plans import MINUTES
from tests.shared.reports import PLANS, fill, make_reports
from tests.shared.writers import KEY

from reticent.plan import Plan
from reticent_collector.columns import COLUMNS, seconds_of, segment_text
from reticent_collector.results import Results, Selection, problems, write_results
from reticent_collector.stores import DamagedError, Store, open_store

ROUNDS = (100, 101, 124)
"""Of one day, and of the next."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three rounds that are sealed, and one that is not."""
    plan, url = PLANS["one-of"], f"lake:///{tmp_path / 'lake'}"
    for number in (*ROUNDS, 2000):
        key = fill(url, plan, make_reports(plan, 200, number, (number,)))
    store = open_store(url)
    for number in ROUNDS:
        assert store.seal(key._replace(round=number))
    assert write_results(store) == 3 + 2 + 2 + 1 + 1  # rounds, windows, days, a week, a month
    return store


def files(store: Store) -> dict[str, bytes]:
    root = Path(store.url.removeprefix("lake:///"))
    return {str(path.relative_to(root)): path.read_bytes() for path in (root / "results").rglob("*.parquet")}


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its times as unix seconds, and nothing in place of not-a-number."""
    plain = {name: None if pandas.isna(cell) else cell for name, cell in row.items()}
    return plain | {name: seconds_of(plain[name]) for name in ("start_time", "end_time")}


def test_one_line_reads_what_readers_are_shown(store: Store) -> None:
    root = store.url.removeprefix("lake:///")
    ways = {
        "duckdb": lambda: (
            duckdb.sql(f"FROM read_parquet('{root}/results/**/*.parquet')").to_arrow_table().to_pylist()
        ),
        "polars": lambda: polars.read_parquet(
            f"{root}/results/**/*.parquet", hive_partitioning=True
        ).to_dicts(),
        "pandas": lambda: pandas.read_parquet(f"{root}/results").to_dict("records"),
        "pyarrow": lambda: pq.read_table(f"{root}/results").to_pylist(),
    }
    results = Results(store)
    expected = {}
    for every in ("round", "day"):
        for by in (None, "os", "channel"):
            for result in results.estimates(Selection("one-of", every=every, by=by, last=99)):
                if result.state == "sealed":
                    numbers = getattr(result.estimate, "buckets", [result.estimate])
                    for place, number in enumerate(numbers):
                        bucket = place if result.metric.kind == "histogram" else None
                        about = every, result.start, result.metric.name, segment_text(result.segment), bucket
                        value = number.value if number.reports else None
                        expected[about] = value, number.lower, number.upper, number.reports, result.end
    assert len(expected) == (3 + 2) * (1 + 3 + 2) * (1 + 13)
    for name, read in ways.items():
        rows = list(map(shown, read()))
        assert set(rows[0]) == {column.name for column in COLUMNS}, name
        assert {row["plan"] for row in rows} == {"one-of"}
        assert {row["state"] for row in rows} == {"sealed"}
        found = {
            tuple(row[cell] for cell in ("every", "start_time", "metric", "segment", "bucket")): tuple(
                row[cell] for cell in ("value", "lower", "upper", "reports", "end_time")
            )
            for row in rows
            if row["every"] in ("round", "day")
        }
        assert found == expected, name


def test_it_is_made_once_can_be_made_again_and_goes_with_its_counts(store: Store) -> None:
    before = files(store)
    assert write_results(store) == 0
    assert list(problems(store)) == []
    assert len(before) == 9 * 2
    (damaged,) = [path for path in before if "metric=minutes/round-v1-360000-" in path]
    (gone,) = [path for path in before if "metric=hours/week-" in path]
    root = Path(store.url.removeprefix("lake:///"))
    compared_before = {path: path.read_bytes() for path in (root / "comparisons").rglob("*.parquet")}
    assert compared_before
    for path, content in compared_before.items():
        path.write_bytes(content[:-9])
    (root / damaged).write_bytes(before[damaged][:-9])
    (root / gone).unlink()
    (said,) = problems(store)
    assert (
        "results of the round from 1970-01-05T04:00:00Z of one-of version 1: 6 of 84 rows are missing" in said
    )
    assert write_results(store) == 1  # the week, whose last file was gone
    assert write_results(store, rebuild=True) == 9
    assert list(problems(store)) == []
    assert {path: path.read_bytes() for path in compared_before} == compared_before
    assert files(store).keys() == before.keys()
    assert store.prune(store.rounds()[-1].key)  # round 100, of the first day
    kept = {path.rpartition("/")[2].partition("-v1-")[::2] for path in files(store)}
    assert sorted(kept) == [
        ("round", "363600-367200.parquet"), ("round", "446400-450000.parquet"),
        ("window", "446400-460800.parquet"),
    ]  # fmt: skip


def test_groups_that_are_too_small_have_no_rows(tmp_path: Path) -> None:
    plan = Plan.from_toml(PLANS["segments"].text.replace("min_reports = 1", "min_reports = 60"))
    url = f"lake:///{tmp_path / 'lake'}"
    key = fill(url, plan, make_reports(plan, 100, 3, (100,)))
    few = fill(url, plan, make_reports(plan, 50, 4, (101,)))
    store = open_store(url)
    assert [store.seal(each) for each in (key, few)] == [True, True]
    write_results(store)
    rows = pq.read_table(tmp_path / "lake" / "results", filters=[("every", "=", "round")]).to_pylist()
    assert {row["round"] for row in rows} == {100}
    assert all(row["reports"] >= 60 for row in rows)
    assert {row["segment"] for row in rows} == {"{}", '{"channel":"(few)"}', '{"os":"(few)"}'}


TWO_MEANS = Plan.from_toml(
    f'min_reports = 1\n{MINUTES}\n[metrics.more]\nkind = "mean"\nmax_value = 60\nepsilon = 1.0\n'
)


def writing(bay: Bay) -> int:
    return write_results(bay.store)


def made(bay: Bay) -> dict[str, bytes]:
    return {path: data for path, data in bay.files.files.items() if path.startswith("results/")}  # type: ignore[attr-defined]


def compared(bay: Bay) -> dict[str, bytes]:
    return {path: data for path, data in bay.files.files.items() if path.startswith("comparisons/")}  # type: ignore[attr-defined]


def test_dying_anywhere_or_writing_beside_another_comes_to_the_same() -> None:
    def sealed() -> Bay:
        bay = Bay(TWO_MEANS)
        assert bay.store.seal(KEY)
        bay.watched.steps = 0
        return bay

    whole = sealed()
    sizes = [0, 0]
    whole.watched.step = lambda number: sizes.append(len(made(whole)))
    periods = writing(whole)
    assert periods == 4  # a round, its day, week and month
    expected = made(whole)
    whole.watched.step = lambda number: None
    # before and after each file is made, and at the first and last step: nothing else changes anything
    changes = [place - 1 for place in range(2, len(sizes)) if sizes[place] != sizes[place - 1]]
    assert len(changes) == 2 * periods
    for place in (1, *(step - 1 for step in changes), *changes, whole.watched.steps):
        dying, met = sealed(), sealed()
        die_at(dying, place, writing)
        other = dying.other()
        complete = sum("metric=more" in path for path in made(dying))  # the last metric's file is made last
        assert complete == len(made(dying)) // 2
        assert complete + write_results(other) == periods
        assert list(problems(other)) == []
        beside = met.other()
        meanwhile(met, place, writing, lambda beside=beside: write_results(beside))
        assert made(dying) == made(met) == expected


def test_dying_while_it_is_pruned_leaves_no_figure_of_the_round() -> None:
    def pruning(bay: Bay) -> bool:
        return bay.store.prune(KEY)

    def written() -> Bay:
        bay = Bay(TWO_MEANS)
        assert bay.store.seal(KEY)
        assert writing(bay) == 4
        bay.watched.steps = 0
        return bay

    whole = written()
    assert pruning(whole)
    for place in range(1, whole.watched.steps + 1):
        bay = written()
        die_at(bay, place, pruning)
        other = bay.other()
        other.prune(KEY)
        assert [path for path in bay.files.files if path.startswith("results/")] == []  # type: ignore[attr-defined]


def test_a_round_that_comes_after_its_day_was_written_is_in_it(store: Store) -> None:
    """A collector whose clock was ahead took the day for finished."""
    plan = PLANS["one-of"]
    key = fill(store.url, plan, make_reports(plan, 200, 102, (102,)))
    assert open_store(store.url).seal(key)
    assert write_results(store) == 1 + 4 + 1  # the round, its window, day, week and month; the next day
    assert list(problems(store)) == []


def test_one_metric_of_many_rounds(store: Store, tmp_path: Path) -> None:
    keys = [info.key for info in store.rounds()]
    assert [key.round for key in keys] == [2000, *reversed(ROUNDS)]
    fresh = open_store(store.url)
    for metric in ("minutes", "hours"):
        assert fresh.metric_counts(keys, metric) == {
            key: {tags: {metric: by_metric[metric]} for tags, by_metric in store.counts(key).items()}
            for key in keys[1:]
        }
    counts = next((tmp_path / "lake" / "counts").rglob("round=101.json"))
    text = counts.read_text()
    for damage in ("", "[]", text.replace('"ones": [', '"ones": ["x", ')):
        counts.write_text(damage)
        with pytest.raises(DamagedError, match=r"round=101\.json: is damaged"):
            open_store(store.url).metric_counts(keys, "minutes")


def test_whoever_dies_leaves_no_comparison_out_that_a_round_sealed_later_makes() -> None:
    """A collector dies while it writes a day; then a round is sealed of the day before, which is compared with it."""
    day = 86_400 // TWO_MEANS.round_seconds
    week_later = KEY._replace(round=KEY.round + 7 * day)
    late = KEY._replace(round=KEY.round + 6 * day)

    def sealed() -> Bay:
        bay = Bay(TWO_MEANS)
        for key in (week_later, late):
            bay.store.append({key: mixed_group(range(20))})
        assert bay.store.seal(KEY)
        assert bay.store.seal(week_later)
        bay.watched.steps = 0
        return bay

    def completed(store: Store) -> None:
        store.seal(late)
        write_results(store)
        assert list(problems(store)) == []

    whole = sealed()
    sizes = [0, 0]
    whole.watched.step = lambda number: sizes.append(len(made(whole)) + len(compared(whole)))
    writing(whole)
    whole.watched.step = lambda number: None
    changes = [place - 1 for place in range(2, len(sizes)) if sizes[place] != sizes[place - 1]]
    first = compared(whole)
    completed(whole.store)
    expected = compared(whole)
    assert [path.count("_") for path in first] == [1]
    assert sorted(path.count("_") for path in expected) == [1, 2], (
        "the week, and the day with the one before it"
    )
    for place in changes:
        bay = sealed()
        die_at(bay, place, writing)
        completed(bay.other())
        assert compared(bay) == expected


def test_a_day_written_while_a_round_before_it_is_sealed_is_compared_with_it() -> None:
    """The round has no counts yet when another collector writes the day after it."""
    day = 86_400 // TWO_MEANS.round_seconds
    after = KEY._replace(round=KEY.round + day)

    def sealing(bay: Bay) -> bool:
        return bay.store.seal(KEY)

    def sealed() -> Bay:
        bay = Bay(TWO_MEANS)
        bay.store.append({after: mixed_group(range(20))})
        assert bay.store.seal(after)
        bay.watched.steps = 0
        return bay

    whole = sealed()
    sizes = [0, 0]
    whole.watched.step = lambda number: sizes.append(len(whole.files.files))  # type: ignore[attr-defined]
    assert sealing(whole)
    changes = [place - 1 for place in range(3, len(sizes)) if sizes[place] != sizes[place - 1]]
    assert len(changes) > 3
    for place in (1, *changes):
        bay = sealed()
        other = bay.other()
        meanwhile(bay, place, sealing, lambda other=other: write_results(other))
        write_results(other)
        assert list(problems(other)) == []
        assert len(compared(bay)) == 1
