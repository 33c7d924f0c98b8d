"""The numbers about the code count what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import street

DEVICE = {
    "__init__.py": "from reticent.device.rows import Row\n__all__ = ['Row']\n",
    "device/__init__.py": "",
    "device/schema.py": "TABLES = 'CREATE TABLE totals (value TEXT)'\n",
    "device/rows.py": "class Row:\n    '''SELECT nothing FROM totals: no statement.'''\n    class Inner: ...\n",
    "device/totals.py": "def read(file, name):\n    a, b = 1, 2\n    file.run(f'DELETE FROM totals WHERE {name}')\n",
}
COLLECTOR = {
    "__init__.py": "from reticent_collector.tables import *\n",
    "tables.py": "from reticent_collector.other import draw\n__all__ = ['draw']\nclass Row: ...\nclass Cell: ...\n",
    "other.py": "__all__ = ['draw']\ndef draw(): ...\nclass Cell: ...\n",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path / "device/src/reticent", DEVICE)
    write(tmp_path / "collector/src/reticent_collector", COLLECTOR)
    write(tmp_path / "device/tests", {"test_a.py": "file.run('SELECT value FROM totals')\n"})
    write(tmp_path / "collector/tests", {"test_b.py": "store.run('SELECT value FROM totals')\n"})
    return tmp_path


def test_each_number_is_counted(tree: Path) -> None:
    found = street.measure(tree)
    assert (found.files, found.modules) == (5, 8)
    assert found.bytes == sum(len(text) for text in DEVICE.values())
    assert (found.classes, found.exported) == (4, 3)
    assert (found.tuple_assignments, found.sql_in_tests) == (1, 1)
    assert found.sql_modules == ["device/src/reticent/device/totals.py"]


def test_a_name_that_is_handed_on_has_one_meaning_and_two_classes_have_two(tree: Path) -> None:
    found = street.measure(tree)
    cells = ["reticent_collector.other.Cell", "reticent_collector.tables.Cell"]
    assert found.two_meanings_in_a_house == {"collector: Cell": cells}
    rows = ["reticent.device.rows.Row", "reticent_collector.tables.Row"]
    assert found.two_meanings == {"Cell": cells, "Row": rows}


def test_a_tree_with_one_package_is_one_house(tmp_path: Path) -> None:
    write(tmp_path / "src/reticent", DEVICE)
    assert list(street.houses(tmp_path)) == ["reticent"]
    assert street.measure(tmp_path).files == len(DEVICE)


def test_functions_are_sorted_by_their_branches(tree: Path) -> None:
    long = "def {}(a):\n" + "    if a: ...\n" * 14
    longer = "async def {}(a):\n" + "    if a: ...\n" * 15
    short = "def {}(a):\n" + "    if a: ...\n" * 13
    code = long.format("long") + longer.format("longer") + short.format("short")
    write(tree / "device/src/reticent", {"long.py": code})
    path = "device/src/reticent/long.py"
    assert [(each.branches, each.where) for each in street.measure(tree).tangled] == [
        (16, f"{path}:16 longer"),
        (15, f"{path}:1 long"),
    ]


def test_the_table_has_a_column_for_each_version(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = street.measure(tree)
    monkeypatch.setattr(street, "ROOT", tree)
    lines = street.table({"before": found, "now": found}).splitlines()
    assert lines[0] == "| | before | now |"
    assert "| classes / exported names | 4 / 3 | 4 / 3 |" in lines
    street.main(["--json"])
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"now"}
    assert printed["now"]["sql_modules"] == found.sql_modules
