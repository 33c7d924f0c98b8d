"""Everything but estimates as rows of a table: plans and rounds, and how figures compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from reticent_collector.columns import time_text
from reticent_collector.results import difference, trend
from reticent_collector.results.reader import Results
from reticent_collector.results.selection import Selection

Listing = Literal["plans", "rounds", "differences", "trends"]

PLAN_ROW = (
    "plan", "version", "metric", "kind", "unit", "description", "ended", "round_seconds", "grace_seconds",
    "min_reports", "owner", "expires", "segments",
)  # fmt: skip
"""The columns of plans, a row per metric: `version` is the newest that asks it; `ended` is 1 if newer ones do not."""
ROUND_ROW = (
    "plan", "version", "round", "start_time", "end_time", "closes_time", "state", "reports", "reason",
)  # fmt: skip
"""The columns of rounds; `closes_time` is when the grace ends."""


def plan_rows(results: Results, plan: str | None = None) -> Iterator[dict[str, Any]]:
    """Every metric of the plans that are shown, or of one of them, also those that ended."""
    for name, newest in results.plans().items():
        if plan not in (None, name):
            continue
        for version, metric in results.metrics(name).values():
            yield {
                "plan": name,
                "version": version.version,
                "metric": metric.name,
                "kind": metric.kind,
                "unit": metric.unit,
                "description": metric.description,
                "ended": int(metric.name not in newest.by_name),
                "round_seconds": version.round_seconds,
                "grace_seconds": version.grace_seconds,
                "min_reports": version.min_reports,
                "owner": version.owner,
                "expires": version.expires.isoformat() if version.expires else None,
                "segments": {segment.name: list(segment.tags) for segment in version.segments},
            }


def round_rows(rounds: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rounds of `Results.rounds`, with times as text."""
    for info in rounds:
        times = {f"{name}_time": time_text(info[name]) for name in ("start", "end", "closes")}
        yield {**info, **times}


def listing(
    results: Results, name: Listing, selection: Selection
) -> tuple[Sequence[str], Iterable[dict[str, Any]]]:
    """A table by name: its columns and rows."""
    match name:
        case "plans":
            return PLAN_ROW, plan_rows(results, selection.plan)
        case "rounds":
            return ROUND_ROW, round_rows(results.rounds(selection.plan, selection.last))
        case "trends":
            return trend.ROW, (one.to_row() for one in results.trends(selection))
        case "differences":
            differences = results.differences(selection)
            return difference.ROW, (row for one in differences for row in one.to_rows())
