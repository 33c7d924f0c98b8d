"""
The law of the device: a report is a function of its secret, the plan, the round and the values.

    value → clamped → class → remembered bits → flipped bits → report

Sampled answers have the bits of one window instead of remembered ones, no flips, and 0 where a metric is not
asked.

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
    """A report, and which answer each metric that it answers used: the classes are never sent."""

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

    Where answers are sampled, the draws are those of the round's window and the round is the one they pick:
    raises `ValueError` for any other.

    Each metric that is asked is answered, also where `values` has nothing for it, or None: silence would be an
    answer. It counts as 0, or as no value where the metric has a bucket for that.
    Every metric costs the same draws whatever its value: one alpha, and per answer bit one memo draw and
    one flip draw, of which

        remembered bit = [memo draw < threshold of the class],
        sent bit       = remembered bit ⊕ [flip draw < γ·2⁶⁴].

    A sampled answer has no flip draw.
    """
    sampled = plan.answers.sampled
    window = plan.window_of(round_number)
    if draws.window != (window.start if window else None) or (sampled and window is None):
        raise ValueError("the draws are not those of the round's window")
    if window is not None and draws.picked_round(window) != round_number:
        raise ValueError("the round is not the one that is picked in its window")
    asked = draws.asked(plan) if plan.asked_bytes else None
    cohort = draws.cohort()
    bits: list[int] = []
    visited: dict[str, int] = {}
    clean = in_range(plan, values)
    for number, metric in enumerate(plan.metrics):
        if asked is not None and not asked[number]:
            bits += [0] * metric.bits
            continue
        mechanism, turned = metric.mechanism, metric.flip.threshold
        memo_class = mechanism.memo_class(clean[metric.name], draws.alpha(metric), cohort)
        memo = draws.memo(metric, memo_class)
        flips = None if sampled else draws.flips(metric, round_number)
        for place, threshold in enumerate(mechanism.thresholds(memo_class, cohort)):
            bits.append((memo[place] < threshold) ^ (flips is not None and flips[place] < turned))
        visited[metric.name] = memo_class
    report = Report(
        plan=plan.name,
        version=plan.version,
        round=round_number,
        id=draws.report_id(plan.version, round_number),
        bits=pack_bits(bits),
        cohort=cohort if plan.uses_cohort else None,
        segment=plan.tags(segment or {}) if plan.segments else {},
        asked=None if asked is None else pack_bits(list(map(int, asked))),
    )
    return Answer(report, visited)
