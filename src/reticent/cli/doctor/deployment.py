"""Checks of what was named: a store, a device's state file, a collector. They look, and change nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from reticent.cli.doctor.machine import Area, Check, open_to_others
from reticent.device import HttpTransport
from reticent.device.schema import APPLICATION_ID, LAYOUT, TABLES
from reticent.errors import ParameterError, ReticentError
from reticent.plan import Plan

if TYPE_CHECKING:
    from reticent.stores import RoundStore

STORE, DEVICE, ENDPOINT = Area("store"), Area("device"), Area("endpoint")
LITTLE, SCARCE = 1 << 30, 100 << 20
"""Bytes of free disk below which to look after it, and below which to act."""
PATIENCE = 300
"""Seconds after the end of its grace within which a collector has sealed a round, clock skew and all."""


def store(url: str) -> Iterator[Check]:
    """Everything about one store; nothing in it changes."""
    try:
        from reticent.stores import open_store

        with closing(open_store(url, readonly=True)) as looked:
            yield STORE.ok("reachable", looked.url)
            yield from _place(url, looked)
            yield from _content(looked)
    except (ReticentError, OSError) as error:
        yield STORE.failure("reachable", error, "check the address, and that the server runs")


def _place(url: str, looked: RoundStore[Any]) -> Iterator[Check]:
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
        yield _writable(looked.backend.writable())
        yield STORE.note("disk", "of the server: not seen from here")
    else:
        yield STORE.note("writable", "whether the bucket can be written is not tried: that would write to it")


def permissions(file: Path) -> Iterator[Check]:
    """Who else may read the file, and whether it can be written here."""
    if others := open_to_others(file):
        yield STORE.problem("permissions", f"{others} may reach {file}", f"chmod 600 {file}")
    else:
        yield STORE.ok("permissions", "its owner alone may reach the file")
    folder = file.resolve().parent
    rights = os.access(file, os.R_OK | os.W_OK) and os.access(folder, os.W_OK | os.X_OK)
    yield _writable(rights and not _read_only(folder))


def _writable(can: bool) -> Check:
    if can:
        return STORE.ok("writable", "by this user")
    return STORE.problem("writable", "not by this user", "run as the collector does, or give it the right")


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
        return STORE.problem("disk", message, "make room: a full disk stops the collector")
    if free < LITTLE:
        return STORE.note("disk", message, "make room before it is full")
    return STORE.ok("disk", message)


def _content(looked: RoundStore[Any]) -> Iterator[Check]:
    """What is in it. A damaged store is not asked further."""
    problems = looked.verify()
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        yield STORE.problem("content", f"{problems[0]}{more}", f"reticent store check --store {looked.url}")
        return
    yield STORE.ok("content", "fits together")
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
        return STORE.note("keys", "none: the collector listens on this machine only", f"{command} ingest")
    shown = ", ".join(f"{by_role[role]} {role}" for role in sorted(by_role))
    for role, what in (("ingest", "no device can send"), ("reader", "nobody can read")):
        if not by_role.get(role) and not by_role.get("admin"):
            return STORE.note("keys", f"{shown}: {what}", f"{command} {role}")
    return STORE.ok("keys", shown)


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
        return STORE.ok("rounds", f"{len(closings):,} open, none overdue")
    return STORE.problem(
        "rounds",
        f"{len(late):,} of {len(closings):,} open rounds should have been sealed, the first one "
        f"{(now - min(late)) / 3600:.1f} hours ago",
        f"start the collector, or reticent rounds --seal --store {url}",
    )


def _closings(looked: RoundStore[Any]) -> list[int]:
    """When each open round may be sealed, in unix seconds."""
    plans = {(plan.name, plan.version): plan for plan in looked.plans()}
    return [plans[key[:2]].round(key.round).closes for key in looked.unsealed() if key[:2] in plans]


def open_reports(looked: RoundStore[Any]) -> int:
    """Reports of open rounds, as stored."""
    return sum(info.reports for info in looked.rounds() if info.state != "sealed")


BYTES_PER_REPORT = 80
"""Of memory per report of an open round: 34 measured (docs/how-to/sizing.md), and again at its sealing."""


def memory(reports: int, free: int | None) -> Check:
    """
    Whether the reports of open rounds fit into memory.

    >>> [memory(reports, 2**30).state for reports in (1_000_000, 10_000_000, 20_000_000)]
    ['ok', 'note', 'problem']
    """
    if free is None:
        return STORE.note("memory", "how much is free cannot be asked for here")
    needed = reports * BYTES_PER_REPORT
    message = (
        f"{_bytes(free)} free; {reports:,} reports of open rounds take about {_bytes(needed)} in a collector"
    )
    if needed > free:
        return STORE.problem("memory", message, "seal rounds that are over, or add memory")
    if needed > free / 2:
        return STORE.note("memory", message, "a second collector on this machine would not fit")
    return STORE.ok("memory", message)


def free_memory() -> int | None:
    """Bytes that a process can have without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _bytes(number: int) -> str:
    """
    A size for people.

    >>> _bytes(128), _bytes(3 * 2**20), _bytes(5 * 2**30 // 2)
    ('0 MiB', '3 MiB', '2.5 GiB')
    """
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def state(file: Path, plan: Plan | None) -> Iterator[Check]:
    """Everything about one state file; it stays as it is."""
    if not file.is_file():
        missing = (
            "the device makes it when it starts" if file.parent.is_dir() else f"make {file.parent} first"
        )
        yield DEVICE.note("state file", f"{file}: there is none yet", missing)
        return
    yield _mode(file)
    yield _folder(file.resolve().parent)
    yield _whole(file, plan)
    quarantined = len(list(file.parent.glob(f"{file.name}.quarantined-*")))
    if quarantined:
        yield DEVICE.note(
            "quarantine",
            f"{quarantined} damaged state files beside it, and their answers were drawn anew",
            "find out what damages them; each new epoch adds to the loss",
        )


