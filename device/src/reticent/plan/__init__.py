"""What is asked: `Plan` with its metrics, groups and segments; what it costs, what is unwise, what changes."""

from typing import TYPE_CHECKING

from reticent import imported_when_used
from reticent.errors import PlanError, Problem
from reticent.plan.metric import ABSENT, OTHER, Answers, Group, Metric, MetricKind, Segment, Window
from reticent.plan.plan import Plan, Round

if TYPE_CHECKING:
    from reticent.plan.card import GroupLosses, PrivacyCard, plan_tracking, privacy_card
    from reticent_collector.plans.changes import PlanChange, PlanDiff, diff
    from reticent_collector.plans.export import export_plan
    from reticent_collector.plans.linter import lint, lint_succession

__all__ = [
    "ABSENT",
    "OTHER",
    "Answers",
    "Group",
    "GroupLosses",
    "Metric",
    "MetricKind",
    "Plan",
    "PlanChange",
    "PlanDiff",
    "PlanError",
    "PrivacyCard",
    "Problem",
    "Round",
    "Segment",
    "Window",
    "diff",
    "export_plan",
    "lint",
    "lint_succession",
    "plan_tracking",
    "privacy_card",
]

__getattr__ = imported_when_used(
    "reticent.plan",
    {
        "card": "GroupLosses PrivacyCard plan_tracking privacy_card",
        "changes": "PlanChange PlanDiff diff",
        "export": "export_plan",
        "linter": "lint lint_succession",
    },
)
