"""
One name, one meaning: within a house no class or exported name is defined twice, and over all houses no class.

To see every name that has two meanings: `python3 tools/street.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.street import Module, home, houses, meanings, modules, twice

ROOT = Path(__file__).parents[1]
HOUSES = tuple(houses(ROOT))


@pytest.fixture(scope="module")
def read() -> list[Module]:
    return modules(ROOT)


@pytest.mark.parametrize("house", HOUSES)
def test_a_name_has_one_meaning_in_its_house(house: str, read: list[Module]) -> None:
    found = twice(meanings(module for module in read if module.house == house))
    assert found == {}


def test_a_class_has_one_meaning_in_all_houses(read: list[Module]) -> None:
    found = twice(meanings(read, exported=False))
    assert found == {}


def test_every_house_is_read(read: list[Module]) -> None:
    assert {"device", "collector", "lake", "lab", "otel", "paper"} == set(HOUSES)
    assert all(any(module.house == house and module.classes for module in read) for house in HOUSES)


def test_every_exported_name_has_a_home(read: list[Module]) -> None:
    """A name that is loaded late or handed on is found where it is defined, so that it is counted once."""
    known = {module.name: module for module in read}
    places = {home(name, module.name, known) for module in read for name in module.exported}
    defined = {f"{module.name}.{name}" for module in read for name in defined_in(module)}
    assert places - defined - set(known) == set()  # a module is exported too


def defined_in(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
