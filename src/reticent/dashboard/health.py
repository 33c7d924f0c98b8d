"""
The collector's own figures, as the dashboard takes and explains them.

`routes` is handed a function that returns a mapping with these keys. A key that is missing is shown as
unknown, and unknown keys are passed by, so either side can be newer.

    version           "0.1.0"
    store             "sqlite:///reticent.db", without a password
    uptime_seconds    93784.0
    requests          1_204_331      POSTs that came, of one report or a batch
    accepted          1_203_990      new reports, durable
    duplicate         310            reports that were there already
    late              28             reports whose round took no more
    rejected          {"malformed": 2, "late": 28}    requests, or reports of a batch, that were refused
    commit_p50_ms     0.4            time that the store takes for a commit, median
    commit_p99_ms     3.1
    queue             0              reports that wait for the next commit
    open_reports      48_120         reports in rounds that are open
    memory_bytes      1_636_080      memory that those take
    rate              500.0          reports a second that a key may send, 0 for any number
    keys              [{"id": "1f2e3d4c", "label": "", "role": "ingest", "active": True, "requests": 12,
                        "reports": 12, "refused": 0, "limited": 0, "reports_lately": 3,
                        "limited_lately": 0}]    what each key sent; lately is the last five minutes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reticent.dashboard import labels
from reticent.dashboard.keys import KeyLine, key_lines
from reticent.results import Result

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
    "rate",
)


@dataclass(frozen=True, slots=True)
class Health:
    """The figures that were given, checked."""

    version: str = ""
    store: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    keys: tuple[KeyLine, ...] = ()
    uneven: tuple[Result, ...] | None = None
    """Histograms that chance does not explain; None when nobody could look."""

    @classmethod
    def of(cls, given: Mapping[str, object], uneven: Sequence[Result] | None = None) -> Health:
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
            keys=key_lines(given.get("keys")),
            uneven=None if uneven is None else tuple(uneven),
        )

    def number(self, name: str) -> float | None:
        """A figure, or None when it was not given."""
        return self.numbers.get(name)

    @property
    def rejected_by_code(self) -> list[tuple[str, int]]:
        """What was refused, by its code, most frequent first."""
        return sorted(self.rejected.items(), key=lambda item: (-item[1], item[0]))

    @property
    def refused(self) -> int:
        """What was refused for another reason than being late."""
        return sum(count for code, count in self.rejected.items() if code != "late")

    @property
    def received(self) -> float:
        """All that came, whatever became of it; a request that was refused as a whole is one."""
        return self.refused + sum(self.numbers.get(name, 0) for name in ("accepted", "duplicate", "late"))

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
            "keys": [key.to_dict() for key in self.keys],
            "uneven": None if self.uneven is None else [_imbalance(result) for result in self.uneven],
            "worries": self.worries,
        }


def _imbalance(result: Result) -> dict[str, Any]:
    """Where a histogram's reports are uneven, and how far chance is from explaining them."""
    return {
        "plan": result.plan,
        "version": result.version,
        "metric": result.metric.name,
        "round": result.round,
        "start": result.start,
        "end": result.end,
        "state": result.state,
        **(result.balance.to_dict() if result.balance else {}),
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
        return f"{value:,.0f} ({labels.percent(health.share(value))})" if value else "0"

    return shown


def _milliseconds(health: Health) -> str:
    median, slow = health.number("commit_p50_ms"), health.number("commit_p99_ms")
    if median is None or slow is None:
        return UNKNOWN
    return f"{labels.rounded(median, 2)} ms, 1 % above {labels.rounded(slow, 2)} ms"


def _size(health: Health) -> str:
    value, reports = health.number("memory_bytes"), health.number("open_reports")
    if value is None:
        return UNKNOWN
    return f"{labels.size(value)}, {value / reports:,.0f} bytes a report" if reports else labels.size(value)


def _uptime(health: Health) -> str:
    value = health.number("uptime_seconds")
    return UNKNOWN if value is None else labels.duration(value)


def _rejected(health: Health) -> str:
    total = health.refused
    return f"{total:,} ({labels.percent(health.share(total))})" if total else "0"


def _limited(health: Health) -> str:
    rate, lately = health.number("rate"), sum(key.limited_lately for key in health.keys)
    if rate is None:
        return UNKNOWN
    return f"{lately:,} in the last 5 min" if rate else "no limit is set"


def _cohorts(health: Health) -> str:
    if health.uneven is None:
        return UNKNOWN
    return f"{len(health.uneven):,} uneven" if health.uneven else "even"


FIGURES: list[tuple[str, list[Figure]]] = [
    (
        "Reports since start",
        [
            Figure(
                "Accepted",
                _count("accepted"),
                "New reports that are durable in the store and will be counted exactly once.",
                "It stands still for longer than a round although devices are running.",
            ),
            Figure(
                "Duplicate",
                _counted("duplicate"),
                "Reports that were there already: a device did not hear the answer and sent again, or "
                "somebody replays what it saw. Harmless either way: a report counts once.",
                "More than 10 %: answers get lost on the way back, time-outs are too short, or somebody "
                "replays reports; the table of keys shows who sends far more than the others.",
                lambda health: health.share(health.number("duplicate")) > 0.1,
            ),
            Figure(
                "Late",
                _counted("late"),
                "Reports whose round took no more when they came: its grace was over. They are not counted.",
                "More than 1 %: the grace is too short for these devices, or their clocks are wrong.",
                lambda health: health.share(health.number("late")) > 0.01,
            ),
            Figure(
                "Rejected",
                _rejected,
                "What else was refused: whole requests, or single reports of a batch. The table below has "
                "the reasons, late ones among them.",
                "More than 1 %: an old plan in the field, a wrong key, or somebody who tries things out.",
                lambda health: health.share(health.refused) > 0.01,
            ),
            Figure("Requests", _count("requests"), "POSTs that came; one may carry many reports."),
        ],
    ),
    (
        "Who sends",
        [
            Figure(
                "Over the rate",
                _limited,
                "Requests that were refused because their key sent more than --rate allows. Devices send "
                "again later.",
                "Any: a key is used by more devices than it was made for, or somebody floods the collector.",
                lambda health: any(key.limited_lately for key in health.keys),
            ),
            Figure(
                "Cohorts",
                _cohorts,
                "Devices draw at random what their histogram answers are about. The latest rounds are held "
                "against chance, with at most one false alarm in a million for each. A lie about an answer, "
                "and so any lie about a mean, leaves no trace: each metric's page says how far lies reach.",
                "Any is uneven: somebody picks cohorts to push a bucket, or a client draws them wrongly.",
                lambda health: bool(health.uneven),
            ),
        ],
    ),
    (
        "Right now",
        [
            Figure(
                "Commit",
                _milliseconds,
                "Time that the store takes for a commit: median and slowest 1 % of the latest 4,096. A "
                "report waits for the one under way, and then for its own.",
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
                "Reports in rounds that are not sealed yet; their ids are in memory, to tell repeats by.",
                "It grows from day to day: rounds are not being sealed.",
            ),
            Figure(
                "Memory",
                _size,
                "What open rounds take: ids, and answers that are not yet added up. The process itself and "
                "remembered counts come on top.",
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
            Figure("Version", lambda health: health.version or UNKNOWN, "The version of reticent."),
        ],
    ),
]
"""Sections of the page, each with its figures."""
