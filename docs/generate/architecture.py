"""
The picture of the layers, drawn from the list that the import test enforces.

    python docs/generate/architecture.py            writes docs/images/architecture.svg
    python docs/generate/architecture.py --check    exits with 3 when the picture is not the test's any more

LAYERS is read from tests/test_layers.py as text, so nothing of reticent or of pytest is needed. A part without a
word here is an error: a new folder is described before it is drawn.
"""

from __future__ import annotations

import ast
from pathlib import Path

from writing import ROOT, main

TEST = ROOT / "tests" / "test_layers.py"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

WORDS = {
    "errors": "the exception tree",
    "frozen": "frozen values",
    "figures": "printed numbers",
    "html": "escaped fragments",
    "plots": "pictures for files",
    "mechanisms": "P(bit | value)",
    "privacy": "losses, patterns",
    "plan": "what is asked; the linter",
    "reports": "the wire: bytes and rules",
    "counts": "reports to counts; they add",
    "columns": "the table of results",
    "device": "value to report",
    "stores": "open rounds, sealed counts",
    "estimates": "counts to estimates",
    "testing": "a sandbox; laws of a store",
    "results": "what readers ask for",
    "collector": "the HTTP service",
    "frames": "DuckDB, Spark, DataFrames",
    "dashboard": "pages, JSON twins",
    "lab": "fleets, design, audit",
    "otel": "OpenTelemetry",
    "cli": "one file per verb",
}
ORDER = list(WORDS)

WIDTH, MARGIN, BOX_HEIGHT, GAP, LANE = 900, 14, 26, 10, 6
STYLE = """
  .ground { fill: #ffffff; } .box { fill: #f4f6f8; stroke: #d5dbe1; }
  .box.plain { fill: #e6f1fa; stroke: #7fb2d9; }
  text { fill: #4c5866; font-size: 12px; } .name { fill: #1b2430; font-weight: 600; font-size: 14px; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14181d; } .box { fill: #1e262f; stroke: #36404b; }
    .box.plain { fill: #15334b; stroke: #3f7fb0; }
    text { fill: #a9b5c2; } .name { fill: #e6ebf1; }
  }
"""


def constant(name: str) -> object:
    """The value of a constant of the test, read from its source."""
    for node in ast.parse(TEST.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise SystemExit(f"{TEST.relative_to(ROOT)}: expected a list called {name}, found none")


def layers() -> list[list[str]]:
    """The layers, each in the order of WORDS."""
    found: list[set[str]] = constant("LAYERS")  # type: ignore[assignment]
    strange = set().union(*found) ^ set(WORDS)
    if strange:
        raise SystemExit(f"{Path(__file__).name}: WORDS and LAYERS differ in {', '.join(sorted(strange))}")
    return [sorted(layer, key=ORDER.index) for layer in found]


def box(name: str, left: float, top: float, width: float, plain: bool) -> list[str]:
    """One part: its name, and what it is for."""
    return [
        f'<rect class="box{" plain" if plain else ""}" x="{left:g}" y="{top:g}" width="{width:g}"'
        f' height="{BOX_HEIGHT}" rx="6"/>',
        f'<text x="{left + width / 2:g}" y="{top + 18:g}" text-anchor="middle">'
        f'<tspan class="name">{name}</tspan>  {WORDS[name]}</text>',
    ]


def row(layer: list[str], top: float, plain: set[str]) -> list[str]:
    """One layer: its parts side by side, in the middle."""
    width = min(270.0, (WIDTH - 2 * MARGIN - GAP * (len(layer) - 1)) / len(layer))
    left = (WIDTH - width * len(layer) - GAP * (len(layer) - 1)) / 2
    return [
        line
        for place, name in enumerate(layer)
        for line in box(name, left + place * (width + GAP), top, width, name in plain)
    ]


def picture() -> str:
    """The whole SVG."""
    found = layers()
    plain = set(constant("STANDARD_LIBRARY_ONLY"))  # type: ignore[call-overload]
    height = 2 * MARGIN + len(found) * BOX_HEIGHT + (len(found) - 1) * LANE + 24
    lines: list[str] = []
    for place, layer in enumerate(found):
        top = MARGIN + place * (BOX_HEIGHT + LANE)
        lines += row(layer, top, plain)
    note = "A part imports from the layers above its own only. Blue: the standard library alone."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
            ' aria-labelledby="title" font-family="system-ui, \'Segoe UI\', Helvetica, Arial, sans-serif">',
            '<title id="title">The parts of reticent: each imports from the layers above its own only</title>',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{WIDTH}" height="{height}" rx="10"/>',
            *lines,
            f'<text x="{WIDTH / 2:g}" y="{height - MARGIN:g}" text-anchor="middle">{note}</text>',
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    main(lambda: {PICTURE: picture()})
