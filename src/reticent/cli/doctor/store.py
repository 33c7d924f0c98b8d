"""The store: whether it is there, whole, writable, has room and keys, and is being sealed."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from reticent.cli.doctor.check import Area, Check
from reticent.cli.doctor.memory import free_memory, memory
from reticent.cli.doctor.permissions import open_to_others
from reticent.errors import ReticentError

if TYPE_CHECKING:
    from reticent.cli.readonly import Looked

AREA = Area("store")
LITTLE, SCARCE = 1 << 30, 100 << 20
"""Bytes of free disk below which to look after it, and below which to act."""
PATIENCE = 300
"""Seconds after the end of its grace within which a collector has sealed a round, clock skew and all."""


def store(url: str) -> Iterator[Check]:
    """Everything about one store; nothing in it changes."""
    try:
        from reticent.cli.readonly import read_only

        with read_only(url) as looked:
            yield AREA.ok("reachable", looked.url)
            yield from _place(url, looked)
            yield from _content(looked)
    except (ReticentError, OSError) as error:
        yield AREA.failure("reachable", error, "check the address, and that the server runs")


def _place(url: str, looked: Looked) -> Iterator[Check]:
    """Where it is kept: only a file or a folder of this machine can be looked at from outside."""
    if url.startswith("sqlite:///"):
        file = Path(url.removeprefix("sqlite:///"))
        yield from permissions(file)
        yield disk(shutil.disk_usage(file.resolve().parent).free)
    elif url.startswith("lake:///"):
        folder = Path(url.removeprefix("lake:///"))
        yield _writable(os.access(folder, os.W_OK | os.X_OK) and not _read_only(folder))
        yield disk(shutil.disk_usage(folder).free)
    elif url.startswith(("postgresql://", "postgres://")):
        from reticent.cli.readonly_postgres import LookedPostgres

        if isinstance(looked, LookedPostgres):
            yield _writable(looked.writable())
        yield AREA.note("disk", "of the server: not seen from here")
    else:
        yield AREA.note("writable", "whether the bucket can be written is not tried: that would write to it")


def permissions(file: Path) -> Iterator[Check]:
    """Who else may read the file, and whether it can be written here."""
    if others := open_to_others(file):
        yield AREA.problem("permissions", f"{others} may reach {file}", f"chmod 600 {file}")
    else:
        yield AREA.ok("permissions", "its owner alone may reach the file")
    folder = file.resolve().parent
    rights = os.access(file, os.R_OK | os.W_OK) and os.access(folder, os.W_OK | os.X_OK)
    yield _writable(rights and not _read_only(folder))


def _writable(can: bool) -> Check:
    if can:
        return AREA.ok("writable", "by this user")
    return AREA.problem("writable", "not by this user", "run as the collector does, or give it the right")


def _read_only(folder: Path) -> bool:
    """Whether the disk is mounted to be read only."""
    return hasattr(os, "ST_RDONLY") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def disk(free: int) -> Check:
    """
    Room for reports.

    >>> [disk(free).state for free in (1 << 40, 1 << 29, 1 << 20)]
    ['ok', 'note', 'problem']
    """
    message = f"{free / 2**30:,.1f} GiB free"
    if free < SCARCE:
        return AREA.problem("disk", message, "make room: a full disk stops the collector")
    if free < LITTLE:
        return AREA.note("disk", message, "make room before it is full")
    return AREA.ok("disk", message)


def _content(looked: Looked) -> Iterator[Check]:
    """What is in it. A damaged store is not asked further."""
    problems = looked.verify()
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        yield AREA.problem("content", f"{problems[0]}{more}", f"reticent store check --store {looked.url}")
        return
    yield AREA.ok("content", "fits together")
    known = looked.keys()
    roles: Counter[str] = Counter(key.role for key in known if key.active)
    yield keys(dict(roles), looked.url)
    yield overdue(_closings(looked), time.time(), looked.url)
    yield memory(open_reports(looked), free_memory())


def keys(by_role: dict[str, int], url: str) -> Check:
    """
    Who may write and read.

    >>> keys({"ingest": 1, "reader": 2}, "").message
    '1 ingest, 2 reader'
    >>> keys({"ingest": 1}, "").state, keys({}, "").state
    ('note', 'note')
    """
    command = f"reticent keys create --store {url} --role"
    if not by_role:
        return AREA.note("keys", "none: the collector listens on this machine only", f"{command} ingest")
    shown = ", ".join(f"{by_role[role]} {role}" for role in sorted(by_role))
    for role, what in (("ingest", "no device can send"), ("reader", "nobody can read")):
        if not by_role.get(role) and not by_role.get("admin"):
            return AREA.note("keys", f"{shown}: {what}", f"{command} {role}")
    return AREA.ok("keys", shown)


def overdue(closings: list[int], now: float, url: str) -> Check:
    """
    Whether rounds are sealed in time.

    >>> overdue([1000, 2000], 900, "").message
    '2 open, none overdue'
    >>> overdue([1000, 2000], 10_000, "").message
    '2 of 2 open rounds should have been sealed, the first one 2.5 hours ago'
    """
    late = [closes for closes in closings if closes + PATIENCE < now]
    if not late:
        return AREA.ok("rounds", f"{len(closings):,} open, none overdue")
    return AREA.problem(
        "rounds",
        f"{len(late):,} of {len(closings):,} open rounds should have been sealed, the first one "
        f"{(now - min(late)) / 3600:.1f} hours ago",
        f"start the collector, or reticent rounds --seal --store {url}",
    )


def _closings(looked: Looked) -> list[int]:
    """When each open round may be sealed, in unix seconds."""
    plans = {(plan.name, plan.version): plan for plan in looked.plans()}
    return [plans[key[:2]].round(key.round).closes for key in looked.unsealed() if key[:2] in plans]


def open_reports(looked: Looked) -> int:
    """Reports of open rounds, as stored."""
    from reticent.stores import SqlStore

    if isinstance(looked, SqlStore):
        return sum(info.reports for info in looked.rounds() if info.state != "sealed")
    from reticent.stores.lake import LakeReader, Part

    assert isinstance(looked, LakeReader)  # noqa: S101
    names = [name for key in looked.unsealed() for name in looked.countable(key)]
    return sum(segment.rows for name in names if (segment := Part.parse(name)) is not None)
