"""Five stores that once led readers to wrong conclusions: SQL, CSV, JSON and the command line say the truth."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from tests.shared.collectors import Service, in_thread
from tests.shared.misleading import DAY, LATER, MONDAY, STORES, Fleet

from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Collector
from reticent_collector.results import Results, Selection, write_results
from reticent_collector.stores import copy_store, open_store

Made = Callable[[str], Path]
TRUE_MINUTES = 49.5  # of the upgrade


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The file of a store, with its table of results, built when it is first asked for."""
    folder = tmp_path_factory.mktemp("misleading")

    def file_of(name: str) -> Path:
        path = folder / f"{name.replace(' ', '-')}.db"
        if not path.exists():
            with closing(open_store(f"sqlite:///{path}")) as store:
                STORES[name](store)
                write_results(store, lambda: LATER)
        return path

    return file_of


def sql(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def cli(path: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(command, [*arguments, "--store", f"sqlite:///{path}", "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def printed(path: Path, *arguments: str) -> str:
    """What a person reads, with the table's line breaks undone."""
    url = f"sqlite:///{path}"
    done = CliRunner().invoke(command, [*arguments, "--store", url], env={"COLUMNS": "250"})
    assert done.exit_code == 0, done.output
    return done.output


@contextmanager
def serving(path: Path) -> Iterator[Service]:
    store = open_store(f"sqlite:///{path}")
    with in_thread(Collector([], store, clock=lambda: LATER, seal_every=None)) as service:
        yield service


def exported(path: Path, *arguments: str) -> list[dict[str, str]]:
    done = CliRunner().invoke(command, ["export", "-", *arguments, "--store", f"sqlite:///{path}"])
    assert done.exit_code == 0, done.output
    return [*csv.DictReader(io.StringIO(done.output))]


def week(number: int) -> str:
    """When a week of the story begins."""
    return f"{datetime.fromtimestamp(MONDAY + 7 * number * DAY, UTC):%Y-%m-%d}"


# A plan upgrade


def test_an_upgrade_shows_the_whole_fleet(made: Made) -> None:
    """Three days into a rollout among eager users, the figure is that of all devices, and one row."""
    path = made("upgrade")
    rows = sql(
        path,
        "SELECT value, lower, upper, rounds, rounds_missing, versions FROM weekly WHERE metric = 'minutes'"
        " AND segment = '{}' ORDER BY start_time",
    )
    assert [row[3:] for row in rows] == [(7, 0, "1"), (7, 0, "1"), (3, 4, "1,2")]
    newest = cli(path, "estimate", "--metric", "minutes", "--last", "1")["estimates"]
    table = exported(path, "--metric", "minutes", "--every", "week", "--last", "1")
    with serving(path) as service:
        answered = service.get("/v1/estimates?plan=app&metric=minutes&last=1").json["estimates"]
    for shown in (newest[0], answered[0]):
        assert (shown["lower"], shown["upper"], shown["versions"], shown["rounds_missing"]) == (
            rows[2][1],
            rows[2][2],
            [1, 2],
            4,
        )
    assert (float(table[0]["lower"]), table[0]["versions"], len(table)) == (rows[2][1], "1,2", 1)
    assert rows[2][1] <= TRUE_MINUTES <= rows[2][2]
    eager = cli(path, "estimate", "--metric", "minutes", "--last", "1", "--plan-version", "2")["estimates"][0]
    assert eager["lower"] > TRUE_MINUTES + 5, "version 2 alone is another fleet, and is shown on request only"


# Weeks that are not whole


def test_weeks_that_are_not_whole_say_so(made: Made) -> None:
    """A change of parameters on a Thursday makes two figures of a week, labelled, and each says what it lacks."""
    path = made("partial weeks")
    expected = [
        (week(0), 7, 0, "1"),
        (week(1), 3, 4, "1"),
        (week(1), 4, 3, "2"),
        (week(2), 7, 0, "2"),
        (week(3), 3, 4, "2"),
    ]
    rows = sql(
        path,
        "SELECT date(start_time), rounds, rounds_missing, versions FROM weekly WHERE metric = 'minutes'"
        " ORDER BY start_time, versions",
    )
    assert rows == expected
    table = exported(path, "--every", "week")
    assert sorted(
        (row["start_time"][:10], int(row["rounds"]), int(row["rounds_missing"]), row["versions"])
        for row in table
    ) == sorted(expected)
    told = cli(path, "estimate")["estimates"]
    assert sorted(
        (row["start_time"][:10], row["rounds"], row["rounds_missing"], ",".join(map(str, row["versions"])))
        for row in told
    ) == sorted(expected)
    text = printed(path, "estimate")
    assert text.count("3 of 7 rounds") >= 2
    assert "4 of 7 rounds, plan version 2" in text


def test_no_change_is_made_of_the_days_that_a_week_lacks(made: Made) -> None:
    """Half a week of large days less a whole week looks like a rise of 20; over the days of both it is none."""
    path = made("partial weeks")
    naive = dict(sql(path, "SELECT date(start_time), value FROM weekly ORDER BY 1"))
    assert naive[week(2)] - naive[week(3)] > 10
    (last, *_) = cli(path, "compare", "--last", "1")["differences"]
    assert (last["start_time"][:10], last["rounds"], last["clear"]) == (week(3), 3, False)
    assert "3 of 7 rounds compared" in last["words"]
    compared = sql(
        path,
        "SELECT date(start_time), rounds, rounds_missing, clear FROM changes WHERE every = 'week'"
        " AND against = 'before' AND metric = 'minutes' ORDER BY start_time",
    )
    assert compared == [(week(1), 3, 4, 0), (week(2), 4, 3, 0), (week(3), 3, 4, 0)]


# A slow rise


def test_a_slow_rise_is_found_where_no_weekly_change_is_clear(made: Made) -> None:
    path = made("slow rise")
    clear = sql(path, "SELECT count(*) FROM changes WHERE every = 'week' AND against = 'before' AND clear")
    assert clear == [(0,)]
    answer = cli(path, "compare", "--last", "37")
    assert not any(change["clear"] for change in answer["differences"])
    trends = {trend["metric"]: trend for trend in answer["trends"]}
    assert {name: trend["direction"] for name, trend in trends.items()} == {
        "minutes": None,
        "feature": "rises",
        "memory": "rises",
    }
    feature = trends["feature"]["whole"]
    weeks_apart = (datetime.fromisoformat(trends["feature"]["start_time"]).timestamp() - MONDAY) / DAY / 7
    first = (datetime.fromisoformat(feature["start_time"]).timestamp() - MONDAY) / DAY / 7
    true_rise = 0.13 * (weeks_apart - first) * 7 / (37 * 7 - 1)
    assert feature["lower"] <= true_rise <= feature["upper"]
    with serving(path) as service:
        asked = "plan=app&last=37"
        assert service.get(f"/v1/trends?{asked}").json["trends"] == answer["trends"]
        table = service.get(f"/v1/trends?{asked}&format=csv").body.decode()
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(table))}
    assert (rows["feature"]["direction"], rows["minutes"]["direction"]) == ("rises", "")
    assert rows["feature"]["whole_lower"] == str(feature["lower"])
    assert exported(path, "--table", "trends", "--last", "37") == [*rows.values()]
    text = printed(path, "estimate", "--last", "37")
    assert "feature rises since" in text
    assert "memory rises since" in text
    assert "minutes rises" not in text
    in_sql = sql(  # the same week against one 32 weeks before, from the intervals of both: at 90 %
        path,
        "SELECT one.lower > other.upper FROM weekly AS one JOIN weekly AS other USING (plan, metric, segment)"
        " WHERE metric = 'feature' AND one.round = other.round + 32 * 7 ORDER BY one.start_time DESC LIMIT 1",
    )
    assert in_sql == [(1,)]


# Weekends


def test_weekends_are_no_change(made: Made) -> None:
    path = made("weekends")
    neighbours = sql(
        path, "SELECT count(*) FROM changes WHERE every = 'day' AND against = 'before' AND clear"
    )
    assert neighbours[0][0] >= 2 * 2 * 19, "neighbouring days differ clearly twice a week: the trap is there"
    for against in ("week", "4-weeks"):
        query = "SELECT count(*) FROM changes WHERE every = 'day' AND clear AND against = "
        assert sql(path, f"{query}'{against}'") == [(0,)]
        changes = cli(path, "compare", "--every", "day", "--last", "14", "--against", against)
        assert not any(change["clear"] for change in changes["differences"])
        assert {trend["direction"] for trend in changes["trends"]} == {None}
    whole = cli(path, "estimate")
    assert {row["every"] for row in whole["estimates"]} == {"week"}, "weeks, which have no weekend in them"
    assert not any(change["clear"] for change in whole["changes"])
    assert {trend["direction"] for trend in whole["trends"]} == {None}
    with serving(path) as service:
        metrics = service.get("/metrics").body.decode()
    lower, upper = (
        [
            float(line.split()[-1])
            for line in metrics.splitlines()
            if line.startswith(f"reticent_change_{end}{{")
        ]
        for end in ("lower", "upper")
    )
    assert len(lower) == len(upper) == 2
    assert all(low <= 0 <= high for low, high in zip(lower, upper, strict=True)), "no alert fires"


# Version 2.3 against 2.2


def test_versions_of_a_program_are_compared_in_the_rounds_of_both(made: Made) -> None:
    path = made("versions")
    latest = dict(
        sql(
            path,
            "SELECT segment, value FROM weekly AS one WHERE metric = 'minutes' AND segment <> '{}' AND start_time ="
            " (SELECT max(start_time) FROM weekly WHERE segment = one.segment AND metric = 'minutes')",
        )
    )
    last_weeks = sql(path, "SELECT max(start_time) FROM weekly WHERE segment <> '{}' GROUP BY segment")
    assert len({*last_weeks}) == 2, "the latest figures of both versions are of other weeks"
    assert set(latest) == {'{"version":"2.2"}', '{"version":"2.3"}'}
    asked = ["compare", "--by", "version", "--baseline", "2.2"]
    differences = cli(path, *asked)["differences"]
    assert {row["segment"]["version"] for row in differences} == {"2.3"}
    for row in differences:
        true = 0.07 if row["metric"] == "crashed" else 0.0
        assert row["lower"] <= true <= row["upper"]
        assert row["clear"] == (row["metric"] == "crashed")
        assert row["baseline"]["segment"] == {"version": "2.2"}
    with serving(path) as service:
        address = "/v1/differences?plan=app&by=version&baseline=2.2"
        assert service.get(address).json["differences"] == differences
        rows = [*csv.DictReader(io.StringIO(service.get(f"{address}&format=csv").body.decode()))]
        refused = service.get("/v1/differences?plan=app&baseline=2.2")
    assert [(row["metric"], row["start_time"], float(row["lower"])) for row in rows] == [
        (row["metric"], row["start_time"], row["lower"]) for row in differences
    ]
    assert exported(path, "--table", "differences", *asked[1:], "--last", "100") == rows
    assert (refused.status, "by" in refused.json["detail"]) == (400, True)
    text = printed(path, *asked)
    assert "clear difference" in text
    assert "not the effect of a version" in text
    in_sql = sql(
        path,
        "SELECT metric, lower, upper, confidence, clear FROM differences WHERE every = 'week'"
        """ AND segment = '{"version":"2.3"}' AND baseline_segment = '{"version":"2.2"}'""",
    )
    assert {metric for metric, *_ in in_sql} == {"crashed", "minutes"}
    for metric, lower, upper, confidence, clear in in_sql:
        assert lower <= (0.07 if metric == "crashed" else 0.0) <= upper
        assert confidence == 0.95
        assert clear == (metric == "crashed")


# All of them


@pytest.mark.parametrize("name", STORES)
def test_every_way_to_a_comparison_gives_the_same_figures(made: Made, name: str, tmp_path: Path) -> None:
    """SQL, a lake's files, HTTP as JSON and CSV, the command, and its export."""
    path = made(name)
    lake = f"lake:///{tmp_path / 'lake'}"
    with closing(open_store(f"sqlite:///{path}")) as store, closing(open_store(lake)) as copy:
        copy_store(store, copy)
    compared = (
        "start_time",
        "metric",
        "segment",
        "bucket",
        "difference",
        "lower",
        "upper",
        "clear",
        "rounds",
    )
    of_lake = f"SELECT {', '.join(compared)} FROM read_parquet('{tmp_path}/lake/comparisons/*/*.parquet')"  # noqa: S608
    columns = ", ".join(compared)
    asked = {
        "changes": [("against", against) for against in ("before", "4-weeks")],
        "differences": [("baseline", "2.2")] if name == "versions" else [],
    }

    def plain(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
        return sorted(
            (
                datetime.fromisoformat(str(row["start_time"])).strftime("%Y-%m-%d"),
                str(row["metric"]),
                str(row["segment"]).replace(" ", "").replace("'", '"'),
                str(row["bucket"] if row.get("bucket") is not None else ""),
                *(f"{float(row[number]):.9g}" for number in ("difference", "lower", "upper")),
                str(row["clear"] in (1, True, "True")),
                str(row["rounds"]),
            )
            for row in rows
        )

    seen = 0
    with serving(path) as service:
        for table, chosen in asked.items():
            for parameter, value in chosen:
                where = f"every = 'week' AND against = '{value if table == 'changes' else 'tag'}'"
                if table == "differences":
                    where += """ AND baseline_segment = '{"version":"2.2"}'"""
                else:
                    where += " AND segment = '{}'"
                by = "&by=version" if table == "differences" else ""
                query = f"plan=app&every=week&last=100&{parameter}={value}{by}"
                options = [f"--{parameter}", value, *(["--by", "version"] if by else [])]
                kept = sql(path, f"SELECT {columns} FROM comparisons WHERE {where}")  # noqa: S608
                rows = plain(dict(zip(compared, row, strict=True)) for row in kept)
                in_lake = duckdb.sql(f"{of_lake} WHERE {where}").to_arrow_table().to_pylist()
                answered = service.get(f"/v1/{table}?{query}")
                text = service.get(f"/v1/{table}?{query}&format=csv").body.decode()
                told = cli(path, "compare", "--every", "week", "--last", "100", *options)["differences"]
                written = exported(
                    path, "--table", "differences", "--every", "week", "--last", "100", *options
                )
                ways = [
                    in_lake,
                    [{**row, "difference": row["value"]} for row in answered.json[table]],
                    [*csv.DictReader(io.StringIO(text))],
                    [{**row, "difference": row["value"]} for row in told],
                    written,
                ]
                for way in ways:
                    assert plain(way) == rows
                seen += len(rows)
    assert seen or name == "upgrade"


def test_what_is_compared_is_the_rounds_that_both_tags_have() -> None:
    """2.3 appears on a Thursday, when all use more: over the whole week it looks better than 2.2, and is not."""
    plan = Plan.from_toml(
        'min_reports = 20\n[plan]\nname = "app"\nversion = 1\nround = "1d"\n[metrics.minutes]\nkind = "mean"\n'
        'unit = "minute"\nmax_value = 100\nepsilon = 2.0\n[segments]\nversion = ["2.2", "2.3"]\n'
    )
    with closing(open_store("memory:")) as store:
        fleet = Fleet(store, [plan], 8_000)
        half = fleet.random.random(8_000) < 0.5
        for day in range(7):
            minutes = {"minutes": 20.0 if day < 3 else 70.0}
            by_tag: dict[str | None, Any] = {"2.2": (minutes, None if day < 3 else ~half)}
            if day >= 3:
                by_tag["2.3"] = minutes, half
            fleet.answers(plan, day, by_tag)
        results = Results(store, lambda: LATER)
        figures = {
            result.segment["version"]: result.estimate
            for result in results.estimates(Selection("app", by="version", every="week"))
        }
        assert figures["2.3"].value - figures["2.2"].value > 15  # type: ignore[union-attr]
        for baseline in ("2.2", "2.3"):  # either side may lack rounds
            (difference,) = results.differences(
                Selection("app", by="version", baseline=baseline, every="week")
            )
            assert (difference.figure.rounds, difference.baseline.rounds, difference.clear) == (4, 4, False)
            assert difference.part == "4 of 7 rounds compared"
