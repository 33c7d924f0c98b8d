"""For authors of plans: what is unwise, what changes, what reports give away together, and plans for other devices."""

from reticent_collector.plans.changes import PlanChange, PlanDiff, diff
from reticent_collector.plans.export import export_plan
from reticent_collector.plans.linter import lint, lint_succession
from reticent_collector.plans.matching import Tracking, plan_tracking, tracking, tracking_in_words

__all__ = [
    "PlanChange",
    "PlanDiff",
    "Tracking",
    "diff",
    "export_plan",
    "lint",
    "lint_succession",
    "plan_tracking",
    "tracking",
    "tracking_in_words",
]
