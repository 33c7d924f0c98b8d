"""The README of a house names files, commands and packages that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSES = [path.parent for path in sorted(ROOT.glob("*/pyproject.toml"))]
PROJECTS = {house.name: tomllib.loads((house / "pyproject.toml").read_text())["project"] for house in HOUSES}
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md")})
every_house = pytest.mark.parametrize("house", HOUSES, ids=lambda house: house.name)


def unknown_packages(text: str) -> list[str]:
    """The packages of ours, with their extras, that a page names and no house is."""
    known = {project["name"]: set(project.get("optional-dependencies", ())) for project in PROJECTS.values()}
    named = re.findall(r"\b(reticent(?:-[a-z]+)?)\[([\w,]+)\]", text)
    named += [(name, "") for name in re.findall(r"pip install '?(reticent[\w-]*)", text)]
    return [
        f"{name}[{extras}]"
        for name, extras in named
        if name not in known or not set(filter(None, extras.split(","))) <= known[name]
    ]


@every_house
def test_files_in_reading_order_are_there(house: Path) -> None:
    [package] = [
        path for path in (house / "src").iterdir() if path.is_dir() and path.name.startswith("reticent")
    ]
    cells = re.findall(r"^\| (`[^|]+) \|", (house / "README.md").read_text(), re.MULTILINE)
    files = [name for cell in cells for name in re.findall(r"`([\w./]+)`", cell)]
    assert len(files) > 4
    assert [name for name in files if not (package / name).exists()] == []


@every_house
def test_how_to_install_and_test_it(house: Path) -> None:
    text = (house / "README.md").read_text()
    dependencies = [re.match(r"[\w-]+", each)[0] for each in PROJECTS[house.name]["dependencies"]]  # type: ignore[index]
    needed = [name for name, project in PROJECTS.items() if project["name"] in dependencies]
    command = re.search(r"`pip install (\./[^`]+)`", text)
    assert command is not None
    assert set(command[1].split()) == {f"./{name}" for name in (*needed, house.name)}
    assert f"`make test-{house.name}`" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_packages_that_are_named_exist(page: Path) -> None:
    assert unknown_packages(page.read_text()) == []


def test_a_package_that_does_not_exist_would_be_seen() -> None:
    text = "pip install reticent-lake, 'reticent[lab]', reticent-collector[postgres,spark], pip install 'reticent-labs'"
    assert unknown_packages(text) == [
        "reticent[lab]",
        "reticent-collector[postgres,spark]",
        "reticent-labs[]",
    ]
