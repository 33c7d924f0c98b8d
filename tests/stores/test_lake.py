"""The lake keeps the law of the store, in a folder and in a bucket; and says what is wrong with a file."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tacit.counts import count_reports
from tacit.errors import StoreError
from tacit.plan import Plan
from tacit.reports import Report
from tacit.stores import Appended, RoundKey, check_store, create_key, migrate_store, open_store
from tacit.stores.check_bench import Bench
from tacit.stores.lake import (
    BucketFiles,
    LakeReader,
    LakeStore,
    LocalFiles,
    Segment,
    bit_place,
    open_lake,
    read_lake,
    schema,
)
from tacit.stores.lake.memory import MERGED_AT_ONCE, Ranges
from tacit.stores.lake.paths import counts_path, folder_of, frozen_path, outermost

KEY = RoundKey("small", 1, 7)
_NAMES = count(1)


class Bucket(MemoryFileSystem):
    """fsspec's files in memory, with what a real bucket has: only one of two creates at once succeeds."""

    cachable = False
    _lock = threading.Lock()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        with self._lock:
            super().pipe_file(path, value, mode=mode, **options)


def bucket() -> Callable[[], LakeStore]:
    prefix = f"/bucket-{next(_NAMES)}/lake"
    return lambda: LakeStore(BucketFiles(Bucket(), prefix))


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], LakeStore]]:
    """Opens the same lake each time."""
    opened: list[LakeStore] = []
    make = bucket() if request.param == "bucket" else lambda: open_lake(f"lake:///{tmp_path / 'lake'}")

    def open_it() -> LakeStore:
        opened.append(make())
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> LakeStore:
    store = open_lake(f"lake:///{tmp_path / 'lake'}")
    store.register(plan)
    return store


def group(start: int, size: int, bits: bytes = b"\x80") -> bytes:
    return b"".join(number.to_bytes(16) + bits for number in range(start, start + size))


def the_segment(store: LakeStore, folder: Path, key: RoundKey = KEY) -> Path:
    (path,) = store.segments(key)
    return folder / "lake" / path


def test_the_law_of_the_store(lake: Callable[[], LakeStore]) -> None:
    check_store(lake)


def test_a_lake_by_its_address(tmp_path: Path) -> None:
    store = open_store(f"lake:///{tmp_path / 'lake'}")
    assert isinstance(store, LakeStore)
    assert store.url == f"lake:///{tmp_path / 'lake'}"
    store.ping()
    assert open_store(f"lake+file://{tmp_path / 'lake'}").url == store.url
    assert migrate_store(store.url) == (1, 1)
    assert open_store(f"lake+memory://{tmp_path.name}/lake").url == f"lake+memory://{tmp_path.name}/lake"


@pytest.mark.parametrize(
    "url", ["lake:///", "lake+", "lake+nothing", "lake+no-such-thing://user:secret@host/path"]
)
def test_other_addresses_are_refused_without_their_password(url: str) -> None:
    for work in (open_store, migrate_store):
        with pytest.raises(StoreError) as refused:
            work(url)
        assert "secret" not in str(refused.value)


def test_another_programs_folder_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(StoreError, match="expected a lake or an empty folder"):
        open_lake(f"lake:///{tmp_path}")
    assert os.listdir(tmp_path) == ["letters.txt"]
    with pytest.raises(StoreError, match="there is no lake"):
        migrate_store(f"lake:///{tmp_path / 'nothing'}")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"tacit": "lake", "format": 2}', "expected a lake of format 1, got lake of format 2"),
        ("{}", "lake.json is damaged: KeyError"),
        ("", "lake.json is damaged: JSONDecodeError"),
    ],
)
def test_a_lake_of_another_format_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "lake.json").write_text(text)
    for work in (open_lake, migrate_store, read_lake):
        with pytest.raises(StoreError, match=reason):
            work(f"lake:///{tmp_path}")


def test_only_who_may_read_the_folder_may_read_what_is_in_it(tmp_path: Path, plan: Plan) -> None:
    def modes(folder: Path) -> set[tuple[bool, int]]:
        return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in folder.rglob("*")}

    private, shared = tmp_path / "private", tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    for folder in (private, shared):
        store = open_lake(f"lake:///{folder}")
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
        LakeStore(BucketFiles(Overwriting(), "/overwriting/lake"))


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
    store = LakeStore(BucketFiles(filesystem, f"/failing-{next(_NAMES)}/lake"))
    store.register(plan)
    store.append({KEY: group(0, 10)})
    filesystem.broken = True
    for work in (
        lambda: store.append({KEY: group(10, 1)}),
        lambda: store.seal(KEY),
        lambda: store.count(KEY),
    ):
        with pytest.raises(StoreError, match="slow down"):
            work()
    filesystem.broken = False
    assert store.append({KEY: group(0, 11)}) == {KEY: Appended(accepted=1, duplicate=10)}
    assert store.seal(KEY)
    assert store.rounds()[0].reports == 11


