"""
Checks of what is installed and of the machine: Python, libraries, open files, the clock, certificates.

Which libraries an extra needs is read from the package's own metadata.
"""

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
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal

import reticent

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """
    One thing that was looked at.

    "ok": as it should be. "note": works, but worth knowing, or could not be looked at. "problem": does not
    work, or is not safe; `hint` then says what to do.
    """

    area: str
    """What it is about: installation, machine, plan, store, device, tls or endpoint."""
    name: str
    state: State
    message: str
    hint: str = ""

    def to_dict(self) -> dict[str, str]:
        """Ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Area:
    """Makes the checks of one area."""

    name: str

    def ok(self, name: str, message: str) -> Check:
        """All is well."""
        return Check(self.name, name, "ok", message)

    def note(self, name: str, message: str, hint: str = "") -> Check:
        """Works, but worth knowing."""
        return Check(self.name, name, "note", message, hint)

    def problem(self, name: str, message: str, hint: str) -> Check:
        """Does not work, or is not safe."""
        return Check(self.name, name, "problem", message, hint)

    def failure(self, name: str, error: Exception, hint: str) -> Check:
        """What an error says, with its own hint if it has one."""
        message, _, own = str(error).partition("\n  Hint: ")
        return self.problem(name, message.splitlines()[0].rstrip(".") if message else "failed", own or hint)

    def private_file(self, name: str, file: Path, why: str = "") -> Check:
        """Whether nobody but its owner may reach a file."""
        if others := open_to_others(file):
            return self.problem(name, f"{others} may reach {file}{why}", f"chmod 600 {file}")
        return self.ok(name, "its owner alone may reach the file")


INSTALLATION, MACHINE, TLS = Area("installation"), Area("machine"), Area("tls")
OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35, 0)
"""What the embedded store needs: the first one with RETURNING. The device is content with any."""


def installation() -> Iterator[Check]:
    """What is installed, and whether it is new enough."""
    yield python(sys.version_info[:2])
    yield INSTALLATION.ok("reticent", f"{version('reticent')} in {Path(reticent.__file__).parent}")
    yield sqlite(sqlite3.sqlite_version_info)
    for extra in extras():
        yield of_extra(extra, extras()[extra])


def python(running: tuple[int, int]) -> Check:
    """
    The version of Python.

    >>> python((3, 12)).state, python((3, 10)).state
    ('ok', 'problem')
    """
    shown = f"Python {'.'.join(map(str, running))} ({platform.python_implementation()})"
    needs = f"reticent needs {metadata('reticent')['Requires-Python']}"
    return _new_enough("python", shown, running >= OLDEST_PYTHON, needs, "install a newer Python")


def sqlite(linked: tuple[int, ...]) -> Check:
    """
    The SQLite that Python was built with.

    >>> sqlite((3, 45, 1)).message
    'SQLite 3.45.1'
    >>> sqlite((3, 34, 1)).state
    'problem'
    """
    shown, needs = (
        f"SQLite {'.'.join(map(str, linked))}",
        "devices can use it, --store sqlite:/// needs 3.35 or newer",
    )
    hint = "it comes with Python: use a newer build of it, or another store"
    return _new_enough("sqlite", shown, linked >= OLDEST_SQLITE, needs, hint)


def _new_enough(name: str, shown: str, enough: bool, needs: str, hint: str) -> Check:
    return INSTALLATION.ok(name, shown) if enough else INSTALLATION.problem(name, f"{shown}; {needs}", hint)


def of_extra(extra: str, libraries: tuple[Requirement, ...]) -> Check:
    """One extra: all there, not installed at all, in part, or too old."""
    name, command = f"reticent[{extra}]", f"pip install 'reticent[{extra}]'"
    there = {library.name: version for library in libraries if (version := library.installed) is not None}
    missing = [library.name for library in libraries if library.name not in there]
    old = [
        f"{library.name} {there[library.name]} (needs {library.oldest})"
        for library in libraries
        if library.name in there and not library.is_met_by(there[library.name])
    ]
    if old:
        return INSTALLATION.problem(name, f"too old: {', '.join(old)}", f"{command} --upgrade")
    if missing:
        needed = f"not here: {', '.join(missing)}; for {VERBS.get(extra, '')}"
        return INSTALLATION.note(name, needed, f"{command}, if it is wanted")
    shown = [f"{library.name} {there[library.name]}" for library in own_libraries(extra)]
    return INSTALLATION.ok(name, ", ".join(shown))


# Extras

VERBS = {
    "cli": "every verb but device",
    "estimates": "plan check, estimate, export, design, simulate, audit",
    "collector": "serve, demo, keys, rounds, estimate, export, store",
    "postgres": "--store postgresql://…",
    "lake": "count, --store lake:///…",
    "spark": "count --engine spark",
    "lab": "pictures with --out",
    "arrow": "export to .parquet",
    "otel": "no verb: the OpenTelemetry exporter",
    "agent": "agent",
}
"""Which verbs need an extra."""

MODULES = {"prometheus-client": "prometheus_client", "opentelemetry-sdk": "opentelemetry",
           "opentelemetry-proto": "opentelemetry.proto", "protobuf": "google"}  # fmt: skip
"""What a distribution is imported as, where the two names differ."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?:>=\s*([0-9.]+))?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """
    One library of an extra, and the oldest version that will do.

    >>> numpy = Requirement("numpy", "1.26")
    >>> numpy.is_met_by("1.26.4"), numpy.is_met_by("2.0"), numpy.is_met_by("1.9")
    (True, True, False)
    """

    name: str
    oldest: str = ""

    @property
    def installed(self) -> str | None:
        """The version that is installed; None when there is none."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return None

    def is_met_by(self, installed: str) -> bool:
        """Whether a version is new enough."""
        return _numbers(installed) >= _numbers(self.oldest)


