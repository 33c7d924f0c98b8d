"""The houses of the street: their folders, and what their pyproject.toml say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PUBLISHED = ("device", "collector", "lake", "lab", "otel")
HOUSES = (*PUBLISHED, "paper")


def project(house: str) -> dict[str, Any]:
    """
    The table `project` of a house's pyproject.toml.

    >>> project("device")["name"], project("device")["dependencies"]
    ('reticent', [])
    """
    found: dict[str, Any] = tomllib.loads((ROOT / house / "pyproject.toml").read_text())["project"]
    return found


def package(house: str) -> str:
    """
    The name under which a house is imported.

    >>> package("collector")
    'reticent_collector'
    """
    return str(project(house)["name"]).replace("-", "_")


def with_extras(house: str) -> str:
    """
    How pip is asked for a house with all that is optional, after the name or path of it.

    >>> with_extras("collector"), with_extras("device")
    ('[arrow,postgres]', '')
    """
    extras = project(house).get("optional-dependencies", {})
    return f"[{','.join(sorted(extras))}]" if extras else ""