def _mode(file: Path) -> Check:
    others = open_to_others(file)
    if others:
        return DEVICE.problem(
            "permissions", f"{others} may reach {file}: it holds a secret", f"chmod 600 {file}"
        )
    if not os.access(file, os.R_OK | os.W_OK):
        return DEVICE.problem(
            "permissions", f"{file} cannot be written by this user", "run as the program does"
        )
    return DEVICE.ok("permissions", "its owner alone may reach the file")


def _folder(folder: Path) -> Check:
    others = open_to_others(folder, 0o022)
    if others:
        return DEVICE.problem(
            "folder",
            f"{others} may replace files in {folder}",
            "keep the state file in a folder of its owner",
        )
    return DEVICE.ok("folder", "nobody else may replace the file")


def _whole(file: Path, plan: Plan | None) -> Check:
    """Whether the file is a device's, of a layout that is known, and not damaged."""
    with file.open("rb") as opened:
        header = opened.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00"):
        return DEVICE.problem("content", f"{file} is not a state file", "give the file that the program uses")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        return DEVICE.problem("content", f"{file} is another program's", "give the device a file of its own")
    if int.from_bytes(header[60:64], "big") > LAYOUT:
        return DEVICE.problem("content", "written by a newer reticent", "update this one")
    try:
        return _inside(file, plan)
    except sqlite3.Error:
        return DEVICE.problem("content", "cannot be read", "the program sets it aside at its next start")


def _inside(file: Path, plan: Plan | None) -> Check:
    # While a program has the file open its log is beside it, and is read too. Otherwise the file is all there
    # is, and SQLite is told so: else it would make an index of a log that does not exist.
    how = "mode=ro" if Path(f"{file}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(file))}?{how}", uri=True, timeout=2.0)) as connection:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if verdict != "ok" or not names >= TABLES.keys():
            return DEVICE.problem("content", "damaged", "the program sets it aside at its next start")
        (served,) = connection.execute("SELECT plan FROM device").fetchone()
    if plan is not None and served != plan.name:
        return DEVICE.problem(
            "content",
            f"the state of plan {served}, not of {plan.name}",
            "one state file serves one plan; give each its own",
        )
    return DEVICE.ok("content", f"whole, for plan {served}")


