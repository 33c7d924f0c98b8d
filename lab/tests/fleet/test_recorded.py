"""Recorded values are read as they stand, or refused with the place and without the value."""

from __future__ import annotations

import gzip
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from reticent.errors import MissingPackageError, ParameterError
from reticent.mechanisms import Buckets, HadamardBit, OneBitMean
from reticent.plan import Metric
from reticent_lab.fleet import Recorded, ValuesError, metrics_in, read_values

SMALL = """individual,day,value
ann,2021-07-09,30
bob,2021-07-08,7
ann,2021-07-08,0
cid,2021-07-10,61
"""
TABLE = [[0, 7, 0], [30, 0, 0], [0, 0, 61]]


def csv(folder: Path, text: str, name: str = "some.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def parquet(folder: Path, **columns: object) -> Path:
    arrow, parquets = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquets.write_table(arrow.table(columns), folder / "some.parquet")
    return folder / "some.parquet"


def small_parquet(folder: Path) -> Path:
    return parquet(
        folder,
        individual=["ann", "bob", "ann", "cid"],
        day=[date(2021, 7, 9), date(2021, 7, 8), date(2021, 7, 8), date(2021, 7, 10)],
        value=[30, 7, 0, 61],
    )


def zipped(folder: Path) -> Path:
    with gzip.open(folder / "some.csv.gz", "wt") as file:
        file.write(SMALL)
    return folder / "some.csv.gz"


def with_extras(folder: Path) -> Path:
    """Another column, other order, blank lines, a byte order mark, spaces in the head, 7.0 for 7."""
    head = "\ufeffvalue,extra, day ,individual\n30,x,2021-07-09,ann\n\n"
    return csv(folder, head + '7.0,y,2021-07-08,bob\n0,z,2021-07-08,ann\n"61",,2021-07-10,cid\n\n')


@pytest.mark.parametrize("make", [lambda folder: csv(folder, SMALL), zipped, small_parquet, with_extras])
def test_a_file_is_a_table_of_days_in_order_and_individuals_as_they_appear(
    make: object, tmp_path: Path
) -> None:
    recorded = read_values(make(tmp_path))  # type: ignore[operator]
    assert recorded.name == "some"
    assert recorded.individuals == ("ann", "bob", "cid")
    assert recorded.days == ("2021-07-08", "2021-07-09", "2021-07-10")
    assert recorded.table.tolist() == TABLE
    assert recorded.max_value == 61
    assert "individuals=3, days=3" in repr(recorded)


@pytest.mark.parametrize(
    ("text", "individuals", "days", "table"),
    [
        ("device;date;seconds\na;2021-07;5\nb;2021-08;6\n", ("a", "b"), ("2021-07", "2021-08"), [[5, 0], [0, 6]]),
        ("a,2021-07-08,5\nb,2021-07-09,6\n", ("a", "b"), ("2021-07-08", "2021-07-09"), [[5, 0], [0, 6]]),
        ("device,2021-07-08,2021-07-09\n7,5,\n8,NA,6.0\n", ("7", "8"), ("2021-07-08", "2021-07-09"), [[5, 0], [0, 6]]),
        ("user\t1\t2\na\t5\t0\nb\t0\t6\n", ("a", "b"), ("1", "2"), [[5, 0], [0, 6]]),
        ("a,5,0,9\nb,0,6,9\n", ("a", "b"), ("1", "2", "3"), [[5, 0], [0, 6], [9, 9]]),
        ("5,0,9,1\n0,6,9,1\n", ("0", "1"), ("1", "2", "3", "4"), [[5, 0], [0, 6], [9, 9], [1, 1]]),
        ("seconds\n5\n6\n", ("0", "1"), ("1",), [[5, 6]]),
        ("5\n6\n", ("0", "1"), ("1",), [[5, 6]]),
        ("user_id,seconds\na,5\nb,6\n", ("a", "b"), ("1",), [[5, 6]]),
        ("a,5\nb,6\n", ("a", "b"), ("1",), [[5, 6]]),
    ],
)  # fmt: skip
def test_other_forms_are_read(
    text: str, individuals: tuple[str, ...], days: tuple[str, ...], table: list[list[int]], tmp_path: Path
) -> None:
    with gzip.open(tmp_path / "zipped.csv.gz", "wt", encoding="utf-8-sig") as file:
        file.write(text)
    for path in (csv(tmp_path, text), tmp_path / "zipped.csv.gz"):
        recorded = read_values(path)
        assert (recorded.individuals, recorded.days, recorded.table.tolist()) == (individuals, days, table)


def test_whole_numbers_as_days_sort_by_size(tmp_path: Path) -> None:
    rows = "".join(f"a,{day},{day}\n" for day in (10, 9, 100))
    assert read_values(csv(tmp_path, "individual,day,value\n" + rows)).days == ("9", "10", "100")


def test_values_above_the_range_are_clamped_as_a_device_would(tmp_path: Path) -> None:
    recorded = read_values(csv(tmp_path, SMALL), max_value=20)
    assert recorded.max_value == 20
    assert recorded.table.tolist() == np.minimum(TABLE, 20).tolist()


def recorded_of(individuals: int, days: int) -> Recorded:
    table = np.arange(individuals * days, dtype=np.int32).reshape(days, individuals)
    names = tuple(map(str, range(individuals)))
    return Recorded("r", individuals * days, names, tuple(map(str, range(days))), table)


def test_as_many_devices_as_individuals_are_the_recording_itself() -> None:
    recorded = recorded_of(5, 3)
    values = recorded.values(5, 2, np.random.default_rng(1))
    assert (values == recorded.table[:2]).all()
    values[:] = 0  # a copy: the recording stays
    assert recorded.table[1, 0] == 5


def test_fewer_devices_are_a_sample_without_and_more_with_replacement() -> None:
    recorded = recorded_of(50, 2)
    fewer = recorded.values(20, 2, np.random.default_rng(1))
    assert len(set(fewer[0].tolist())) == 20
    assert (fewer[1] == fewer[0] + 50).all()  # whole people, not mixed ones
    more = recorded.values(5000, 2, np.random.default_rng(1))
    assert set(more[0].tolist()) == set(range(50))
    assert (more[1] == more[0] + 50).all()


def test_more_rounds_than_days_are_refused() -> None:
    with pytest.raises(ParameterError, match="rounds: expected at most 3, the days in r, got 4"):
        recorded_of(5, 3).values(5, 4, np.random.default_rng(1))


LONG = "individual,day,value\n" + "".join(f"a,{day},1\n" for day in range(5000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"some.csv: expected the columns individual, day, value; missing: individual, day, value"),
        ("individual,day\na,1\n", r"some.csv: .*missing: value; found: individual, day\."),
        (
            "individual,day,value\n",
            r"some.csv: expected rows below the columns individual, day, value, got none",
        ),
        ("individual,day,value\na,1,3\n\na,2,secret\n", r"some.csv: line 4: value: expected a whole number"),
        (
            "individual,day,value\na,1,-77\n",
            r"some.csv: line 2: value: expected a whole number from 0.*negative",
        ),
        ("individual,day,value\na,1,77.5\n", r"some.csv: line 2: value: expected a whole number"),
        ("individual,day,value\na,1,inf\n", r"some.csv: line 2: value: expected a whole number"),
        (
            "individual,day,value\na,1,\n",
            r"some.csv: line 2: value: expected .*, got none; leave the row out",
        ),
        (
            "individual,day,value\na,1/31/2026,5\na,2/1/2026,6\n",
            r"some.csv: day: expected whole numbers, or dates",
        ),
        ("who,day,seconds\na,1,5\n", r"some.csv: .*missing: individual; found: who, day, seconds\."),
        ("individual,day,value\na,1,3\na,2\n", r"some.csv: line 3: expected 3 columns, got 2"),
        (
            "individual,day,value\na,1,3\nb,1,4\na,1,5\nb,1,6\n",
            r"some.csv: line 4: expected each pair of individual and",
        ),
        (LONG + "a,x,77\na,4,1\n", r"some.csv: line 5003: expected each pair of individual and day once"),
        (LONG + "a,5000,77s\n", r"some.csv: line 5002: value: expected a whole number"),
        ("individual,day,value\na,1,9000000000\n", r"some.csv: expected values below 2\^31; choose"),
        ('individual,day,value\na,"1\x00', r"some.csv: "),
        ("1,2,3\n4,5,6\n", r"some.csv: three columns of numbers: expected a first line that names them"),
        ("device,1,2\na,5,3\nb,-77,6\nc,7,8\nd,7,8\n", r"some.csv: line 3: value: expected a whole number"),
        ("device,1,2\na,5,3\nb,6\n", r"some.csv: line 3: expected 3 columns, got 2"),
        ("device,1,2\na,5,3\na,6,7\n", r"some.csv: line 3: expected each pair of individual and day once"),
        ("who,when,what\na,1,3\n", r"some.csv: expected the columns individual, day, value; missing"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_with_its_place(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValuesError, match=message) as error:
        read_values(csv(tmp_path, text))
    assert "77" not in str(error.value).replace(str(tmp_path), "")
    assert "secret" not in str(error.value)


def test_bytes_that_are_no_text_or_no_gzip_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"individual,day,value\n\xe9,1,2\n")
    (tmp_path / "plain.csv.gz").write_bytes(b"individual,day,value\na,1,2\n")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(SMALL.encode() * 99)[:60])
    for name in ("latin.csv", "plain.csv.gz", "cut.csv.gz", "missing.csv", "missing.parquet"):
        with pytest.raises(ValuesError, match=name):
            read_values(tmp_path / name)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"day": [1]}, "missing: individual, value; found: day"),
        (
            {"individual": ["a", None], "day": [1, 2], "value": [1, 2]},
            "row 2: individual: expected a value",
        ),
        (
            {"individual": ["a", "a"], "day": [1, 2], "value": [1, -77]},
            "row 2: value: expected a whole number",
        ),
        (
            {"individual": ["a", "a"], "day": [1, 2], "value": [1.5, 2.0]},
            "row 1: value: expected a whole number",
        ),
        (
            {"individual": ["a", "a"], "day": [1, 1], "value": [1, 2]},
            "row 2: expected each pair of individual and day",
        ),
        ({"individual": ["a"], "day": [1], "value": ["77"]}, "value: expected a column of numbers"),
        ({"individual": [], "day": [], "value": []}, "expected rows below the columns"),
    ],
)
def test_a_parquet_file_that_is_no_such_table_is_refused(
    columns: dict[str, list[object]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValuesError, match=message):
        read_values(parquet(tmp_path, **columns))


def test_a_file_that_only_says_it_is_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(ValuesError, match="expected a Parquet file"):
        read_values(csv(tmp_path, SMALL, "not.parquet"))


def test_without_pyarrow_parquet_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match=r"reticent-collector\[arrow\]"):
        read_values(tmp_path / "some.parquet")


