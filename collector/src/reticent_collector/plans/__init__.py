"""For authors of plans: what is unwise, what changes, what reports give away together, and plans for other devices."""

from reticent_collector.plans.changes import diff
from reticent_collector.plans.export import export_plan
from reticent_collector.plans.linter import lint
from reticent_collector.plans.matching import plan_tracking, tracking

__all__ = [
    "diff",
    "export_plan",
    "lint",
    "plan_tracking",
    "tracking",
]
