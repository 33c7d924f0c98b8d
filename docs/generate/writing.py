"""What the programs of this folder share: write pages, or say which of them are not current."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Rows as a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def main(pages: Callable[[], dict[Path, str]]) -> None:
    """Write the pages, or with `--check` compare them and exit with 3 where one differs."""
    match sys.argv[1:]:
        case []:
            for path, text in pages().items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
        case ["--check"]:
            old = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
            for path in old:
                sys.stderr.write(f"{path.relative_to(ROOT)}: not current; run python {sys.argv[0]}\n")
            sys.exit(3 if old else 0)
        case _:
            sys.stderr.write(f"usage: python {sys.argv[0]} [--check]\n")
            sys.exit(2)