@cache
def extras() -> dict[str, tuple[Requirement, ...]]:
    """All libraries of each extra; the extra `all` is left out, since it is the sum of the others."""
    libraries: dict[str, set[Requirement]] = {}
    for line in requires("reticent") or ():
        text, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        library = _REQUIREMENT.match(text)
        if extra and extra[1] != "all" and library and library[1] != "reticent":
            libraries.setdefault(extra[1], set()).add(Requirement(library[1], library[2] or ""))
    names = sorted(
        libraries, key=lambda name: (list(VERBS).index(name) if name in VERBS else len(VERBS), name)
    )
    return {name: tuple(sorted(libraries[name], key=lambda library: library.name)) for name in names}


def own_libraries(extra: str) -> tuple[Requirement, ...]:
    """What an extra brings beyond the smaller extras that it includes."""
    whole = set(extras()[extra])
    smaller = set().union(*(other for other in map(set, extras().values()) if other < whole), set())
    return tuple(library for library in extras()[extra] if library not in smaller)


def extra_of(module: str) -> str | None:
    """
    The smallest extra that brings a module; None when none does.

    >>> extra_of("scipy.special"), extra_of("prometheus_client"), extra_of("os")
    ('estimates', 'collector', None)
    """
    top = module.partition(".")[0]
    by_size = sorted(extras().items(), key=lambda item: len(item[1]))
    for extra, libraries in by_size:
        if any(MODULES.get(library.name, library.name) == top for library in libraries):
            return extra
    return None


def _numbers(text: str) -> tuple[int, ...]:
    """
    The numbers at the start of a version, without zeros at the end.

    >>> _numbers("2.0.0rc1"), _numbers("1.10"), _numbers("")
    ((2,), (1, 10), ())
    """
    start = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    parts = [int(part) for part in start[0].split(".")] if start else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


# The machine

ENOUGH_FILES, FEW_FILES = 4096, 256
"""Each connection of a device is an open file while it lasts."""
BUILT = 1_767_225_600
"""The first second of 2026: no clock that runs behind reticent itself is set."""
_LOOK, _STEP = 0.05, 0.5
"""Seconds that the clock is watched, and by how many it may be off then: steps that matter to a round."""


def machine() -> Iterator[Check]:
    """What holds for any program here."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:
        yield open_files(None)
    else:
        soft = getrlimit(RLIMIT_NOFILE)[0]
        yield open_files(2**31 if soft == RLIM_INFINITY else soft)
    began = time.time(), time.monotonic()
    time.sleep(_LOOK)
    yield clock(time.time(), (time.time() - began[0]) - (time.monotonic() - began[1]))


def open_files(limit: int | None) -> Check:
    """
    How many files, and so connections, a process may have open.

    >>> [open_files(limit).state for limit in (1_048_576, 1024, 64, None)]
    ['ok', 'note', 'problem', 'note']
    """
    if limit is None:
        return MACHINE.note("open files", "the limit cannot be asked for here")
    if limit >= ENOUGH_FILES:
        return MACHINE.ok("open files", f"{limit:,} at once")
    message = f"{limit:,} at once: a collector cannot hold more connections than that"
    hint = f"ulimit -n {65_536}, or LimitNOFILE of its service"
    return (MACHINE.note if limit >= FEW_FILES else MACHINE.problem)("open files", message, hint)


def clock(now: float, stepped: float) -> Check:
    """
    Whether the clock of the wall is set, and runs as the one that is never set does.

    >>> clock(1_800_000_000, 0.0).state, clock(0, 0.0).state, clock(1_800_000_000, -3.0).state
    ('ok', 'problem', 'problem')
    """
    if now < BUILT:
        return MACHINE.problem("clock", "runs behind the making of this program", "set the clock, by NTP")
    if abs(stepped) > _STEP:
        return MACHINE.problem(
            "clock",
            f"jumped by {stepped:+.2f} s while it was watched",
            "find what sets the clock: rounds are cut by it",
        )
    return MACHINE.ok("clock", f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime(now))} UTC, and runs evenly")


def open_to_others(path: Path, rights: int = 0o077) -> str:
    """
    Who besides the owner has any of these rights: "", "its group", "everybody"; "" also where modes say
    nothing.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     path = Path(file.name)
    ...     path.chmod(0o600)
    ...     private = open_to_others(path)
    ...     path.chmod(0o644)
    ...     private, open_to_others(path)
    ('', 'everybody')
    """
    if os.name != "posix":
        return ""
    granted = stat.S_IMODE(path.stat().st_mode) & rights
    if granted & 0o007:
        return "everybody"
    return "its group" if granted & 0o070 else ""


def tls(certificate: Path | None, key: Path | None) -> Iterator[Check]:
    """Whether nobody else reads the key, and the two belong together."""
    if key is not None:
        yield TLS.private_file("key", key)
    if key is None or certificate is None:
        yield TLS.note("certificate", "a certificate and a key go together", "give --tls-cert and --tls-key")
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError):
        yield TLS.problem(
            "certificate",
            "the two files are not a certificate and its key",
            "give PEM files that belong together, the key without a password",
        )
    else:
        yield TLS.ok("certificate", "belongs to the key")
