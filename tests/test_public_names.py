"""The public surface: complete, sorted, and loaded only when used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

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
        "reticent.device",
        "reticent.plan",
        "reticent.privacy",
        "reticent.testing",
        "reticent_collector.http",
        "reticent_collector.stores",
    ],
)
def test_every_name_of_a_package_that_imports_late_is_there(package: str) -> None:
    module = import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


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
