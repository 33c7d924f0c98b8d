"""Checks of the installation and the machine. Which libraries a package needs is read from the package's metadata."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import ssl
import stat
import sys
import time
from collections.abc import Iterator
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

import reticent
from reticent.errors import to_install

OLDEST_SQLITE = (3, 35, 0)
"""The first with RETURNING, which the embedded store needs. The device works with any."""
ENOUGH_FILES, FEW_FILES = 4096, 256
"""Each connection of a device is an open file while it lasts."""
BUILT = 1_767_225_600
"""The first second of 2026: a clock that is earlier is not set."""


class Check(NamedTuple):
    """
    One thing that was checked.

    "ok": as it should be. "note": works, but worth knowing, or could not be checked. "problem": does not
    work, or is not safe; `hint` then tells what to do.
    """

    area: str
    """Installation, machine, plan, store, device, tls or endpoint."""
    name: str
    state: Literal["ok", "note", "problem"]
    message: str
    hint: str = ""


INSTALLATION, MACHINE, TLS = (partial(Check, area) for area in ("installation", "machine", "tls"))


def verdict(area: partial[Check], name: str, fine: str, fault: str, hint: str) -> Check:
    """A problem where there is a fault, otherwise ok."""
    return area(name, "problem", fault, hint) if fault else area(name, "ok", fine)


def failed(area: partial[Check], name: str, error: Exception, hint: str) -> Check:
    """An error as a problem, with its own hint if it has one."""
    message, _, own = str(error).partition("\n  Hint: ")
    return area(name, "problem", message.splitlines()[0].rstrip(".") if message else "failed", own or hint)


def installation() -> Iterator[Check]:
    """What is installed, and whether it is new enough."""
    yield INSTALLATION(
        "python", "ok", f"Python {platform.python_version()} ({platform.python_implementation()})"
    )
    yield INSTALLATION("reticent", "ok", f"{version('reticent')} in {Path(reticent.__file__).parent}")
    found, is_old = f"SQLite {sqlite3.sqlite_version}", sqlite3.sqlite_version_info < OLDEST_SQLITE
    fault = f"{found}: enough for devices, --store sqlite:/// needs 3.35 or newer" if is_old else ""
    yield verdict(
        INSTALLATION, "sqlite", found, fault, "use a Python built with a newer one, or another store"
    )
    for package, libraries in packages().items():
        yield of_package(package, libraries)


def of_package(package: str, libraries: tuple[Requirement, ...]) -> Check:
    """A package of reticent, or an extra of one: complete, missing in whole or part, or too old."""
    name = package
    missing = [library.name for library in libraries if library.installed is None]
    old = [
        f"{library.name} {library.installed} (needs {library.oldest})"
        for library in libraries
        if library.installed is not None and _numbers(library.installed) < _numbers(library.oldest)
    ]
    if old:
        return INSTALLATION(
            name, "problem", f"too old: {', '.join(old)}", f"pip install --upgrade '{package}'"
        )
    if missing:
        message = f"not installed: {', '.join(missing)}; for {VERBS.get(package, '')}"
        return INSTALLATION(name, "note", message, f"if you need it: {to_install(package)}")
    own = [f"{library.name} {library.installed}" for library in libraries]
    return INSTALLATION(name, "ok", ", ".join(own))


VERBS = {
    "reticent-collector": "serve, keys, rounds, estimate, export, store, plan, ingest, relay",
    "reticent-collector[postgres]": "--store postgresql://…",
    "reticent-collector[arrow]": "export to .parquet",
    "reticent-lake": "count, sql, --store lake:///…",
    "reticent-lake[spark]": "count --engine spark",
    "reticent-lab": "demo, design, simulate, audit",
    "reticent-otel": "the OpenTelemetry exporter in a program",
    "reticent-otel[agent]": "agent",
}
"""What needs a package, or an extra of one."""
MODULES = {"prometheus-client": "prometheus_client", "opentelemetry-sdk": "opentelemetry",
           "opentelemetry-proto": "opentelemetry.proto", "protobuf": "google"}  # fmt: skip
"""What a distribution is imported as, where the two names differ."""


class Requirement(NamedTuple):
    """One library of a package, and its oldest version that works."""

    name: str
    oldest: str = ""

    @property
    def installed(self) -> str | None:
        """The installed version."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return None


