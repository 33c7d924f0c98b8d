"""What each key sent, as the health page takes and shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from reticent.collector.traffic import LATELY_SECONDS
from reticent.dashboard import labels

MOST_KEYS = 50
"""As many lines as the page shows; its twin has all of them."""


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key: its id and label, never its secret, and what it sent since the start and lately."""

    id: str
    label: str
    role: str
    active: bool
    requests: int
    reports: int
    """Acknowledged; repeats count again."""
    refused: int
    limited: int
    """Requests that were refused because the key was over its rate."""
    reports_lately: int
    limited_lately: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def key_lines(given: object) -> tuple[KeyLine, ...]:
    """
    The keys that were given, but for those that lack something or have it in another type.

    >>> key_lines([{"id": "1f2e3d4c"}, "x"]), key_lines(None)
    ((), ())
    """
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return ()
    return tuple(line for each in given if (line := _line(each)) is not None)


def _line(given: object) -> KeyLine | None:
    if not isinstance(given, Mapping):
        return None
    kinds = {"id": str, "label": str, "role": str, "active": bool}
    values: dict[str, Any] = {name: given.get(name) for name in KeyLine.__slots__}
    right = all(type(value) is kinds.get(name, int) for name, value in values.items())
    return KeyLine(**values) if right else None


def key_rows(keys: Sequence[KeyLine], uptime: float | None = None) -> list[dict[str, str]]:
    """The busiest keys as lines of a table; whoever is up for less than lately sent it in less."""
    seconds = max(1.0, min(LATELY_SECONDS, LATELY_SECONDS if uptime is None else uptime))
    total = sum(key.reports for key in keys)
    lately = sum(key.reports_lately for key in keys)
    return [
        {
            "id": key.id,
            "label": key.label,
            "role": key.role if key.active else f"{key.role}, revoked",
            "reports": f"{key.reports:,}",
            "share": _share(key.reports, total),
            "rate": labels.rounded(key.reports_lately / seconds, 2),
            "share_lately": _share(key.reports_lately, lately),
            "requests": f"{key.requests:,}",
            "refused": f"{key.refused:,}",
            "limited": f"{key.limited:,}",
            "over": bool(key.limited_lately) * "over its rate",
        }
        for key in keys[:MOST_KEYS]
    ]


def _share(part: int, whole: int) -> str:
    return labels.percent(part / whole) if whole else ""