TIMEOUT = 5.0
SOON = 14 * 86_400
"""Seconds before its end at which a certificate is worth a note."""
SKEW = 300.0
"""Seconds that a collector lets a device's clock run fast (--clock-skew)."""


def endpoint(url: str) -> Iterator[Check]:
    """Everything about one address. The answers say no more than that it lives."""
    try:
        HttpTransport(url)
    except ParameterError as error:
        yield ENDPOINT.failure("address", error, "give the address that the devices have")
        return
    try:
        yield from _asked(url)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        yield ENDPOINT.problem(
            "reachable", f"its certificate is refused: {reason}", "mend it: devices do not send"
        )
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        yield ENDPOINT.problem(
            "reachable", f"no answer: {reason}", "is the collector running, its port open?"
        )


def _asked(url: str) -> Iterator[Check]:
    with closing(_connected(url)) as connection:
        socket: Any = connection.sock
        expires = _expiry(socket.getpeercert()) if isinstance(socket, ssl.SSLSocket) else None
        status, date = _get(connection, url, "/healthz")
    if status != 200:
        yield ENDPOINT.problem(
            "reachable", f"/healthz answers {status}, not 200", "is this a collector of reticent?"
        )
        return
    yield ENDPOINT.ok("reachable", "a collector answers")
    with closing(_connected(url)) as connection:
        status, _ = _get(connection, url, "/readyz")
    if status == 200:
        yield ENDPOINT.ok("ready", "it can write to its store")
    else:
        yield ENDPOINT.problem(
            "ready", f"/readyz answers {status}: it cannot write", "look at its store and disk"
        )
    if expires is not None:
        yield certificate(expires - time.time())
    yield clock(date, time.time())


def certificate(left: float) -> Check:
    """
    How long its certificate lasts.

    >>> certificate(90 * 86_400).message, certificate(3 * 86_400).state
    ('lasts 90 more days', 'note')
    """
    message = f"lasts {left / 86_400:.0f} more days"
    return (
        ENDPOINT.ok("certificate", message)
        if left > SOON
        else ENDPOINT.note("certificate", message, "renew it")
    )


def clock(date: str | None, now: float) -> Check:
    """
    The clock here against the Date of an answer, where something on the way adds one.

    >>> clock("Thu, 01 Jan 1970 00:10:00 GMT", 601.0).message
    'agrees within 1 s'
    >>> clock("Thu, 01 Jan 1970 00:10:00 GMT", 1200.0).state, clock(None, 0.0).state
    ('problem', 'note')
    """
    if date is None:
        return ENDPOINT.note("clock", "not compared: the answer has no Date, as collectors send none")
    try:
        ahead = now - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return ENDPOINT.note("clock", "not compared: the Date of the answer cannot be read")
    if abs(ahead) > SKEW:
        return ENDPOINT.problem(
            "clock",
            f"here is {abs(ahead):,.0f} s {'ahead' if ahead > 0 else 'behind'}",
            "set the clocks by NTP: reports of a round that is not open are refused",
        )
    return ENDPOINT.ok("clock", f"agrees within {max(1.0, abs(ahead)):.0f} s")


def _connected(url: str) -> HTTPConnection:
    """A connection without proxies or redirects, as a device makes one."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
    connection.connect()
    return connection


def _get(connection: HTTPConnection, url: str, path: str) -> tuple[int, str | None]:
    connection.request("GET", urlsplit(url).path.rstrip("/") + path)
    response = connection.getresponse()
    return response.status, response.getheader("Date")


def _expiry(found: Any) -> float | None:
    """When a certificate ends, in unix seconds."""
    end = (found or {}).get("notAfter")
    return None if end is None else float(ssl.cert_time_to_seconds(end))
