"""
The law of the device: a report is a function of its secret, the plan, the round and the values.

    value → clamped → class → remembered bits → flipped bits → report

There is no state here, no clock and no source of chance but the draws that are handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from reticent.device.clamp import in_range
from reticent.reports import Report, pack_bits

if TYPE_CHECKING:
    from reticent.device.prf import Draws
    from reticent.plan import Plan


class Answer(NamedTuple):
    """A report, and which remembered answer each metric used: the report is sent, the classes never are."""

    report: Report
    visited: dict[str, int]


def answer(
    draws: Draws,
    plan: Plan,
    round_number: int,
    values: Mapping[str, object],
    segment: Mapping[str, object] | None = None,
) -> Answer:
    """
    What a device with these draws answers in a round.

    Each metric of the plan is answered, with 0 where `values` has nothing for it; silence would be an answer.
    Every metric costs the same draws whatever its value: one alpha, and per answer bit one memo draw and
    one flip draw, of which

        remembered bit = [memo draw < threshold of the class],
        sent bit       = remembered bit ⊕ [flip draw < γ·2⁶⁴].
    """
    cohort = draws.cohort()
    bits: list[int] = []
    visited: dict[str, int] = {}
    clean = in_range(plan, values)
    for metric in plan.metrics:
        mechanism, turned = metric.mechanism, metric.flip.threshold
        memo_class = mechanism.memo_class(clean[metric.name], draws.alpha(metric), cohort)
        memo, flips = draws.memo(metric, memo_class), draws.flips(metric, round_number)
        for place, threshold in enumerate(mechanism.thresholds(memo_class, cohort)):
            bits.append((memo[place] < threshold) ^ (flips[place] < turned))
        visited[metric.name] = memo_class
    report = Report(
        plan=plan.name,
        version=plan.version,
        round=round_number,
        id=draws.report_id(plan.version, round_number),
        bits=pack_bits(bits),
        cohort=cohort if plan.uses_cohort else None,
        segment=plan.tags(segment or {}) if plan.segments else {},
    )
    return Answer(report, visited)
