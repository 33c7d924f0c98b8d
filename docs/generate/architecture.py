"""
The picture of the street, drawn from the lists that the import test enforces.

    python docs/generate/architecture.py            writes docs/images/architecture.svg
    python docs/generate/architecture.py --check    exits with 3 when the picture is not the test's any more

STREET and LAYERS are read from tests/test_layers.py as text, so nothing of reticent or of pytest is needed. A house
or a part without a word here is an error: a new folder is described before it is drawn.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from writing import ROOT, main

TEST = ROOT / "tests" / "test_layers.py"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

HOUSES = {
    "reticent": "what enters other people's programs: the standard library alone",
    "reticent_collector": "the service that counts, and all that reads its figures",
    "reticent_lake": "Parquet files, DuckDB, Spark",
    "reticent_lab": "fleets, design, audit, demo",
    "reticent_otel": "exporter and agent",
    "reticent_paper": "the reproduction",
}

PARTS = {
    "reticent": {
        "frozen": "frozen values",
        "hashes": "SHA-256, BLAKE2b",
        "errors": "the exception tree",
        "times": "when rounds begin",
        "mechanisms": "P(bit | value)",
        "html": "escaped fragments",
        "losses": "bounds that a device counts with",
        "claims": "what a device promises",
        "plan": "what is asked, and what is refused",
        "reports": "the wire: bytes and rules",
        "device": "value to report",
        "programs": "commands and web services",
        "testing": "a sandbox for programs",
        "cli": "the command, and a device's verbs",
    },
    "reticent_collector": {
        "privacy": "exact losses, claims",
        "counts": "reports to counts",
        "columns": "table of results",
        "plans": "linter, export",
        "figures": "printed numbers",
        "plots": "pictures for files",
        "stores": "rounds, sealed counts",
        "estimates": "counts to figures",
        "testing": "the laws of a store",
        "results": "what readers ask for",
        "http": "the service; the relay",
        "dashboard": "pages",
        "cli": "its verbs",
    },
    "reticent_lake": {
        "store": "files of a round",
        "frames": "counting, SQL",
        "cli": "its verbs",
    },
}

WIDTH = 900
MARGIN = 14
GAP = 12
BOX_HEIGHT = 24
BETWEEN_LAYERS = 9
WITHIN_A_LAYER = 3
HEAD = 50
STYLE = """
  .ground { fill: #ffffff; } .house { fill: #f4f6f8; stroke: #d5dbe1; } .part { fill: #ffffff; stroke: #d5dbe1; }
  .plain .part { fill: #e6f1fa; stroke: #7fb2d9; }
  text { fill: #4c5866; font-size: 11.5px; } .name { fill: #1b2430; font-weight: 600; font-size: 13px; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14181d; } .house { fill: #1e262f; stroke: #36404b; } .part { fill: #14181d; stroke: #36404b; }
    .plain .part { fill: #15334b; stroke: #3f7fb0; }
    text { fill: #a9b5c2; } .name { fill: #e6ebf1; }
  }
"""


def constant(name: str) -> Any:
    """The value of a constant of the test, read from its source."""
    for node in ast.parse(TEST.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise SystemExit(f"{TEST.relative_to(ROOT)}: expected a constant called {name}, found none")


def check_words(what: str, described: Sequence[str], found: set[str]) -> None:
    """Refuse to draw what has no word, and a word without what it describes."""
    strange = found ^ set(described)
    if strange:
        raise SystemExit(
            f"{Path(__file__).name}: {what} differ from the test in {', '.join(sorted(strange))}"
        )


class House:
    """One package: its folder, the folders it may import from, and its layers from the first to the last."""

    def __init__(self, package: str, folder: str, allowed: list[str], layers: list[set[str]]) -> None:
        self.package = package
        self.folder = folder
        self.allowed = allowed
        words = PARTS.get(package, {})
        check_words(f"the parts of {package}", list(words), set().union(*layers))
        self.layers = [sorted(layer, key=list(words).index) for layer in layers]

    def height(self) -> float:
        """Of the head and all lines of boxes."""
        lines = [-(-len(layer) // 2) for layer in self.layers]
        boxes = sum(count * BOX_HEIGHT + (count - 1) * WITHIN_A_LAYER for count in lines)
        return HEAD + boxes + len(lines) * BETWEEN_LAYERS

    def draw(self, left: float, top: float, width: float, height: float) -> list[str]:
        """The house with its boxes."""
        imports = ", ".join(self.allowed) or "no other house"
        lines = [
            '<g class="plain">' if not self.allowed else "<g>",
            f'<rect class="house" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="8"/>',
            f'<text x="{left + 10:g}" y="{top + 19:g}">'
            f'<tspan class="name">{self.folder}/  {self.package}</tspan></text>',
            f'<text x="{left + 10:g}" y="{top + 36:g}">{HOUSES[self.package]}</text>',
        ]
        below = top + HEAD
        for layer in self.layers:
            for first in range(0, len(layer), 2):
                lines += self.draw_line(layer[first : first + 2], left + 10, below, width - 20)
                below += BOX_HEIGHT + WITHIN_A_LAYER
            below += BETWEEN_LAYERS - WITHIN_A_LAYER
        lines.append(f'<text x="{left + 10:g}" y="{top + height - 9:g}">imports {imports}</text>')
        return [*lines, "</g>"]

    def draw_line(self, parts: list[str], left: float, top: float, width: float) -> list[str]:
        """One or two parts side by side."""
        each = (width - WITHIN_A_LAYER * (len(parts) - 1)) / len(parts)
        lines = []
        for place, part in enumerate(parts):
            start = left + place * (each + WITHIN_A_LAYER)
            lines += [
                f'<rect class="part" x="{start:g}" y="{top:g}" width="{each:g}" height="{BOX_HEIGHT}" rx="5"/>',
                f'<text x="{start + each / 2:g}" y="{top + 16:g}" text-anchor="middle">'
                f'<tspan class="name">{part}</tspan>  {PARTS[self.package][part]}</text>',
            ]
        return lines


def houses() -> list[House]:
    """The street, in the order of the test."""
    street: dict[str, tuple[str, set[str]]] = constant("STREET")
    layers: dict[str, list[set[str]]] = constant("LAYERS")
    check_words("the houses", list(HOUSES), set(street))
    return [
        House(
            package,
            folder,
            [street[other][0] for other in street if other in allowed],
            layers.get(package, []),
        )
        for package, (folder, allowed) in street.items()
    ]


def picture() -> str:
    """The whole SVG: the device and the collector side by side, the others below."""
    street = houses()
    foot = 20.0
    lines: list[str] = []
    top = float(MARGIN)
    for row in (street[:2], street[2:]):
        height = max(house.height() for house in row) + foot
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        for place, house in enumerate(row):
            lines += house.draw(MARGIN + place * (width + GAP), top, width, height)
        top += height + GAP
    note = (
        "Within a house, a part imports from the lines above its own only. Blue: the standard library alone."
    )
    whole = top + 22
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole:g}" role="img"'
            ' aria-labelledby="title" font-family="system-ui, \'Segoe UI\', Helvetica, Arial, sans-serif">',
            '<title id="title">The houses of reticent, and which may import which</title>',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{WIDTH}" height="{whole:g}" rx="10"/>',
            *lines,
            f'<text x="{WIDTH / 2:g}" y="{whole - MARGIN:g}" text-anchor="middle">{note}</text>',
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    main(lambda: {PICTURE: picture()})
