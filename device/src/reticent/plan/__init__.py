"""What is asked: `Plan` with its metrics, groups and segments; what answering it costs."""

from typing import TYPE_CHECKING

from reticent import imported_when_used
from reticent.errors import PlanError, Problem
from reticent.plan.metric import ABSENT, OTHER, Answers, Group, Metric, MetricKind, Segment, Window
from reticent.plan.plan import Plan, Round

if TYPE_CHECKING:
    from reticent.plan.card import GroupLosses, PrivacyCard, privacy_card

__all__ = [
    "ABSENT",
    "OTHER",
    "Answers",
    "Group",
    "GroupLosses",
    "Metric",
    "MetricKind",
    "Plan",
    "PlanError",
    "PrivacyCard",
    "Problem",
    "Round",
    "Segment",
    "Window",
    "privacy_card",
]

__getattr__ = imported_when_used("reticent.plan", {"card": "GroupLosses PrivacyCard privacy_card"})
