"""A pytest plugin that ends the run unless reticent comes from an installation: `-p tools.installed_copy`."""

from __future__ import annotations

from pathlib import Path

import pytest

import reticent


def pytest_sessionstart() -> None:
    """Look where reticent was imported from before any test is."""
    home = Path(reticent.__file__)
    if "site-packages" not in home.parts:
        pytest.exit(f"reticent was imported from {home.parent}, not from an installation", returncode=1)
