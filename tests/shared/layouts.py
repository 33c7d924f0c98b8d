"""A later version of reticent, with two more layouts of the state file: to show that upgrades keep their promise."""

from __future__ import annotations

import sqlite3

from reticent.device import schema

_TABLES_OF_LAYOUT_1 = tuple(name for name in schema.TABLES if name not in ("presence", "limits"))
_SIZE = "size INTEGER NOT NULL DEFAULT 0,    -- bytes as sent"
_REPORTS = schema.TABLES["reports"].replace("closes ", f"{_SIZE}\n            closes ")


def _measure_reports(connection: sqlite3.Connection) -> None:
    """Layout 3: the table of reports is made anew, with one more column."""
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(reports)")]
    names = ", ".join(columns)
    connection.execute(_REPORTS.replace("CREATE TABLE reports", "CREATE TABLE measured"))
    connection.execute(f"INSERT INTO measured ({names}) SELECT {names} FROM reports")  # noqa: S608
    connection.execute("UPDATE measured SET size = length(bits)")
    connection.execute("DROP TABLE reports")
    connection.execute("ALTER TABLE measured RENAME TO reports")


def _explain_pauses(connection: sqlite3.Connection) -> None:
    """Layout 4: a column and a table more. It needs layout 3."""
    connection.execute("ALTER TABLE pauses ADD COLUMN words TEXT")
    connection.execute("CREATE TABLE sizes (round INTEGER PRIMARY KEY, size INTEGER NOT NULL)")
    connection.execute("INSERT INTO sizes SELECT round, size FROM reports")


STEPS = (_measure_reports, _explain_pauses)
TABLES = {
    **schema.TABLES,
    "reports": _REPORTS,
    "sizes": "CREATE TABLE sizes (\n round INTEGER PRIMARY KEY,\n size INTEGER NOT NULL\n)",
}


def content(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, in the columns of layout 1; the sum of losses may be counted in another way."""
    rows = {}
    for table in _TABLES_OF_LAYOUT_1:
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        names = ", ".join(name for name in columns if name not in ("size", "words", "held", "checksum"))
        rows[table] = connection.execute(f"SELECT {names} FROM {table} ORDER BY 1, 2").fetchall()  # noqa: S608
    return rows
