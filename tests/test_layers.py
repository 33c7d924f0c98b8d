"""Which house may import which, and which part of a house which other: this test draws the picture."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

STREET = {
    "reticent": ("device", set()),
    "reticent_collector": ("collector", {"reticent"}),
    "reticent_lake": ("lake", {"reticent", "reticent_collector"}),
    "reticent_lab": ("lab", {"reticent", "reticent_collector"}),
    "reticent_otel": ("otel", {"reticent"}),
    "reticent_paper": ("paper", {"reticent", "reticent_collector", "reticent_lab"}),
}
"""The folder of each house, and the houses that it may import."""

LAYERS = {
    "reticent": [
        {"frozen", "hashes"},
        {"errors", "times"},
        {"html", "mechanisms"},
        {"plan"},
        {"losses"},
        {"claims", "reports"},
        {"device"},
        {"programs"},
        {"testing"},
        {"cli"},
    ],
    "reticent_collector": [
        {"privacy"},
        {"figures", "plots", "columns", "counts", "plans"},
        {"estimates", "stores"},
        {"testing"},
        {"results"},
        {"http"},
        {"dashboard"},
        {"cli"},
    ],
    "reticent_lake": [{"store"}, {"frames"}, {"cli"}],
}
"""Within a house, an import may only point to a layer above its own."""


def home(package: str) -> Path:
    return ROOT / STREET[package][0] / "src" / package


@cache
def imports(path: Path) -> set[tuple[str, bool]]:
    """Every imported module of a file, and whether it is imported when the file is."""
    tree = ast.parse(path.read_text())
    late = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.unparse(outer.test))
        for node in ast.walk(outer)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, id(node) not in late) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path.is_symlink(), f"{path}: relative import"
            names = (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module in STREET
                else {node.module or ""}
            )
            found |= {(name, id(node) not in late) for name in names}
    return found


@pytest.mark.parametrize("package", STREET)
def test_a_house_imports_the_houses_it_may(package: str) -> None:
    _, allowed = STREET[package]
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in home(package).rglob("*.py")
        for name, _ in imports(path)
        if (house := name.partition(".")[0]) in STREET and house not in {package, *allowed}
    ]
    assert wrong == []


def test_the_device_imports_the_standard_library_alone() -> None:
    """NumPy is for arrays of answers, which the fleet asks for: where an array is handed in, it is there."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in home("reticent").rglob("*.py")
        for name, eager in imports(path)
        if name.split(".")[0] in {"scipy", "click", "rich"} or (eager and name.split(".")[0] == "numpy")
    ]
    assert wrong == []


@pytest.mark.parametrize("package", LAYERS)
def test_every_part_has_a_layer(package: str) -> None:
    parts = {
        path.stem
        for path in home(package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - {"__init__", "__main__"} == set().union(*LAYERS[package])


@pytest.mark.parametrize("package", LAYERS)
def test_imports_only_point_up_the_list(package: str) -> None:
    rank = {name: number for number, layer in enumerate(LAYERS[package]) for name in layer}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in home(package).rglob("*.py")
        if (part := path.relative_to(home(package)).parts[0].removesuffix(".py")) in rank
        for name, _ in imports(path)
        if name.startswith(f"{package}.")
        and (other := name.split(".")[1]) != part
        and rank.get(other, -1) >= rank[part]
    ]
    assert wrong == []


def test_the_picture_would_show_a_wrong_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import numpy\nfrom reticent.cli import root\nfrom reticent import device\n")
    assert imports(bad) == {("numpy", True), ("reticent.cli", True), ("reticent.device", True)}


@pytest.mark.parametrize("package", STREET)
def test_no_module_imports_itself_by_a_detour(package: str) -> None:
    """Imports inside functions count too: a circle of them is one idea in two files."""
    names = {
        ".".join(path.relative_to(home(package).parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in home(package).rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        tree = ast.parse(path.read_text())
        typing_only = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
            for node in ast.walk(block)
        }
        graph[name] = {
            full if (full := f"{node.module}.{alias.name}") in names else str(node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and id(node) not in typing_only
            for alias in node.names
        } & (names.keys() - {name})
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle
