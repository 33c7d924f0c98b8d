"""A device's state file: whose it is, who may read it, whether it is whole. Nothing in it is shown."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from reticent.cli.doctor.check import Area, Check
from reticent.cli.doctor.permissions import open_to_others
from reticent.device.schema import APPLICATION_ID, LAYOUT, TABLES
from reticent.plan import Plan

AREA = Area("device")


def state(file: Path, plan: Plan | None) -> Iterator[Check]:
    """Everything about one state file; it stays as it is."""
    if not file.is_file():
        missing = (
            "the device makes it when it starts" if file.parent.is_dir() else f"make {file.parent} first"
        )
        yield AREA.note("state file", f"{file}: there is none yet", missing)
        return
    yield _mode(file)
    yield _folder(file.resolve().parent)
    yield _whole(file, plan)
    quarantined = len(list(file.parent.glob(f"{file.name}.quarantined-*")))
    if quarantined:
        yield AREA.note(
            "quarantine",
            f"{quarantined} damaged state files beside it, and their answers were drawn anew",
            "find out what damages them; each new epoch adds to the loss",
        )


def _mode(file: Path) -> Check:
    others = open_to_others(file)
    if others:
        return AREA.problem(
            "permissions", f"{others} may reach {file}: it holds a secret", f"chmod 600 {file}"
        )
    if not os.access(file, os.R_OK | os.W_OK):
        return AREA.problem(
            "permissions", f"{file} cannot be written by this user", "run as the program does"
        )
    return AREA.ok("permissions", "its owner alone may reach the file")


def _folder(folder: Path) -> Check:
    others = open_to_others(folder, 0o022)
    if others:
        return AREA.problem(
            "folder",
            f"{others} may replace files in {folder}",
            "keep the state file in a folder of its owner",
        )
    return AREA.ok("folder", "nobody else may replace the file")


def _whole(file: Path, plan: Plan | None) -> Check:
    """Whether the file is a device's, of a layout that is known, and not damaged."""
    with file.open("rb") as opened:
        header = opened.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00"):
        return AREA.problem("content", f"{file} is not a state file", "give the file that the program uses")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        return AREA.problem("content", f"{file} is another program's", "give the device a file of its own")
    if int.from_bytes(header[60:64], "big") > LAYOUT:
        return AREA.problem("content", "written by a newer reticent", "update this one")
    try:
        return _inside(file, plan)
    except sqlite3.Error:
        return AREA.problem("content", "cannot be read", "the program sets it aside at its next start")


def _inside(file: Path, plan: Plan | None) -> Check:
    from reticent.cli.sqlite_unchanged import connect_unchanged

    with closing(connect_unchanged(file)) as connection:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if verdict != "ok" or not names >= TABLES.keys():
            return AREA.problem("content", "damaged", "the program sets it aside at its next start")
        (served,) = connection.execute("SELECT plan FROM device").fetchone()
    if plan is not None and served != plan.name:
        return AREA.problem(
            "content",
            f"the state of plan {served}, not of {plan.name}",
            "one state file serves one plan; give each its own",
        )
    return AREA.ok("content", f"whole, for plan {served}")
