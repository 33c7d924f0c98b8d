"""The map of the paper and its errata are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "paper" / "README.md"
STATEMENTS = [
    *(f"Theorem {number}" for number in range(1, 8)),
    *(f"Lemma {number}" for number in range(1, 5)),
    *(f"Definition {number}" for number in range(1, 3)),
]


@pytest.mark.parametrize("item", STATEMENTS)
def test_the_map_has_every_numbered_statement(item: str) -> None:
    assert re.search(rf"\| {item}\b", MAP.read_text())


def test_the_files_of_the_map_are_there() -> None:
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]+) \|$", MAP.read_text(), re.MULTILINE)
    code = {name for column, _ in rows for name in re.findall(r"`([\w/]+\.py)`", column)}
    tests = {name for _, column in rows for name in re.findall(r"`([\w/]+\.py)`", column)}
    assert len(code) > 10
    assert {name for name in code if not list(ROOT.glob(f"*/src/{name}"))} == set()
    assert {name for name in tests if not list(ROOT.glob(f"*/tests/**/{name}"))} == set()


def test_the_map_has_every_equation() -> None:
    equations: set[int] = set()
    for first, joiner, last in re.findall(r"Eqs?\. (\d+)(?: (to|and) (\d+))?", MAP.read_text()):
        equations |= set(range(int(first), int(last or first) + 1)) if joiner else {int(first)}
    assert equations == set(range(1, 23))


def test_the_errata_are_all_there() -> None:
    text = (ROOT / "docs" / "explanation" / "errata.md").read_text()
    assert {int(number) for number in re.findall(r'<a id="e(\d+)">', text)} == set(range(1, 31))
