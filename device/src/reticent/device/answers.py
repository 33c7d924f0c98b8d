"""
A report as a function of secret, plan, round and values: no state, no clock, no draws but those passed in.

    value → clamped → class → remembered bits → flipped bits → report

Sampled answers use the bits of one window instead of remembered ones, no flips, and 0 for a metric that is not
asked.
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
    """A report, and the memo class that each answered metric used: classes are never sent."""

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
    The report of a device with these draws in a round.

    Every metric that is asked is answered, even without a value: silence would be an answer. A missing value
    counts as 0, or as no value where the metric has a bucket for that. Every metric costs the same draws
    whatever its value: one alpha, and per answer bit one memo draw and one flip draw (none for sampled
    answers), of which

        remembered bit = [memo draw < threshold of the class],
        sent bit       = remembered bit ⊕ [flip draw < γ·2⁶⁴].

    Subset selection has one memo draw, and a draw per bucket that no value enters (`SubsetSelection.answer`).

    Raises `ValueError` where answers are sampled and the draws are not those of the round's window, or pick
    another round.
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
        base = draws.base(metric) if mechanism.base_draws else ()
        flips = None if sampled else draws.flips(metric, round_number)
        for place, bit in enumerate(mechanism.answer(memo_class, cohort, memo, base)):
            bits.append(bit ^ (flips is not None and flips[place] < turned))
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
