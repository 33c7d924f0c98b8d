"""
Copy a report of `python -m reticent_paper all` at full size into the docs: claims.md and the pictures they show.

    python tools/reproduction_docs.py reproduction
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def main(folder: Path) -> None:
    """Copy; pictures that the docs do not show are left out."""
    shutil.copy(folder / "claims.md", DOCS / "explanation" / "claims.md")
    for picture in (DOCS / "images" / "reproduction").glob("*.png"):
        shutil.copy(folder / picture.name, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
