"""
Stores of every version from 0.1.0 on are opened, and upgraded in place: sealed results, keys and plans survive.

`collector/tests/stores/upgrades` has a folder for each schema that ever was; `make_stores.py` made it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from collector.tests.stores.upgrades.make_stores import (
    LATER,
    OPEN,
    PLANS,
    PRUNED,
    SEALED,
    SIZES,
    content_of,
    packed,
    reports_on,
)
from tests.shared.postgres import PostgresServer

from reticent.errors import StoreError
from reticent_collector.counts import count_reports
from reticent_collector.results import problems, write_results
from reticent_collector.stores import Appended, CountsByTags, open_store
from reticent_collector.stores import migrations as steps
from reticent_collector.stores.sql_schema import OLDEST_SCHEMA, SCHEMA_VERSION
from reticent_collector.stores.sql_tables import SqlTables
from reticent_collector.stores.transactions import Transaction

MADE = Path(__file__).parent / "upgrades"
FOLDERS = sorted(folder for folder in MADE.iterdir() if folder.name.startswith("schema-"))


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def made(request: pytest.FixtureRequest) -> Path:
    """The stores of one version."""
    folder: Path = request.param
    return folder


@pytest.fixture(params=["sqlite", "postgres", "lake"])
def url(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> str:
    """A copy of one of them, that no code of this version has seen."""
    if request.param == "sqlite":
        shutil.copyfile(made / "store.db", tmp_path / "store.db")
        return f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "lake":
        shutil.copytree(made / "lake", tmp_path / "lake")
        return f"lake:///{tmp_path / 'lake'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    address = server.new_database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute((made / "store.sql").read_text())  # type: ignore[call-overload]
    return address


def open_counts(new: int = 0) -> CountsByTags:
    """What the open round counts, with so many reports that came after the upgrade."""
    plan = PLANS[OPEN.version - 1]
    reports = [*reports_on(OPEN, SIZES[OPEN]), *reports_on(OPEN, 50), *reports_on(OPEN, 77)[:new]]
    return {tags: counts for (_, tags), counts in count_reports(reports, plan).items()}


def expected_of(made: Path) -> dict[str, Any]:
    """What the stores of a version held when they were made."""
    content: dict[str, Any] = json.loads((made / "expected.json").read_text())
    return content


def plain(content: dict[str, Any]) -> dict[str, Any]:
    """Content as it is read from JSON."""
    read: dict[str, Any] = json.loads(json.dumps(content))
    return read


def test_every_schema_has_its_stores() -> None:
    assert [int(folder.name.removeprefix("schema-")) for folder in FOLDERS] == [
        *range(OLDEST_SCHEMA, SCHEMA_VERSION + 1)
    ]


def test_what_a_store_held_survives(made: Path, url: str) -> None:
    expected = expected_of(made)
    for opened in ("once", "and when it is opened again"):
        content = plain(content_of(url))
        del content["results"]
        assert content == {name: value for name, value in expected.items() if name != "results"}, opened


def almost(rows: object) -> object:
    """The rows with numbers of eleven digits: the last ones differ between versions of NumPy."""
    return json.loads(json.dumps(rows), parse_float=lambda number: f"{float(number):.11g}")


def test_figures_are_those_of_the_counts_again(made: Path, url: str) -> None:
    """Up to schema 5 each version of a plan had rows of its own: its rounds have the same ones now."""
    with closing(open_store(url)) as store:
        write_results(store, lambda: LATER, rebuild=url.startswith("lake"))
        assert list(problems(store, lambda: LATER)) == []
    rounds = [period for period in plain(content_of(url))["results"] if period[2] == "round"]
    expected = [period for period in expected_of(made)["results"] if period[2] == "round"]
    assert almost(rounds) == almost(expected)
    assert len(rounds) == len(SEALED)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_figures_of_a_plan_with_one_version_stay(made: Path, url: str) -> None:
    """They are not computed again: a value that was changed by hand before the upgrade is still there."""
    schema = int(made.name.removeprefix("schema-"))
    if schema > 5:
        return
    statements = [
        "DELETE FROM plans WHERE version = 2",
        "UPDATE results SET value = 77 WHERE metric = 'minutes' AND version = 1",
        "DELETE FROM counts",
        "DELETE FROM steps",
        "DELETE FROM rounds",
    ]
    for statement in statements:
        if url.startswith("sqlite"):
            _execute_sqlite(url, statement)
        else:
            _execute_postgres(url, f"SET search_path TO reticent; {statement}")
    with closing(open_store(url)) as store:
        table = store.table
        assert table is not None
        (day,) = (period for period in table.written("upgrades") if period[1:3] == (1, "day"))
        rows = [row for row in table.results(day) if row["metric"] == "minutes"]
    assert {row["value"] for row in rows} == {77}
    assert {row["versions"] for row in rows} == {"1"}
    missing = {row["rounds_missing"] for row in rows if row["segment"] == "{}"}
    assert missing == ({None} if schema == 3 else {24 - 2})


def test_rounds_go_on(url: str) -> None:
    """The open round is counted with what it held, takes more, and is sealed; sealed ones stay sealed."""
    with closing(open_store(url)) as store:
        late = [*SEALED, PRUNED]
        assert [store.append(packed(key, reports_on(key, 3)))[key] for key in late] == [Appended(late=3)] * 4
        store.append(packed(OPEN, reports_on(OPEN, 77)))
        store.append(packed(OPEN, reports_on(OPEN, SIZES[OPEN])[:9]))
        assert store.seal(OPEN)
        assert store.counts(OPEN) == open_counts(77)
        assert store.verify() == []


def test_an_open_round_is_sealed_as_it_was(url: str) -> None:
    with closing(open_store(url)) as store:
        assert store.seal(OPEN)
        assert store.counts(OPEN) == open_counts()


# The machinery, with a step that does not exist yet


def _rename_and_add(database: SqlTables, transaction: Transaction) -> None:
    """A step as later versions may have them: in several statements, of which none alone is a whole."""
    transaction.execute("ALTER TABLE plans RENAME COLUMN text TO plan_text")
    transaction.execute("CREATE TABLE remarks (plan TEXT NOT NULL, note TEXT NOT NULL)")
    for name, version in transaction.execute("SELECT name, version FROM plans ORDER BY 1, 2"):
        transaction.execute("INSERT INTO remarks VALUES (?, ?)", name, f"version {version}")
    transaction.execute("ALTER TABLE plans RENAME COLUMN plan_text TO text")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> int:
    """A version of reticent with one more step."""
    for module in ("migrations", "sqlite", "postgres"):
        monkeypatch.setattr(f"reticent_collector.stores.{module}.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    monkeypatch.setitem(steps.MIGRATIONS, SCHEMA_VERSION, _rename_and_add)
    return SCHEMA_VERSION + 1


def schema_of(url: str) -> tuple[int, list[Any]]:
    """The number of a store's schema, and the notes that the step makes."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            ((version,),) = file.execute("PRAGMA user_version")
            tables = file.execute("SELECT name FROM sqlite_master WHERE name = 'remarks'").fetchall()
            return version, file.execute("SELECT note FROM remarks").fetchall() if tables else []
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path TO reticent")
        ((version,),) = connection.execute("SELECT version FROM schema_version").fetchall()
        ((table,),) = connection.execute("SELECT to_regclass('remarks')").fetchall()
        return version, connection.execute("SELECT note FROM remarks").fetchall() if table else []


