"""The lake keeps the law of the store, in a folder and in a bucket."""

from __future__ import annotations

import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.shared.writers import KEY, group

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.counts import count_reports
from reticent_collector.stores import Appended, Store, StoreGoneError, open_store
from reticent_collector.testing import Bench, check_store
from reticent_lake.store import Columns, LakeBackend, ObjectFiles, Part, bit_place, folder_of, open_lake

_NAMES = count(1)


class Bucket(MemoryFileSystem):
    """fsspec's files in memory, with what a real bucket has: only one of two creates at once succeeds."""

    cachable = False
    _lock = threading.Lock()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        with self._lock:
            super().pipe_file(path, value, mode=mode, **options)


def bucket() -> Callable[[], Store]:
    prefix = f"/bucket-{next(_NAMES)}/lake"
    return lambda: Store(LakeBackend(ObjectFiles(Bucket(), prefix)))


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the same lake each time."""
    opened: list[Store] = []
    make = bucket() if request.param == "bucket" else lambda: open_store(f"lake:///{tmp_path / 'lake'}")

    def open_it() -> Store:
        opened.append(make())
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def test_the_law_of_the_store(lake: Callable[[], Store]) -> None:
    check_store(lake, readonly=lambda: Store(LakeBackend(lake().backend.files, readonly=True)))


def test_a_lake_by_its_address(tmp_path: Path) -> None:
    store = open_store(f"lake:///{tmp_path / 'lake'}")
    assert isinstance(store.backend, LakeBackend)
    assert store.url == f"lake:///{tmp_path / 'lake'}"
    store.ping()
    assert open_store(f"lake+file://{tmp_path / 'lake'}").url == store.url
    assert open_store(f"lake+memory://{tmp_path.name}/lake").url == f"lake+memory://{tmp_path.name}/lake"


@pytest.mark.parametrize(
    "url", ["lake:///", "lake+", "lake+nothing", "lake+no-such-thing://user:secret@host/path"]
)
def test_other_addresses_are_refused_without_their_password(url: str) -> None:
    for readonly in (False, True):
        with pytest.raises(StoreError) as refused:
            open_store(url, readonly=readonly)
        assert "secret" not in str(refused.value)


def test_another_programs_folder_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(StoreError, match="expected a lake or an empty folder"):
        open_store(f"lake:///{tmp_path}")
    assert os.listdir(tmp_path) == ["letters.txt"]
    with pytest.raises(StoreError, match="there is no lake"):
        open_store(f"lake:///{tmp_path / 'nothing'}", readonly=True)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"reticent": "lake", "format": 2}',
            "written by a newer version of reticent: its format is number 2",
        ),
        ("{}", "lake.json is damaged: KeyError"),
        ("", "lake.json is damaged: JSONDecodeError"),
    ],
)
def test_a_lake_of_another_format_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "lake.json").write_text(text)
    for work in (open_store, partial(open_lake, readonly=True)):
        with pytest.raises(StoreError, match=reason):
            work(f"lake:///{tmp_path}")


def test_only_who_may_read_the_folder_may_read_what_is_in_it(tmp_path: Path, plan: Plan) -> None:
    def modes(folder: Path) -> set[tuple[bool, int]]:
        return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in folder.rglob("*")}

    private, shared = tmp_path / "private", tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    for folder in (private, shared):
        store = open_store(f"lake:///{folder}")
        store.register(plan)
        store.append({KEY: group(0, 1)})
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert modes(private) == {(True, 0o700), (False, 0o600)}
    assert modes(shared) == {(True, 0o750), (False, 0o640)}


def test_a_server_that_overwrites_is_refused() -> None:
    class Overwriting(Bucket):
        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
            super().pipe_file(path, value, **options)

    with pytest.raises(StoreError, match="expected a server that refuses to overwrite"):
        LakeBackend(ObjectFiles(Overwriting(), "/overwriting/lake"))


def test_faults_of_a_bucket_are_store_errors(plan: Plan) -> None:
    class Failing(Bucket):
        broken = False

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
            if self.broken:
                raise RuntimeError("slow down")
            super().pipe_file(path, value, mode=mode, **options)

        def cat_file(self, path: str, *arguments: Any, **options: Any) -> Any:
            if self.broken:
                raise RuntimeError("slow down")
            return super().cat_file(path, *arguments, **options)

    filesystem = Failing()
    store = Store(LakeBackend(ObjectFiles(filesystem, f"/failing-{next(_NAMES)}/lake")))
    store.register(plan)
    store.append({KEY: group(0, 10)})
    filesystem.broken = True
    for work in (
        lambda: store.append({KEY: group(10, 1)}),
        lambda: store.seal(KEY),
        lambda: store.backend.count(KEY),
    ):
        with pytest.raises(StoreError, match="slow down"):
            work()
    filesystem.broken = False
    assert store.append({KEY: group(0, 11)}) == {KEY: Appended(accepted=11)}
    assert store.seal(KEY)
    assert store.rounds()[0].reports == 11


def test_reports_in_any_order_with_duplicates_come_to_the_same_as_in_sqlite(
    tmp_path: Path, lake: Callable[[], Store]
) -> None:
    """Three collectors share a lake; 5 % of reports come twice, to any of them."""
    draw = random.Random(5)
    bench = Bench(lambda: open_store(f"sqlite:///{tmp_path / 'store.db'}"))
    reports = bench.reports(4000)
    sent = reports + draw.sample(reports, 200)
    draw.shuffle(sent)
    stores = [lake() for _ in range(3)]
    stores[0].register(bench.plan)
    while sent:
        some, sent = sent[:190], sent[190:]
        bench.append(some)
        bench.append(some, draw.choice(stores))
    key = bench.key(7)
    expected = bench.store.counts(key)
    assert expected == bench.expected(reports)
    for store in stores:
        assert store.counts(key) == expected
        assert store.backend.count(key).reports == 4000
    assert stores[1].seal(key)
    assert all(store.counts(key) == expected for store in [*stores, lake()])
    assert bench.states(stores[0]) == {key: ("sealed", 4000)}


def test_of_different_reports_with_one_id_the_smallest_counts(lake: Callable[[], Store]) -> None:
    """Whichever collector takes which, and whoever counts: only forgery makes such reports."""
    bench = Bench(lake)
    honest = bench.reports(60)
    forged = [
        Report(
            each.plan, each.version, 7, each.id, other.bits, other.cohort,
            {"os": other.segment["os"], "channel": other.segment["channel"]},
        )
        for each, other in zip(honest, bench.reports(60), strict=True)
    ]  # fmt: skip
    smallest = [min(pair, key=bench.layout.pack) for pair in zip(honest, forged, strict=True)]
    assert smallest not in (honest, forged)
    for first, second in ((honest, forged), (forged, honest)):
        number = 7 + (first is forged)
        key = bench.key(number)
        moved = [
            [Report(r.plan, r.version, number, r.id, r.bits, r.cohort, r.segment) for r in reports]
            for reports in (first, second, smallest)
        ]
        left, right = lake(), lake()
        extra = bench.reports(1, number)
        bench.append(extra, right)  # it knows the round, and will not look again before it appends
        bench.append(moved[0], left)
        assert bench.append(moved[1], right) == {key: Appended(accepted=60)}
        moved[2] += extra
        assert right.backend.count(key).counts == bench.expected(moved[2], number)
        assert left.seal(key)
        assert left.counts(key) == bench.expected(moved[2], number)


def test_parts_are_parquet_that_duckdb_counts(store: Store, tmp_path: Path) -> None:
    """The schema as the docs tell it: columns, bit places, and one row per id by the smallest."""
    bench = Bench(lambda: store)
    reports = bench.reports(3000)
    key = bench.key(7)
    bench.append(reports[:2000])
    bench.append(reports[1000:], open_store(store.url))
    expected = count_reports(reports, bench.plan)
    files = f"{tmp_path}/lake/reports/plan={bench.name}/**/*.parquet"
    tags = {segment.name: segment.tags for segment in bench.plan.segments}
    for metric in ("minutes", "files"):
        column, shift = bit_place(bench.plan, bench.plan.offset(metric))
        rows = duckdb.sql(
            f"""
            SELECT segment_os, segment_channel, count(*), sum(({column} >> {shift}) & 1) FROM (
                SELECT DISTINCT ON (id_high, id_low) * FROM read_parquet('{files}')
                ORDER BY id_high, id_low, cohort, segment_os, segment_channel, bits_0
            ) GROUP BY ALL
            """  # noqa: S608
        ).fetchall()
        found = {(tags["os"][os], tags["channel"][channel]): (n, ones) for os, channel, n, ones in rows}
        assert found == {
            names: (by_metric[metric].devices, sum(ones for _, _, ones in by_metric[metric].rows()))
            for (_, names), by_metric in expected.items()
        }
    folders = duckdb.sql(f"SELECT DISTINCT plan, version, round FROM read_parquet('{files}')")  # noqa: S608
    assert folders.fetchall() == [(bench.name, 1, 7)]
    for path in store.backend.parts(key):
        assert pq.read_schema(tmp_path / "lake" / path).equals(Columns(bench.plan).schema)


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    for work in (lambda: store.append({KEY: group(0, 1)}), lambda: store.seal(KEY), store.ping):
        with pytest.raises(StoreError, match="the store was closed"):
            work()


def test_a_lake_that_was_taken_away_is_noticed(store: Store, tmp_path: Path) -> None:
    store.ping()
    shutil.rmtree(tmp_path / "lake")
    for work in (lambda: store.append({KEY: group(0, 3)}), store.ping):
        with pytest.raises(StoreGoneError, match=r"lake\.json was removed or replaced while it was in use"):
            work()
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("records", [group(0, 3), group(50, 1)], ids=["known", "new"])
def test_a_round_that_was_taken_away_is_noticed(
    lake: Callable[[], Store], plan: Plan, records: bytes
) -> None:
    """Also by a collector that has only read it, and before it says that it knows a report."""
    store, other = lake(), lake()
    store.register(plan)
    store.append({KEY: group(0, 3)})
    other.stored_reports()
    store.backend.files.remove(store.backend.parts(KEY))
    for opened in (store, other):
        with pytest.raises(StoreGoneError, match="acknowledged reports with it"):
            opened.append({KEY: records})
        with pytest.raises(StoreGoneError):
            opened.append({KEY._replace(round=8): group(0, 1)})


def test_parts_that_vanish_for_a_reason_are_not_missed(
    lake: Callable[[], Store], plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
    store, other, third = lake(), lake(), lake()
    store.register(plan)
    for number in range(4):
        store.append({KEY: group(10 * number, 10)})
        if number == 0:
            other.stored_reports()
            third.stored_reports()
    assert other.append({KEY: group(0, 20)}) == {KEY: Appended(accepted=20)}  # merged by its writer
    part = Part.parse(store.backend.parts(KEY)[0].rpartition("/")[2])
    assert part is not None
    third.backend.seals.leave_out(KEY, part.name, "by hand")
    third.backend.files.move(f"{folder_of(KEY)}/{part.name}", "damaged/part")
    assert other.append({KEY: group(30, 1)}) == {KEY: Appended(accepted=1)}
    assert other.seal(KEY)
    for opened in (store, third):
        assert opened.append({KEY: group(0, 20)}) == {KEY: Appended(late=20)}  # swept


def test_a_full_disk_is_a_store_error_and_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("reticent_lake.store.files.os.write", full)
        with pytest.raises(StoreError, match="No space left on device"):
            store.append({KEY: group(0, 3)})
    assert list((tmp_path / "lake" / "tmp").iterdir()) == []
    assert store.rounds() == []
    assert store.append({KEY: group(0, 3)}) == {KEY: Appended(accepted=3)}


def test_reading_a_lake_changes_nothing(store: Store, tmp_path: Path) -> None:
    def everything() -> dict[str, bytes | None]:
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for path in (tmp_path / "lake").rglob("*")
        }

    store.append({KEY: group(0, 3), KEY._replace(round=8): group(0, 3)})
    store.seal(KEY)
    store.backend.seals.close(KEY._replace(round=8))
    before = everything()
    reader = open_lake(store.url, readonly=True)
    assert reader.unsealed() == [KEY._replace(round=8)]
    assert [reader.count(KEY._replace(round=number)).reports for number in (7, 8)] == [3, 3]
    assert everything() == before
