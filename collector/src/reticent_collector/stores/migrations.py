"""
Numbered steps from older tables to those of this version.

A store has the number of its schema: `PRAGMA user_version` in SQLite, the table `schema_version` in PostgreSQL.
Opening an older store takes all steps that are missing in one transaction, so it is the old store or the new one,
whole, at whatever moment the process ends. A store with a higher number than this version knows is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reticent.errors import StoreError
from reticent_collector.stores.sql_schema import OLDEST_SCHEMA, SCHEMA_VERSION
from reticent_collector.stores.transactions import Transaction

if TYPE_CHECKING:
    from reticent_collector.stores.sql_tables import SqlTables

Migration = Callable[["SqlTables", Transaction], None]


def _add_columns_of_figures(database: SqlTables, transaction: Transaction) -> None:
    """
    Columns of `results` about whole figures: rounds, median, cohorts.

    They are empty in the rows that exist, and readers compute such figures from the counts, as they did before;
    `reticent store results --rebuild` fills them.
    """
    views = {
        "daily": "SELECT * FROM results WHERE every = 'day'",
        "weekly": "SELECT * FROM results WHERE every = 'week'",
        "latest": "SELECT results.* FROM results JOIN (SELECT plan, metric, every, max(start_time) AS start_time"
        " FROM results GROUP BY 1, 2, 3) AS newest USING (plan, metric, every, start_time)",
    }
    for view in views:  # in PostgreSQL a view has the columns that were there when it was made
        transaction.execute(f"DROP VIEW {view}")
    transaction.execute("ALTER TABLE results ADD COLUMN rounds BIGINT")
    for name in ("median_lower", "median_upper", "cohort_p_value"):
        transaction.execute(f"ALTER TABLE results ADD COLUMN {name} DOUBLE PRECISION")
    for view, query in views.items():
        transaction.execute(f"CREATE VIEW {view} AS {query}")


def _add_log_of_administrators(database: SqlTables, transaction: Transaction) -> None:
    """A table `admin_log`, empty: what was done before is not known."""
    transaction.execute(
        "CREATE TABLE admin_log (id TEXT PRIMARY KEY, at TIMESTAMPTZ NOT NULL, user_name TEXT NOT NULL,"
        " action TEXT NOT NULL, about TEXT NOT NULL)"
    )


def _add_counts_over_versions(database: SqlTables, transaction: Transaction) -> None:
    """
    Figures are made of all versions of a plan: columns `rounds_missing` and `versions` of `results`.

    The rows that exist are of one version each. Those of plans with several versions are removed, and written again
    from the counts after the next seal, or by `reticent store results`.
    """
    views = {
        "daily": "SELECT * FROM results WHERE every = 'day'",
        "weekly": "SELECT * FROM results WHERE every = 'week'",
        "latest": "SELECT results.* FROM results JOIN (SELECT plan, metric, every, max(start_time) AS start_time"
        " FROM results GROUP BY 1, 2, 3) AS newest USING (plan, metric, every, start_time)",
    }
    for view in views:
        transaction.execute(f"DROP VIEW {view}")
    for table in ("periods", "results"):
        several = "SELECT name FROM plans GROUP BY name HAVING count(*) > 1"
        transaction.execute(f"DELETE FROM {table} WHERE plan IN ({several})")  # noqa: S608
    transaction.execute("ALTER TABLE results ADD COLUMN rounds_missing BIGINT")
    transaction.execute("ALTER TABLE results ADD COLUMN versions TEXT")
    transaction.execute(
        "UPDATE results SET rounds_missing = last_round - round + 1 - rounds, versions = CAST(version AS TEXT)"
    )
    transaction.execute("DROP INDEX results_key")
    transaction.execute(
        "CREATE UNIQUE INDEX results_key ON results"
        " (plan, metric, every, start_time, version, segment, versions, COALESCE(bucket, -1))"
    )
    for view, query in views.items():
        transaction.execute(f"CREATE VIEW {view} AS {query}")


def _add_quantiles_and_notes(database: SqlTables, transaction: Transaction) -> None:
    """
    Columns of `results` for more quantiles, a view of them, a table `notes`, plans of a key.

    The quantiles are empty in the rows that exist; `reticent store results --rebuild` fills them.
    """
    views = {
        "daily": "SELECT * FROM results WHERE every = 'day'",
        "weekly": "SELECT * FROM results WHERE every = 'week'",
        "latest": "SELECT results.* FROM results JOIN (SELECT plan, metric, every, max(start_time) AS start_time"
        " FROM results GROUP BY 1, 2, 3) AS newest USING (plan, metric, every, start_time)",
    }
    for view in views:
        transaction.execute(f"DROP VIEW {view}")
    for percent in (10, 25, 75, 90, 99):
        for end in ("lower", "upper"):
            transaction.execute(f"ALTER TABLE results ADD COLUMN p{percent}_{end} DOUBLE PRECISION")
    for view, query in {**views, "quantiles": database.views["quantiles"]}.items():
        transaction.execute(f"CREATE VIEW {view} AS {query}")
    transaction.execute(
        "CREATE TABLE notes (id TEXT PRIMARY KEY, at TIMESTAMPTZ NOT NULL, plan TEXT NOT NULL, text TEXT NOT NULL)"
    )
    transaction.execute("ALTER TABLE keys ADD COLUMN plans TEXT")


def _add_deleted_metrics(database: SqlTables, transaction: Transaction) -> None:
    """A table `deleted`, empty: no metric could be deleted before."""
    transaction.execute(
        "CREATE TABLE deleted (plan TEXT NOT NULL, version BIGINT NOT NULL, metric TEXT NOT NULL,"
        " PRIMARY KEY (plan, version, metric))"
    )


def _add_comparisons(database: SqlTables, transaction: Transaction) -> None:
    """
    A table `comparisons`, of which `changes` and `differences` are views: they were computed from `results`.

    It is empty for the periods that are written; `reticent store results --rebuild` fills it.
    """
    for view in ("changes", "differences"):
        transaction.execute(f"DROP VIEW IF EXISTS {view}")
    transaction.execute(
        "CREATE TABLE comparisons (plan TEXT NOT NULL, version BIGINT NOT NULL, metric TEXT NOT NULL,"
        " kind TEXT NOT NULL, unit TEXT NOT NULL, every TEXT NOT NULL, start_time TIMESTAMPTZ NOT NULL,"
        " end_time TIMESTAMPTZ NOT NULL, segment JSONB NOT NULL, against TEXT NOT NULL,"
        " baseline_segment JSONB NOT NULL, baseline_start_time TIMESTAMPTZ NOT NULL,"
        " baseline_end_time TIMESTAMPTZ NOT NULL, bucket BIGINT, bucket_low DOUBLE PRECISION,"
        " bucket_high DOUBLE PRECISION, label TEXT, figure DOUBLE PRECISION, baseline DOUBLE PRECISION,"
        " difference DOUBLE PRECISION, lower DOUBLE PRECISION NOT NULL, upper DOUBLE PRECISION NOT NULL,"
        " half_width DOUBLE PRECISION NOT NULL, confidence DOUBLE PRECISION NOT NULL, clear BOOLEAN NOT NULL,"
        " reports BIGINT NOT NULL, rule TEXT NOT NULL, rounds BIGINT NOT NULL, rounds_missing BIGINT NOT NULL,"
        " versions TEXT NOT NULL)"
    )
    transaction.execute(
        "CREATE UNIQUE INDEX comparisons_key ON comparisons (plan, metric, every, start_time, version, segment,"
        " versions, against, baseline_segment, COALESCE(bucket, -1))"
    )
    for view in ("changes", "differences"):
        transaction.execute(f"CREATE VIEW {view} AS {database.views[view]}")


MIGRATIONS: dict[int, Migration] = {
    3: _add_columns_of_figures,
    4: _add_log_of_administrators,
    5: _add_counts_over_versions,
    6: _add_quantiles_and_notes,
    7: _add_deleted_metrics,
    8: _add_comparisons,
}
"""By the schema number that a step starts from; it ends at the next one. A step never changes once it is released."""


def check_version(url: str, version: int, *, readonly: bool) -> None:
    """Raise `StoreError` when a store cannot be opened: it is newer, too old, or would have to be upgraded."""
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{url}: was written by a newer version of reticent: its schema is number {version}, and this one"
            f" knows {SCHEMA_VERSION}; it was not changed.\n  Hint: use that version, or give a new store"
        )
    if version < OLDEST_SCHEMA:
        raise StoreError(
            f"{url}: was written by a version of reticent before 0.1.0: its schema is number {version}, and"
            f" {OLDEST_SCHEMA} is the oldest that can be upgraded; it was not changed.\n"
            "  Hint: keep its figures with reticent export of that version, then give a new store"
        )
    if version < SCHEMA_VERSION and readonly:
        raise StoreError(
            f"{url}: was written by an older version of reticent and is not upgraded yet: its schema is number"
            f" {version}, expected {SCHEMA_VERSION}.\n"
            "  Hint: reticent serve and reticent keys create upgrade it in place; make a backup first"
        )


def upgrade(database: SqlTables, transaction: Transaction, version: int) -> None:
    """Take the steps from a schema number to the current one, in a transaction that takes all of them."""
    for number in range(version, SCHEMA_VERSION):
        MIGRATIONS[number](database, transaction)
        database.set_schema_number(transaction, number + 1)
