"""Which versions of a plan ask the same question at the same times, so that their counts add."""

from __future__ import annotations

from fractions import Fraction

from reticent.plan import Metric, Plan


def question(metric: Metric) -> tuple[object, ...]:
    """
    What a report about a metric means: counts of versions add where this and the `rhythm` of the plans are equal.

    The digest leaves out the flip, the unit, and whether a mean of zeros and ones is a flag.
    """
    return metric.name, metric.digest, metric.flip, metric.unit, metric.kind


def rhythm(plan: Plan) -> tuple[object, ...]:
    """When a device answers, and how much a report weighs: rounds, windows, and the share of metrics asked."""
    return plan.round_seconds, plan.answers.window, Fraction(plan.asked, len(plan.metrics))
