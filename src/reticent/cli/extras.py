"""The extras of reticent and what is installed of them, as the package's own metadata says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

VERBS = {
    "cli": "every verb",
    "estimates": "plan check, estimate, export, design, simulate, audit",
    "collector": "serve, demo, keys, rounds, estimate, export, store",
    "postgres": "--store postgresql://…",
    "lake": "count, --counts, --store lake:///…",
    "spark": "count --engine spark",
    "lab": "pictures with --out",
    "arrow": "export to .parquet",
    "otel": "no verb: the OpenTelemetry exporter",
    "agent": "agent",
}
"""Which verbs need an extra."""

MODULES = {"prometheus-client": "prometheus_client", "opentelemetry-sdk": "opentelemetry",
           "opentelemetry-proto": "opentelemetry.proto"}  # fmt: skip
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
