"""What the pages point to is there: files, headings, tests by name; and every page can be found."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
WRITTEN = ROOT / "docs" / "reference" / "python"  # by a build of the site
PAGES = sorted(
    {
        page
        for place in ("*.md", "docs/**/*.md", "*/README.md", "spec/*.md")
        for page in ROOT.glob(place)
        if page.parent != WRITTEN
    }
)
HOUSES = [path.parent.name for path in sorted(ROOT.glob("*/pyproject.toml"))]
TESTS = [path for place in (*HOUSES, "spec", "tests") for path in (ROOT / place).rglob("test_*.py")]
NAMES = {name for path in TESTS for name in re.findall(r"def (test_\w+)", path.read_text())}
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def slug(heading: str) -> str:
    """The anchor that code hosts and the site give a heading."""
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


@cache
def tokens(page: Path) -> list[Token]:
    """What a page is made of."""
    return MarkdownIt().enable("table").parse(page.read_text())


@cache
def anchors(page: Path) -> set[str]:
    """Everything on a page that a link can lead to; repeated headings get a number."""
    text = page.read_text()
    found: list[str] = []
    for opening, inside in pairwise(tokens(page)):
        if opening.type == "heading_open":
            name = slug("".join(part.content for part in inside.children or [] if part.content))
            found.append(name if name not in found else f"{name}-{found.count(name)}")
    return {*found, *re.findall(r'<a id="([\w-]+)">', text)}


def links(page: Path) -> list[str]:
    """The targets of links and pictures, but not of those in code."""
    parts = [part for token in tokens(page) for part in token.children or []]
    targets = [str(part.attrGet("href") or part.attrGet("src") or "") for part in parts]
    return [target for target in targets if target and not re.match(r"[a-z]+:", target)]


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    files = [target.partition("#")[0] for target in links(page)]
    assert [file for file in files if file and not (page.parent / file).exists()] == []


@every_page
def test_anchors_of_links_are_there(page: Path) -> None:
    for target in links(page):
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), target


def test_a_missing_anchor_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# One `two`, three\n\n## One\n\n## One\n\n<a id="e1"></a>[x](#one)\n\n```\n[y](#no)\n```\n'
    )
    assert anchors(page) == {"one-two-three", "one", "one-1", "e1"}
    assert links(page) == ["#one"]


@pytest.mark.parametrize("folder", ["how-to", "reference", "explanation", "explanation/attacks"])
def test_every_page_of_a_folder_is_in_its_index(folder: str) -> None:
    place = ROOT / "docs" / folder
    index = next(place / name for name in ("index.md", "README.md") if (place / name).exists())
    linked = {target.partition("#")[0] for target in links(index)}
    assert {page.name for page in place.glob("*.md")} - linked == {index.name}


@every_page
def test_tests_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"(?<!def )\b(test_[a-z0-9_]+)\b(?!\.py)", page.read_text()))
    assert named - NAMES - {path.stem for path in TESTS} == set()
