"""The map of the paper is complete, and names code and tests that exist; so are the errata."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "explanation" / "paper-map.md"
CODE = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
TESTS = {
    path.relative_to(ROOT / "tests").as_posix(): set(re.findall(r"def (test_\w+)", path.read_text()))
    for path in (ROOT / "tests").rglob("test_*.py")
}
STATEMENTS = [
    *(f"Theorem {number}" for number in range(1, 8)),
    *(f"Lemma {number}" for number in range(1, 5)),
    *(f"Definition {number}" for number in range(1, 3)),
]


def test_each_row_names_tests_of_the_files_it_names() -> None:
    for line in MAP.read_text().splitlines():
        named = set(re.findall(r"`(test_[a-z0-9_]+)`", line))
        files = set(re.findall(r"`([a-z_/]+/test_[a-z0-9_]+\.py)`", line))
        assert files <= TESTS.keys(), line
        assert named <= set().union(*(TESTS[file] for file in files), set()), line


def test_each_row_names_code_that_exists() -> None:
    for line in [line for line in MAP.read_text().splitlines() if line.startswith("|")]:
        for file in re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py|/))`", line):
            if "test_" not in file:
                folder = ROOT if file.startswith("paper/") else ROOT / "src" / "reticent"
                assert (folder / file).exists(), line
        code_column = line.split("|")[2] if line.count("|") > 3 else ""
        for name in re.findall(r"`([A-Za-z_]+(?:\.[a-z_]+)?)`", code_column):
            short = name.rsplit(".", 1)[-1]
            assert re.search(rf"(def|class) {short}\b", CODE), line


@pytest.mark.parametrize("item", STATEMENTS)
def test_the_map_has_every_numbered_statement(item: str) -> None:
    assert re.search(rf"\| {item}\b", MAP.read_text())


def test_the_map_has_every_equation() -> None:
    found: set[int] = set()
    for first, joiner, last in re.findall(r"Eqs?\. (\d+)(?: (to|and) (\d+))?", MAP.read_text()):
        found |= set(range(int(first), int(last or first) + 1)) if joiner else {int(first)}
    assert found == set(range(1, 24))


def test_the_errata_are_all_there() -> None:
    text = (ROOT / "docs" / "explanation" / "errata.md").read_text()
    assert {int(number) for number in re.findall(r'<a id="e(\d+)">', text)} == set(range(1, 27))
