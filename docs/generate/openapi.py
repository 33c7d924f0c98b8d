"""
Write docs/reference/openapi.json, the interface of the collector.

    python docs/generate/openapi.py            write it
    python docs/generate/openapi.py --check    say whether it is current, and exit with 3 if not
"""

from __future__ import annotations

import json
from pathlib import Path

from writing import ROOT, main

from reticent_collector.http import openapi_document


def pages() -> dict[Path, str]:
    """The document as it is served at /openapi.json."""
    text = json.dumps(openapi_document(), indent=2, ensure_ascii=False) + "\n"
    return {ROOT / "docs" / "reference" / "openapi.json": text}


if __name__ == "__main__":
    main(pages)
