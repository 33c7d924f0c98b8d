"""Checks of a plan, a store, a device's state file and a collector. They read, and change nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from reticent.device import HttpTransport
from reticent.device.schema import APPLICATION_ID, TABLES, known_layout
from reticent.errors import ParameterError, PlanError, ReticentError
from reticent.plan import Plan
from reticent_collector.cli.doctor.machine import Check, failed, open_to_others, private_file, verdict
from reticent_collector.plans import lint

if TYPE_CHECKING:
    from reticent_collector.stores import RoundStore

PLAN, STORE, DEVICE, ENDPOINT = (partial(Check, area) for area in ("plan", "store", "device", "endpoint"))

LITTLE_DISK, SCARCE_DISK = 1 << 30, 100 << 20
"""Bytes of free disk that are worth a note, and that are a problem."""
PATIENCE = 300
"""Seconds after its grace within which a collector has sealed a round, including clock skew."""
BYTES_PER_REPORT = 80
"""Memory per report of an open round: 32 measured (docs/how-to/sizing.md), and again when it is sealed."""
SOON = 14 * 86_400
"""Seconds before its end at which a certificate is worth a note."""
SKEW = 300.0
"""Seconds by which a collector lets a device's clock run fast (--clock-skew)."""


def check_plan(path: Path) -> tuple[Plan | None, list[Check]]:
    """The plan, if it can be used, and the findings of the linter."""
    try:
        plan = Plan.load(path)
    except PlanError as error:
        single = [PlanError([problem]) for problem in error.problems]
        return None, [failed(PLAN, "rules", problem, f"reticent plan check {path}") for problem in single]
    advice = [
        PLAN("advice", "note", f"{warning.where}: {warning.message.rstrip('.')}", warning.hint)
        for warning in lint(plan, today=datetime.now(UTC).date())
    ]
    return plan, [PLAN("rules", "ok", f"{plan.name} version {plan.version} breaks none"), *advice]


def check_store(url: str) -> Iterator[Check]:
    """Place and content of a store."""
    try:
        from reticent_collector.stores import open_store

        with closing(open_store(url, readonly=True)) as opened:
            yield STORE("reachable", "ok", opened.url)
            yield from _place(url, opened)
            yield from _content(opened)
    except (ReticentError, OSError) as error:
        yield failed(STORE, "reachable", error, "check the address, and that the server runs")


def _place(url: str, opened: RoundStore[Any]) -> Iterator[Check]:
    """Where it is stored: a file or a folder of this machine, a database or a bucket."""
    kind, _, path = url.partition("///")
    if kind not in ("sqlite:", "lake:"):
        if not url.startswith(("postgresql://", "postgres://")):
            yield STORE("writable", "note", "not tried: it would write to the bucket")
            return
        writable = opened.backend.writable()
    else:
        file, folder = Path(path), Path(path).resolve().parent if kind == "sqlite:" else Path(path)
        writable = os.access(folder, os.W_OK | os.X_OK)
        if kind == "sqlite:":
            yield private_file(STORE, "permissions", file)
            writable = writable and os.access(file, os.R_OK | os.W_OK)
        if hasattr(os, "ST_RDONLY"):  # root passes os.access on a disk that is read only
            writable = writable and not os.statvfs(folder).f_flag & os.ST_RDONLY
    hint = "run as the user of the collector, or give this one the right"
    yield verdict(STORE, "writable", "by this user", "" if writable else "not by this user", hint)
    if kind in ("sqlite:", "lake:"):
        yield disk(shutil.disk_usage(folder).free)
    else:
        yield STORE("disk", "note", "that of the server, which cannot be seen from here")


def disk(free: int) -> Check:
    """
    Free space.

    >>> [disk(free).state for free in (1 << 40, 1 << 29, 1 << 20)]
    ['ok', 'note', 'problem']
    """
    message = f"{free / 2**30:,.1f} GiB free"
    if free < SCARCE_DISK:
        return STORE("disk", "problem", message, "free some: a full disk stops the collector")
    if free < LITTLE_DISK:
        return STORE("disk", "note", message, "free some before it is full")
    return STORE("disk", "ok", message)