@cache
def packages() -> dict[str, tuple[Requirement, ...]]:
    """The libraries of each package of reticent and each of its extras, those of other houses left out."""
    found: dict[str, tuple[Requirement, ...]] = {}
    for name in VERBS:
        package, _, extra = name.rstrip("]").partition("[")
        if Requirement(package).installed is None:
            found[name] = (Requirement(package),)
        else:
            found[name] = tuple(sorted(_required(package, extra)))
    return found


def _required(package: str, extra: str) -> Iterator[Requirement]:
    for line in requires(package) or ():
        text, _, marker = line.partition(";")
        of_extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        library = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?:>=\s*([0-9.]+))?", text)
        if library and not library[1].startswith("reticent") and (of_extra[1] if of_extra else "") == extra:
            yield Requirement(library[1], library[2] or "")


def package_of(module: str) -> str | None:
    """
    The first package that brings a module; None when none does.

    >>> package_of("scipy.special"), package_of("psycopg"), package_of("os")
    ('reticent-collector', 'reticent-collector[postgres]', None)
    """
    top = module.partition(".")[0]
    for package, libraries in packages().items():
        if any(MODULES.get(library.name, library.name) == top for library in libraries):
            return package
    return None


def _numbers(text: str) -> tuple[int, ...]:
    """
    The numbers at the start of a version, without zeros at the end.

    >>> _numbers("2.0.0rc1"), _numbers("1.10"), _numbers("")
    ((2,), (1, 10), ())
    """
    start = re.match(r"[0-9]+(\.[0-9]+)*", text)
    return tuple(map(int, re.sub(r"(\.0+)+$", "", start[0]).split("."))) if start else ()


def machine() -> Iterator[Check]:
    """Open files and the clock."""
    if sys.platform == "win32":
        yield open_files(None)
    else:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

        soft = getrlimit(RLIMIT_NOFILE)[0]
        yield open_files(2**31 if soft == RLIM_INFINITY else soft)
    fault = "earlier than the release of this program" if time.time() < BUILT else ""
    now = f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC"
    yield verdict(MACHINE, "clock", now, fault, "set the clock, by NTP")


def open_files(limit: int | None) -> Check:
    """
    How many files, and so connections, a process may have open.

    >>> [open_files(limit).state for limit in (1_048_576, 1024, 64, None)]
    ['ok', 'note', 'problem', 'note']
    """
    if limit is None:
        return MACHINE("open files", "note", "this system does not tell the limit")
    if limit >= ENOUGH_FILES:
        return MACHINE("open files", "ok", f"{limit:,} at once")
    message = f"{limit:,} at once: a collector cannot hold more connections than that"
    hint = f"ulimit -n {65_536}, or LimitNOFILE of its service"
    return MACHINE("open files", "note" if limit >= FEW_FILES else "problem", message, hint)


def open_to_others(path: Path, rights: int = 0o077) -> str:
    """Who besides the owner has any of these rights: "", "its group", "everybody"; "" where files have no modes."""
    granted = stat.S_IMODE(path.stat().st_mode) & rights if os.name == "posix" else 0
    if granted & 0o007:
        return "everybody"
    return "its group" if granted & 0o070 else ""


def private_file(area: partial[Check], name: str, file: Path, why: str = "") -> Check:
    """Whether only its owner can access a file."""
    others = open_to_others(file)
    fault = f"{others} can access {file}{why}" if others else ""
    return verdict(area, name, "only its owner can access the file", fault, f"chmod 600 {file}")


def tls(certificate: Path | None, key: Path | None) -> Iterator[Check]:
    """Whether only its owner reads the key, and the two belong together."""
    if key is not None:
        yield private_file(TLS, "key", key)
    if key is None or certificate is None:
        yield TLS(
            "certificate", "note", "a certificate and a key go together", "give --tls-cert and --tls-key"
        )
        return
    fault = ""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError):
        fault = "the two files are not a certificate and its key"
    hint = "give PEM files that belong together, the key without a password"
    yield verdict(TLS, "certificate", "belongs to the key", fault, hint)
