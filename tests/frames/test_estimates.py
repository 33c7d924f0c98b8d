"""Estimates go into a table and come back as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reticent.counts import HistogramCounts, MeanCounts
from reticent.errors import ParameterError
from reticent.estimates import Estimate, HistogramEstimate, estimate
from reticent.estimates.frame import BACKENDS, COLUMNS, from_frame, to_frame
from reticent.frames import Estimated, estimates_from_frame, estimates_to_frame
from reticent.mechanisms import Buckets, DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan
from reticent.results import Results
from reticent.stores import open_store

MEAN = estimate(Metric("hours", OneBitMean(1, 24), unit="hour"), MeanCounts(1000, 400))
HADAMARD = estimate(
    Metric("hours", HadamardBit(1, Buckets.even(24, 3)), unit="hour"),
    HistogramCounts((250, 250, 250, 250), (180, 70, 170, 80)),
)
D_BIT = estimate(  # nobody was asked about the second bucket
    Metric("files", DBitFlip(1, Buckets((0, 1, 10, 100)), 1)), HistogramCounts((40, 0, 60), (10, 0, 50)), 0.9
)
FOUND = [
    Estimated("usage", 1, "hours", 7, MEAN),
    Estimated("usage", 1, "hours", 7, MEAN, {"os": "linux"}),
    Estimated("usage", 1, "spread", 7, HADAMARD, {"os": 'mac;os:"x"', "channel": "ä"}),
    Estimated("usage", 2, "spread", 8, D_BIT),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [MEAN, HADAMARD, D_BIT], ids=["mean", "hadamard", "d-bit"])
def test_an_estimate_comes_back_as_it_was(backend: str, number: Estimate | HistogramEstimate) -> None:
    frame = to_frame(number, backend)
    assert type(frame).__module__.partition(".")[0] == backend
    assert list(frame.column_names if backend == "pyarrow" else frame.columns) == list(COLUMNS)
    assert from_frame(frame) == number


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_estimates_come_back_as_they_were(backend: str) -> None:
    frame = estimates_to_frame(FOUND, backend)
    assert len(frame) == 1 + 1 + 3 + 3
    assert estimates_from_frame(frame) == FOUND


def test_by_way_of_files(tmp_path: Path) -> None:
    table = estimates_to_frame(FOUND)
    pq.write_table(table, tmp_path / "estimates.parquet")
    assert estimates_from_frame(pq.read_table(tmp_path / "estimates.parquet")) == FOUND
    with pa.ipc.new_file(tmp_path / "estimates.arrow", table.schema) as writer:
        writer.write_table(table)
    with pa.memory_map(str(tmp_path / "estimates.arrow")) as file:
        assert estimates_from_frame(pa.ipc.open_file(file).read_all()) == FOUND
    frame = estimates_to_frame(FOUND, "polars")
    frame.write_parquet(tmp_path / "polars.parquet")
    assert estimates_from_frame(pq.read_table(tmp_path / "polars.parquet")) == FOUND


def test_rows_may_come_in_any_order() -> None:
    table = to_frame(HADAMARD)
    assert from_frame(table.take([2, 0, 1])) == HADAMARD


def test_what_the_columns_say() -> None:
    (row,) = to_frame(MEAN).to_pylist()
    assert (row["bucket"], row["left"], row["unit"], row["edge_unit"]) == (None, None, "hour", None)
    assert (row["value"], row["lower"], row["upper"]) == (MEAN.value, MEAN.lower, MEAN.upper)
    rows = to_frame(HADAMARD).to_pylist()
    assert [(each["bucket"], each["left"], each["right"]) for each in rows] == [
        (0, 0, 8),
        (1, 8, 16),
        (2, 16, 24),
    ]
    assert {each["edge_unit"] for each in rows} == {"hour"}


def test_what_is_no_estimate_is_refused() -> None:
    table = to_frame(HADAMARD)
    for wrong, message in (
        (table.drop_columns(["uncut_lower"]), "no uncut_lower"),
        (table.slice(1), r"bucket: expected each of 0 to 1 once, got \[1, 2\]"),
        (table.slice(0, 0), "no rows"),
        (3, "frame: expected a frame of pyarrow, pandas, polars, got int"),
    ):
        with pytest.raises(ParameterError, match=message):
            from_frame(wrong)
    with pytest.raises(ParameterError, match="no plan, version, round, metric, segment"):
        estimates_from_frame(table)
    with pytest.raises(ParameterError, match="backend"):
        to_frame(MEAN, "excel")


def test_what_a_collector_finds_fits_too(
    tmp_path: Path, all_plans: list[Plan], reports_on: Any, fill: Any
) -> None:
    plan = all_plans[1]
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fill(url, plan, reports_on(plan, 200, 9))
    store = open_store(url)
    found = Results(store).estimates(plan.name)
    back = estimates_from_frame(estimates_to_frame(found, "pandas"))
    assert [(each.metric, each.estimate) for each in back] == [
        (each.metric.name, each.estimate) for each in found
    ]
    assert len(found) == 2
    store.close()