def _content(opened: RoundStore[Any]) -> Iterator[Check]:
    """What is in it; of a damaged store, the damage alone."""
    problems = opened.verify()
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        yield STORE(
            "content", "problem", f"{problems[0]}{more}", f"reticent store check --store {opened.url}"
        )
        return
    yield STORE("content", "ok", "consistent")
    roles: Counter[str] = Counter(key.role for key in list(opened.keys()) if key.active)
    yield keys(roles, opened.url)
    plans = {(plan.name, plan.version): plan for plan in opened.plans()}
    closings = [plans[key[:2]].round(key.round).closes for key in opened.unsealed() if key[:2] in plans]
    yield overdue(closings, time.time(), opened.url)
    reports = sum(info.reports for info in opened.rounds() if info.state != "sealed")
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    available = next((line for line in lines if line.startswith("MemAvailable:")), None)
    yield memory(reports, None if available is None else int(available.split()[1]) * 1024)


def keys(by_role: Counter[str], url: str) -> Check:
    """
    Whether devices can write and people can read.

    >>> keys(Counter(ingest=1, reader=2), "").message
    '1 ingest, 2 reader'
    >>> keys(Counter(ingest=1), "").state, keys(Counter(), "").state
    ('note', 'note')
    """
    command = f"reticent keys create --store {url} --role"
    if not by_role:
        return STORE("keys", "note", "none: the collector listens on this machine only", f"{command} ingest")
    shown = ", ".join(f"{by_role[role]} {role}" for role in sorted(by_role))
    for role, what in (("ingest", "no device can send"), ("reader", "no one can read")):
        if not by_role[role] and not by_role["admin"]:
            return STORE("keys", "note", f"{shown}: {what}", f"{command} {role}")
    return STORE("keys", "ok", shown)


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
        return STORE("rounds", "ok", f"{len(closings):,} open, none overdue")
    return STORE(
        "rounds",
        "problem",
        f"{len(late):,} of {len(closings):,} open rounds should have been sealed, the first one "
        f"{(now - min(late)) / 3600:.1f} hours ago",
        f"start the collector, or reticent rounds --seal --store {url}",
    )


def memory(reports: int, free: int | None) -> Check:
    """
    Whether the reports of open rounds fit into memory.

    >>> [memory(reports, 2**30).state for reports in (1_000_000, 10_000_000, 20_000_000)]
    ['ok', 'note', 'problem']
    """
    if free is None:
        return STORE("memory", "note", "this system does not tell how much is free")
    needed = reports * BYTES_PER_REPORT
    sizes = [
        f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB" for size in (free, needed)
    ]
    message = f"{sizes[0]} free; {reports:,} reports of open rounds take about {sizes[1]} in a collector"
    if needed > free:
        return STORE("memory", "problem", message, "seal rounds that are over, or add memory")
    if needed > free / 2:
        return STORE("memory", "note", message, "a second collector on this machine would not fit")
    return STORE("memory", "ok", message)


def check_state(file: Path, plan: Plan | None) -> Iterator[Check]:
    """Who can access a device's state file, and whether it is intact. Nothing in it is shown."""
    if not file.is_file():
        there = file.parent.is_dir()
        hint = "the device creates it when it starts" if there else f"create {file.parent} first"
        yield DEVICE("state file", "note", f"{file}: there is none yet", hint)
        return
    private = private_file(DEVICE, "permissions", file, ": it holds a secret")
    if private.state == "ok" and not os.access(file, os.R_OK | os.W_OK):
        message = f"{file} cannot be written by this user"
        private = DEVICE("permissions", "problem", message, "run as the user of the program")
    yield private
    folder = file.resolve().parent
    others = open_to_others(folder, 0o022)
    fault = f"{others} can replace files in {folder}" if others else ""
    hint = "keep the state file in a folder of its owner"
    yield verdict(DEVICE, "folder", "only its owner can replace the file", fault, hint)
    yield _whole(file, plan)
    quarantined = len(list(file.parent.glob(f"{file.name}.quarantined-*")))
    if quarantined:
        yield DEVICE(
            "quarantine",
            "note",
            f"{quarantined} damaged state files beside it, and their answers were drawn again",
            "find out what damages them; each new epoch adds to the loss",
        )


