"""
Write docs/reference/schema.md: every table and column that reticent keeps, from the statements that make them.

    python docs/generate/schema.py            write it
    python docs/generate/schema.py --check    say whether it is current, and exit with 3 if not
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from writing import ROOT, main, table

from reticent.device.schema import LAYOUT, TABLES
from reticent.plan import Plan
from reticent.stores import sql_schema
from reticent.stores.lake import FORMAT, Columns

HEAD = """\
# Tables and columns

Everything that reticent writes to a disk, from the statements that make it. What becomes of it when is in
[data-model](../explanation/data-model.md). No table of a collector has a device, an address or the time at
which a report came.
"""

MEANINGS = {
    "id_high": "first 8 bytes of the report's id, big-endian, with a sign",
    "id_low": "last 8 bytes of it",
    "cohort": "the cohort, if the plan uses one",
    "segment_os": "place of the tag among those of the segment `os`; `other` is the last",
    "bits_0": "7 bytes of the bits as on the wire; the last column may have fewer",
}  # fmt: skip


class Table(NamedTuple):
    """A table of a database: its name, what it is for, and per column the type and what it holds."""

    name: str
    about: str
    types: dict[str, str]
    holds: dict[str, str]


def read(statements: Iterable[str]) -> dict[str, Table]:
    """The tables that statements make; what a column holds stands on its line."""
    found: dict[str, Table] = {}
    for statement in statements:
        if made := re.match(r"\s*CREATE TABLE (\S+) \((.*)\)", statement, re.DOTALL):
            name, inside = made[1].replace("{number}", "N"), made[2]
            about = re.match(r" *-- ([^\n]*)", inside)
            holds = dict(re.findall(r"^ *([a-z_]+) [^\n]*?-- ([^\n]*)$", inside, re.MULTILINE))
            found[name] = Table(name, about[1] if about else "", columns(inside), holds)
    return found


def columns(inside: str) -> dict[str, str]:
    """The columns between the brackets, with their types; what begins in capitals is a rule, no column."""
    bare = re.sub(r"--[^\n]*", "", inside)
    parts = (part.split() for part in re.split(r",(?![^(]*\))", bare))
    return {part[0]: " ".join(part[1:]) for part in parts if part[0].islower()}


def statements(text: str) -> list[str]:
    """A script, statement by statement."""
    return re.split(r";[ ]*\n", text)


def section(name: str, databases: dict[str, Table]) -> str:
    """One table, as each database has it."""
    first = next(iter(databases.values()))
    holds = {column: text for each in reversed(databases.values()) for column, text in each.holds.items()}
    about = f"{first.about[0].upper()}{first.about[1:]}.\n\n" if first.about else ""
    rows = (
        (f"`{column}`", *(each.types[column] for each in databases.values()), holds.get(column, ""))
        for column in first.types
    )
    return f"### `{name}`\n\n{about}" + table(("column", *databases, "holds"), rows)


def stores() -> str:
    """The tables of a collector, in SQLite and PostgreSQL side by side."""
    embedded = read(statements(sql_schema.SQLITE_TABLES + sql_schema.SQLITE_RECORDS))
    shared = read(statements(sql_schema.POSTGRES_TABLES + sql_schema.POSTGRES_RECORDS))
    both = {
        name: {"SQLite": embedded[name], "PostgreSQL": each} if name in embedded else {"PostgreSQL": each}
        for name, each in shared.items()
    }
    return "\n".join(section(name, databases) for name, databases in both.items())


def frame(schema: pa.Schema) -> str:
    """The columns of a Parquet file."""
    rows = ((f"`{field.name}`", str(field.type), MEANINGS[field.name]) for field in schema)
    return table(("column", "type", "holds"), rows)


def page() -> str:
    """The whole page."""
    plan = Plan.load(ROOT / "examples" / "plan.toml")
    return "\n".join(
        [
            HEAD,
            "## A collector's database\n",
            f"Version {sql_schema.SCHEMA_VERSION}; a store of another version is refused. In PostgreSQL it is in "
            "schema `reticent`. The views `daily`, `weekly` and `latest` have the columns of `results`.\n",
            stores(),
            "## A lake\n",
            f"Format {FORMAT}, a row per report, here for [examples/plan.toml](../../examples/plan.toml); a "
            "plan with other segments or more bits has other columns. Paths and rules: [lake](lake.md).\n",
            frame(Columns(plan).schema),
            "## A device's state file\n",
            f"Layout {LAYOUT}, one SQLite file per device and plan, readable by its owner alone.\n",
            "\n".join(section(name, {"SQLite": each}) for name, each in read(TABLES.values()).items()),
        ]
    )


def pages() -> dict[Path, str]:
    """The page and its text."""
    return {ROOT / "docs" / "reference" / "schema.md": page()}


if __name__ == "__main__":
    main(pages)
