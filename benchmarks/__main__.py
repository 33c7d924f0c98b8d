"""
The benchmarks, as ratios taken in one run.

    python -m benchmarks                        all of them, but for those that take long
    python -m benchmarks device                 one
    python -m benchmarks collector --quick      one, with options of its own
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

NAMES = sorted(
    path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if "def main" in path.read_text()
)
LONG = {"bare", "endurance", "periods"}
"""Only when they are named; the first one is a server."""

if __name__ == "__main__":
    options = [argument for argument in sys.argv[2:] if sys.argv[2].startswith("-")]
    wanted = sys.argv[1 : len(sys.argv) - len(options)] or [name for name in NAMES if name not in LONG]
    unknown = set(wanted) - set(NAMES)
    if unknown:
        sys.exit(f"There is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.")
    for name in wanted:
        print(f"\n== {name}\n")
        sys.argv = [name, *options]
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
