"""The privacy card of a plan: what answering it costs a device, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from reticent.plan.model import Group, Plan
from reticent.privacy import Losses, compose, joint_limit_loss, losses


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
    of_group = {group.name: _group_losses(plan, group) for group in plan.groups}
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


def _group_losses(plan: Plan, group: Group) -> GroupLosses:
    members = [plan.by_name[name] for name in group.metrics]
    mechanisms = [metric.mechanism for metric in members]
    flips = [metric.flip for metric in members]
    return GroupLosses(
        round=joint_limit_loss(mechanisms, flips, group.max_total, rounds="one"),
        constant=joint_limit_loss(mechanisms, flips, group.max_total, rounds="all"),
    )
