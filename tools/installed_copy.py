"""A pytest plugin that ends the run unless tacit comes from an installation: `-p tools.installed_copy`."""

from __future__ import annotations

from pathlib import Path

import pytest

import tacit


def pytest_sessionstart() -> None:
    """Look where tacit was imported from before any test is."""
    home = Path(tacit.__file__)
    if "site-packages" not in home.parts:
        pytest.exit(f"tacit was imported from {home.parent}, not from an installation", returncode=1)
