"""Every program in examples/ is run: by a page that shows it, or by a test that names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pagetest.page import commands, read_page

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path for end in ("py", "mjs") for path in (ROOT / "examples").rglob(f"*.{end}"))
NAMED = "\n".join(
    path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != Path(__file__).name
)


def typed(page: Path) -> str:
    blocks = [
        block for block in read_page(page.read_text()) if block.language == "console" and not block.skipped
    ]
    return "\n".join(command.text for block in blocks for command in commands(block))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_program_is_run(program: Path) -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *(ROOT / "docs" / "how-to").glob("*.md")]
    shown = "\n".join(typed(page) for page in pages if page.exists())
    beside = "\n".join(
        other.read_text() for other in PROGRAMS if other != program
    )  # a part of another program
    name = program.stem
    assert program.name in shown or f'"{name}"' in NAMED or program.name in NAMED or name in beside
