"""
Take a report of `python -m paper all` at full size into the docs: claims.md, the pictures, and what
reproduction.md says of verdicts between its marks.

    python tools/reproduction_docs.py reproduction
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
MEANINGS = {
    "holds": "true as it stands",
    "needed correcting": "true once a condition, a number or a limit is put right",
    "does not hold": "false",
    "misprint": "a slip of the pen; what is meant is clear",
}


def main(folder: Path) -> None:
    """Copy and fill in; pictures that the docs do not show are left out."""
    shutil.copy(folder / "claims.md", DOCS / "explanation" / "claims.md")
    for picture in (DOCS / "images" / "reproduction").glob("*.png"):
        shutil.copy(folder / picture.name, picture)
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))["results"]
    claims = [claim for result in results for claim in result["claims"] if claim["place"].startswith("§")]
    tally = [
        f"| {verdict} | {means} | {sum(c['verdict'] == verdict for c in claims)} |"
        for verdict, means in MEANINGS.items()
    ]
    failing = [
        f"- {c['says'].rstrip('.')} ({c['place']}): {c['condition']}."
        for c in claims
        if c["verdict"] == "does not hold"
    ]
    report = (folder / "report.md").read_text(encoding="utf-8")
    headlines = re.findall(r"^1\. .+$", report, re.MULTILINE)
    parts = {
        "tally": ["| verdict | means | claims |", "|---|---|---:|", *tally],
        "headlines": headlines,
        "failing": failing,
    }
    page = DOCS / "explanation" / "reproduction.md"
    text = page.read_text(encoding="utf-8")
    for name, lines in parts.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        after = rest.partition(f"<!-- /{name} -->")[2]
        text = before + "\n".join([f"<!-- {name} -->", "", *lines, "", f"<!-- /{name} -->"]) + after
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
