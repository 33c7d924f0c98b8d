"""
Write constraints-minimal.txt: the oldest versions that the houses allow, and today's tools to test them.

    make lock-minimal

Every direct dependency of a house is at its lower bound. Their own dependencies are the newest that fit, and so is
the dev group, which users do not install.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from environments import Environment
from houses import HOUSES, ROOT, project

FILE = ROOT / "constraints-minimal.txt"
HEADER = "# The oldest versions that the houses allow, for make test-minimal. Written by make lock-minimal.\n"


def name_of(requirement: str) -> str:
    """
    The package that a requirement asks for.

    >>> name_of("psycopg[binary,pool]>=3.2.11"), name_of("uvloop>=0.19; platform_system != 'Windows'")
    ('psycopg', 'uvloop')
    """
    return re.split(r"[\[<>=;~! ]", requirement, maxsplit=1)[0]


def direct(projects: Iterable[dict[str, object]]) -> list[str]:
    """
    What the houses ask for, always or by an extra, beside each other.

    >>> device = {"name": "reticent", "dependencies": []}
    >>> asked = ["reticent==1.2.0", "click>=8.1"]
    >>> extras = {"postgres": ["psycopg[binary]>=3.2"]}
    >>> direct([device, {"name": "reticent-lake", "dependencies": asked, "optional-dependencies": extras}])
    ['click>=8.1', 'psycopg[binary]>=3.2']
    """
    projects = list(projects)
    own = {each["name"] for each in projects}
    asked: set[str] = set()
    for each in projects:
        extras: dict[str, list[str]] = each.get("optional-dependencies", {})  # type: ignore[assignment]
        asked.update(each["dependencies"], *extras.values())  # type: ignore[arg-type]
    return sorted(line for line in asked if name_of(line) not in own)


def main() -> None:
    """Resolve twice: the lowest direct dependencies, then the newest of all else around them."""
    asked = direct(project(house) for house in HOUSES)
    names = {name_of(line) for line in asked}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uv = Environment(folder / "uv")
        uv.install("uv")
        requirements = folder / "requirements.txt"
        requirements.write_text("\n".join(asked) + "\n")
        common = ["-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
        common += ["--python-version", "3.11", str(requirements)]
        lowest = uv.answer(*common, "--resolution", "lowest-direct").splitlines()
        pins = folder / "direct.txt"
        pins.write_text("\n".join(pin for pin in lowest if pin.partition("==")[0] in names) + "\n")
        everything = uv.answer(*common, "--group", f"{ROOT / 'pyproject.toml'}:dev", "--constraint", pins)
    FILE.write_text(HEADER + everything + "\n")
    print(f"{FILE.name}: {len(everything.splitlines())} versions")


if __name__ == "__main__":
    main()
