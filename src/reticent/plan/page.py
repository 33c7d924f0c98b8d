"""A plan in a notebook: what it asks and what it costs, as HTML."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from reticent.html import Safe, note, page, table, under
from reticent.plan.card import GroupLosses, duration, privacy_card
from reticent.privacy import MEANING, NOT_COVERED, Losses, printed

if TYPE_CHECKING:
    from reticent.plan.plan import Plan

_PARTS = {"mean": "steps", "choice": "labels"}
"""What a scale is divided into, by kind of metric."""


def plan_html(plan: Plan) -> Safe:
    """A plan in two tables: the metrics as the plan has them, and the privacy card."""
    report = f"one report of {plan.bits} bit{'s' * (plan.bits > 1)} every {duration(plan.round_seconds)}"
    rows = []
    for metric in plan.metrics:
        kind, parts, called = (
            metric.kind,
            len(metric.mechanism.points) - 1,
            _PARTS.get(metric.kind, "buckets"),
        )
        rows.append(
            [
                under(metric.name, metric.description),
                kind if parts == 1 else f"{kind}, {parts} {called}",
                metric.range_in_words(f"{_number(metric.max_value)} {metric.unit}".strip()),
                metric.mechanism.title,
                printed(float(metric.mechanism.epsilon)),
                f"{float(metric.flip.probability):g}",
            ]
        )
    asked = table(
        f"Plan {plan.name}, version {plan.version}: {report}",
        ["metric", "asks for", "range", "mechanism", "epsilon", "flip"],
        rows,
    )
    beside = [
        f"group {group.name}: {' + '.join(group.metrics)} ≤ {_number(group.max_total)}"
        for group in plan.groups
    ]
    beside += [
        f"segment {segment.name}, sent in the clear: {', '.join(segment.tags)}" for segment in plan.segments
    ]
    terms = [f"late reports count for {duration(plan.grace_seconds)}"]
    terms += [f"readers are shown groups of at least {plan.min_reports:,} reports"]
    terms += [f"owner {plan.owner}"] if plan.owner else []
    terms += [f"expires {plan.expires.isoformat()}"] if plan.expires else []
    card = privacy_card(plan)
    figures: dict[str, Losses | GroupLosses] = {
        **card.metrics,
        **{f"group {name}": losses for name, losses in card.groups.items()},
    }
    cost = table(
        "Privacy loss (epsilon, rounded up)",
        ["", *card.columns.values()],
        [[name, *card.figures(losses)] for name, losses in figures.items()],
        totals=[["whole plan", *card.figures(card.loss)]],
    )
    scopes = "; ".join(f"{title}: {scope}" for title, scope in card.scopes)
    notes = map(note, [*beside, "; ".join(terms)])
    return page(asked, *notes, cost, note(f"{MEANING} {scopes}. {NOT_COVERED}"))


def _number(number: int | Fraction) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):,.6g}"
