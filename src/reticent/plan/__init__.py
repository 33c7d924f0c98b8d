"""What is asked: `Plan` with its metrics, groups and segments; what it costs, what is unwise, what changes."""

from importlib import import_module
from typing import TYPE_CHECKING

from reticent.errors import PlanError, Problem
from reticent.plan.answers import Answers, Window
from reticent.plan.metric import OTHER, Group, Metric, Segment
from reticent.plan.plan import Plan, Round

if TYPE_CHECKING:
    from reticent.plan.card import GroupLosses, PrivacyCard, plan_tracking, privacy_card
    from reticent.plan.changes import Change, PlanDiff, diff
    from reticent.plan.export import export_plan
    from reticent.plan.linter import lint, lint_succession

_LATER = {
    "Change": "changes",
    "GroupLosses": "card",
    "PlanDiff": "changes",
    "PrivacyCard": "card",
    "diff": "changes",
    "export_plan": "export",
    "lint": "linter",
    "lint_succession": "linter",
    "plan_tracking": "card",
    "privacy_card": "card",
}
"""What a device has no use for, by module: loaded when it is."""

__all__ = [
    "OTHER",
    "Answers",
    "Change",
    "Group",
    "GroupLosses",
    "Metric",
    "Plan",
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


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'reticent.plan' has no attribute {name!r}")
    return getattr(import_module(f"reticent.plan.{_LATER[name]}"), name)
