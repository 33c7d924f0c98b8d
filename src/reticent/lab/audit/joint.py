"""Counters that share a limit: the worst pair of vectors, by trying corners and even spreads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import prod

from reticent.lab.audit.figures import Ratio
from reticent.mechanisms import SCALE, Mechanism
from reticent.plan import Group, Metric, Plan

MOST_COUNTERS = 7
"""Most counters for which every output is tried with every candidate; beyond, those of alike counters."""

Value = int | Fraction
Vector = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class JointPair:
    """The two vectors and the answers that tell most, of those tried."""

    likelier: Vector
    rarer: Vector
    answers: tuple[int, ...]
    ratio: Ratio


def worst_pair(plan: Plan, group: Group, *, flips: bool) -> JointPair:
    """
    The largest ratio over pairs of vectors within the limit, and all answers.

    Tried are all corners of { 0 ≤ x_i ≤ m_i, Σ x_i ≤ M } and all even spreads of the limit over some of the
    counters. For counters alike, and every answer, the best numerator is an even spread (its logarithm is
    concave) and the best denominator a corner (convex), so the figure is the largest of all pairs. For
    counters that differ it is attained, and may not be the largest.
    """
    members = [plan.by_name[name] for name in group.metrics]
    points = list(_points(members, Fraction(group.max_total)))
    chances = [[_one(member, value, flips) for member, value in zip(members, x, strict=True)] for x in points]
    whole = SCALE**3
    found: JointPair | None = None
    for answers in _outputs(len(members)):
        laws = [
            prod(one if answer else whole - one for one, answer in zip(each, answers, strict=True))
            for each in chances
        ]
        best, least = max(laws), min(laws)
        pair = JointPair(points[laws.index(best)], points[laws.index(least)], answers, Ratio(best, least))
        if found is None or found.ratio < pair.ratio:
            found = pair
    if found is None:
        raise ValueError(group.name)
    return found


def _outputs(counters: int) -> Iterator[tuple[int, ...]]:
    """All answers; of many counters, those with the ones last."""
    if counters <= MOST_COUNTERS:
        return product((0, 1), repeat=counters)
    return ((0,) * (counters - ones) + (1,) * ones for ones in range(counters + 1))


def _points(members: Sequence[Metric], limit: Fraction) -> Iterator[Vector]:
    """Corners and even spreads; of many counters, only the first or last of each number of them."""
    tops = [Fraction(member.max_value) for member in members]
    places = range(len(members))
    yield (Fraction(0),) * len(members)
    for size in range(len(members) + 1):
        chosen_sets: list[tuple[int, ...]]
        if len(members) <= MOST_COUNTERS:
            chosen_sets = list(combinations(places, size))
        else:
            chosen_sets = [tuple(places[:size]), tuple(places[len(members) - size :])]
        for chosen in chosen_sets:
            yield from _around(tops, chosen, limit)


def _around(tops: Sequence[Fraction], chosen: tuple[int, ...], limit: Fraction) -> Iterator[Vector]:
    """The limit spread evenly over the chosen counters; all of them full, and one more with the rest."""
    if chosen:
        share = limit / len(chosen)
        yield tuple(min(top, share) if i in chosen else Fraction(0) for i, top in enumerate(tops))
    rest = limit - sum(tops[i] for i in chosen)
    if rest >= 0:
        for other in [i for i in range(len(tops)) if i not in chosen][:MOST_COUNTERS] or [-1]:
            yield tuple(
                top if i in chosen else min(top, rest) if i == other else Fraction(0)
                for i, top in enumerate(tops)
            )


def _one(metric: Metric, value: Value, flips: bool) -> int:
    """The chance that a device with this value answers 1, over 2¹⁹²."""
    one = remembered(metric.mechanism, value)
    turned = metric.flip.threshold if flips else 0
    return one * (SCALE - turned) + (SCALE * SCALE - one) * turned


@lru_cache(maxsize=4096)
def remembered(mechanism: Mechanism, value: Value) -> int:
    """
    The chance that the first bit remembered for a value is 1, over alphas and draws, over 2¹²⁸.

    At most two cells are within reach of a value; how many of the 2⁶⁴ alphas lead to each is found by
    bisection on `memo_class` itself.
    """
    first, last = mechanism.memo_class(value, 0, 0), mechanism.memo_class(value, SCALE - 1, 0)
    below, above = 0, SCALE
    if first != last:
        above = SCALE - 1
        while above - below > 1:
            middle = (below + above) // 2
            if mechanism.memo_class(value, middle, 0) == first:
                below = middle
            else:
                above = middle
    ones = mechanism.thresholds(first, 0)[0], mechanism.thresholds(last, 0)[0]
    return above * ones[0] + (SCALE - above) * ones[1]
