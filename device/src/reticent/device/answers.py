"""
A report as a function of secret, plan, round and values: no state, no clock, no draws but those passed in.

    value → clamped → class → remembered bits → flipped bits → report

Sampled answers use the bits of one window instead of remembered ones, no flips, and 0 for a metric that is not
asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reticent.device.totals import in_range
from reticent.mechanisms import SCALE
from reticent.reports import Report, pack_bits

if TYPE_CHECKING:
    from reticent.device.prf import Draws
    from reticent.device.totals import Value
    from reticent.plan import Metric, Plan

DARTS = 48
"""Darts per bar of a split whose answers are remembered."""


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

    A split has the draws that pick its part besides. Subset selection has one memo draw, and a draw per bucket that
    no value enters (`SubsetSelection.answer`).

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
        value = _label(draws, metric, clean, sampled=sampled) if metric.parts else clean[metric.name]
        memo_class = mechanism.memo_class(value, draws.alpha(metric), cohort)
        memo = draws.memo(metric, memo_class)
        base = draws.fixed(metric, "base", mechanism.base_draws) if mechanism.base_draws else ()
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


def _label(draws: Draws, metric: Metric, clean: Mapping[str, Value | None], *, sampled: bool) -> int | None:
    """The part of a split that is answered, None for the unused rest; from draws that no amount enters."""
    amounts = [clean[name] or 0 for name in metric.recorded]
    if sampled:
        return part_at(amounts, metric.max_total, draws.fixed(metric, "moment", 1)[0])
    bars = len(amounts) + 1
    return part_hit(amounts, metric.max_total, draws.fixed(metric, "darts", DARTS * bars))


def part_at(amounts: Sequence[Value], limit: Value, moment: int) -> int | None:
    """
    The part that is in front at a moment, if the range were used up part by part; None: the rest of it.

    Part j has the chance a_j/M, up to 2⁻⁶⁴. `amounts` add up to the limit M at most.

    >>> [part_at([6, 0, 3], 12, quarter * 2**62) for quarter in range(4)]
    [0, 0, 2, None]
    """
    used: Value = 0
    for part, amount in enumerate(amounts):
        used += amount
        if moment * limit < used * SCALE:
            return part
    return None


def part_hit(amounts: Sequence[Value], limit: Value, darts: Sequence[int]) -> int | None:
    """
    The bar that the first dart hits; None: the bar of the rest.

    Every part has a bar as high as its amount, and the rest of the limit one more. A dart picks a bar and a height.
    Part j has the chance a_j/M. Of two amounts under the same darts, the first dart that hits a bar of either hits both
    but for a chance of 2 TV/(1 + TV), TV half the sum of |a_j - a'_j|/M over all bars (Holenstein, 2007): so a small
    change of the amounts rarely changes a remembered answer. All darts are looked at, whatever is hit; none of them
    hits with a chance below e⁻⁴⁸.

    >>> part_hit([6, 0, 3], 12, [2**61, 2**63])  # bar 0 at a height of 6, which misses; bar 2 at 0
    2
    """
    bars = [*amounts, limit - sum(amounts)]
    places = (divmod(dart * len(bars), SCALE) for dart in darts)
    hits = [bar for bar, height in places if height * limit < bars[bar] * SCALE]
    return hits[0] if hits and hits[0] < len(amounts) else None
