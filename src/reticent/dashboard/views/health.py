"""The collector's health: what each number means, and when to worry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from reticent.collector import LATELY_SECONDS, Health
from reticent.dashboard import labels
from reticent.dashboard.views import View
from reticent.dashboard.views.over_time import over_time
from reticent.errors import StoreError
from reticent.results import Result, Results, Subject

LOOKED_AT = 4  # latest rounds of each plan that are tested against chance
MOST_KEYS = 50  # on the page; its twin has all of them
_NUMBERS = (
    "version",
    "store",
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


def newest_uneven(results: Results) -> list[Result] | None:
    """The newest uneven round of each histogram; None when the store cannot be read."""
    newest: dict[tuple[str, str], Result] = {}
    try:
        for plan in sorted(results.plans()):
            for result in results.uneven(plan, LOOKED_AT):
                newest.setdefault((plan, result.metric.name), result)
    except StoreError:
        return None
    return list(newest.values())


def health_page(health: Health, results: Results) -> View:
    """The page of the collector itself."""
    uneven = newest_uneven(results)
    time_shown, time_twin = over_time(health, results)
    health = replace(health, uneven=None if uneven is None else tuple(uneven))
    unevens = [_uneven(result) for result in uneven or ()]
    worries = [line.name for _, lines in LINES for line in lines if line.worried(health)]
    worries += ["Seal delay"] if time_shown["overdue"] else []
    return View(
        template="health.html",
        title="Health",
        twin={
            **{name: getattr(health, name) for name in _NUMBERS},
            "rejected": dict(health.rejected),
            "keys": [asdict(key) for key in health.keys],
            "uneven": None if uneven is None else [twin for _, twin in unevens],
            "worries": worries,
            "over_time": time_twin,
        },
        shown={
            "health": health,
            "sections": LINES,
            "rejected": sorted(health.rejected.items(), key=lambda item: (-item[1], item[0])),
            "keys": key_rows(health),
            "other_keys": max(0, len(health.keys) - MOST_KEYS),
            "uneven": [shown for shown, _ in unevens],
            "uneven_means": labels.UNEVEN_MEANS,
            "over_time": time_shown,
            "worries": worries,
        },
        refresh=True,
    )


def _uneven(result: Result) -> tuple[dict[str, str], dict[str, Any]]:
    """A histogram whose reports chance does not explain, for the page and for the twin."""
    balance = result.balance
    shown = {
        "name": f"{result.plan} / {result.metric.name}",
        "path": f"/plans/{result.plan}/metrics/{result.metric.name}"
        f"?every=round&at={labels.address(result.start, 'round')}",
        "when": labels.span(result.start, result.end),
        "state": result.state,
        "sentence": labels.uneven(result.metric, balance) if balance else "",
    }
    twin = {**Subject.to_dict(result), **(balance.to_dict() if balance else {})}
    return shown, twin


def key_rows(health: Health) -> list[dict[str, str]]:
    """The busiest keys as rows; a collector up for less than five minutes got its reports in less."""
    seconds = max(1.0, min(LATELY_SECONDS, health.uptime_seconds))
    total = sum(key.reports for key in health.keys)
    lately = sum(key.reports_lately for key in health.keys)
    return [
        {
            "id": key.id,
            "label": key.label,
            "role": key.role if key.active else f"{key.role}, revoked",
            "reports": f"{key.reports:,}",
            "share": labels.percent(key.reports / total) if total else "",
            "rate": labels.rounded(key.reports_lately / seconds, 2),
            "share_lately": labels.percent(key.reports_lately / lately) if lately else "",
            "requests": f"{key.requests:,}",
            "refused": f"{key.refused:,}",
            "limited": f"{key.limited:,}",
            "over": "over its rate" if key.limited_lately else "",
        }
        for key in health.keys[:MOST_KEYS]
    ]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the page: its value, what it means, when to worry."""

    name: str
    shown: Callable[[Health], str]
    means: str
    worry: str = ""
    worried: Callable[[Health], bool] = lambda health: False


def _with_share(health: Health, count: int) -> str:
    return f"{count:,} ({labels.percent(health.share(count))})" if count else "0"


