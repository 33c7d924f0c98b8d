"""
The benchmarks, as ratios taken in one run.

    python -m benchmarks                        all of them, but for those that take long
    python -m benchmarks device                 one
    python -m benchmarks collector --quick      one, with options of its own
    python -m benchmarks device --save          what it prints also goes to docs/measured/device.txt
"""

from __future__ import annotations

import os
import platform
import runpy
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

NAMES = sorted(
    path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if "def main" in path.read_text()
)
LONG = {"bare", "endurance", "periods"}
"""Only when they are named; the first one is a server."""
SAVED = Path(__file__).parents[1] / "docs" / "measured"


class Kept(StringIO):
    """Text that is printed as well."""

    def write(self, text: str) -> int:
        """Keep and print."""
        sys.__stdout__.write(text)
        return super().write(text)

    def flush(self) -> None:
        """Print what was held back."""
        sys.__stdout__.flush()


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--save"]
    save = "--save" in sys.argv
    count = next((place for place, argument in enumerate(given) if argument not in NAMES), len(given))
    wanted, options = given[:count], given[count:]  # what follows the names is for the benchmark itself
    if options and not wanted:
        sys.exit(f"There is no benchmark {options[0]}; there are {', '.join(NAMES)}.")
    wanted = wanted or [name for name in NAMES if name not in LONG]
    for name in wanted:
        kept, load = Kept(), os.getloadavg()[0]
        print(f"\n== {name}\n")
        sys.argv = [name, *options]
        with redirect_stdout(kept):
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")
        if save:
            SAVED.mkdir(exist_ok=True)
            head = f"$ python -m benchmarks {' '.join(sys.argv)}\n{time.strftime('%Y-%m-%d')}, "
            head += (
                f"Python {platform.python_version()}, {os.cpu_count()} cores, load before it {load:.1f}\n\n"
            )
            words = [option.lstrip("-") for option in options if option.startswith("--") or option.isalpha()]
            stem = "-".join([name, *words])
            (SAVED / f"{stem}.txt").write_text(head + kept.getvalue())
