"""
The README as a package index shows it.

An index has no repository around the page: links to files lead nowhere there and pictures do not load.
So they are taken out when the package is built: a link becomes its text, a picture goes. Addresses of the
web stay.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n+", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#)[^)]*\)")


def index_page(readme: str) -> str:
    """
    The page without links and pictures that only a repository can follow.

    >>> index_page("The [plan](docs/plan.md) and [the paper](https://example.org).")
    'The plan and [the paper](https://example.org).'
    """
    return LINK.sub(r"\1", PICTURE.sub("", readme))


class IndexPage(MetadataHookInterface):
    """Hatchling asks this hook for the page when it builds a wheel or an sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": index_page(readme)}
