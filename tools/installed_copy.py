"""A pytest plugin that ends the run unless every house comes from an installation: `-p tools.installed_copy`."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

PACKAGES = (
    "reticent",
    "reticent_collector",
    "reticent_lake",
    "reticent_lab",
    "reticent_otel",
    "reticent_paper",
)


def pytest_sessionstart() -> None:
    """Look where each house would be imported from before any test is."""
    for package in PACKAGES:
        spec = find_spec(package)
        home = spec.origin if spec else None
        if home is None:
            pytest.exit(f"{package} is not installed", returncode=1)
        if "site-packages" not in home:
            pytest.exit(f"{package} was imported from {home}, not from an installation", returncode=1)