def test_a_real_recording_is_read_whole(recordings: Path) -> None:
    """The table that comes with the recordings: individuals, days, share of zero days and mean."""
    recorded = read_values(recordings / "the_crew_2_daily_seconds.csv.gz", 86_400)
    assert (len(recorded.individuals), len(recorded.days)) == (615, 55)
    assert (recorded.days[0], recorded.days[-1]) == ("2021-06-14", "2021-08-07")
    assert 100 * (recorded.table == 0).mean() == pytest.approx(83.7, abs=0.05)
    assert recorded.table.mean() == pytest.approx(1159, abs=0.5)


# A column per metric

METRICS = {
    "count": Metric("count", OneBitMean(1, 60)),
    "theme": Metric(
        "theme", HadamardBit(1, Buckets(range(4), absent=True)), labels=("light", "none", "dark")
    ),
    "delay": Metric("delay", HadamardBit(1, Buckets([0, 10, 100], absent=True))),
}
MIXED = """user,date,count,theme,delay,country
ann,2021-07-08,30,dark,0,nl
ann,2021-07-09,,none,,nl
bob,2021-07-09,7, light ,99,
"""


def mixed_parquet(folder: Path) -> Path:
    return parquet(
        folder,
        individual=["ann", "ann", "bob"],
        day=[date(2021, 7, 8), date(2021, 7, 9), date(2021, 7, 9)],
        count=[30, None, 7],
        theme=["dark", "none", "light"],
        delay=[0, None, 99],
    )


