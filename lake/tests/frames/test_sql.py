"""The query that `reticent sql` prints comes to the integers of a seal, in the groups that readers are shown."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from math import log, sqrt
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
import sqlglot
from click.testing import CliRunner
from scipy.stats import binom
from tests.shared.queries import expected, found, raw
from tests.shared.reports import PLANS, forged, make_reports, smallest

from reticent.errors import ParameterError
from reticent.mechanisms import OneBitMean
from reticent.plan import Metric, Plan
from reticent.reports import Report
from reticent_collector.cli.root import reticent as command
from reticent_lake.frames import counting_query
from reticent_lake.frames.sql import DIALECTS

KINDS = Plan.from_toml(
    'min_reports = 30\n[plan]\nname = "kinds"\nversion = 2\nround = "1h"\ngrace = "2h"\n'
    '[metrics.seconds]\nkind = "mean"\nunit = "second"\nmax_value = 60\nepsilon = 1.0\nflip = 0.1\n'
    '[metrics.crashed]\nkind = "flag"\nepsilon = 2.0\n'
    '[metrics.theme]\nkind = "choice"\nlabels = ["dark", "light"]\nmechanism = "hadamard-bit"\nepsilon = 1.0\n'
    '[segments]\nos = ["windows", "macos", "linux"]\nchannel = ["stable", "beta"]\nregion = ["eu"]\n'
)


def in_duckdb(table: pa.Table, query: str) -> list[dict[str, Any]]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("reports", table)
    rows: list[dict[str, Any]] = connection.sql(query).to_arrow_table().to_pylist()
    return rows


def skewed(plan: Plan, number: int, seed: int, rounds: tuple[int, ...]) -> list[Report]:
    """Reports whose tags are common or rare, so that groups fold in every way."""
    draws = random.Random(seed)

    def rare(tags: tuple[str, ...]) -> str:
        return draws.choices(tags, [4.0**-place for place in range(len(tags))])[0]

    return [
        replace(report, segment={segment.name: rare(segment.tags) for segment in plan.segments})
        for report in make_reports(plan, number, seed, rounds)
    ]


def test_the_integers_and_values_of_a_seal(plan: Plan) -> None:
    reports = forged(make_reports(plan, 300, 2, (7, 81652)), plan)
    assert found(in_duckdb(raw(reports, plan), counting_query(plan))) == expected(
        plan, smallest(reports, plan)
    )


@pytest.mark.parametrize(
    ("number", "seed"), [(29, 1), (90, 2), (200, 3), (200, 4), (400, 5), (900, 6), (900, 7)]
)
@pytest.mark.parametrize("least", [30, 2])
def test_the_groups_that_readers_are_shown(number: int, seed: int, least: int) -> None:
    """Three segments with rare tags, several rounds, one of them too small."""
    plan = replace(KINDS, min_reports=least)
    reports = skewed(plan, number, seed, (7, 7, 7, 8, 8, 9))
    counts = smallest(reports, plan)
    figures = expected(plan, counts)
    assert found(in_duckdb(raw(reports, plan), counting_query(plan))) == figures
    if least == 30 and number == 29:
        assert figures == {}
    if least == 30 and number == 400:
        assert any("(few)" in segment for _, segment, _, _ in figures)


def test_a_name_with_a_hyphen() -> None:
    plan = Plan.from_toml(KINDS.text.replace("[segments]\nos =", "[segments]\nos-type ="))
    reports = make_reports(plan, 300, 3)
    assert found(in_duckdb(raw(reports, plan), counting_query(plan))) == expected(
        plan, smallest(reports, plan)
    )
    assert "`segment_os-type`" in counting_query(plan, "spark")


def test_what_the_columns_say() -> None:
    rows = in_duckdb(raw(make_reports(KINDS, 500, 3), KINDS), counting_query(KINDS, confidence=0.9))
    whole = {(row["metric"], row["bucket"]): row for row in rows if row["segment"] == "{}"}
    mean, flag = whole["seconds", None], whole["crashed", None]
    assert list(mean)[:21] == [
        "plan", "version", "metric", "kind", "unit", "every", "start_time", "end_time", "state", "segment", "bucket",
        "bucket_low", "bucket_high", "label", "value", "lower", "upper", "confidence", "reports", "half_width", "rule",
    ]  # fmt: skip
    assert (mean["plan"], mean["version"], mean["kind"], mean["unit"]) == ("kinds", 2, "mean", "second")
    assert (mean["every"], mean["state"], mean["rule"]) == ("round", "open", "hoeffding")
    assert (mean["confidence"], type(mean["confidence"])) == (0.9, float)
    start = datetime.fromtimestamp(81652 * 3600, UTC)
    assert (mean["start_time"].astimezone(UTC), (mean["end_time"] - mean["start_time"]).seconds) == (
        start,
        3600,
    )
    assert (flag["kind"], flag["bucket_low"], mean["reports"]) == ("flag", None, 500)
    assert [whole["theme", place]["label"] for place in range(3)] == ["dark", "light", "absent"]
    # By hand: a bit is 1 with probability low + x·(high - low), where a flip of 1 in 10 shrinks both.
    for row, top, epsilon, flip, together in ((mean, 60, 1.0, 0.1, 1), (flag, 1, 2.0, 0.0, 1)):
        contrast = (1 - 2 * flip) * (1 - 2 / (2.718281828459045**epsilon + 1))
        half = top / contrast * sqrt(log(2 * together / 0.1) / (2 * 500))
        assert row["half_width"] == pytest.approx(half, rel=1e-9)
        assert row["lower"] == pytest.approx(max(0, row["value"] - half), rel=1e-9)
        assert row["upper"] == pytest.approx(min(top, row["value"] + half), rel=1e-9)
    # A Hadamard bit has half the contrast, and the intervals of all three buckets hold at once.
    half = sqrt(log(2 * 3 / 0.1) / (2 * 500)) / ((1 - 2 / (2.718281828459045 + 1)) / 2)
    assert [whole["theme", place]["half_width"] for place in range(3)] == pytest.approx([half] * 3, rel=1e-9)


@pytest.mark.parametrize("reports", [1, 7, 30, 1000])
def test_intervals_cover(reports: int) -> None:
    """Exactly, over all that a fleet may answer: no chance of missing is above 5 %; 95 % of it would be noticed."""
    half = sqrt(log(2 / 0.05) / (2 * reports))
    for share in (0.27, 0.4, 0.5, 0.73):
        outside = sum(
            binom.pmf(ones, reports, share)
            for ones in range(reports + 1)
            if abs(ones / reports - share) > half
        )
        assert outside <= 0.05
    narrow = sqrt(log(2 / 0.05) / (2 * reports)) / 1.5
    worst = max(
        sum(binom.pmf(ones, reports, p) for ones in range(reports + 1) if abs(ones / reports - p) > narrow)
        for p in (0.27, 0.4, 0.5, 0.73)
    )
    assert worst > 0.05 or reports == 1


def test_a_round_of_a_week_begins_on_monday() -> None:
    plan = replace(KINDS, round_seconds=604_800)
    sunday = plan.round_at(datetime(2026, 8, 9, 23, 59, tzinfo=UTC).timestamp())
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")  # times are in UTC anywhere
    connection.register("reports", raw(make_reports(plan, 300, 3, (sunday,)), plan))
    rows = connection.sql(counting_query(plan)).project("start_time, end_time").fetchall()  # without pytz
    assert {*rows} == {(datetime(2026, 8, 3), datetime(2026, 8, 10))}


def test_rounds_that_are_not_over_are_left_out() -> None:
    now = KINDS.round_at(datetime.now(UTC).timestamp())
    reports = make_reports(KINDS, 300, 3, (now, now - 2, now - 4))
    rows = in_duckdb(raw(reports, KINDS), counting_query(KINDS))
    assert {row["round"] for row in rows} == {
        now - 4
    }  # its grace of two hours is over, that of now - 2 is not


def test_postgresql(postgres: Any) -> None:
    for plan in (KINDS, PLANS["wide"], PLANS["many"]):
        reports = forged(skewed(plan, 300, 4, (7, 8)), plan)
        table = raw(reports, plan)
        kinds = {"uint8": "smallint", "int64": "bigint", "string": "text"}
        columns = ", ".join(f"{field.name} {kinds[str(field.type)]}" for field in table.schema)
        with psycopg.connect(postgres.new_database(), row_factory=psycopg.rows.dict_row) as connection:
            connection.execute("CREATE SCHEMA telemetry")
            connection.execute(f"CREATE TABLE telemetry.reports ({columns})")
            names = ", ".join(table.schema.names)
            with connection.cursor().copy(f"COPY telemetry.reports ({names}) FROM STDIN") as copy:
                for row in table.to_pylist():
                    copy.write_row(tuple(row.values()))
            rows = connection.execute(counting_query(plan, "postgres", "telemetry.reports")).fetchall()
        assert found(rows) == expected(plan, smallest(reports, plan))
        assert rows[0]["start_time"] == datetime.fromtimestamp(7 * 3600, UTC)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_can_be_parsed(dialect: str) -> None:
    for plan in (KINDS, PLANS["d-bit"], PLANS["one-of"]):
        query = counting_query(
            plan, dialect, "some.place.reports" if dialect != "spark" else "parquet.`/lake/reports`"
        )
        (tree,) = sqlglot.parse(query, read=dialect)
        assert isinstance(tree, sqlglot.exp.Select)
        assert (
            sum(table.name in ("reports", "/lake/reports") for table in tree.find_all(sqlglot.exp.Table)) == 1
        )


@pytest.mark.parametrize(
    "given",
    [
        {"table": "reports; DROP TABLE reports"},
        {"table": "reports WHERE true"},
        {"table": ""},
        {"dialect": "oracle"},
        {"confidence": 1.0},
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(ParameterError, match=f"^{name}: expected"):
        counting_query(KINDS, **given)


def test_a_mechanism_whose_hits_are_other_sums_is_refused() -> None:
    class Weighted(OneBitMean):
        name = "weighted"

        def hits(self, reports: Any, ones: Any) -> Any:
            return 2 * super().hits(reports, ones)[0], super().hits(reports, ones)[1]

    plan = replace(KINDS, metrics=(Metric("odd", Weighted(1, 60)),), segments=())
    with pytest.raises(
        ParameterError, match=r"odd: mechanism: expected one whose hits are sums .* got weighted"
    ):
        counting_query(plan)


def test_the_command_prints_it(tmp_path: Any) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(KINDS.text)
    table = "read_parquet('lake/reports/*/*/*/*.parquet', hive_partitioning = true)"
    done = CliRunner().invoke(command, ["sql", str(path), "--table", table, "--confidence", "0.9"])
    assert done.exit_code == 0, done.output
    assert done.output == counting_query(KINDS, "duckdb", table, 0.9) + "\n"
    assert "'lake/reports/*/*/*/*.parquet'" in done.output
    done = CliRunner().invoke(command, ["sql", str(path), "--json", "--dialect", "snowflake"])
    assert json.loads(done.output)["sql"] == counting_query(KINDS, "snowflake")
    done = CliRunner().invoke(command, ["sql", str(path), "--table", "a b c d"])
    assert (done.exit_code, "table: expected a table" in done.output) == (1, True)
