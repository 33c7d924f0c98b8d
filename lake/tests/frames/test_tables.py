"""Estimates go into tables and come back as they were."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.shared.reports import PLANS, fill, make_reports

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Metric
from reticent_collector.columns import COLUMNS, segment_text
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import Estimate, HistogramEstimate, estimate
from reticent_collector.estimates.table import BACKENDS, arrow_bytes, csv_text
from reticent_collector.results import Results, Selection
from reticent_collector.stores import open_store
from reticent_lake.frames import estimates_from_frame, estimates_to_frame, from_frame
from reticent_lake.frames.tables import Estimated

NAMES = [column.name for column in COLUMNS]

MEAN = estimate(Metric("hours", OneBitMean(1, 24), unit="hour"), MeanCounts(1000, 400))
HADAMARD = estimate(
    Metric("hours", HadamardBit(1, Buckets.even(24, 3)), unit="hour"),
    HistogramCounts((250, 250, 250, 250), (180, 70, 170, 80)),
)
D_BIT = estimate(  # nobody was asked about the second bucket
    Metric("files", DBitFlip(1, Buckets((0, 1, 10, 100)), 1)), HistogramCounts((40, 0, 60), (10, 0, 50)), 0.9
)
ESTIMATES = [
    Estimated("usage", 1, "hours", "round", 100, 200, "sealed", {}, 7, 7, MEAN),
    Estimated("usage", 1, "hours", "round", 100, 200, "sealed", {"os": "linux"}, 7, 7, MEAN),
    Estimated(
        "usage",
        1,
        "spread",
        "round",
        100,
        200,
        "sealed",
        {"channel": "beta+1", "os": "mac ö"},
        7,
        7,
        HADAMARD,
    ),
    Estimated("usage", 2, "spread", "window", 200, 300, "open", {}, 8, 35, D_BIT),
]


def names_of(frame: Any) -> list[str]:
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [MEAN, HADAMARD, D_BIT], ids=["mean", "hadamard", "d-bit"])
def test_an_estimate_comes_back_as_it_was(backend: str, number: Estimate | HistogramEstimate) -> None:
    frame = number.to_frame(backend)
    assert type(frame).__module__.partition(".")[0] == backend
    assert names_of(frame) == NAMES
    assert repr(from_frame(frame)) == repr(
        number
    )  # nan, for a bucket without reports, is not equal to itself


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_estimates_come_back_as_they_were(backend: str) -> None:
    frame = estimates_to_frame(ESTIMATES, backend)
    assert len(frame) == 1 + 1 + 3 + 3
    assert names_of(frame) == NAMES
    assert repr(estimates_from_frame(frame)) == repr(ESTIMATES)


def test_by_way_of_files(tmp_path: Path) -> None:
    table = estimates_to_frame(ESTIMATES)
    pq.write_table(table, tmp_path / "estimates.parquet")
    assert repr(estimates_from_frame(pq.read_table(tmp_path / "estimates.parquet"))) == repr(ESTIMATES)
    estimates_to_frame(ESTIMATES, "polars").write_parquet(tmp_path / "polars.parquet")
    assert repr(estimates_from_frame(pq.read_table(tmp_path / "polars.parquet"))) == repr(ESTIMATES)
    assert repr(estimates_from_frame(pa.ipc.open_stream(arrow_bytes(ESTIMATES)).read_all())) == repr(
        ESTIMATES
    )
    text = csv_text(ESTIMATES)
    assert next(csv.reader(io.StringIO(text))) == NAMES
    assert repr(estimates_from_frame(pa.csv.read_csv(io.BytesIO(text.encode())))) == repr(ESTIMATES)


def test_rows_may_come_in_any_order() -> None:
    assert from_frame(HADAMARD.to_frame().take([2, 0, 1])) == HADAMARD


def test_what_the_columns_say() -> None:
    mean, tagged, *rows = estimates_to_frame(ESTIMATES).to_pylist()
    assert (mean["bucket"], mean["bucket_low"], mean["kind"], mean["unit"]) == (None, None, "mean", "hour")
    assert (mean["value"], mean["lower"], mean["upper"]) == (MEAN.value, MEAN.lower, MEAN.upper)
    assert (mean["segment"], tagged["segment"], rows[0]["segment"]) == (
        "{}",
        '{"os":"linux"}',
        '{"channel":"beta+1","os":"mac ö"}',
    )
    assert segment_text({"os": "linux", "channel": "beta"}) == segment_text(
        {"channel": "beta", "os": "linux"}
    )
    assert mean["start_time"] == datetime(1970, 1, 1, 0, 1, 40, tzinfo=UTC)
    places = [(row["bucket"], row["bucket_low"], row["bucket_high"]) for row in rows[:3]]
    assert places == [(0, 0, 8), (1, 8, 16), (2, 16, 24)]
    assert {(row["kind"], row["unit"]) for row in rows[:3]} == {("histogram", "hour")}


def test_the_docs_have_the_columns() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "estimates.md").read_text()
    rows = re.findall(r"^(\w+(?:, \w+)*) +(\w+)  (.*)", page.split("## As a table")[1], re.MULTILINE)
    listed = [
        (name.replace("Q", level), kind)
        for names, kind, meaning in rows
        for level in (re.findall(r"\d+", meaning.split(":")[0]) if "Q" in names else [""])
        for name in names.split(", ")
    ]
    assert listed == [(name, kind) for name, kind, _ in COLUMNS]


def test_what_is_no_estimate_is_refused() -> None:
    table = HADAMARD.to_frame()
    for wrong, message in (
        (table.drop_columns(["uncut_lower"]), "no uncut_lower"),
        (table.slice(1), r"bucket: expected each of 0 to 1 once, got \[1, 2\]"),
        (table.slice(0, 0), "no rows"),
        (3, "frame: expected a frame of pyarrow, pandas, polars, got int"),
    ):
        with pytest.raises(ParameterError, match=message):
            from_frame(wrong)
    with pytest.raises(
        ParameterError, match="no plan, version, metric, every, start_time, end_time, state, segment"
    ):
        estimates_from_frame(table)
    with pytest.raises(ParameterError, match="backend"):
        MEAN.to_frame("excel")


def test_results_of_a_store_fit_too(tmp_path: Path) -> None:
    plan = PLANS["hadamard"]
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fill(url, plan, make_reports(plan, 200, 9))
    store = open_store(url)
    results = Results(store).estimates(Selection(plan.name, every="round"))
    back = estimates_from_frame(estimates_to_frame(results, "pandas"))
    assert [(estimated.metric, estimated.estimate) for estimated in back] == [
        (result.metric.name, result.estimate) for result in results
    ]
    assert len(results) == 2
    store.close()
