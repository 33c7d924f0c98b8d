"""The rounds of a lake come to the same integers with every engine, and in every other store."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.reports import PLANS, by_tags, fill, forged, make_reports

from reticent.errors import ParameterError, ReticentError
from reticent.plan import Plan
from reticent_collector.counts import count_reports
from reticent_collector.stores import RoundKey, open_store
from reticent_lake.frames import (
    Arrow,
    CountingEngine,
    DuckDB,
    FrameError,
    RoundCount,
    count,
    count_lake,
    engine,
    lake_rounds,
    seal_lake,
)
from reticent_lake.store import BadFileError, RoundParts

ENGINES: dict[str, Callable[[], CountingEngine]] = {
    "duckdb": DuckDB,
    "arrow": Arrow,
    "arrow, in passes": lambda: Arrow(rows_at_once=150),
}


@pytest.fixture(params=ENGINES)
def chosen(request: pytest.FixtureRequest) -> CountingEngine:
    return ENGINES[request.param]()


def only(url: str, key: RoundKey, chosen: CountingEngine, **options: Any) -> RoundCount:
    (counted,) = count_lake(url, [key], chosen, **options)
    return counted


def test_every_store_and_engine_comes_to_the_same(tmp_path: Path, plan: Plan, postgres: Any) -> None:
    reports = make_reports(plan, 600, 4)
    expected = by_tags(count_reports(reports, plan))
    lake = f"lake:///{tmp_path / 'lake'}"
    for url in (f"sqlite:///{tmp_path / 'store.db'}", postgres.new_database(), lake):
        key = fill(url, plan, reports)
        store = open_store(url)
        assert store.counts(key) == expected, url
        store.close()
    for name, make in ENGINES.items():
        counted = only(lake, key, make())
        assert (counted.counts, counted.state, counted.reports) == (expected, "open", 600), name
        assert counted.files > 3


@pytest.mark.parametrize("plan", ["segments", "some-of"], indirect=True)
def test_a_sealed_round_is_what_it_was_sealed_as(tmp_path: Path, plan: Plan, chosen: CountingEngine) -> None:
    reports = forged(make_reports(plan, 300, 5), plan)
    url = f"lake:///{tmp_path / 'lake'}"
    key = fill(url, plan, reports, group=50)
    before = only(url, key, chosen)
    store = open_store(url)
    assert before.counts == store.backend.count(key).counts  # the lake's own way, with NumPy
    store.backend.seals.close(key)
    store.backend.seals.frozen(key)
    closing = only(url, key, chosen)
    assert (closing.state, closing.counts) == ("closing", before.counts)
    assert store.seal(key)
    after = only(url, key, chosen)
    assert (after.state, after.counts, after.files) == ("sealed", before.counts, 0)


def test_rounds_are_chosen_by_plan_version_number_and_state(tmp_path: Path) -> None:
    url = f"lake:///{tmp_path / 'lake'}"
    keys = [
        fill(url, plan, make_reports(plan, 20, number, (number,)))
        for plan in (PLANS["mean"], PLANS["hadamard"])
        for number in (5, 6)
    ]
    store = open_store(url)
    assert store.seal(keys[0])
    assert lake_rounds(url) == sorted(keys[1:])
    assert lake_rounds(url, plan=keys[0].plan) == [keys[1]]
    assert lake_rounds(url, plan=keys[0].plan, rounds=[5]) == [keys[0]]
    assert lake_rounds(url, version=2) == []
    with pytest.raises(ParameterError, match="round: expected a round of this lake, got 7"):
        lake_rounds(url, rounds=[5, 7])


@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}, {"dtype_backend": "numpy_nullable"}])
@pytest.mark.parametrize("name", ["mean", "segments"])
def test_a_lake_as_pandas_and_arrow_read_it(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """Plan, version and round come from the paths, as categories."""
    plan = PLANS[name]
    reports = make_reports(plan, 300, 9)
    fill(f"lake:///{tmp_path / 'lake'}", plan, [*reports, *reports[:20]])
    frame = pandas.read_parquet(tmp_path / "lake" / "reports", **options)
    assert "Int64" not in map(str, frame.dtypes[["plan", "version", "round"]])
    expected = count_reports(reports, plan)
    assert count(frame, plan) == expected
    assert count(pq.read_table(tmp_path / "lake" / "reports"), plan) == expected
    with pytest.raises(FrameError, match="version: expected 2 in every row, got 1"):
        count(frame, replace(plan, version=2))


# Bad files


@pytest.fixture
def lake(tmp_path: Path) -> tuple[str, RoundKey, list[Path]]:
    """A lake with the files of four groups."""
    plan = PLANS["segments"]
    url = f"lake:///{tmp_path / 'lake'}"
    key = fill(url, plan, make_reports(plan, 400, 6))
    return url, key, [tmp_path / "lake" / path for path in open_store(url).backend.parts(key)]


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def of_text(path: Path) -> None:
    path.write_text("dear diary")


def damaged(path: Path) -> None:
    """Change one bit of the first page: in the last third of its ids, so that no header is hit."""
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table], **says: str) -> None:
    with pq.ParquetFile(path) as file:
        table = file.read()
        head = {name.decode(): text.decode() for name, text in file.metadata.metadata.items()}
    with pq.ParquetWriter(path, change(table).schema, store_schema=False) as writer:
        writer.write_table(change(table))
        writer.add_key_value_metadata({**head, **{f"reticent.{name}": text for name, text in says.items()}})


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (truncated, "cannot be read as Parquet"),
    "text": (of_text, "cannot be read as Parquet"),
    "damaged": (damaged, "cannot be read as Parquet: .*[Cc][Rr][Cc]"),
    "another round": (
        lambda path: rewritten(path, lambda table: table, round="5"),
        "reticent.round: expected 81652, got 5",
    ),
    "another version": (
        lambda path: rewritten(path, lambda table: table, version="2"),
        "reticent.version: expected 1, got 2",
    ),
    "other metrics": (
        lambda path: rewritten(path, lambda table: table, digest="0"),
        "reticent.digest: expected [0-9a-f]+, got 0",
    ),
    "no cohort": (
        lambda path: rewritten(path, lambda table: table.drop_columns(["cohort"])),
        "cohort: expected a column uint8, got none",
    ),
    "another type": (
        lambda path: rewritten(
            path,
            lambda table: table.set_column(
                2, pa.field("cohort", pa.int64(), False), table["cohort"].cast("int64")
            ),
        ),
        "cohort: expected uint8 not null, got int64 not null",
    ),
    "fewer rows": (
        lambda path: rewritten(path, lambda table: table.slice(1)),
        "rows: expected [0-9]+ as in the name, got [0-9]+",
    ),
}


@pytest.mark.parametrize("wrong", BAD)
def test_a_bad_file_is_named_with_the_reason_or_left_out(
    lake: tuple[str, RoundKey, list[Path]], chosen: CountingEngine, wrong: str
) -> None:
    url, key, paths = lake
    spoil, reason = BAD[wrong]
    spoil(paths[1])
    with pytest.raises(BadFileError, match=f"{paths[1].name}: {reason}") as refused:
        only(url, key, chosen)
    assert [path.rpartition("/")[2] for path in refused.value.files] == [paths[1].name]
    counted = only(url, key, chosen, skip_bad=True)
    assert [path.rpartition("/")[2] for path in counted.skipped] == [paths[1].name]
    paths[1].unlink()
    assert counted.counts == only(url, key, chosen, skip_bad=True).counts  # a gap in the numbers is told, too
    assert counted.files == len(paths) - 1


def test_a_file_by_another_name_is_not_counted(
    lake: tuple[str, RoundKey, list[Path]], chosen: CountingEngine
) -> None:
    url, key, paths = lake
    expected = only(url, key, chosen)
    shutil.copy(paths[0], paths[0].with_name("mine.parquet"))
    assert only(url, key, chosen) == expected


def test_a_file_that_was_frozen_and_is_gone_is_named(
    lake: tuple[str, RoundKey, list[Path]], chosen: CountingEngine
) -> None:
    url, key, paths = lake
    store = open_store(url)
    store.backend.seals.close(key)
    store.backend.seals.frozen(key)
    paths[2].unlink()
    with pytest.raises(BadFileError, match=f"{paths[2].name}: is gone, and its reports with it"):
        only(url, key, chosen)
    assert len(only(url, key, chosen, skip_bad=True).skipped) == 1


class Meddling:
    """An engine during whose work the files it reads are merged, or the round is sealed, by a collector."""

    checks = "pages"
    at_once = 1

    def __init__(self, inner: CountingEngine, meddle: Callable[[], object]) -> None:
        self._inner, self._meddle, self.calls = inner, meddle, 0

    def count(self, *asked: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            self._meddle()
        return self._inner.count(*asked)


@pytest.mark.parametrize("state", ["open", "closing"])
def test_files_that_are_merged_meanwhile_are_listed_anew(
    lake: tuple[str, RoundKey, list[Path]], chosen: CountingEngine, state: str
) -> None:
    """Also when the round is frozen right after: the files of the older list are not missed then."""
    url, key, paths = lake
    expected = only(url, key, chosen)
    store = open_store(url)

    def merge() -> None:
        parts = RoundParts(store.backend.files, store.backend.columns(key), key)
        whole = np.concatenate([parts.read(path.name) for path in paths])
        name = f"{'0' * 32}-00000001-00000001-{len(whole)}.parquet"
        paths[0].with_name(name).write_bytes(parts.columns.encode(key, whole))
        for path in paths:
            path.unlink()
        if state == "closing":
            store.backend.seals.close(key)
            store.backend.seals.frozen(key)

    meddling = Meddling(chosen, merge)
    counted = only(url, key, meddling)
    assert (counted.counts, counted.files, counted.state) == (expected.counts, 1, state)
    assert meddling.calls == 2


def test_a_round_that_is_sealed_meanwhile_is_final(
    lake: tuple[str, RoundKey, list[Path]], chosen: CountingEngine
) -> None:
    url, key, _ = lake
    expected = only(url, key, chosen)
    counted = only(url, key, Meddling(chosen, lambda: open_store(url).seal(key)))
    assert (counted.counts, counted.state) == (expected.counts, "sealed")


def test_what_an_engine_says_is_passed_on(lake: tuple[str, RoundKey, list[Path]]) -> None:
    url, key, _ = lake

    class Failing:
        checks = "pages"
        at_once = 1

        def count(self, *asked: Any) -> Any:
            raise RuntimeError("no more room\nand much more")

    with pytest.raises(ReticentError, match=r"the engine failed: RuntimeError: no more room$"):
        only(url, key, Failing())


# Several rounds


class Watched:
    """An engine that notes how many rounds it counts at the same time; a small one waits for a second one."""

    checks = "all"
    at_once = 2

    def __init__(self, large: int) -> None:
        self._large = large
        self._lock = threading.Lock()
        self._pair = threading.Barrier(2, timeout=20)
        self._running = 0
        self.beside: dict[int, int] = {}  # by round

    def count(self, parts: RoundParts, names: Any) -> Any:
        number = parts.key.round
        with self._lock:
            self._running += 1
        if number != self._large:
            self._pair.wait()
        with self._lock:
            self.beside[number] = self._running
        if number != self._large:
            self._pair.wait()
        counts = Arrow().count(parts, names)
        with self._lock:
            self._running -= 1
        return counts


def test_small_rounds_are_sealed_side_by_side_and_a_large_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, url = PLANS["hadamard"], f"lake:///{tmp_path / 'lake'}"
    sizes = {10: 40, 11: 60, 12: 300, 13: 50, 14: 70}
    sent = {number: make_reports(plan, size, number, (number,)) for number, size in sizes.items()}
    keys = [fill(url, plan, reports, 500) for reports in sent.values()]
    monkeypatch.setattr("reticent_lake.frames.engines.SMALL_ROWS", 299)
    watched = Watched(large=12)
    sealed = list(seal_lake(open_store(url), keys, watched))
    assert [result.key for result in sealed] == keys
    assert watched.beside == {10: 2, 11: 2, 12: 1, 13: 2, 14: 2}
    for result, reports in zip(sealed, sent.values(), strict=True):
        assert (result.state, result.counts) == ("sealed", by_tags(count_reports(reports, plan)))
    assert lake_rounds(url) == []


def test_a_round_that_cannot_be_sealed_keeps_no_other_one_from_it(
    tmp_path: Path, chosen: CountingEngine
) -> None:
    plan, url = PLANS["hadamard"], f"lake:///{tmp_path / 'lake'}"
    sent = {number: make_reports(plan, 40, number, (number,)) for number in range(20, 29)}
    keys = [fill(url, plan, reports) for reports in sent.values()]
    spoilt = next((tmp_path / "lake").rglob(f"round={keys[3].round}/*.parquet"))
    spoilt.write_bytes(b"no Parquet")
    sealed = list(seal_lake(open_store(url), keys, chosen))
    assert [result.key for result in sealed] == keys
    assert [bool(result.problem) for result in sealed] == [key == keys[3] for key in keys]
    for result, reports in zip(sealed, sent.values(), strict=True):
        if not result.problem:
            assert result.counts == by_tags(count_reports(reports, plan))


# Places


@pytest.fixture
def bucket() -> Iterator[str]:
    """A bucket in memory, which fsspec keeps for the process."""
    filesystem = fsspec.filesystem("memory")
    yield "lake+memory://frames/lake"
    filesystem.rm("/frames", recursive=True)


def test_a_lake_in_a_bucket(bucket: str, chosen: CountingEngine) -> None:
    plan = PLANS["hadamard"]
    reports = make_reports(plan, 300, 7)
    key = fill(bucket, plan, reports)
    assert only(bucket, key, chosen).counts == by_tags(count_reports(reports, plan))


@pytest.mark.parametrize("name", ["with space", "a[b]c", "star*", "what?", "{x,y}", "ü"])
def test_folders_with_odd_names(tmp_path: Path, name: str) -> None:
    plan = PLANS["mean"]
    reports = make_reports(plan, 40, 8)
    url = f"lake:///{tmp_path / name}"
    key = fill(url, plan, reports)
    for make in ENGINES.values():
        assert only(url, key, make()).counts == by_tags(count_reports(reports, plan))


def test_engines_by_name() -> None:
    for name, kind in (("duckdb", DuckDB), ("arrow", Arrow)):
        with engine(name) as made:
            assert isinstance(made, kind)
    refused = pytest.raises(ParameterError, match="engine: expected one of duckdb, arrow, spark, got flink")
    with refused, engine("flink"):
        pass
