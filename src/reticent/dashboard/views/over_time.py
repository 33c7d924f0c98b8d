"""Health over time: reports per round against the usual, and the outcomes of the last day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from reticent.collector import Health
from reticent.collector.history import SLOT_SECONDS, Slot
from reticent.dashboard import charts, labels
from reticent.errors import StoreError
from reticent.results import Results

ROUNDS = 60
MOST_PLANS = 20
SETTLED_SECONDS = 120  # after the grace, by which a round should be sealed

_SLOTS = {
    "accepted": ("Accepted", "reports in 10 minutes", 0),
    "duplicate": ("Duplicate", "reports that were there already, in 10 minutes", 4),
    "late": ("Late", "reports after the end of their grace, in 10 minutes", 1),
    "refused": ("Refused", "requests or reports refused for another reason, in 10 minutes", 3),
    "seal_delay": (
        "Seal delay",
        "seconds from the end of the grace to the seal, the longest in 10 minutes",
        2,
    ),
}
"""Each series of the last day: its name, what it counts, its colour."""


def over_time(health: Health, results: Results) -> tuple[dict[str, Any], dict[str, Any]]:
    """Small charts of the last rounds and of the last day, for the page and for the twin."""
    now = results.clock()
    try:
        names = sorted(results.plans())[:MOST_PLANS]
        rounds = {name: results.rounds(name, ROUNDS) for name in names}
    except StoreError:
        rounds = {}
    plans, twins, overdue = [], {}, 0
    for name, infos in rounds.items():
        sealed = [info for info in infos if info["state"] == "sealed"]
        usual = median(info["reports"] or 0 for info in sealed[1:]) if len(sealed) >= 4 else 0.0
        overdue += sum(info["state"] == "open" and now > info["closes"] + SETTLED_SECONDS for info in infos)
        twins[name] = {
            "usual": usual or None,
            "rounds": [
                {key: info[key] for key in ("round", "version", "state", "reports")} for info in infos
            ],
        }
        if infos:
            plans.append(_reports(name, infos, usual))
    shown = {
        "plans": plans,
        "series": [_series(health.history, name) for name in _SLOTS] if health.history else [],
        "overdue": overdue,
    }
    return shown, {"plans": twins, "overdue": overdue, "last_day": [asdict(slot) for slot in health.history]}


def _reports(plan: str, infos: Sequence[dict[str, Any]], usual: float) -> dict[str, Any]:
    """Reports per round of a plan; below min_reports there is no bar."""
    bars = []
    for info in reversed(infos):
        reports = info["reason"] if info["reports"] is None else f"{info['reports']:,} reports"
        when = labels.span(info["start"], info["end"])
        tip = f"{when}\n{reports}, {info['state']}"
        is_open = info["state"] != "sealed"
        bars.append(charts.RoundBar(info["start"], info["end"], info["reports"] or 0, is_open, tip))
    last = next((info for info in infos if info["state"] == "sealed"), None)
    sentence = "No round is sealed yet."
    if last is not None:
        reports = last["reports"]
        sentence = f"Last sealed round: {last['reason'] if reports is None else f'{reports:,} reports'}."
        if usual and reports is not None:
            sentence += f" Usual: {usual:,.0f}."
    label = f"reports per round of {plan}, last {len(bars)} rounds"
    return {
        "name": plan,
        "says": sentence,
        "chart": charts.small_bars(bars, label, "reports a round", usual),
    }


def _series(history: Sequence[Slot], name: str) -> dict[str, Any]:
    title, means, shade = _SLOTS[name]
    bars, total = [], 0.0
    for slot in history:
        value = getattr(slot, name)
        total = max(total, value) if name == "seal_delay" else total + value
        end = slot.start + SLOT_SECONDS
        text = labels.duration(value) if name == "seal_delay" else f"{value:,}"
        tip = f"{labels.span(slot.start, end)}\n{text}"
        bars.append(charts.RoundBar(slot.start, end, round(value), False, tip))
    says = f"longest {labels.duration(total)}" if name == "seal_delay" else f"{total:,.0f} in all"
    unit = "s" if name == "seal_delay" else ""
    return {
        "name": title,
        "says": says,
        "means": means,
        "chart": charts.small_bars(bars, f"{title}: {means}; {says}", unit, shade=shade),
    }
