"""What the pages point to is there: files, functions and tests by name."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tacit.cli.root import tacit

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/vectors/*.md")])
CODE = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
TESTS = {
    path.relative_to(ROOT / "tests").as_posix(): set(re.findall(r"def (test_\w+)", path.read_text()))
    for path in (ROOT / "tests").rglob("test_*.py")
}
NAMES = set().union(*TESTS.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tests_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"\b(test_[a-z0-9_]+)\b(?!\.py)", page.read_text()))
    assert named - NAMES - {path.rsplit("/", 1)[-1].removesuffix(".py") for path in TESTS} == set()


def test_each_row_of_the_map_names_tests_of_the_files_it_names() -> None:
    text = (ROOT / "docs" / "explanation" / "paper-map.md").read_text()
    for line in text.splitlines():
        named = set(re.findall(r"`(test_[a-z0-9_]+)`", line))
        files = set(re.findall(r"`([a-z_/]+/test_[a-z0-9_]+\.py)`", line))
        assert files <= TESTS.keys(), line
        assert named <= set().union(*(TESTS[file] for file in files), set()), line


def test_each_row_of_the_map_names_code_that_exists() -> None:
    text = (ROOT / "docs" / "explanation" / "paper-map.md").read_text()
    for line in [line for line in text.splitlines() if line.startswith("|")]:
        for file in re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py|/))`", line):
            if "test_" not in file:
                assert (ROOT / "src" / "tacit" / file).exists(), line
        code_column = line.split("|")[2] if line.count("|") > 3 else ""
        for name in re.findall(r"`([A-Za-z_]+(?:\.[a-z_]+)?)`", code_column):
            short = name.rsplit(".", 1)[-1]
            assert re.search(rf"(def|class) {short}\b", CODE), line


STATEMENTS = [
    *(f"Theorem {number}" for number in range(1, 8)),
    *(f"Lemma {number}" for number in range(1, 5)),
    *(f"Definition {number}" for number in range(1, 3)),
]


@pytest.mark.parametrize("item", STATEMENTS)
def test_the_map_has_every_numbered_statement(item: str) -> None:
    assert re.search(rf"\| {item}\b", (ROOT / "docs" / "explanation" / "paper-map.md").read_text())


def test_the_map_has_every_equation() -> None:
    text = (ROOT / "docs" / "explanation" / "paper-map.md").read_text()
    found: set[int] = set()
    for first, joiner, last in re.findall(r"Eqs?\. (\d+)(?: (to|and) (\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1)) if joiner else {int(first)}
    assert found == set(range(1, 24))


def test_the_errata_are_all_there() -> None:
    text = (ROOT / "docs" / "explanation" / "errata.md").read_text()
    assert {int(number) for number in re.findall(r'<a id="e(\d+)">', text)} == set(range(1, 27))


@pytest.mark.parametrize("name", ["device", "estimates"])
def test_sessions_in_the_pages_run_as_printed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = doctest.testfile(str(ROOT / "docs" / "reference" / f"{name}.md"), module_relative=False)
    assert done.attempted > 0
    assert done.failed == 0


def test_the_readme_shows_what_plan_check_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = "tacit plan check examples/plan.toml --devices 100000"
    printed = CliRunner().invoke(tacit, command.split()[1:]).output
    readme = (ROOT / "README.md").read_text().split(f"    $ {command}\n", 1)[1]
    shown = [line.removeprefix("    ").rstrip() for line in readme.split("\n## ", 1)[0].splitlines()]
    expected = [line.rstrip() for line in printed.splitlines()]
    assert [line for line in shown if line] == [line for line in expected if line]
