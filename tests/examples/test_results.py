"""The notebook about one's own results, and the dbt project, on a store of each kind."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.shared.collectors import in_thread
from tests.shared.misleading import LATER, versions
from tests.shared.postgres import PostgresServer

from reticent_collector.http import Collector
from reticent_collector.results import write_results
from reticent_collector.stores import create_key, open_store

EXAMPLES = Path(__file__).parents[2] / "examples"
CELLS = [
    "".join(cell["source"])
    for cell in json.loads((EXAMPLES / "results.ipynb").read_text())["cells"]
    if cell["cell_type"] == "code"
]


@pytest.fixture(scope="module")
def urls(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The same weeks in SQLite and in PostgreSQL."""
    made = (f"sqlite:///{tmp_path_factory.mktemp('results') / 'own.db'}", postgres.new_database())
    for url in made:
        with closing(open_store(url)) as store:
            versions(store)
            write_results(store, lambda: LATER)
    return made


def test_the_notebook_reads_sqlite_postgresql_and_http(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    store = open_store(urls[0])
    text, key = create_key("reader", "", int(time.time()))
    store.add_key(key)
    monkeypatch.setenv("RETICENT_FILE", urls[0].removeprefix("sqlite:///"))
    monkeypatch.setenv("RETICENT_POSTGRES", urls[1])
    monkeypatch.setenv("RETICENT_READER_KEY", text)
    names: dict[str, Any] = {}
    with in_thread(Collector([], store, clock=lambda: LATER, seal_every=None)) as service:
        monkeypatch.setenv("RETICENT_URL", f"http://127.0.0.1:{service.port}")
        for cell in CELLS:
            exec(cell, names)  # noqa: S102
    weeks = names["weeks"]
    assert len(weeks) == 8 * 2
    assert sorted(names["of_postgres"].value) == pytest.approx(sorted(weeks.value))
    assert sorted(names["over_http"].value) == pytest.approx(sorted(weeks.value))
    assert {*names["compared"].metric} == {"crashed", "minutes"}
    assert all(names["compared"][names["compared"].metric == "crashed"].lower > 0)
    assert {(row.metric, bool(row.clear)) for row in names["differences"].itertuples()} == {
        ("crashed", True),
        ("minutes", False),
    }
    assert "minutes  falls since" in capsys.readouterr().out


def test_both_databases_have_the_same_views(urls: tuple[str, str]) -> None:
    def alike(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return sorted((*row[:-4], *(round(float(cell), 6) for cell in row[-4:])) for row in rows)

    file, server = sqlite3.connect(urls[0].removeprefix("sqlite:///")), psycopg.connect(urls[1])
    with closing(file), closing(server):
        for view in ("changes", "differences"):
            query = f"SELECT metric, every, lower, upper, difference, clear FROM {{}}{view}"  # noqa: S608
            rows = file.execute(query.format("")).fetchall()
            others = server.execute(query.format("reticent.")).fetchall()  # type: ignore[call-overload]
            assert len(rows) > 10
            assert alike(rows) == alike(others)
        assert server.execute("SELECT * FROM reticent.quantiles").fetchall() == []  # there is no histogram


def test_the_models_of_dbt_are_queries_of_postgresql(urls: tuple[str, str]) -> None:
    with psycopg.connect(urls[1]) as connection:
        rows = {}
        for model in sorted((EXAMPLES / "dbt" / "models").glob("*.sql")):
            query = re.sub(r"\{\{ source\('reticent', '(\w+)'\) \}\}", r"reticent.\1", model.read_text())
            assert "{{" not in query
            rows[model.stem] = connection.execute(query).fetchall()  # type: ignore[call-overload]
    assert len(rows["weekly_means"]) == 8 * 2
    assert {row[1] for row in rows["clear_changes"]} == {"crashed", "minutes"}
    sources = (EXAMPLES / "dbt" / "models" / "sources.yml").read_text()
    assert {*re.findall(r"- name: (\w+)\n    description", sources)} == set(rows)
