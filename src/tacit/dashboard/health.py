"""
The collector's own figures, as the dashboard takes and explains them.

`routes` is handed a function that returns a mapping with these keys. A key that is missing is shown as
unknown, and unknown keys are passed by, so either side can be newer.

    version           "0.1.0"
    store             "sqlite:///tacit.db", without a password
    uptime_seconds    93784.0
    requests          1_204_331      POSTs answered, of one report or a batch
    accepted          1_203_990      new reports, durable
    duplicate         310            reports that were there already
    late              28             reports whose round was sealed
    rejected          {"malformed": 2, "unknown_plan": 1}
    commit_p50_ms     0.4            time from a report's arrival to its commit, median
    commit_p99_ms     3.1
    queue             0              reports that wait for the next commit
    open_reports      48_120         reports in rounds that are open
    memory_bytes      73_400_320     memory of the process
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.dashboard import words

UNKNOWN = "unknown"
_NUMBERS = (
    "uptime_seconds",
    "requests",
    "accepted",
    "duplicate",
    "late",
    "commit_p50_ms",
    "commit_p99_ms",
    "queue",
    "open_reports",
    "memory_bytes",
)


@dataclass(frozen=True, slots=True)
class Health:
    """The figures that were given, checked."""

    version: str = ""
    store: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Health:
        """
        Take what is there and has the right type.

        >>> Health.of({"accepted": 3, "late": "many"}).numbers
        {'accepted': 3}
        """
        rejected = given.get("rejected")
        return cls(
            version=str(given.get("version") or ""),
            store=str(given.get("store") or ""),
            numbers={
                name: value
                for name in _NUMBERS
                if isinstance(value := given.get(name), int | float) and not isinstance(value, bool)
            },
            rejected={str(code): int(count) for code, count in rejected.items() if isinstance(count, int)}
            if isinstance(rejected, Mapping)
            else {},
        )

    def number(self, name: str) -> float | None:
        """A figure, or None when it was not given."""
        return self.numbers.get(name)

    @property
    def rejected_by_code(self) -> list[tuple[str, int]]:
        """Refused reports by their code, most frequent first."""
        return sorted(self.rejected.items(), key=lambda item: (-item[1], item[0]))

    @property
    def received(self) -> float:
        """All reports that came, whatever became of them."""
        return sum(self.numbers.get(name, 0) for name in ("accepted", "duplicate", "late")) + sum(
            self.rejected.values()
        )

    def share(self, count: float | None) -> float:
        """A number of reports as a part of all that came."""
        return (count or 0) / self.received if self.received else 0.0

    @property
    def worries(self) -> list[str]:
        """The figures that call for a look."""
        return [figure.name for _, figures in FIGURES for figure in figures if figure.worried(self)]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; None for what is not known."""
        return {
            "version": self.version or None,
            "store": self.store or None,
            **{name: self.number(name) for name in _NUMBERS},
            "rejected": dict(self.rejected),
            "worries": self.worries,
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the page: how it is shown, what it means, when to worry."""

    name: str
    shown: Callable[[Health], str]
    means: str
    worry: str = ""
    worried: Callable[[Health], bool] = lambda health: False


def _count(name: str) -> Callable[[Health], str]:
    return lambda health: UNKNOWN if (value := health.number(name)) is None else f"{value:,.0f}"


def _counted(name: str) -> Callable[[Health], str]:
    def shown(health: Health) -> str:
        value = health.number(name)
        if value is None:
            return UNKNOWN
        return f"{value:,.0f} ({words.percent(health.share(value))})" if value else "0"

    return shown


def _milliseconds(health: Health) -> str:
    median, slow = health.number("commit_p50_ms"), health.number("commit_p99_ms")
    if median is None or slow is None:
        return UNKNOWN
    return f"{words.rounded(median, 2)} ms, 1 % above {words.rounded(slow, 2)} ms"


def _size(health: Health) -> str:
    value = health.number("memory_bytes")
    return UNKNOWN if value is None else words.size(value)


def _uptime(health: Health) -> str:
    value = health.number("uptime_seconds")
    return UNKNOWN if value is None else words.duration(value)


def _rejected(health: Health) -> str:
    total = sum(health.rejected.values())
    return f"{total:,} ({words.percent(health.share(total))})" if total else "0"


FIGURES: list[tuple[str, list[Figure]]] = [
    (
        "Reports since start",
        [
            Figure(
                "Accepted",
                _count("accepted"),
                "New reports that are on the disk and will be counted exactly once.",
                "It stands still for longer than a round although devices are running.",
            ),
            Figure(
                "Duplicate",
                _counted("duplicate"),
                "Reports that were there already: a device did not hear the answer and sent again. Harmless.",
                "More than 10 %: answers get lost on the way back, or time-outs are too short.",
                lambda health: health.share(health.number("duplicate")) > 0.1,
            ),
            Figure(
                "Late",
                _counted("late"),
                "Reports whose round was sealed before they came. They are not counted.",
                "More than 1 %: the grace is too short for these devices, or their clocks are wrong.",
                lambda health: health.share(health.number("late")) > 0.01,
            ),
            Figure(
                "Rejected",
                _rejected,
                "What was not a report on a plan served here. The table below has the reasons.",
                "More than 1 %: an old plan in the field, or somebody who tries things out.",
                lambda health: health.share(sum(health.rejected.values())) > 0.01,
            ),
            Figure("Requests", _count("requests"), "POSTs answered; one may carry many reports."),
        ],
    ),
    (
        "Right now",
        [
            Figure(
                "Commit",
                _milliseconds,
                "From a report's arrival until it is durable and acknowledged; median and slowest 1 %.",
                "The slowest 1 % above 250 ms: the disk or the database is too slow or too busy.",
                lambda health: (health.number("commit_p99_ms") or 0) > 250,
            ),
            Figure(
                "Waiting",
                _count("queue"),
                "Reports that wait for the next commit.",
                "More than 10,000, or more at every look: reports come faster than they can be written.",
                lambda health: (health.number("queue") or 0) > 10_000,
            ),
            Figure(
                "Open reports",
                _count("open_reports"),
                "Reports in rounds that are not sealed yet; their ids are in memory, about 75 bytes each.",
                "It grows from day to day: rounds are not being sealed.",
            ),
            Figure(
                "Memory",
                _size,
                "Memory of the collector's process.",
                "It comes near the machine's: fewer open rounds (a shorter grace) need less.",
            ),
        ],
    ),
    (
        "This collector",
        [
            Figure(
                "Up for",
                _uptime,
                "Time since the last start. Counts above begin at 0 then; nothing acknowledged is lost.",
                "Less than you think: it restarts by itself.",
            ),
            Figure("Store", lambda health: health.store or UNKNOWN, "Where rounds rest."),
            Figure("Version", lambda health: health.version or UNKNOWN, "The version of tacit."),
        ],
    ),
]
"""Sections of the page, each with its figures."""
