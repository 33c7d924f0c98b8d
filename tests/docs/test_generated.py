"""Pages that are written by a program are what it would write now, and say what is there."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from reticent.device.schema import TABLES
from reticent.stores import postgres, sqlite

ROOT = Path(__file__).parents[2]
GENERATE = ROOT / "docs" / "generate"
PROGRAMS = [path.stem for path in sorted(GENERATE.glob("*.py")) if "--check" in path.read_text()]
REFERENCE = ROOT / "docs" / "reference"


def check(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program, "--check"], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "writing"])
def test_the_page_is_current(name: str) -> None:
    done = check(GENERATE / f"{name}.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_that_is_not_current_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "generate"
    folder.mkdir(parents=True)
    (folder / "writing.py").write_text((GENERATE / "writing.py").read_text())
    program = folder / "page.py"
    program.write_text("from writing import ROOT, main\nmain(lambda: {ROOT / 'page.md': 'new'})\n")
    assert check(program).returncode == 3
    assert subprocess.run([sys.executable, program], timeout=60, check=True).returncode == 0
    assert check(program).returncode == 0
    (tmp_path / "page.md").write_text("old")
    assert (done := check(program)).returncode == 3
    assert "page.md: not current; run python" in done.stderr


def shown(section: str) -> dict[str, list[str]]:
    """By table, the columns that schema.md shows below a heading."""
    text = (REFERENCE / "schema.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    parts = re.split(r"^### `(\w+)`$", text, flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^\| `(\w+)` ", rows, re.MULTILINE)
        for name, rows in zip(parts[::2], parts[1::2], strict=True)
    }


def made(statements: str) -> dict[str, list[str]]:
    """By table, the columns that SQLite has after the statements."""
    database = sqlite3.connect(":memory:")
    try:
        database.executescript(statements)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [row[1] for row in database.execute(f"PRAGMA table_info({name})")] for name in tables}
    finally:
        database.close()


def test_the_schema_has_every_column_that_a_collector_makes() -> None:
    columns = shown("A collector's database")
    assert columns.pop("reticent_schema") == ["version"]
    assert columns == made(sqlite.SCHEMA + sqlite.RECORDS.format("N"))


def test_the_schema_has_every_column_that_a_device_makes() -> None:
    assert shown("A device's state file") == made(";\n".join(TABLES.values()))


def test_every_column_that_postgresql_comments_on_is_in_the_schema() -> None:
    commented = re.findall(r"COMMENT ON COLUMN (\w+)\.(\w+)", postgres.SCHEMA)
    columns = shown("A collector's database")
    assert len(commented) > 15
    assert [(table, column) for table, column in commented if column not in columns[table]] == []


def test_no_column_is_left_without_a_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` .*\|\s*\|$", (REFERENCE / "schema.md").read_text(), re.MULTILINE)
    assert rows == ["only", "state", "kind"], "in a device's file, where type or name say it"
