"""One expression counts every kind of frame, to the integer, and says what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shared.reports import PLANS, forged, make_reports, smallest

from reticent.errors import ParameterError, ReportError
from reticent.plan import Plan
from reticent.reports import Report, to_packed
from reticent_collector.counts import MeanCounts, count_reports
from reticent_lake.frames import FrameError, count, to_arrow
from reticent_lake.frames.counting import shares

SMALL = Plan.from_toml(
    'min_reports = 1\n[plan]\nname = "small"\nversion = 3\nround = "1h"\n'
    '[metrics.minutes]\nkind = "mean"\nmax_value = 60\nepsilon = 1.0\n'
    '[metrics.hours]\nkind = "histogram"\nmax_value = 24\nbuckets = 3\n'
    'mechanism = "hadamard-bit"\nepsilon = 1.0\n'
    '[segments]\nos = ["linux"]\n'
)
DUCKDB = duckdb.connect()
NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype()}

KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas, of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, nullable": lambda table: table.to_pandas(types_mapper=NULLABLE.get),
    "polars": pl.from_arrow,
    "polars, lazy": lambda table: pl.from_arrow(table).lazy(),
    "duckdb": DUCKDB.from_arrow,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Callable[[pa.Table], Any]:
    return KINDS[request.param]


@cache
def forged_reports(plan: Plan) -> tuple[pa.Table, Any]:
    """Reports in three rounds, some of which come twice and some differ under one id, and their counts."""
    reports = forged(make_reports(plan, 400, 1, (7, 8, 9_000_000)), plan)
    expected = smallest(reports, plan)
    assert expected != count_reports(reports, plan)  # the first of an id would not do
    answers = sum(count.devices for counts in expected.values() for count in counts.values())
    assert answers == 400 * plan.asked
    return to_arrow(reports, plan), expected


def test_counts_as_the_standard_library_does_and_the_smallest_report_of_an_id(
    kind: Callable[[pa.Table], Any], plan: Plan
) -> None:
    table, expected = forged_reports(plan)
    frame = kind(table)
    assert count(frame, plan) == expected
    if plan in (PLANS["segments"], PLANS["wide"]):  # passes choose rows by their ids, whatever the plan
        assert count(frame, plan, passes=3) == expected


def test_an_empty_frame_has_no_counts(kind: Callable[[pa.Table], Any]) -> None:
    assert count(kind(to_arrow([], SMALL)), SMALL) == {}


def test_the_round_may_be_a_column_or_a_number(kind: Callable[[pa.Table], Any]) -> None:
    table = to_arrow([Report("small", 3, 7, bytes(16), b"\x80", 5, {"os": "linux"})], SMALL)
    counts = count(kind(table.drop_columns(["round"])), SMALL, round=9)
    assert counts == {(9, ("linux",)): count(kind(table), SMALL)[7, ("linux",)]}
    assert counts[9, ("linux",)]["minutes"] == MeanCounts(1, 1)
    with pytest.raises(FrameError, match=r"round: expected 9 in every row, got 7\.\n  Hint"):
        count(kind(table), SMALL, round=9)


def test_one_id_in_two_rounds_is_two_reports(kind: Callable[[pa.Table], Any]) -> None:
    reports = [Report("small", 3, number, bytes(16), b"\x80", 5) for number in (7, 8, 8)]
    assert count(kind(to_arrow(reports, SMALL)), SMALL) == count_reports(reports, SMALL)


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.append_column(name, values) if place < 0 else table.set_column(place, name, values)


BAD: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "no bits": (
        lambda table: table.drop_columns(["bits_0"]),
        "bits_0: expected a column, as reports on small",
    ),
    "no id": (lambda table: table.drop_columns(["id_low"]), "id_low: expected a column"),
    "no segment": (lambda table: table.drop_columns(["segment_os"]), "segment_os: expected a column"),
    "no round": (lambda table: table.drop_columns(["round"]), "round: expected a column, or the number"),
    "text": (
        lambda table: _with(table, "cohort", pa.array(["1", "2", "3"])),
        "cohort: expected a column of whole numbers, got String",
    ),
    "floats": (
        lambda table: _with(table, "bits_0", pa.array([1.0, 2.0, 3.0])),
        "bits_0: expected a column of whole numbers, got Float64",
    ),
    "too large": (
        lambda table: _with(table, "bits_0", pa.array([0, 256, 1])),
        "bits_0: expected whole numbers from 0 to 255, got 0 to 256",
    ),
    "negative": (
        lambda table: _with(table, "cohort", pa.array([0, 255, -1])),
        "cohort: expected whole numbers from 0 to 255, got -1 to 255",
    ),
    "two versions": (
        lambda table: _with(table, "version", pa.array([3, 3, 4])),
        "version: expected 3 in every row, got 3 to 4",
    ),
    "another plan": (
        lambda table: _with(table, "plan", pa.array(["small", "large", "small"])),
        "plan: expected small in every row, got large to small",
    ),
    "no such round": (
        lambda table: _with(table, "round", pa.array([7, -7, 7])),
        "round: expected whole numbers from 0 to 9007199254740991, got -7 to 7",
    ),
}


@pytest.mark.parametrize("wrong", BAD)
def test_a_frame_of_something_else_is_refused(kind: Callable[[pa.Table], Any], wrong: str) -> None:
    reports = [Report("small", 3, 7, bytes([byte] * 16), b"\x40", 5) for byte in range(3)]
    spoil, message = BAD[wrong]
    with pytest.raises(FrameError) as refused:
        count(kind(spoil(to_arrow(reports, SMALL))), SMALL)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("id_high", 1),
        ("id_low", 2),
        ("cohort", 1),
        ("segment_os", 1),
        ("bits_0", 2),
        ("round", 1),
        ("version", 1),
    ],
)
def test_nulls_are_refused(kind: Callable[[pa.Table], Any], name: str, passes: int) -> None:
    reports = [Report("small", 3, 7, bytes([byte] * 16), b"\x40", 5) for byte in range(3)]
    table = _with(to_arrow(reports, SMALL), name, pa.array([3, None, 3], pa.int64()))
    got = (
        "a column of whole numbers, got Float64"
        if kind is KINDS["pandas"]
        else "a value in every row, got null in 1"
    )
    with pytest.raises(FrameError, match=f"{name}: expected {got}"):
        count(kind(table), SMALL, passes=passes)


@pytest.mark.parametrize(
    ("name", "kind"), [*product(["one-of", "some-of"], KINDS), ("many", "polars")], indirect=["kind"]
)
def test_sampled_rows_that_answer_what_was_not_asked_are_refused(
    kind: Callable[[pa.Table], Any], name: str
) -> None:
    """As a packed batch they become a table unseen: the count is what looks at them."""
    plan = PLANS[name]
    reports = make_reports(plan, 20, 3)
    size, first = plan.asked_bytes, reports[0]
    all_ones = ((1 << plan.bits) - 1 << 8 * plan.report_bytes - plan.bits).to_bytes(plan.report_bytes)
    bitmap = int.from_bytes(first.asked or b"")
    last = 8 * size - len(plan.metrics)  # the place of the last metric's bit, from the right
    moved = (bitmap & bitmap - 1 | 1).to_bytes(size) if last else (bitmap & bitmap - 1).to_bytes(size)
    wrong = {
        "other bits": replace(first, bits=all_ones),
        "one metric less": replace(
            first, asked=(bitmap & bitmap - 1).to_bytes(size), bits=bytes(len(all_ones))
        ),
        "a bit after the last metric": replace(first, asked=moved, bits=bytes(len(all_ones))),
    }
    for what, report in wrong.items():
        table = to_arrow(to_packed([*reports, replace(report, id=b"x" * 16)], plan), plan)
        with pytest.raises(FrameError, match=f"asked_0: expected {plan.asked} metrics"):
            count(kind(table), plan)
        assert what


def test_passes_are_at_least_one() -> None:
    with pytest.raises(ParameterError, match="passes"):
        count(to_arrow([], SMALL), SMALL, passes=0)


def test_each_id_is_in_one_share() -> None:
    table = nw.from_native(to_arrow(make_reports(SMALL, 3000, 5), SMALL))
    rows = [table.filter(share).to_arrow() for share in shares(4)]
    assert sum(map(len, rows)) == len(table)
    ids = [{(row["id_high"], row["id_low"]) for row in part.to_pylist()} for part in rows]
    assert len(set.union(*ids)) == sum(map(len, ids)) == 3000
    # a binomial of 3000 ids at 1/4 has a standard deviation of 24: beyond ±150 once in 10^9
    assert all(abs(len(share) - 750) < 150 for share in ids)


def test_reports_and_packed_batches_make_the_same_table(plan: Plan) -> None:
    reports = make_reports(plan, 50, 3)
    table = to_arrow(reports, plan)
    assert table.equals(to_arrow(to_packed(reports, plan), plan))
    assert len(table) == 52
    for row, report in zip(table.to_pylist(), reports, strict=True):
        high, low = (int.from_bytes(half, signed=True) for half in (report.id[:8], report.id[8:]))
        assert (row["round"], row["id_high"], row["id_low"]) == (report.round, high, low)
        assert row.get("cohort") == report.cohort
        width = min(7, plan.report_bytes)
        assert row["bits_0"] == int.from_bytes(report.bits[:width])


def test_reports_that_do_not_answer_the_plan_make_no_table() -> None:
    good = {"plan": "small", "version": 3, "round": 7, "id": bytes(16), "bits": b"\x80", "cohort": 5}
    for wrong in ({"version": 2}, {"bits": b"\x80\x00"}, {"cohort": None}, {"plan": "large"}):
        with pytest.raises(ReportError):
            to_arrow([Report(**{**good, **wrong})], SMALL)  # type: ignore[arg-type]
    other = Plan.from_toml(SMALL.text.replace("version = 3", "version = 4"))
    with pytest.raises(ReportError, match="got small version 3"):
        to_arrow(to_packed([Report(**good)], SMALL), other)  # type: ignore[arg-type]


rows = st.lists(
    st.tuples(
        st.integers(7, 8),
        st.sampled_from([b"\x00", b"\x7f", b"\x80", b"\xff"]).map(lambda byte: byte * 16),
        st.sampled_from([0, 1, 255]),
        st.sampled_from(["linux", "other"]),
        st.sampled_from([b"\x00", b"\x40", b"\x80", b"\xc0"]),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(rows=rows)
def test_small_frames_of_all_sorts(rows: list[tuple[int, bytes, int, str, bytes]]) -> None:
    """Few ids, so that most rows clash with another: every kind picks the same one, by the slow rule."""
    reports = [
        Report("small", 3, number, identity, bits, cohort, {"os": tag})
        for number, identity, cohort, tag, bits in rows
    ]
    order = ["linux", "other"]
    chosen = sorted(
        reports,
        key=lambda sent: (sent.round, sent.id, sent.cohort, order.index(sent.segment["os"]), sent.bits),
    )
    expected = count_reports(chosen, SMALL)
    table = to_arrow(reports, SMALL)
    for name in ("pyarrow", "pandas", "polars, lazy", "duckdb"):
        assert count(KINDS[name](table), SMALL) == expected, name