def test_reports_in_any_order_with_duplicates_come_to_the_same_as_in_sqlite(
    tmp_path: Path, lake: Callable[[], LakeStore]
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
        assert store.count(key).reports == 4000
    assert stores[1].seal(key)
    assert all(store.counts(key) == expected for store in [*stores, lake()])
    assert bench.states(stores[0]) == {key: ("sealed", 4000)}


def test_of_different_reports_with_one_id_the_smallest_counts(lake: Callable[[], LakeStore]) -> None:
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
        assert right.count(key).counts == bench.expected(moved[2], number)
        assert left.seal(key)
        assert left.counts(key) == bench.expected(moved[2], number)


def test_segments_are_parquet_that_duckdb_counts(store: LakeStore, tmp_path: Path) -> None:
    """The schema as the docs tell it: columns, bit places, and one row per id by the smallest."""
    bench = Bench(lambda: store)
    reports = bench.reports(3000)
    key = bench.key(7)
    bench.append(reports[:2000])
    bench.append(reports[1000:], open_lake(store.url))
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
    for path in store.segments(key):
        assert pq.read_schema(tmp_path / "lake" / path).equals(schema(bench.plan))


def damaged(path: Path, damage: str) -> None:
    data = path.read_bytes()
    if damage == "cut off":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "a byte was changed":
        place = data.index((5).to_bytes(8, "little"))  # the id of a report
        path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "not Parquet":
        path.write_bytes(b"PAR1 but nothing else PAR1")


@pytest.mark.parametrize("damage", ["cut off", "a byte was changed", "empty", "not Parquet"])
def test_a_damaged_segment_is_named_and_never_half_counted(
    store: LakeStore, tmp_path: Path, damage: str
) -> None:
    store.append({KEY: group(0, 100)})
    path = the_segment(store, tmp_path)
    open_lake(store.url).append({KEY: group(100, 50)})
    damaged(path, damage)
    fresh = open_lake(store.url)
    for work in (fresh.counts, fresh.count, fresh.seal, fresh.seal):
        with pytest.raises(StoreError, match=f"{path.name}: cannot be read as Parquet: "):
            work(KEY)
    (problem,) = fresh.verify()
    assert problem.startswith(f"{path.relative_to(tmp_path / 'lake')}: cannot be read as Parquet: ")
    other = KEY._replace(round=8)
    assert fresh.append({other: group(0, 5)}) == {other: Appended(accepted=5)}
    found = fresh.count(KEY, skip_bad=True)
    assert (found.reports, list(found.left_out)) == (50, [path.name])
    assert fresh.seal(KEY, skip_bad=True)
    assert fresh.rounds()[-1].reports == 50
    sealed = open_lake(store.url).final(KEY)
    assert sealed is not None
    assert sealed.left_out == found.left_out
    assert fresh.verify() == []


def test_a_damaged_segment_does_not_stop_devices(store: LakeStore, tmp_path: Path) -> None:
    store.append({KEY: group(0, 100)})
    damaged(the_segment(store, tmp_path), "cut off")
    fresh = open_lake(store.url)
    assert fresh.load_open_rounds() == 0
    assert fresh.append({KEY: group(90, 20)}) == {KEY: Appended(accepted=20)}


def test_a_segment_of_another_round_or_plan_is_refused(store: LakeStore, tmp_path: Path, plan: Plan) -> None:
    other = Plan.from_toml(plan.text.replace("60", "90").replace("version = 1", "version = 2"))
    store.register(other)
    keys = KEY, KEY._replace(round=8), RoundKey("small", 2, 7)
    for key in keys:
        store.append({key: group(0, 3)})
    source = the_segment(store, tmp_path, keys[0])
    for key, reason in zip(
        keys[1:], ("tacit.round: expected 8, got 7", "tacit.version: expected 2, got 1"), strict=True
    ):
        target = the_segment(store, tmp_path, key)
        shutil.copy(source, target)
        with pytest.raises(StoreError, match=reason):
            store.count(key)
        target.unlink()
    shutil.copy(source, source.with_name(Segment("0" * 32, 1, 1, 4).name))
    with pytest.raises(StoreError, match="rows: expected 4 as the name says, got 3"):
        store.count(KEY)


def test_files_that_are_no_segments_are_refused_by_name(store: LakeStore, tmp_path: Path) -> None:
    store.append({KEY: group(0, 3)})
    folder = the_segment(store, tmp_path).parent
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").touch()
    assert store.count(KEY).reports == 3
    (folder / "part-0001.parquet").touch()
    for work in (store.counts, store.count, store.seal):
        with pytest.raises(StoreError, match=r"part-0001\.parquet: is not the name of a segment"):
            work(KEY)
    assert store.verify() == [f"{folder_of(KEY)}/part-0001.parquet: is not the name of a segment"]
    assert store.count(KEY, skip_bad=True).left_out == {"part-0001.parquet": "is not the name of a segment"}


def test_a_lost_segment_of_a_closing_round_is_missed(store: LakeStore, tmp_path: Path) -> None:
    store.append({KEY: group(0, 3)})
    other = open_lake(store.url)
    other.append({KEY: group(3, 4)})
    store.seals.close(KEY)
    names = store.seals.frozen(KEY)
    (tmp_path / "lake" / folder_of(KEY) / names[0]).unlink()
    with pytest.raises(StoreError, match=f"{names[0]}: is gone, and its reports with it"):
        store.seal(KEY)
    assert store.verify() == [f"{folder_of(KEY)}/{names[0]}: is gone, and its reports with it"]
    assert store.seal(KEY, skip_bad=True)


def test_what_else_is_damaged_is_said(store: LakeStore, tmp_path: Path, plan: Plan) -> None:
    top = tmp_path / "lake"
    store.append({KEY: group(0, 3), KEY._replace(round=8): group(0, 3)})
    store.seal(KEY)
    store.seals.close(KEY._replace(round=8))
    store.seals.frozen(KEY._replace(round=8))
    store.add_key(create_key("admin", "", 1)[1])
    assert store.verify() == []
    document = json.loads((top / counts_path(KEY)).read_text())
    document["reports"] = 4
    (top / counts_path(KEY)).write_text(json.dumps(document))
    (top / frozen_path(KEY._replace(round=8))).write_text("[]")
    (top / "plans" / "small" / "v2.toml").write_text(plan.text)
    (top / "plans" / "small" / "v3.toml").write_text("[plan]")
    next((top / "keys").iterdir()).write_text("{}")
    (top / "lake.json").unlink()
    (top / folder_of(RoundKey("unknown", 1, 1))).mkdir(parents=True)
    with pytest.raises(StoreError, match="is damaged"):
        store.count(KEY._replace(round=8))
    (top / frozen_path(KEY._replace(round=8))).unlink()
    told = "\n".join(LakeReader(LocalFiles(top)).verify())
    for problem in (
        "lake.json is gone",
        "plans/small/v2.toml: holds the text of small version 1",
        "plans/small/v3.toml: holds a plan that cannot be read",
        "is damaged: KeyError",
        "round 7 of small version 1: minutes: expected the counts of 4 reports, got 3",
        "plan unknown version 1 is not registered",
    ):
        assert problem in told


def test_small_segments_of_a_writer_are_merged(store: LakeStore) -> None:
    """64 of them, and 64 of those; other collectors see the same before and after."""
    other = open_lake(store.url)
    other.append({KEY: group(10**9, 5)})
    for number in range(MERGED_AT_ONCE + 3):
        store.append({KEY: group(10 * number, 12)})
        if number in (5, 40, 64):
            assert other.counts(KEY)[()]["minutes"].devices == 10 * number + 12 + 5
    segments, _ = store.seals.listed(KEY)
    spans = sorted((each.first, each.last, each.rows) for each in segments)
    assert spans == [(1, 1, 5), (1, 64, 642), (65, 65, 10), (66, 66, 10), (67, 67, 10)]
    assert open_lake(store.url).load_open_rounds() == 677
    assert other.counts(KEY)[()]["minutes"].devices == 677
    assert store.seal(KEY)
    assert store.rounds()[0].reports == 677


def test_merged_segments_are_merged_again(store: LakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.stores.lake.memory.MERGED_AT_ONCE", 4)
    for number in range(4**2 + 4 + 1):
        store.append({KEY: group(10 * number, 10)})
    spans = [(each.first, each.last) for each in sorted(store.seals.listed(KEY)[0])]
    assert spans == [(1, 16), (17, 20), (21, 21)]
    assert store.count(KEY).reports == 210


def test_nothing_is_merged_across_a_write_that_failed(
    store: LakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment of a failed write may be there after all, and another collector may have seen it."""
    monkeypatch.setattr("tacit.stores.lake.memory.MERGED_AT_ONCE", 4)
    put, failing = store.files.put, [False]

    def fail_afterwards(path: str, data: bytes) -> None:
        put(path, data)
        if failing[0]:
            raise StoreError("the answer was lost")

    monkeypatch.setattr(store.files, "put", fail_afterwards)
    for number in range(3):
        store.append({KEY: group(10 * number, 10)})
    failing[0] = True
    with pytest.raises(StoreError, match="the answer was lost"):
        store.append({KEY: group(1000, 10)})
    failing[0] = False
    other = open_lake(store.url)
    assert other.append({KEY: group(1000, 10)}) == {KEY: Appended(duplicate=10)}
    for number in range(3, 9):
        store.append({KEY: group(10 * number, 10)})
    spans = [(each.first, each.last) for each in sorted(store.seals.listed(KEY)[0])]
    assert spans == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 8), (9, 9), (10, 10)]
    store.seal(KEY)
    assert store.rounds()[0].reports == 100


def test_large_segments_are_left_as_they_are(store: LakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.stores.lake.memory.MERGED_AT_ONCE", 4)
    monkeypatch.setattr("tacit.stores.lake.memory.MOST_ROWS", 39)
    for number in range(5):
        store.append({KEY: group(10 * number, 10)})
    assert len(store.seals.listed(KEY)[0]) == 5


def test_a_closed_store_says_so(store: LakeStore) -> None:
    store.close()
    for work in (lambda: store.append({KEY: group(0, 1)}), lambda: store.seal(KEY), store.ping):
        with pytest.raises(StoreError, match="the store was closed"):
            work()


def test_a_lake_that_was_taken_away_is_noticed(store: LakeStore, tmp_path: Path) -> None:
    store.ping()
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(StoreError, match=r"lake\.json is gone"):
        store.ping()


def test_a_full_disk_is_a_store_error_and_leaves_nothing(
    store: LakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tacit.stores.lake.files.os.write", full)
        with pytest.raises(StoreError, match="No space left on device"):
            store.append({KEY: group(0, 3)})
    assert list((tmp_path / "lake" / "tmp").iterdir()) == []
    assert store.rounds() == []
    assert store.append({KEY: group(0, 3)}) == {KEY: Appended(accepted=3)}


def test_reading_a_lake_changes_nothing(store: LakeStore, tmp_path: Path) -> None:
    def everything() -> dict[str, bytes | None]:
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for path in (tmp_path / "lake").rglob("*")
        }

    store.append({KEY: group(0, 3), KEY._replace(round=8): group(0, 3)})
    store.seal(KEY)
    store.seals.close(KEY._replace(round=8))
    before = everything()
    reader = read_lake(store.url)
    assert reader.unsealed() == [KEY._replace(round=8)]
    assert [reader.count(KEY._replace(round=number)).reports for number in (7, 8)] == [3, 3]
    assert everything() == before


def test_ranges_against_a_plain_set() -> None:
    draw = random.Random(3)
    for _ in range(30):
        ranges, plain = Ranges(), set()
        for _ in range(40):
            first = draw.randrange(60)
            last = first + draw.randrange(5)
            ranges.add(first, last)
            plain.update(range(first, last + 1))
            for start in range(60):
                for end in (start, start + 3):
                    assert ranges.has(start, end) == plain.issuperset(range(start, end + 1))


def test_outermost_segments_against_comparing_all() -> None:
    draw = random.Random(4)
    for _ in range(50):
        levels = [Segment(writer, n, n, 1) for writer in "ab" for n in range(1, 17)]
        levels += [Segment(writer, n, n + 3, 4) for writer in "ab" for n in (1, 5, 9, 13)]
        levels += [Segment("a", 1, 16, 16)] * draw.randrange(2)
        some = draw.sample(levels, 20)
        expected = {one for one in some if not any(other != one and other.covers(one) for other in some)}
        found = outermost(some)
        assert set(found) == expected
        assert len(found) == len(expected)
