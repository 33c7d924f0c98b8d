"""
The pages that show how to do something are done, block by block, in a new folder, and print what they say.

`pagetest/page.py` has the convention. One page alone: `pytest tests/docs -k how-to/design`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pagetest.page import Block, PageError, read_page
from pagetest.running import run_page

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "docs/tutorial*.md", "docs/start/*.md", "docs/how-to/*.md", "spec/README.md")
SHOWN = [page for place in PLACES for page in sorted(ROOT.glob(place))]


def blocks(page: Path) -> list[Block]:
    try:
        return read_page(page.read_text())
    except PageError:
        return [Block("", "", 0)]  # the test of the page says what is wrong


def named(pages: list[Path]) -> list[Any]:
    return [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages]


@pytest.mark.parametrize("page", named([page for page in SHOWN if page.exists() and blocks(page)]))
def test_the_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / page.stem
    folder.mkdir()
    run_page(page, folder, ROOT / "examples")


@pytest.mark.soak
@pytest.mark.parametrize(
    "page", named([page for page in SHOWN if page.exists() and any(block.soak for block in blocks(page))])
)
def test_the_page_does_what_it_says_with_its_long_parts(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / page.stem
    folder.mkdir()
    run_page(page, folder, ROOT / "examples", soak=True)
