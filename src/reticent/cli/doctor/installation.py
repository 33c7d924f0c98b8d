"""Python, reticent, its extras and SQLite."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import metadata, version
from pathlib import Path

import reticent
from reticent.cli.doctor.check import Area, Check
from reticent.cli.extras import VERBS, Requirement, extras, own_libraries

AREA = Area("installation")
OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35, 0)
"""What the embedded store needs: the first one with RETURNING. The device is content with any."""


def installation() -> Iterator[Check]:
    """What is installed, and whether it is new enough."""
    yield python(sys.version_info[:2])
    yield AREA.ok("reticent", f"{version('reticent')} in {Path(reticent.__file__).parent}")
    yield sqlite(sqlite3.sqlite_version_info)
    for extra in extras():
        yield of_extra(extra, extras()[extra])


def python(found: tuple[int, int]) -> Check:
    """
    The version of Python.

    >>> python((3, 12)).state, python((3, 10)).state
    ('ok', 'problem')
    """
    shown = f"Python {'.'.join(map(str, found))} ({platform.python_implementation()})"
    if found < OLDEST_PYTHON:
        return AREA.problem(
            "python",
            f"{shown}; reticent needs {metadata('reticent')['Requires-Python']}",
            "install a newer Python",
        )
    return AREA.ok("python", shown)


def sqlite(found: tuple[int, ...]) -> Check:
    """
    The SQLite that Python was built with.

    >>> sqlite((3, 45, 1)).message
    'SQLite 3.45.1'
    >>> sqlite((3, 34, 1)).state
    'problem'
    """
    shown = f"SQLite {'.'.join(map(str, found))}"
    if found < OLDEST_SQLITE:
        return AREA.problem(
            "sqlite",
            f"{shown}; devices can use it, --store sqlite:/// needs 3.35 or newer",
            "it comes with Python: use a newer build of it, or another store",
        )
    return AREA.ok("sqlite", shown)


def of_extra(extra: str, libraries: tuple[Requirement, ...]) -> Check:
    """One extra: all there, not installed at all, in part, or too old."""
    name, command = f"reticent[{extra}]", f"pip install 'reticent[{extra}]'"
    there = {each.name: found for each in libraries if (found := each.installed) is not None}
    old = [each for each in libraries if each.name in there and not each.is_met_by(there[each.name])]
    missing = [each.name for each in libraries if each.name not in there]
    needed = VERBS.get(extra, "")
    if old:
        shown = ", ".join(f"{each.name} {there[each.name]} (needs {each.oldest})" for each in old)
        return AREA.problem(name, f"too old: {shown}", f"{command} --upgrade")
    if missing:
        return AREA.note(name, f"not here: {', '.join(missing)}; for {needed}", f"{command}, if it is wanted")
    return AREA.ok(name, ", ".join(f"{each.name} {there[each.name]}" for each in own_libraries(extra)))