LINES: list[tuple[str, list[Line]]] = [
    (
        "Reports since start",
        [
            Line(
                "Accepted",
                lambda health: f"{health.accepted:,}",
                "New reports that are durable in the store and will be counted exactly once.",
                "It stands still for longer than a round although devices are running.",
            ),
            Line(
                "Duplicate",
                lambda health: _with_share(health, health.duplicate),
                "Reports that were there already: a device did not hear the answer and sent again, or "
                "someone replays what it saw. Harmless either way: a report counts once.",
                "More than 10 %: answers get lost on the way back, time-outs are too short, or someone "
                "replays reports; the table of keys shows who sends far more than the others.",
                lambda health: health.share(health.duplicate) > 0.1,
            ),
            Line(
                "Late",
                lambda health: _with_share(health, health.late),
                "Reports whose round took no more when they came: its grace was over. They are not counted.",
                "More than 1 %: the grace is too short for these devices, or their clocks are wrong.",
                lambda health: health.share(health.late) > 0.01,
            ),
            Line(
                "Rejected",
                lambda health: _with_share(health, health.refused),
                "What else was refused: whole requests, or single reports of a batch. The table below has "
                "the reasons, late ones among them.",
                "More than 1 %: an old plan in the field, a wrong key, or someone who tries things out.",
                lambda health: health.share(health.refused) > 0.01,
            ),
            Line(
                "Requests",
                lambda health: f"{health.requests:,}",
                "POSTs that came; one may carry many reports.",
            ),
        ],
    ),
    (
        "Who sends",
        [
            Line(
                "Over the rate",
                lambda health: (
                    f"{sum(key.limited_lately for key in health.keys):,} in the last 5 min"
                    if health.rate
                    else "no limit is set"
                ),
                "Requests that were refused because their key sent more than --rate allows. Devices send "
                "again later.",
                "Any: a key is used by more devices than it was made for, or someone floods the collector.",
                lambda health: any(key.limited_lately for key in health.keys),
            ),
            Line(
                "Cohorts",
                lambda health: (
                    "unknown"
                    if health.uneven is None
                    else f"{len(health.uneven):,} uneven"
                    if health.uneven
                    else "even"
                ),
                "Devices draw at random what their histogram answers are about. The latest rounds are held "
                "against chance, with at most one false alarm in a million for each. A lie about an answer, "
                "and so any lie about a mean, leaves no trace: each metric's page says how far lies reach.",
                "Any is uneven: someone picks cohorts to push a bucket, or a client draws them wrongly.",
                lambda health: bool(health.uneven),
            ),
        ],
    ),
    (
        "Right now",
        [
            Line(
                "Commit",
                lambda health: (
                    f"{labels.rounded(health.commit_p50_ms, 2)} ms, "
                    f"1 % above {labels.rounded(health.commit_p99_ms, 2)} ms"
                ),
                "Time that the store takes for a commit: median and slowest 1 % of the latest 4,096. A "
                "report waits for the one under way, and then for its own.",
                "The slowest 1 % above 250 ms: the disk or the database is too slow or too busy.",
                lambda health: health.commit_p99_ms > 250,
            ),
            Line(
                "Waiting",
                lambda health: f"{health.queue:,}",
                "Reports that wait for the next commit.",
                "More than 10,000, or more at every look: reports come faster than they can be written.",
                lambda health: health.queue > 10_000,
            ),
            Line(
                "Open reports",
                lambda health: f"{health.open_reports:,}",
                "Reports in rounds that are not sealed yet; their ids are in memory, to tell repeats by.",
                "It grows from day to day: rounds are not being sealed.",
            ),
            Line(
                "Memory",
                lambda health: (
                    labels.size(health.memory_bytes)
                    + (
                        f", {health.memory_bytes / health.open_reports:,.0f} bytes a report"
                        if health.open_reports
                        else ""
                    )
                ),
                "What open rounds take: ids, and answers that are not yet added up. The process itself and "
                "remembered counts come on top.",
                "It comes near the machine's: fewer open rounds (a shorter grace) need less.",
            ),
        ],
    ),
    (
        "This collector",
        [
            Line(
                "Up for",
                lambda health: labels.duration(health.uptime_seconds),
                "Time since the last start. Counts above begin at 0 then; nothing acknowledged is lost.",
                "Less than you think: it restarts by itself.",
            ),
            Line("Store", lambda health: health.store, "Where rounds rest."),
            Line("Version", lambda health: health.version, "The version of reticent."),
        ],
    ),
]
