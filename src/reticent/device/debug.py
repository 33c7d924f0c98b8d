"""
The slips of a developer, raised by name while `debug=True`: without it, none of them reaches the host.

A message names what the program wrote (a metric, a segment, a label, a limit), never a number that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reticent.device.clamp import taken
from reticent.errors import UsageError

if TYPE_CHECKING:
    from reticent.device.policy import Policy
    from reticent.plan import Plan


def check_start(plan: Plan, segment: Mapping[str, object], policy: Policy, now: float) -> None:
    """Raise `UsageError` for a segment that the plan does not have, an expired plan and a refused one."""
    from reticent.plan import privacy_card

    known = {one.name: one.values for one in plan.segments}
    for name, tag in segment.items():
        if name not in known:
            raise UsageError(f"segment {name!r}: plan {plan.name} has {', '.join(known) or 'no segments'}.")
        if tag not in known[name]:
            raise UsageError(f"segment {name} = {tag!r}: plan {plan.name} has {', '.join(known[name])}.")
    check_expiry(plan, now)
    card = privacy_card(plan)
    lifetime = card.round if plan.answers.sampled else card.lifetime
    refuse(plan, tuple(policy.problems(plan, card.round, lifetime)))


def check_expiry(plan: Plan, now: float) -> None:
    """Raise `UsageError` for a plan that is not answered any more."""
    if plan.has_expired(now):
        raise UsageError(
            f"plan {plan.name} version {plan.version} expired on {plan.expires}: it is not answered."
        )


def refuse(plan: Plan, reasons: tuple[str, ...]) -> None:
    """Raise `UsageError` for a plan that is not taken up."""
    if reasons:
        raise UsageError(f"plan {plan.name} version {plan.version} is refused: {'; '.join(reasons)}.")


def check_value(plan: Plan, name: object, amount: object) -> None:
    """Raise `UsageError` for a metric or a label that the plan does not have, and for what is no number."""
    metric = plan.by_name.get(name) if isinstance(name, str) else None
    if metric is None:
        raise UsageError(f"metric {name!r}: plan {plan.name} has {', '.join(plan.by_name)}.")
    _, fault = taken(metric, amount)
    if fault == "unknown-label":
        raise UsageError(f"metric {name}: {amount!r} is none of its labels {', '.join(metric.labels)}.")
    if fault == "not-a-number":
        raise UsageError(f"metric {name}: expected a number, got a {type(amount).__name__}.")
