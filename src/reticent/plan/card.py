"""The privacy card of a plan: what answering it costs a device, in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from reticent.html import Safe, figure, note, page, table, under
from reticent.privacy import Losses, compose, joint_limit_loss, losses

if TYPE_CHECKING:
    from reticent.plan.plan import Plan

WHAT_HOLDS = (
    "Per round holds for any two values. Steady is a device whose values never change, over all rounds. "
    "For life holds between devices that change at the same times. That a device changed, and when, is "
    "hidden by flips only: each round by which a change moves costs the last figure."
)


@dataclass(frozen=True, slots=True)
class GroupLosses:
    """What the metrics of a group cost together: in one round, and for a device that never changes."""

    round: float
    constant: float


@dataclass(frozen=True, slots=True)
class PrivacyCard:
    """
    Losses (epsilon spent) of each metric and of the whole plan.

    `round` holds for any two values, in one round. `constant` holds for a device whose values never change,
    over all rounds. `lifetime` holds between devices with the same pattern of changes, over all rounds; it
    is not a bound between different patterns. A change of behaviour itself is hidden by flips only, worth
    `change_per_round` each round.
    """

    metrics: Mapping[str, Losses]
    groups: Mapping[str, GroupLosses]
    round: float
    constant: float
    lifetime: float

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self)


def privacy_card(plan: Plan) -> PrivacyCard:
    """
    What a plan costs a device.

    Metrics are answered with independent randomness, so their losses add; those of a group with a joint
    limit lose less in a round than their sum. Over changing values there is no such discount.
    """
    of_metric = {metric.name: losses(metric.mechanism, metric.flip) for metric in plan.metrics}
    of_group = {}
    for group in plan.groups:
        members = [plan.by_name[name] for name in group.metrics]
        mechanisms, flips = [metric.mechanism for metric in members], [metric.flip for metric in members]
        of_group[group.name] = GroupLosses(
            round=joint_limit_loss(mechanisms, flips, group.max_total, rounds="one"),
            constant=joint_limit_loss(mechanisms, flips, group.max_total, rounds="all"),
        )
    grouped = {name for group in plan.groups for name in group.metrics}
    alone = [loss for name, loss in of_metric.items() if name not in grouped]
    together = list(of_group.values())
    return PrivacyCard(
        metrics=of_metric,
        groups=of_group,
        round=compose([loss.round for loss in alone] + [loss.round for loss in together]),
        constant=compose([loss.constant for loss in alone] + [loss.constant for loss in together]),
        lifetime=compose([loss.lifetime for loss in of_metric.values()]),
    )


def plan_html(plan: Plan) -> Safe:
    """A plan in a notebook, in two tables: the metrics as the plan has them, and the privacy card."""
    report = f"one report of {plan.bits} bit{'s' * (plan.bits > 1)} every {duration(plan.round_seconds)}"
    rows = []
    for metric in plan.metrics:
        parts, called = len(metric.mechanism.points) - 1, "steps" if metric.kind == "mean" else "buckets"
        rows.append(
            [
                under(metric.name, metric.description),
                metric.kind if parts == 1 else f"{metric.kind}, {parts} {called}",
                f"0 to {_number(metric.max_value)} {metric.unit}".strip(),
                metric.mechanism.title,
                f"{float(metric.mechanism.epsilon):g}",
                f"{float(metric.flip.probability):g}",
            ]
        )
    asked = table(
        f"Plan {plan.name}, version {plan.version}: {report}",
        ["metric", "asks for", "range", "mechanism", "epsilon", "flip"],
        rows,
    )
    return page(asked, *_terms(plan), _cost(privacy_card(plan)), note(WHAT_HOLDS))


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


def _terms(plan: Plan) -> Iterator[Safe]:
    """What the plan says beside its metrics: groups, segments, who answers for it and until when."""
    for group in plan.groups:
        yield note(f"group {group.name}: {' + '.join(group.metrics)} ≤ {_number(group.max_total)}")
    for segment in plan.segments:
        yield note(f"segment {segment.name}, sent in the clear: {', '.join(segment.tags)}")
    terms = [f"late reports count for {duration(plan.grace_seconds)}"]
    terms += [f"owner {plan.owner}"] if plan.owner else []
    terms += [f"expires {plan.expires.isoformat()}"] if plan.expires else []
    yield note("; ".join(terms))


def _cost(card: PrivacyCard) -> Safe:
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