DATABASES = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)


@DATABASES
def test_an_older_store_is_upgraded_when_it_is_opened(made: Path, url: str, later: int) -> None:
    with pytest.raises(
        StoreError, match=r"older version of reticent and is not upgraded yet.*\n.*reticent serve"
    ):
        open_store(url, readonly=True)
    assert schema_of(url)[1] == []
    open_store(url).close()
    assert schema_of(url) == (later, [("version 1",), ("version 2",)])
    open_store(url, readonly=True).close()
    assert plain(content_of(url))["sealed"] == expected_of(made)["sealed"]


@DATABASES
def test_a_process_that_is_killed_leaves_the_old_store_or_the_new_one(
    made: Path, url: str, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of its own ends before each statement of the upgrade, and right after the last."""
    before = schema_of(url)
    ends = 0
    while _killed_before(ends, url):
        assert schema_of(url) == before
        ends += 1
    assert ends >= 6, "the step has six statements"
    assert schema_of(url) == (later, [("version 1",), ("version 2",)])
    assert plain(content_of(url))["sealed"] == expected_of(made)["sealed"]


def _killed_before(statement: int, url: str) -> bool:
    """Open a store in a process that ends before its n-th statement of a step; False when there are fewer."""
    child = os.fork()
    if child == 0:
        try:
            step = steps.MIGRATIONS[SCHEMA_VERSION]
            left = [statement]

            def counted(database: SqlTables, transaction: Transaction) -> None:
                def execute(*arguments: Any) -> list[Any]:
                    if left[0] == 0:
                        os._exit(9)
                    left[0] -= 1
                    return transaction.execute(*arguments)

                step(database, Transaction(execute))
                if left[0] == 0:  # after the last one, before the commit
                    os._exit(9)

            steps.MIGRATIONS[SCHEMA_VERSION] = counted
            open_store(url).close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9)
    return code == 9


@DATABASES
def test_a_step_that_fails_changes_nothing(url: str, later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database: SqlTables, transaction: Transaction) -> None:
        _rename_and_add(database, transaction)
        transaction.execute("SELECT * FROM no_such_table")

    before = schema_of(url)
    monkeypatch.setitem(steps.MIGRATIONS, SCHEMA_VERSION, fail)
    with pytest.raises(StoreError, match="no_such_table"):
        open_store(url)
    assert schema_of(url) == before


@pytest.mark.parametrize("readonly", [False, True])
def test_a_store_of_a_newer_version_is_left_as_it_is(url: str, readonly: bool, tmp_path: Path) -> None:
    set_newer: dict[str, Callable[[], None]] = {
        "sqlite": lambda: _execute_sqlite(url, "PRAGMA user_version = 99"),
        "postgresql": lambda: _execute_postgres(url, "UPDATE reticent.schema_version SET version = 99"),
        "lake": lambda: _replace(tmp_path / "lake" / "lake.json", '"format": 1', '"format": 99'),
    }
    set_newer[url.partition(":")[0]]()
    before = _bytes_below(tmp_path)
    with pytest.raises(StoreError, match="was written by a newer version of reticent"):
        open_store(url, readonly=readonly)
    assert _bytes_below(tmp_path) == before


def _execute_sqlite(url: str, statement: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        file.execute(statement)
        file.commit()


def _execute_postgres(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[call-overload]


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _bytes_below(folder: Path) -> dict[str, bytes]:
    """Every file but SQLite's log and its index, which are empty when nobody wrote."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): path.read_bytes() for path in files if not path.name.endswith(("-wal", "-shm"))}
