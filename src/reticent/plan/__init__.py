"""What is asked: Plan, Metric, Group, Segment and Round; reading, linting and comparing plans."""

from reticent.plan.model import OTHER, Group, Metric, Plan, Round, Segment

__all__ = ["OTHER", "Group", "Metric", "Plan", "Round", "Segment"]
