"""What is asked: `Plan` with its metrics, groups and segments."""

from reticent.plan.metric import ABSENT, OTHER, Answers, Group, Metric, MetricKind, Segment, Window
from reticent.plan.plan import Plan

__all__ = [
    "ABSENT",
    "OTHER",
    "Answers",
    "Group",
    "Metric",
    "MetricKind",
    "Plan",
    "Segment",
    "Window",
]
