"""
A plan as JSON for devices in other languages, with every integer that a draw is compared with.

Numbers that a JSON reader would round (thresholds of 64 bits, rationals) are texts. A device checks the digests
and need not compute e^ε.
"""

from __future__ import annotations

from reticent.errors import ParameterError
from reticent.plan.metric import Metric
from reticent.plan.plan import Plan

FORMAT = "reticent-plan-1"


def export_plan(plan: Plan) -> dict[str, object]:
    """All that a device needs to answer a plan, for JSON; raises `ParameterError` for a foreign mechanism."""
    answers: dict[str, object] = {"kind": "remembered", "metrics": plan.asked}
    if plan.answers.sampled:
        answers = {"kind": "sampled", "window": plan.answers.window, "metrics": plan.asked}
    return {
        "format": FORMAT,
        "name": plan.name,
        "version": plan.version,
        "fingerprint": plan.fingerprint.hex(),
        "round_seconds": plan.round_seconds,
        "grace_seconds": plan.grace_seconds,
        "owner": plan.owner,
        "expires": plan.expires.isoformat() if plan.expires else None,
        "answers": answers,
        "metrics": [_metric(metric) for metric in plan.metrics],
        "groups": [
            {"name": group.name, "metrics": list(group.metrics), "max_total": str(group.max_total)}
            for group in plan.groups
        ],
        "segments": [{"name": segment.name, "values": list(segment.values)} for segment in plan.segments],
    }


def _metric(metric: Metric) -> dict[str, object]:
    mechanism = metric.mechanism
    if mechanism.exported is None:
        expected = "a mechanism that devices in other languages know"
        raise ParameterError(f"metrics.{metric.name}.mechanism", expected, mechanism.name)
    return {
        "name": metric.name,
        "kind": metric.kind,
        "unit": metric.unit,
        "description": metric.description,
        "mechanism": mechanism.name,
        "bits": mechanism.bits,
        "flip": str(metric.flip.threshold),
        "digest": metric.digest.hex(),
        **mechanism.exported,
        **({"labels": list(metric.labels), "pick": metric.pick} if metric.labels else {}),
        **({"labels": list(metric.parts), "max_total": str(metric.max_total)} if metric.parts else {}),
        **({"absent": True} if metric.absent and not metric.is_named else {}),
    }
