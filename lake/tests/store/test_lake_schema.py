"""A report as a row: nothing is lost, order stays, every bit is where the docs say."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.lakes import Memory

from reticent.plan import Plan
from reticent_collector.stores import Records, RoundKey
from reticent_collector.stores.sorting import distinct
from reticent_lake.store import Arrow, Columns, Part, RoundParts, bit_place

HEAD = '[plan]\nname = "rows"\nversion = {}\nround = "1h"\n'
MEAN = '[metrics.m{}]\nkind = "mean"\nmax_value = 60\nepsilon = 1.0\n'
HISTOGRAM = """[metrics.h{}]
kind = "histogram"
max_value = 60
buckets = 16
mechanism = "d-bit-flip"
bits = 8
epsilon = 1.0
"""
SEGMENTS = '[segments]\nos = ["windows", "linux"]\nchannel = ["beta"]\n'


def make_plan(means: int, histograms: int = 0, segments: bool = False, version: int = 1) -> Plan:
    text = HEAD.format(version) + "".join(MEAN.format(place) for place in range(means))
    text += "".join(HISTOGRAM.format(place) for place in range(histograms))
    return Plan.from_toml(text + SEGMENTS * segments)


def make_records(columns: Columns, count: int, seed: int = 0) -> Records:
    """Any ids and cohorts, tags in range, bits with their padding 0."""
    draw = np.random.default_rng(seed)
    plan, records = columns.layout.plan, draw.integers(0, 256, (count, columns.layout.width), dtype=np.uint8)
    for field in columns.fields:
        if field.name.startswith("segment_"):
            records[:, field.start] %= 2
    records[:, -1] &= 256 - (1 << (-plan.bits % 8))
    return records


PLANS = [
    make_plan(1),
    make_plan(8),
    make_plan(9, 1, True),
    make_plan(56),
    make_plan(57),
    make_plan(3, 30, True),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.bits} bits")
def test_rows_and_records_are_the_same_thing(plan: Plan) -> None:
    columns, key = Columns(plan), RoundKey("rows", 1, 5)
    records = make_records(columns, 300)
    assert (columns.records(columns.table(records)) == records).all()
    data = columns.encode(key, records)
    back = columns.decode(key, data, 300)
    assert sorted(map(bytes, back)) == sorted(map(bytes, records))
    table = pq.read_table(pa.BufferReader(data))
    assert table.schema.equals(Columns(plan).schema)
    assert table.column("id_high").to_pylist() == sorted(
        int.from_bytes(bytes(record[:8]), "big", signed=True) for record in records
    )


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.bits} bits")
def test_every_bit_is_where_its_place_says(plan: Plan) -> None:
    columns = Columns(plan)
    records = make_records(columns, 50)
    table = columns.table(records)
    bits = np.unpackbits(records[:, -plan.report_bytes :], axis=1)
    for bit in range(plan.bits):
        column, shift = bit_place(plan, bit)
        numbers = table.column(column).to_numpy()
        assert ((numbers >> shift) & 1 == bits[:, bit]).all()
        assert (numbers >= 0).all()
    for outside in (-1, plan.bits):
        with pytest.raises(IndexError, match="expected 0 to"):
            bit_place(plan, outside)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.bits} bits")
def test_columns_compare_as_the_bytes_of_records_do(plan: Plan) -> None:
    """All but the ids, which are signed numbers; so the smallest row of an id is its smallest record."""
    columns = Columns(plan)
    records = make_records(columns, 400)
    records[:200, 16:-1] = 1  # many that differ late only
    rows = [tuple(row.values())[2:] for row in columns.table(records).to_pylist()]
    by_row = sorted(range(400), key=lambda place: (rows[place], place))
    by_bytes = sorted(range(400), key=lambda place: (bytes(records[place, 16:]), place))
    assert by_row == by_bytes


def test_names_and_types_of_columns() -> None:
    found = {field.name: str(field.type) for field in Columns(make_plan(3, 30, True)).schema}
    assert found == {
        "id_high": "int64", "id_low": "int64", "cohort": "uint8", "segment_os": "uint8",
        "segment_channel": "uint8", "bits_0": "int64", "bits_1": "int64", "bits_2": "int64",
        "bits_3": "int64", "bits_4": "int64",
    }  # fmt: skip
    assert Columns(make_plan(1)).schema.names == ["id_high", "id_low", "bits_0"]
    assert not any(field.nullable for field in Columns(make_plan(1)).schema)


def test_a_tag_beyond_the_last_one_is_other() -> None:
    columns = Columns(make_plan(1, 0, True))
    records = make_records(columns, 2)
    records[0, 16] = 200
    assert columns.table(records).column("segment_os").to_pylist() == [2, records[1, 16]]
    assert records[0, 16] == 200


def test_a_digest_is_of_what_rows_mean() -> None:
    plan = make_plan(2, 1, True)
    same = Plan.from_toml("# a note\n" + plan.text.replace('round = "1h"', 'round = "1h"\nowner = "ada"'))
    assert plan.fingerprint == same.fingerprint
    others = [
        make_plan(3, 1, True), make_plan(2, 2, True), make_plan(2, 1), make_plan(2, 1, True, version=2),
        Plan.from_toml(plan.text.replace("max_value = 60", "max_value = 61")),
        Plan.from_toml(plan.text.replace('"linux"', '"plan9"')),
        Plan.from_toml(plan.text.replace('round = "1h"', 'round = "2h"')),
        Plan.from_toml(plan.text.replace('kind = "mean"', 'flip = 0.1\nkind = "mean"')),
    ]  # fmt: skip
    assert len({each.fingerprint for each in [plan, *others]}) == 9


def test_distinct_against_a_dictionary() -> None:
    draw = random.Random(8)
    for size in (0, 1, 40, 400):
        rows = [
            bytes(
                [draw.randrange(3)] * 8 + [draw.randrange(9)] * 8 + [draw.randrange(4), draw.randrange(256)]
            )
            for _ in range(size)
        ]
        records = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, 18)
        expected: dict[bytes, bytes] = {}
        for row in rows:
            expected[row[:16]] = min(row, expected.get(row[:16], row))
        found = [bytes(row) for row in distinct(records)]
        assert sorted(found) == sorted(expected.values())


def test_a_large_round_is_read_once_and_counted_in_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = Columns(make_plan(2, 1, True))
    records = make_records(columns, 5000)
    records[1000:2000, :16] = records[:1000, :16]  # other reports with the same ids
    records[2000:2500] = records[:500]
    shares = np.array_split(records[np.random.default_rng(1).permutation(5000)], 13)
    names = [Part("0" * 32, place, place, len(share)).name for place, share in enumerate(shares, 1)]
    reads = []

    class Shares(RoundParts):
        def read(self, name: str) -> Records:
            reads.append(name)
            return shares[names.index(name)]

    parts = Shares(Memory(), columns, RoundKey("rows", 1, 5))
    whole = Arrow().count(parts, names)
    assert whole == columns.layout.counts(distinct(records))
    assert sum(by_metric["m0"].devices for by_metric in whole.values()) == 3500
    sizes: list[int] = []

    def measured(share: Records) -> Records:
        sizes.append(len(share))
        assert list(tmp_path.iterdir()) == []  # what is spread is nameless: it is gone with the process
        return distinct(share)

    monkeypatch.setattr("reticent_collector.stores.sorting.distinct", measured)
    for rows, count in ((4999, 2), (400, 13), (10, 500)):
        reads.clear()
        sizes.clear()
        assert Arrow(rows_at_once=rows, folder=str(tmp_path)).count(parts, names) == whole
        assert reads == names
        assert len(sizes) == count
        assert sum(sizes) == 5000
        if count < 500:  # ids are spread evenly: eight standard deviations
            assert max(sizes) < 5000 / count + 8 * (5000 / count) ** 0.5


def test_the_rule_as_polars_says_it() -> None:
    """Any engine can do it: sort by all columns, keep the first of each id."""
    columns, key = Columns(make_plan(2, 8, True)), RoundKey("rows", 1, 5)
    records = make_records(columns, 2000)
    records[1000:, :16] = records[:1000, :16]
    frame = pl.read_parquet(columns.encode(key, records))
    kept = frame.sort(frame.columns).unique(["id_high", "id_low"], keep="first", maintain_order=True)
    again = columns.records(kept.to_arrow().cast(columns.schema))
    assert sorted(map(bytes, again)) == sorted(map(bytes, distinct(records)))
