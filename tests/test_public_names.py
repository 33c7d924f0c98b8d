"""The public surface: complete, sorted, and loaded only when used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tacit


def test_the_public_names_are_sorted_complete_and_there() -> None:
    assert tacit.__all__ == sorted(tacit.__all__)
    assert set(tacit.__all__) == set(tacit._HOME)
    for name in tacit.__all__:
        assert getattr(tacit, name).__name__ == name
    assert dir(tacit) == tacit.__all__


def test_every_public_name_is_documented() -> None:
    assert [name for name in tacit.__all__ if not (getattr(tacit, name).__doc__ or "").strip()] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Divice'"):
        _ = tacit.Divice


@pytest.mark.parametrize("heavy", ["sqlite3", "http.client", "ssl", "decimal", "numpy", "click", "tomllib"])
def test_importing_tacit_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys, tacit; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-S", "-c", code], check=False, env=_path()).returncode == 0


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(tacit.__path__[0]) + "/.."}