def _whole(file: Path, plan: Plan | None) -> Check:
    """Whether it is a device's file, of a known layout, and not damaged."""
    with file.open("rb") as opened:
        header = opened.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00"):
        return DEVICE(
            "content", "problem", f"{file} is not a state file", "give the file that the program uses"
        )
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        message = f"{file} belongs to another program"
        return DEVICE("content", "problem", message, "give the device a file of its own")
    if int.from_bytes(header[60:64], "big") > known_layout():
        return DEVICE("content", "problem", "written by a newer reticent", "update this one")
    # While a program has the file open, its log is read too. Otherwise the file is opened as immutable: SQLite would
    # else create the index of a log that does not exist.
    how = "mode=ro" if Path(f"{file}-wal").exists() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?{how}", uri=True, timeout=2.0)) as connection:
            (damage,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if damage != "ok" or not names >= TABLES.keys():
                return DEVICE("content", "problem", "damaged", "the program sets it aside at its next start")
            (served,) = connection.execute("SELECT plan FROM device").fetchone()
    except sqlite3.Error:
        return DEVICE("content", "problem", "cannot be read", "the program sets it aside at its next start")
    fault = ""
    if plan is not None and served != plan.name:
        fault = f"the state of plan {served}, not of {plan.name}"
    hint = "one state file serves one plan; give each its own"
    return verdict(DEVICE, "content", f"intact, for plan {served}", fault, hint)


def check_endpoint(url: str) -> Iterator[Check]:
    """A collector, as a device reaches it."""
    try:
        HttpTransport(url)
    except ParameterError as error:
        yield failed(ENDPOINT, "address", error, "give the address that the devices have")
        return
    try:
        yield from _answers(url)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        message = f"its certificate is not accepted: {reason}"
        yield ENDPOINT("reachable", "problem", message, "replace it: devices do not send")
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        message = f"no answer: {reason}"
        yield ENDPOINT("reachable", "problem", message, "is the collector running, its port open?")


def _answers(url: str) -> Iterator[Check]:
    health, date, ends = _get(url, "/healthz")
    if health != 200:
        message = f"/healthz answers {health}, not 200"
        yield ENDPOINT("reachable", "problem", message, "is this a reticent collector?")
        return
    yield ENDPOINT("reachable", "ok", "a collector answers")
    ready, _, _ = _get(url, "/readyz")
    fault = "" if ready == 200 else f"/readyz answers {ready}: it cannot write"
    yield verdict(ENDPOINT, "ready", "it can write to its store", fault, "look at its store and disk")
    if ends is not None:
        left = ends - time.time()
        message = f"lasts {left / 86_400:.0f} more days"
        yield ENDPOINT(
            "certificate", "ok" if left > SOON else "note", message, "" if left > SOON else "renew it"
        )
    yield clock(date, time.time())


def _get(url: str, path: str) -> tuple[int, str | None, float | None]:
    """Status, Date and the certificate's end, without proxies or redirects, as a device connects."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with closing(kind(parts.hostname or "", parts.port, timeout=5.0)) as connection:
        connection.connect()
        socket: Any = connection.sock
        known = (socket.getpeercert() or {}) if isinstance(socket, ssl.SSLSocket) else {}
        ends = float(ssl.cert_time_to_seconds(str(known["notAfter"]))) if "notAfter" in known else None
        connection.request("GET", parts.path.rstrip("/") + path)
        response = connection.getresponse()
        return response.status, response.getheader("Date"), ends


def clock(date: str | None, now: float) -> Check:
    """
    The clock here against the Date header of an answer, which a proxy may add.

    >>> clock("Thu, 01 Jan 1970 00:10:00 GMT", 601.0).message
    'agrees within 1 s'
    >>> clock("Thu, 01 Jan 1970 00:10:00 GMT", 1200.0).state, clock(None, 0.0).state
    ('problem', 'note')
    """
    if date is None:
        return ENDPOINT(
            "clock", "note", "not compared: collectors send no Date header, and no proxy added one"
        )
    try:
        ahead = now - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return ENDPOINT("clock", "note", "not compared: the Date header cannot be read")
    if abs(ahead) > SKEW:
        message = f"the clock here is {abs(ahead):,.0f} s {'ahead' if ahead > 0 else 'behind'}"
        hint = "set the clocks by NTP: reports of a round that is not open are refused"
        return ENDPOINT("clock", "problem", message, hint)
    return ENDPOINT("clock", "ok", f"agrees within {max(1.0, abs(ahead)):.0f} s")
