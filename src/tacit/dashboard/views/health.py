"""The collector's health: what each figure means, and when to worry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.dashboard.health import FIGURES, Health
from tacit.dashboard.views.view import View


def health_page(given: Mapping[str, object]) -> View:
    """The page of the collector itself."""
    health = Health.of(given)
    return View(
        template="health.html",
        title="Health",
        twin=health.to_dict(),
        shown={
            "sections": [
                (section, [_row(figure, health) for figure in figures]) for section, figures in FIGURES
            ],
            "rejected": health.rejected_by_code,
            "worries": health.worries,
        },
        refresh=True,
    )


def _row(figure: Any, health: Health) -> dict[str, Any]:
    return {
        "name": figure.name,
        "value": figure.shown(health),
        "means": figure.means,
        "worry": figure.worry,
        "worried": figure.worried(health),
    }