@pytest.mark.parametrize("make", [lambda folder: csv(folder, MIXED), mixed_parquet])
def test_a_column_per_metric_has_numbers_labels_and_empty_cells(make: object, tmp_path: Path) -> None:
    """A label is its place; nothing is -1 where a device can be without a value, else 0."""
    file = make(tmp_path)  # type: ignore[operator]
    assert metrics_in(file, list(METRICS)) == list(METRICS)
    columns = {name: read_values(file, column=(name, metric)) for name, metric in METRICS.items()}
    assert {column.individuals for column in columns.values()} == {("ann", "bob")}
    assert {column.days for column in columns.values()} == {("2021-07-08", "2021-07-09")}
    assert columns["count"].table.tolist() == [[30, 0], [0, 7]]
    assert columns["theme"].table.tolist() == [[2, -1], [1, 0]]
    assert columns["delay"].table.tolist() == [[0, -1], [-1, 99]]


def test_rounds_of_several_days_have_totals_or_the_last_value(tmp_path: Path) -> None:
    file = csv(tmp_path, MIXED)
    found = {
        name: read_values(file, column=(name, metric)).in_rounds(2).table.tolist()
        for name, metric in METRICS.items()
    }
    assert found == {"count": [[30, 7]], "theme": [[1, 0]], "delay": [[0, 99]]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SMALL, []),
        ("individual,day,count\na,1,2\n", []),  # as ever, the values of all metrics
        ("individual,day,count,value\na,1,2,3\n", ["count"]),
        ("day,individual,theme\n1,a,dark\n", ["theme"]),
        ("device,2021-07-08,2021-07-09\na,1,2\n", []),
        ("theme\n1\n", []),
        ("", []),
    ],
)
def test_a_table_of_metrics_is_told_by_its_columns(text: str, found: list[str], tmp_path: Path) -> None:
    assert metrics_in(csv(tmp_path, text), list(METRICS)) == found


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("theme", "individual,day,theme\na,1,dark\n\nb,1,secret\n", "line 4: theme: expected one of the labels light,"),
        ("count", "individual,day,count,theme\na,1,77.5,dark\n", "line 2: count: expected a whole number"),
        ("delay", "individual,day,delay,theme\na,1,-77,dark\n", "line 2: delay: expected a whole number"),
        ("delay", "individual,day,delay\na,1,5\na,1,\n", "line 3: expected each pair of individual and day once"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_column_is_named_without_the_value(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValuesError, match=message) as error:
        read_values(csv(tmp_path, text), column=(name, METRICS[name]))
    assert "77" not in str(error.value).replace(str(tmp_path), "")
    assert "secret" not in str(error.value)


def test_a_mistake_in_a_column_of_parquet_is_named_without_the_value(tmp_path: Path) -> None:
    file = parquet(tmp_path, individual=["a", "b"], day=[1, 1], theme=["dark", "secret"], count=[None, 7.5])
    for name in ("theme", "count"):
        with pytest.raises(ValuesError, match=f"row 2: {name}: expected") as error:
            read_values(file, column=(name, METRICS[name]))
        assert "secret" not in str(error.value)
