"""What a host program allows a plan to ask, checked on the device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reticent.errors import ParameterError

if TYPE_CHECKING:
    from reticent.device.ledger import Entry
    from reticent.plan import Plan


@dataclass(frozen=True, slots=True)
class Policy:
    """
    Limits that a plan must keep; None leaves one open.

    They are held against public figures only: what the plan says, and what the plans before it could have
    told at most. Never against what was in fact told: a device that falls silent once its values have used
    up a budget tells by its silence.

    >>> Policy(max_epsilon=2, shortest_round=3600)
    Policy(max_epsilon=2, lifetime_cap=None, shortest_round=3600, fewest_rounds_per_epoch=None)
    """

    max_epsilon: float | None = None
    """Largest ε of one remembered answer of any metric."""
    lifetime_cap: float | None = None
    """Largest sum of lifetime losses, over every metric, digest and epoch ever answered and those to come."""
    shortest_round: float | None = None
    """Shortest round length, s."""
    fewest_rounds_per_epoch: int | None = None
    """
    Fewest rounds between two plans that ask for new remembered answers.

    Each changed parameter and each new metric is a fresh answer about the same behaviour; whoever writes
    plans could ask for many and average them. The first plan counts as a change.
    """

    def __post_init__(self) -> None:
        for name in self.__slots__:
            limit = getattr(self, name)
            if limit is not None and not limit >= 0:
                raise ParameterError(name, "a number >= 0, or None", limit)

    def problems(self, plan: Plan, epoch: int, answered: Iterable[Entry]) -> list[str]:
        """What a plan asks beyond these limits, when its answers are given in `epoch`."""
        problems = []
        if self.max_epsilon is not None:
            problems += [
                f"metrics.{metric.name}.epsilon is {float(metric.mechanism.epsilon):g}; "
                f"the policy allows {self.max_epsilon:g}"
                for metric in plan.metrics
                if metric.mechanism.epsilon > self.max_epsilon
            ]
        if self.shortest_round is not None and plan.round_seconds < self.shortest_round:
            wanted = f"the policy wants at least {self.shortest_round:g} s"
            problems.append(f"plan.round is {plan.round_seconds} s; {wanted}")
        if self.lifetime_cap is not None:
            from reticent.device.ledger import lifetime_loss
            from reticent.privacy import compose

            spent = {(entry.metric, entry.digest, entry.epoch): entry.lifetime for entry in answered}
            for metric in plan.metrics:
                spent.setdefault((metric.name, metric.digest, epoch), lifetime_loss(metric))
            total = compose(spent.values())
            if total > self.lifetime_cap:
                allowed = f"the policy allows {self.lifetime_cap:g}"
                problems.append(f"the lifetime losses of all answers come to {total:.4g}; {allowed}")
        return problems

    def churn_problems(self, rounds_since_change: int | None) -> list[str]:
        """What speaks against remembered answers that change this many rounds after the last change."""
        fewest = self.fewest_rounds_per_epoch
        if fewest is None or rounds_since_change is None or rounds_since_change >= fewest:
            return []
        return [
            f"asks for new remembered answers {rounds_since_change} rounds after the last change; "
            f"the policy wants at least {fewest}"
        ]
