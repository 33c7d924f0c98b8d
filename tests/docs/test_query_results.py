"""Every query of docs/how-to/query-results.md, run by the engine that it is for."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import yaml
from click.testing import CliRunner
from tests.shared.postgres import PostgresServer

from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.results import Results, Selection, write_results
from reticent_collector.stores import Layout, RoundKey, copy_store, open_store

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "query-results.md").read_text()
QUERIES = re.findall(
    r"^## ([^\n]*)\n(?:(?!^## ).)*?```sql\n-- (\w+)\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL
)
MONDAY = 1_793_577_600
"""2026-11-02."""
LATER = MONDAY + 40 * 86_400.0


def fill(url: str) -> None:
    """Eight days of rounds on the plan of the page, answered at random, and the table of their results."""
    plan, draws = Plan.load(ROOT / "examples" / "plan.toml"), random.Random(5)
    layout, codes = Layout(plan), range(3)
    with closing(open_store(url)) as store:
        store.register(plan)
        for number in range(MONDAY // plan.round_seconds, MONDAY // plan.round_seconds + 32):
            key = RoundKey(plan.name, plan.version, number)
            rows = (
                draws.randbytes(17)
                + bytes([draws.choice(codes), draws.getrandbits(plan.bits) << -plan.bits % 8])
                for _ in range(600)
            )
            records = b"".join(rows)
            assert len(records) == 600 * layout.width
            store.append({key: records})
            store.seal(key)
        write_results(store, lambda: LATER)


def query(place: int) -> str:
    text = QUERIES[place][2].replace("{{ source('reticent', 'weekly') }}", "reticent.weekly")
    return text.replace("$__timeFilter(start_time)", "start_time BETWEEN '2026-11-01Z' AND '2026-11-07Z'")


def places(engine: str) -> list[Any]:
    chosen = [place for place, (_, named, _) in enumerate(QUERIES) if named == engine]
    return [pytest.param(place, id=QUERIES[place][0].replace(" ", "-")) for place in chosen]


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    url = postgres.new_database()
    fill(url)
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query")
    fill(f"sqlite:///{path / 'reticent.db'}")
    return path


EXPECTED_ROWS = {"psql": 7, "Grafana": 6, "Metabase": 6, "Superset": 32, "dbt": 4, "Who may read": 0}


@pytest.mark.parametrize("place", places("psql"))
def test_postgresql(database: psycopg.Connection[Any], place: int) -> None:
    cursor = database.execute(query(place))
    rows = cursor.fetchall() if cursor.description else []
    assert len(rows) == EXPECTED_ROWS[QUERIES[place][0]]
    assert all(cell is not None for row in rows for cell in row)


def test_an_analyst_sees_results_and_no_counts(database: psycopg.Connection[Any]) -> None:
    if not database.execute("SELECT 1 FROM pg_roles WHERE rolname = 'analyst'").fetchone():
        database.execute(query(0))
    database.execute("SET ROLE analyst")
    try:
        assert database.execute("SELECT count(*) > 0 FROM reticent.weekly").fetchone() == (True,)
        for hidden in ("counts", "rounds", "keys", "steps", "plans"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                database.execute(f"SELECT * FROM reticent.{hidden}")  # noqa: S608
    finally:
        database.execute("RESET ROLE")


@pytest.mark.parametrize("place", places("sqlite"))
def test_sqlite(folder: Path, place: int) -> None:
    with closing(sqlite3.connect(folder / "reticent.db")) as database:
        rows = database.execute(query(place)).fetchall()
    assert len(rows) == 8 * 3
    assert rows[0][:2] == ("2026-11-09", "linux")


@pytest.mark.parametrize("place", places("duckdb"))
def test_duckdb(folder: Path, place: int) -> None:
    arguments = ["export", str(folder / "weeks.parquet"), "--every", "week", "--by", "os"]
    done = CliRunner().invoke(command, [*arguments, "--store", f"sqlite:///{folder / 'reticent.db'}"])
    assert done.exit_code == 0, done.output
    text = (
        query(place)
        .replace("state = 'sealed'", "true")
        .replace("'weeks.parquet'", f"'{folder}/weeks.parquet'")
    )
    rows = [tuple(row.values()) for row in duckdb.sql(text).to_arrow_table().to_pylist()]
    assert len(rows) == 2 * 3
    assert {os for _, os, *_ in rows} == {"linux", "macos", "windows"}


def test_a_lake_has_the_same_rows(folder: Path, tmp_path: Path) -> None:
    (text,) = (query(place) for place, (_, engine, _) in enumerate(QUERIES) if engine == "lake")
    file = f"sqlite:///{folder / 'reticent.db'}"
    with closing(open_store(file)) as store, closing(open_store(f"lake:///{tmp_path / 'lake'}")) as lake:
        copy_store(store, lake)
    with closing(duckdb.connect()) as engine, closing(sqlite3.connect(folder / "reticent.db")) as database:
        *views, last = text.replace("'lake/", f"'{tmp_path}/lake/").strip().rstrip(";").split(";")
        for view in views:
            engine.execute(view)
        assert engine.sql(last).to_arrow_table().num_rows == 2
        for view in ("weekly", "changes", "differences"):
            columns = "metric, segment, bucket, lower, upper"
            asked = f"SELECT {columns} FROM {view} ORDER BY 1, 2, 3 NULLS LAST, 4, 5"  # noqa: S608
            assert engine.execute(asked).fetchall() == database.execute(asked).fetchall() != []


def test_frames(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102
    with closing(open_store("sqlite:///reticent.db", readonly=True)) as store:
        weeks = Results(store, lambda: LATER).estimates(
            Selection("app-usage", "editor_seconds", every="week")
        )
    shown = names["weeks"][names["weeks"].metric == "editor_seconds"].sort_values("start_time")
    assert shown.value.tolist() == [week.estimate.value for week in reversed(weeks)]
    assert [moment.timestamp() for moment in shown.start_time] == [week.start for week in reversed(weeks)]
    assert names["same"].height == len(names["weeks"]) == 2 * 2


def test_all_queries_are_run() -> None:
    assert (
        PAGE.count("```sql")
        == len(QUERIES)
        == sum(map(len, map(places, ("psql", "sqlite", "duckdb", "lake"))))
    )


@pytest.mark.parametrize(
    ("uid", "newest_day", "alerts"),
    [
        ("changed", "value = value", []),
        (
            "changed",
            "uncut_lower = uncut_upper + 9000, uncut_upper = uncut_upper + 9999",
            [("app-usage", "browser_seconds", "", 1), ("app-usage", "editor_seconds", "", 1)],
        ),
        ("changed", "unit = 'day', uncut_lower = 90000, uncut_upper = 99999", []),
        ("few-reports", "value = value", []),
        ("few-reports", "reports = reports * 0.4", [("app-usage", 1)]),
        ("few-reports", "reports = reports * 0.6", []),
    ],
)
def test_the_sql_alerts_for_grafana_fire_when_they_should_and_only_then(
    database: psycopg.Connection[Any], uid: str, newest_day: str, alerts: list[tuple[Any, ...]]
) -> None:
    """Against four weeks before; what has another unit is another figure."""
    groups = yaml.safe_load((ROOT / "examples/grafana/alerts-sql.yaml").read_text())["groups"]
    (rule,) = [
        rule for group in groups for rule in group["rules"] if rule["uid"] == f"reticent-results-{uid}"
    ]
    with database.transaction(force_rollback=True):
        database.execute(  # the first day, a week before the newest one, becomes that of four weeks before
            "UPDATE reticent.results SET start_time = start_time - interval '21 days', round = round - 84,"
            " last_round = last_round - 84 WHERE every = 'day'"
            " AND start_time = (SELECT min(start_time) FROM reticent.daily)"
        )
        changed = database.execute(
            f"UPDATE reticent.results SET {newest_day} "  # noqa: S608
            "WHERE every = 'day' AND start_time = (SELECT max(start_time) FROM reticent.daily) "
            f"AND segment = '{{}}' AND (kind = 'mean' OR {uid != 'changed'})"
        )
        assert changed.rowcount >= 2
        rows = database.execute(rule["data"][0]["model"]["rawSql"]).fetchall()
    assert sorted(rows) == alerts
