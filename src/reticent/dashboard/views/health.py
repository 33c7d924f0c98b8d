"""The collector's health: what each figure means, and when to worry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reticent.dashboard import labels
from reticent.dashboard.health import FIGURES, Figure, Health
from reticent.dashboard.keys import key_rows
from reticent.dashboard.views import View
from reticent.errors import StoreError
from reticent.results import Result, Results

LOOKED_AT = 4
"""Latest rounds of each plan that are held against chance."""


def health_page(given: Mapping[str, object], uneven: Sequence[Result] | None = None) -> View:
    """The page of the collector itself; `uneven` is None when nobody could look."""
    health = Health.of(given, uneven)
    keys = key_rows(health.keys, health.number("uptime_seconds"))
    return View(
        template="health.html",
        title="Health",
        twin=health.to_dict(),
        shown={
            "sections": [
                (section, [_row(figure, health) for figure in figures]) for section, figures in FIGURES
            ],
            "rejected": health.rejected_by_code,
            "keys": keys,
            "other_keys": len(health.keys) - len(keys),
            "uneven": [_uneven(each) for each in health.uneven or ()],
            "uneven_means": labels.UNEVEN_MEANS,
            "worries": health.worries,
        },
        refresh=True,
    )


def newest_uneven(results: Results) -> list[Result] | None:
    """The newest uneven round of each histogram; None when the store cannot be read just now."""
    try:
        plans = sorted(results.plans())
        found = [each for plan in plans for each in results.uneven(plan, LOOKED_AT)]
    except StoreError:
        return None
    newest: dict[tuple[str, str], Result] = {}
    for each in found:
        newest.setdefault((each.plan, each.metric.name), each)
    return list(newest.values())


def _uneven(found: Result) -> dict[str, str]:
    name = f"/plans/{found.plan}/metrics/{found.metric.name}"
    return {
        "name": f"{found.plan} / {found.metric.name}",
        "path": f"{name}?round={found.round}",
        "when": labels.span(found.start, found.end),
        "state": found.state,
        "sentence": labels.uneven(found.metric, found.balance) if found.balance else "",
    }


def _row(figure: Figure, health: Health) -> dict[str, Any]:
    return {
        "name": figure.name,
        "value": figure.shown(health),
        "means": figure.means,
        "worry": figure.worry,
        "worried": figure.worried(health),
    }
