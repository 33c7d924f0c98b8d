"""
Losses by enumeration, from the integers that a device compares its draws with.

`reticent.privacy` has formulas; nothing of them is used here. Chances come from `Mechanism.thresholds` and
`Flip.threshold` as whole numbers over a power of 2⁶⁴, for every class and every output, and the largest
ratio is found by trying. A sequence of answers enters only through its ones in each part of the history
(within a part, rounds are exchangeable), and the bits of one answer have draws of their own, so that the
largest ratio of an answer is the product of those of its bits: this is what keeps the lists short, and it
loses nothing.

Classes stand for values: a value between two grid points gives a mixture of their two laws, and the ratio
of two mixtures is never beyond the largest ratio of their parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

from reticent.lab.audit.figures import EVEN, Ratio
from reticent.mechanisms import COHORTS, SCALE, Mechanism

Row = tuple[int, ...]
"""The thresholds of one class: one whole number per answer bit."""

MOST_ROWS = 12
"""Most different rows of several bits whose switches are all tried (three classes at a time)."""


def rows_of(mechanism: Mechanism, cohort: int = 0) -> list[Row]:
    """The thresholds of each class, for a device of this cohort."""
    return [mechanism.thresholds(each, cohort) for each in range(mechanism.classes)]


def row_sets(mechanism: Mechanism) -> set[tuple[Row, ...]]:
    """The thresholds of all classes, in order of size: one entry per kind of cohort."""
    cohorts = range(COHORTS) if mechanism.uses_cohort else range(1)
    return {tuple(sorted(rows_of(mechanism, cohort))) for cohort in cohorts}


def seen(one: int, turned: int, ones: int, zeros: int) -> int:
    """
    The chance of one given sequence of answers of a remembered bit, over 2^(64 (rounds + 1)).

    `one` of 2⁶⁴ draws remember a 1, `turned` of 2⁶⁴ turn an answer over.
    """
    kept = SCALE - turned
    shown: int = one * kept**ones * turned**zeros
    hidden: int = (SCALE - one) * turned**ones * kept**zeros
    return shown + hidden


def loss_of_constant(mechanism: Mechanism, turned: int, rounds: int) -> Ratio:
    """The largest ratio between two classes, each held through all rounds; `turned` 0 leaves flips out."""
    worst = EVEN
    for rows in row_sets(mechanism):
        if mechanism.bits == 1:
            worst = max(worst, _one_bit_constant([row[0] for row in rows], turned, rounds))
            continue
        for here, there in product(set(rows), repeat=2):
            worst = max(worst, _row_ratio(here, there, turned, rounds))
    return worst


def _one_bit_constant(thresholds: Sequence[int], turned: int, rounds: int) -> Ratio:
    """For each number of ones, the likeliest class over the least likely one."""
    worst, distinct = EVEN, set(thresholds)
    for ones in range(rounds + 1):
        chances = [seen(one, turned, ones, rounds - ones) for one in distinct]
        if max(chances):
            worst = max(worst, Ratio(max(chances), min(chances)))
    return worst


def _row_ratio(here: Row, there: Row, turned: int, rounds: int) -> Ratio:
    result = EVEN
    for one, other in zip(here, there, strict=True):
        if one != other:
            result *= _bit_ratio(one, other, turned, rounds)
    return result


@lru_cache(maxsize=4096)
def _bit_ratio(one: int, other: int, turned: int, rounds: int) -> Ratio:
    """The largest ratio of one bit: over all numbers of ones."""
    worst = EVEN
    for ones in range(rounds + 1):
        above = seen(one, turned, ones, rounds - ones)
        if above:
            worst = max(worst, Ratio(above, seen(other, turned, ones, rounds - ones)))
    return worst


def loss_of_switch(mechanism: Mechanism, turned: int, before: int, after: int) -> tuple[Ratio, Ratio]:
    """
    Switched over constant, and constant over switched: the largest ratios.

    A device in class a for `before` rounds and in class b for `after` rounds, against one that stays in
    class c throughout; all a, b (also a = b, which is no switch) and c.
    """
    up, down = EVEN, EVEN
    for rows in row_sets(mechanism):
        if mechanism.bits == 1:
            found = _one_bit_switch([row[0] for row in rows], turned, before, after)
        else:
            found = _rows_switch(representatives(rows), turned, before, after)
        up, down = max(up, found[0]), max(down, found[1])
    return up, down


def _one_bit_switch(thresholds: Sequence[int], turned: int, before: int, after: int) -> tuple[Ratio, Ratio]:
    """Each pair of counts of ones; the best and worst a ≠ b are among the two best of each part."""
    up, down = EVEN, EVEN
    for early, late in product(range(before + 1), range(after + 1)):
        first = sorted((seen(one, turned, early, before - early), i) for i, one in enumerate(thresholds))
        second = sorted((seen(one, turned, late, after - late), i) for i, one in enumerate(thresholds))
        still = [SCALE * seen(one, turned, early + late, before + after - early - late) for one in thresholds]
        most = max(a * b for (a, i), (b, j) in product(first[-2:], second[-2:]) if i != j)
        least = min(a * b for (a, i), (b, j) in product(first[:2], second[:2]) if i != j)
        most, least = max(most, *still), min(least, *still)
        if most:
            up = max(up, Ratio(most, min(still)))
        if max(still):
            down = max(down, Ratio(max(still), least))
    return up, down


def representatives(rows: Sequence[Row]) -> list[Row]:
    """Up to `MOST_ROWS` different rows, twice where two classes share one."""
    distinct = sorted(set(rows), reverse=True)
    kept = distinct if len(distinct) <= MOST_ROWS else [*distinct[: MOST_ROWS - 1], distinct[-1]]
    return [row for row in kept for _ in range(min(rows.count(row), 2))]


def _rows_switch(rows: Sequence[Row], turned: int, before: int, after: int) -> tuple[Ratio, Ratio]:
    up, down = EVEN, EVEN
    for (i, first), (j, second), still in product(enumerate(rows), enumerate(rows), rows):
        if i == j:
            found = (
                _row_ratio(first, still, turned, before + after),
                _row_ratio(still, first, turned, before + after),
            )
        else:
            bits = [
                _bit_switch(*each, turned, before, after) for each in zip(first, second, still, strict=True)
            ]
            found = _product([bit[0] for bit in bits]), _product([bit[1] for bit in bits])
        up, down = max(up, found[0]), max(down, found[1])
    return up, down


def _product(ratios: Sequence[Ratio]) -> Ratio:
    return Ratio(prod(each.above for each in ratios), prod(each.below for each in ratios))


@lru_cache(maxsize=65536)
def _bit_switch(
    first: int, second: int, still: int, turned: int, before: int, after: int
) -> tuple[Ratio, Ratio]:
    """Both directions of one bit: over all pairs of counts of ones."""
    up = down = Ratio(0, 1)
    for early, late in product(range(before + 1), range(after + 1)):
        switched = seen(first, turned, early, before - early) * seen(second, turned, late, after - late)
        constant = SCALE * seen(still, turned, early + late, before + after - early - late)
        if switched:
            up = max(up, Ratio(switched, constant))
        if constant:
            down = max(down, Ratio(constant, switched))
    return up, down
