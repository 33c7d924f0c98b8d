"""
Write constraints-minimal.txt: the oldest versions that pyproject.toml allows, and today's tools to test them.

    make lock-minimal

Every direct dependency of an extra is at its lower bound. Their own dependencies are the newest that fit, and so is
the dev group, which users do not install.
"""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path

from environments import Environment

ROOT = Path(__file__).parents[1]
FILE = ROOT / "constraints-minimal.txt"
HEADER = (
    "# The oldest versions that pyproject.toml allows, for make test-minimal. Written by make lock-minimal.\n"
)


def direct(project: dict[str, list[str]]) -> set[str]:
    """
    The packages that the extras name themselves.

    >>> sorted(direct({"cli": ["click>=8.1"], "postgres": ["reticent[cli]", "psycopg[binary]>=3.2"]}))
    ['click', 'psycopg']
    """
    named = {line.partition(">=")[0].partition("[")[0] for extra in project.values() for line in extra}
    return named - {"reticent"}


def main() -> None:
    """Resolve twice: the lowest direct dependencies, then the newest of all else around them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uv = Environment(folder / "uv")
        uv.install("uv")
        common = ["-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--all-extras"]
        common += ["--python-version", "3.11", str(ROOT / "pyproject.toml")]
        lowest = uv.answer(*common, "--resolution", "lowest-direct").splitlines()
        pins = folder / "direct.txt"
        pins.write_text("\n".join(pin for pin in lowest if pin.partition("==")[0] in direct(extras)) + "\n")
        everything = uv.answer(*common, "--group", f"{ROOT / 'pyproject.toml'}:dev", "--constraint", pins)
    FILE.write_text(HEADER + everything + "\n")
    print(f"{FILE.name}: {len(everything.splitlines())} versions")


if __name__ == "__main__":
    main()
