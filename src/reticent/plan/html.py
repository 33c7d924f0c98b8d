"""A plan in a notebook: what is asked, and what answering it costs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from reticent.html import Safe, figure, note, page, table, under
from reticent.plan.card import PrivacyCard, privacy_card
from reticent.plan.model import Metric, Plan

WHAT_HOLDS = (
    "Per round holds for any two values. Steady is a device whose values never change, over all rounds. "
    "For life holds between devices that change at the same times. That a device changed, and when, is "
    "hidden by flips only: each round by which a change moves costs the last figure."
)


def plan_html(plan: Plan) -> Safe:
    """Two tables: the metrics as the plan has them, and the privacy card."""
    return page(_asked(plan), *_terms(plan), _cost(plan, privacy_card(plan)), note(WHAT_HOLDS))


def duration(seconds: int) -> str:
    """
    A length of time as a plan would write it.

    >>> [duration(seconds) for seconds in (21_600, 86_400, 90, 61)]
    ['6h', '1d', '90s', '61s']
    """
    for sign, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{sign}"
    return f"{seconds}s"


def _asked(plan: Plan) -> Safe:
    report = f"one report of {plan.bits} bit{'s' * (plan.bits > 1)} every {duration(plan.round_seconds)}"
    rows = (
        [
            under(metric.name, metric.description),
            _kind(metric),
            f"0 to {_number(metric.max_value)} {metric.unit}".strip(),
            metric.mechanism.title,
            f"{float(metric.mechanism.epsilon):g}",
            f"{float(metric.flip.probability):g}",
        ]
        for metric in plan.metrics
    )
    return table(
        f"Plan {plan.name}, version {plan.version}: {report}",
        ["metric", "asks for", "range", "mechanism", "epsilon", "flip"],
        rows,
    )


def _kind(metric: Metric) -> str:
    parts = len(metric.mechanism.points) - 1
    if metric.kind == "mean":
        return metric.kind if parts == 1 else f"{metric.kind}, {parts} steps"
    return f"{metric.kind}, {parts} buckets"


def _terms(plan: Plan) -> Iterator[Safe]:
    """What the plan says beside its metrics: groups, segments, who answers for it and until when."""
    for group in plan.groups:
        yield note(f"group {group.name}: {' + '.join(group.metrics)} ≤ {_number(group.max_total)}")
    for segment in plan.segments:
        yield note(f"segment {segment.name}, sent in the clear: {', '.join(segment.tags)}")
    said = [f"late reports count for {duration(plan.grace_seconds)}"]
    said += [f"owner {plan.owner}"] if plan.owner else []
    said += [f"expires {plan.expires.isoformat()}"] if plan.expires else []
    yield note("; ".join(said))


def _cost(plan: Plan, card: PrivacyCard) -> Safe:
    rows: list[list[object]] = [
        [name, *map(figure, (loss.round, loss.constant, loss.lifetime, loss.change_per_round))]
        for name, loss in card.metrics.items()
    ]
    rows += [
        [f"group {name}", figure(loss.round), figure(loss.constant), "", ""]
        for name, loss in card.groups.items()
    ]
    whole = ["whole plan", figure(card.round), figure(card.constant), figure(card.lifetime), ""]
    return table(
        "What answering it costs a device",
        ["epsilon spent", "per round", "steady", "for life", "change, per round"],
        rows,
        totals=[whole],
    )


def _number(number: int | Fraction) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):,.6g}"
