"""The public surface: complete, sorted, and loaded only when used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import reticent


def test_the_public_names_are_sorted_complete_and_there() -> None:
    assert reticent.__all__ == sorted(reticent.__all__)
    for name in reticent.__all__:
        assert getattr(reticent, name).__name__ == name
    assert dir(reticent) == reticent.__all__


@pytest.mark.parametrize(
    "package",
    [
        "reticent",
        "reticent.device",
        "reticent.testing",
        "reticent_collector.http",
        "reticent_collector.stores",
        "reticent_collector.testing",
    ],
)
def test_every_name_of_a_package_that_imports_late_is_there(package: str) -> None:
    module = import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    for home, name in checked_imports(module):
        assert getattr(module, name) is getattr(import_module(home), name), f"{name} of {home}"


def checked_imports(module: ModuleType) -> list[tuple[str, str]]:
    """What a package imports for type checkers alone: the module and the name."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    return [
        (str(node.module), alias.name)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("reticent")
        for alias in node.names
    ]


def test_every_public_name_is_documented() -> None:
    assert [name for name in reticent.__all__ if not (getattr(reticent, name).__doc__ or "").strip()] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Divice'"):
        _ = reticent.Divice


@pytest.mark.parametrize("heavy", ["sqlite3", "http.client", "ssl", "decimal", "numpy", "click", "tomllib"])
def test_importing_reticent_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys, reticent; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-S", "-c", code], check=False, env=_path()).returncode == 0


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(reticent.__path__[0]) + "/.."}
