"""What the programs of this folder share: write files, or say which of them are not current."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main(pages: Callable[[], dict[Path, str]]) -> None:
    """Write the files, or with `--check` compare them and exit with 3 where one differs."""
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
