"""An import may only point to a layer above its own: this test draws the picture."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import reticent

ROOT = Path(reticent.__file__).parent

LAYERS = [
    {"frozen"},
    {"errors"},
    {"figures", "html", "plots", "mechanisms"},
    {"privacy"},
    {"plan"},
    {"reports"},
    {"counts", "columns"},
    {"device", "stores", "estimates"},
    {"testing", "frames"},
    {"results"},
    {"collector", "otel"},
    {"dashboard"},
    {"lab"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

STANDARD_LIBRARY_ONLY = [
    "errors",
    "frozen",
    "figures",
    "html",
    "mechanisms",
    "privacy",
    "plan",
    "reports",
    "device",
    "testing",
]
OPTIONAL = {"numpy", "scipy", "click", "rich"}


def modules(part: str) -> list[Path]:
    folder = ROOT / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


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
            assert node.level == 0, f"{path}: relative import"
            names = (
                {f"reticent.{alias.name}" for alias in node.names}
                if node.module == "reticent"
                else {node.module or ""}
            )
            found |= {(name, id(node) not in late) for name in names}
    return found


def test_every_part_has_a_layer() -> None:
    parts = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts - {"__init__", "__main__"} == set(RANK)


def test_imports_only_point_up_the_list() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} ({part}) imports {name}"
        for part, rank in RANK.items()
        for path in modules(part)
        for name, _ in imports(path)
        if name.startswith("reticent.")
        and (other := name.split(".")[1]) != part
        and RANK.get(other, -1) >= rank
    ]
    assert wrong == []


def test_what_a_device_needs_imports_the_standard_library_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for part in STANDARD_LIBRARY_ONLY
        for path in modules(part)
        for name, eager in imports(path)
        if eager and name.split(".")[0] in OPTIONAL and path.stem != "pattern_supports"
    ]
    assert wrong == []


def test_the_picture_would_show_a_wrong_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import numpy\nfrom reticent.cli import root\nfrom reticent import device\n")
    assert imports(bad) == {("numpy", True), ("reticent.cli", True), ("reticent.device", True)}


def test_no_module_imports_itself_by_a_detour() -> None:
    """Imports inside functions count too: a circle of them is one idea in two files."""
    names = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in ROOT.rglob("*.py")
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
