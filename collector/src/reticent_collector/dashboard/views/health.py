"""The collector's health: its numbers with their meaning, its keys, and the recent rounds and day as charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from reticent.errors import StoreError
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.views import View
from reticent_collector.dashboard.views.plans import last_sealed, round_bars
from reticent_collector.http import LATELY_SECONDS, Health
from reticent_collector.http.history import SLOT_SECONDS, HistorySlot
from reticent_collector.results import Result, Results

LOOKED_AT = 4  # latest rounds of each plan that are tested against chance
MOST_KEYS = 50  # on the page; /metrics has all of them
ROUNDS = 60
MOST_PLANS = 20
SETTLED_SECONDS = 120  # after the grace, by which a round should be sealed


def health_page(health: Health, results: Results) -> View:
    """The page of the collector itself."""
    try:
        uneven: list[Result] | None = results.uneven(LOOKED_AT)
    except StoreError:
        uneven = None
    recent = over_time(health, results)
    sections = _sections(health, uneven)
    worries = [row.name for rows in sections.values() for row in rows if row.worried]
    worries += ["Seal delay"] if recent["overdue"] else []
    return View(
        template="health.html",
        title="Health",
        shown={
            "sections": sections,
            "rejected": sorted(health.rejected.items(), key=lambda item: (-item[1], item[0])),
            "keys": _key_rows(health),
            "other_keys": max(0, len(health.keys) - MOST_KEYS),
            "uneven": [_uneven(result) for result in uneven or ()],
            "uneven_means": labels.UNEVEN_MEANS,
            "over_time": recent,
            "worries": worries,
        },
        refresh=30,
    )


def _uneven(result: Result) -> dict[str, str]:
    """A histogram whose reports chance does not explain."""
    balance = result.balance
    at = labels.address(result.start, "round")
    return {
        "name": f"{result.plan} / {result.metric.name}",
        "path": f"/plans/{result.plan}/metrics/{result.metric.name}?every=round&at={at}",
        "when": labels.span(result.start, result.end),
        "state": result.state,
        "sentence": labels.uneven(result.metric, balance) if balance else "",
    }


def _key_rows(health: Health) -> list[dict[str, str]]:
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


class Row(NamedTuple):
    """A number of the page: its value, what it means, when to worry, and whether to."""

    name: str
    value: str
    means: str
    worry: str = ""
    worried: bool = False


def _sections(health: Health, uneven: Sequence[Result] | None) -> dict[str, list[Row]]:
    def with_share(count: int) -> str:
        return f"{count:,} ({labels.percent(health.share(count))})" if count else "0"

    limited = sum(key.limited_lately for key in health.keys)
    p50, p99 = (labels.rounded(time, 2) for time in (health.commit_p50_ms, health.commit_p99_ms))
    reports = [
        Row(
            "Accepted",
            f"{health.accepted:,}",
            "Reports that are durable in the store, a repeated one each time; estimates count it once.",
            "it does not grow for longer than a round although devices are running.",
        ),
        Row(
            "Duplicate",
            with_share(health.duplicate),
            "Reports that were stored again, found when their round was sealed: a device missed the response and "
            "sent again, or a client replays reports. Harmless: a report is counted once.",
            "it is above 10 %: responses get lost, time-outs are too short, or a client replays reports. "
            "The table of keys shows which keys send most.",
            health.share(health.duplicate) > 0.1,
        ),
        Row(
            "Late",
            with_share(health.late),
            "Reports that came after the grace of their round. They are not counted.",
            "it is above 1 %: the grace is too short for these devices, or their clocks are wrong.",
            health.share(health.late) > 0.01,
        ),
        Row(
            "Rejected",
            with_share(health.refused),
            "Other rejected requests, or reports of a batch. The table below lists the reasons, late ones included.",
            "it is above 1 %: an old plan in the field, a wrong key, or a client that probes the interface.",
            health.share(health.refused) > 0.01,
        ),
        Row("Requests", f"{health.requests:,}", "POST requests; one may carry many reports."),
    ]
    senders = [
        Row(
            "Over the rate",
            f"{limited:,} in the last 5 min" if health.rate else "no limit is set",
            "Requests refused because their key exceeded --rate. Devices send again later.",
            "it is above 0: more devices use a key than it was made for, or a client floods the collector.",
            limited > 0,
        ),
        Row(
            "Cohorts",
            "unknown" if uneven is None else f"{len(uneven):,} uneven" if uneven else "even",
            "Devices draw at random which rows of a histogram they answer. The latest rounds are tested against "
            "chance, with at most one false alarm in a million each. A false answer, and so any lie about a mean, "
            "leaves no trace: the page of each metric says how far such lies can move it.",
            "any is uneven: a client chooses cohorts to push a bucket, or draws them wrongly.",
            bool(uneven),
        ),
    ]
    now = [
        Row(
            "Commit",
            f"{p50} ms, 1 % above {p99} ms",
            "Duration of a commit: median and slowest 1 % of the latest 4,096. A report waits for the commit "
            "under way, then for its own.",
            "the slowest 1 % take more than 1 s: the disk or the database is too slow or too busy.",
            health.commit_p99_ms > 1000,
        ),
        Row(
            "Waiting",
            f"{health.queue:,}",
            "Reports that wait for the next commit.",
            "it is above 10,000, or grows: reports arrive faster than they can be written.",
            health.queue > 10_000,
        ),
        Row(
            "Open reports",
            f"{health.open_reports:,}",
            "Reports in rounds that are not sealed yet, as often as they were stored.",
            "it grows from day to day: rounds are not being sealed.",
        ),
    ]
    itself = [
        Row(
            "Uptime",
            labels.duration(health.uptime_seconds),
            "Time since the last start. The counts above began at 0 then; no acknowledged report is lost.",
            "it is shorter than expected: the collector restarts by itself.",
        ),
        Row("Store", health.store, "Storage of rounds and counts."),
        Row("Version", health.version, "The version of reticent."),
    ]
    return {
        "Reports since start": reports,
        "Who sends": senders,
        "Right now": now,
        "This collector": itself,
    }


# Over time

_SLOTS = {
    "accepted": ("Accepted", "reports per 10 minutes", 0),
    "duplicate": (
        "Duplicate",
        "reports found to be stored again when their round was sealed, per 10 minutes",
        4,
    ),
    "late": ("Late", "reports after the grace of their round, per 10 minutes", 1),
    "refused": ("Rejected", "requests or reports rejected for other reasons, per 10 minutes", 3),
    "seal_delay": ("Seal delay", "seconds from the end of the grace to the seal, longest per 10 minutes", 2),
}
"""Each series of the last day: its name, what it counts, its colour."""


def over_time(health: Health, results: Results) -> dict[str, Any]:
    """Small charts of the last rounds and of the last day."""
    now = results.clock()
    try:
        names = sorted(results.plans())[:MOST_PLANS]
        rounds = {name: results.rounds(name, ROUNDS) for name in names}
    except StoreError:
        rounds = {}
    plans = []
    overdue = 0
    for name, infos in rounds.items():
        last, _, usual = last_sealed(infos)
        overdue += sum(info["state"] == "open" and now > info["closes"] + SETTLED_SECONDS for info in infos)
        if infos:
            bars = round_bars(infos)
            label = f"reports per round of {name}, last {len(bars)} rounds"
            sentence = f"Last sealed round: {last}." if last else "No round is sealed yet."
            plans.append(
                {
                    "name": name,
                    "says": sentence + (f" Usual: {usual:,.0f}." if usual else ""),
                    "chart": charts.small_bars(bars, label, "reports per round", usual),
                }
            )
    silent = [title for name, (title, _, _) in _SLOTS.items() if not _values(health.history, name)]
    series = [_series(health.history, name) for name in _SLOTS if _values(health.history, name)]
    return {"plans": plans, "series": series, "overdue": overdue, "silent": silent}


def _values(history: Sequence[HistorySlot], name: str) -> list[float]:
    """The numbers of a series; none where all are 0."""
    values = [getattr(slot, name) for slot in history]
    return values if any(values) else []


def _series(history: Sequence[HistorySlot], name: str) -> dict[str, Any]:
    title, means, shade = _SLOTS[name]
    is_delay, values = name == "seal_delay", [getattr(slot, name) for slot in history]
    bars = []
    for slot, value in zip(history, values, strict=True):
        end = slot.start + SLOT_SECONDS
        text = labels.duration(value) if is_delay else f"{value:,}"
        tip = f"{labels.span(slot.start, end)}\n{text}"
        bars.append(charts.RoundBar(slot.start, end, round(value), False, tip))
    says = f"longest {labels.duration(max(values))}" if is_delay else f"{sum(values):,.0f} in all"
    chart = charts.small_bars(bars, f"{title}: {means}; {says}", "s" if is_delay else "", shade=shade)
    return {"name": title, "says": says, "means": means, "chart": chart}
