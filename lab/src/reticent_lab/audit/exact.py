"""
Losses by enumeration, from the integers that a device compares its draws with; no formula of
`reticent_collector.privacy` is used.

A sequence of answers enters only through its ones in each part of the history (rounds within a part are
exchangeable), and the largest ratio of an answer is the product of those of its bits, which have draws of their
own. Classes stand for values: a value between two grid points gives a mixture of their laws, whose ratios are
never larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, islice, pairwise, product
from math import prod

import numpy as np
from scipy.optimize import linear_sum_assignment

from reticent.mechanisms import COHORTS, SCALE, Mechanism, SubsetSelection
from reticent_collector.privacy import upward

_DIGITS = Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)


@dataclass(frozen=True, slots=True)
class Ratio:
    """
    How much likelier something is: two whole numbers, not reduced; 0 below means without bound.

    >>> Ratio(3, 2) < Ratio(2, 1), Ratio(5, 0).logarithm
    (True, Decimal('Infinity'))
    """

    above: int
    below: int

    def __lt__(self, other: Ratio) -> bool:
        if self.below == 0 or other.below == 0:
            return self.below != 0 and other.below == 0
        return self.above * other.below < other.above * self.below

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(self.above * other.above, self.below * other.below)

    @property
    def logarithm(self) -> Decimal:
        """The natural logarithm, to 100 digits."""
        if self.below == 0:
            return Decimal("Infinity")
        return _DIGITS.subtract(_DIGITS.ln(Decimal(self.above)), _DIGITS.ln(Decimal(self.below)))


EVEN = Ratio(1, 1)


@dataclass(frozen=True, slots=True)
class Enumerated:
    """One loss, computed from all outputs, beside what is claimed of it."""

    subject: str  #: A metric, "group NAME", or "whole plan"
    what: str  #: Which pairs of histories
    claim: float
    loss: float
    """Never below the largest of what was gone through; the judgement is made with 100 digits, before rounding."""
    above: bool  #: Whether the loss is larger than the claim: no chance is involved
    over: str  #: What was gone through to find it


def enumerated(
    subject: str, what: str, claim: float | Fraction, loss: Ratio | Decimal, over: str
) -> Enumerated:
    """A loss judged against a claim, both exact."""
    exact = loss.logarithm if isinstance(loss, Ratio) else loss
    if isinstance(claim, Fraction):
        limit = _DIGITS.divide(Decimal(claim.numerator), Decimal(claim.denominator))
    else:
        limit = Decimal(claim)
    shown = math.inf if exact.is_infinite() else max(0.0, upward(exact))
    claimed = upward(claim) if isinstance(claim, Fraction) else claim
    return Enumerated(subject, what, claimed, shown, exact > limit, over)


def total(losses: list[Decimal]) -> Decimal:
    """Losses of independent answers, added with 100 digits."""
    result = Decimal(0)
    for loss in losses:
        result = _DIGITS.add(result, loss)
    return result


Row = tuple[int, ...]  # The thresholds of one class: one whole number per answer bit
MOST_ROWS = 12  # Most different rows of several bits whose switches are all tried (three classes at a time)


def rows_of(mechanism: Mechanism, cohort: int = 0) -> list[Row]:
    """The thresholds of each class, for a device of this cohort."""
    return [mechanism.thresholds(memo_class, cohort) for memo_class in range(mechanism.classes)]


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
    if isinstance(mechanism, SubsetSelection):
        return loss_of_sets(mechanism)
    worst = EVEN
    for rows in row_sets(mechanism):
        if mechanism.bits == 1:
            for ones in range(rounds + 1):  # the likeliest class over the least likely one
                chances = [seen(one, turned, ones, rounds - ones) for (one,) in set(rows)]
                if max(chances):
                    worst = max(worst, Ratio(max(chances), min(chances)))
            continue
        for here, there in product(set(rows), repeat=2):
            worst = max(worst, _row_ratio(here, there, turned, rounds))
    return worst


MOST_ANSWERS = 20_000  # Most answers of subset selection that are enumerated, but for one base set


@lru_cache(maxsize=64)
def loss_of_sets(mechanism: SubsetSelection) -> Ratio:
    """The largest ratio of one set between two buckets, each base set by itself; of many base sets, some."""
    count = mechanism.bits
    most = max(1, MOST_ANSWERS // count**2)
    step = max(1, math.comb(count, mechanism.size) // most)
    worst = EVEN
    for members in islice(combinations(range(count), mechanism.size), 0, None, step):
        base = [place not in members for place in range(count)]
        laws = [_law_of_set(mechanism, bucket, base) for bucket in range(count)]
        for answered in set().union(*laws):
            chances = [law.get(answered, 0) for law in laws]
            worst = max(worst, Ratio(max(chances), min(chances)))
    return worst


def _law_of_set(mechanism: SubsetSelection, bucket: int, base: Sequence[int]) -> dict[tuple[bool, ...], int]:
    """Of 2⁶⁴ draws, how many give each answer."""
    law: dict[tuple[bool, ...], int] = {}
    for start, end in pairwise(sorted({0, *mechanism.cuts(bucket), SCALE})):
        answered = mechanism.answer(bucket, 0, [start], base)
        law[answered] = law.get(answered, 0) + end - start
    return law


def _row_ratio(here: Row, there: Row, turned: int, rounds: int) -> Ratio:
    result = EVEN
    for one, other in zip(here, there, strict=True):
        if one != other:
            result *= _bit_ratio(one, other, turned, rounds)
    return result


@lru_cache(maxsize=4096)
def _bit_ratio(one: int, other: int, turned: int, rounds: int) -> Ratio:
    worst = EVEN
    for ones in range(rounds + 1):
        above = seen(one, turned, ones, rounds - ones)
        if above:
            worst = max(worst, Ratio(above, seen(other, turned, ones, rounds - ones)))
    return worst


def exact_loss_of_switch(mechanism: Mechanism, turned: int, before: int, after: int) -> tuple[Ratio, Ratio]:
    """
    Switched over constant, and constant over switched: the largest ratios.

    A device in class a for `before` rounds and in class b for `after` rounds, against one that stays in
    class c throughout; all a, b (also a = b, which is no switch) and c.
    """
    up, down = EVEN, EVEN
    for rows in row_sets(mechanism):
        if mechanism.bits == 1:
            ratios = _one_bit_switch([row[0] for row in rows], turned, before, after)
        else:
            few = representatives(rows)
            for (i, first), (j, second), still in product(enumerate(few), enumerate(few), few):
                if i == j:
                    up = max(up, _row_ratio(first, still, turned, before + after))
                    down = max(down, _row_ratio(still, first, turned, before + after))
                    continue
                bits = [
                    _bit_switch(*ones, turned, before, after)
                    for ones in zip(first, second, still, strict=True)
                ]
                up = max(up, _product([bit[0] for bit in bits]))
                down = max(down, _product([bit[1] for bit in bits]))
            continue
        up, down = max(up, ratios[0]), max(down, ratios[1])
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


def _product(ratios: Sequence[Ratio]) -> Ratio:
    return Ratio(prod(ratio.above for ratio in ratios), prod(ratio.below for ratio in ratios))


@lru_cache(maxsize=65536)
def _bit_switch(
    first: int, second: int, still: int, turned: int, before: int, after: int
) -> tuple[Ratio, Ratio]:
    up = down = Ratio(0, 1)
    for early, late in product(range(before + 1), range(after + 1)):
        switched = seen(first, turned, early, before - early) * seen(second, turned, late, after - late)
        constant = SCALE * seen(still, turned, early + late, before + after - early - late)
        if switched:
            up = max(up, Ratio(switched, constant))
        if constant:
            down = max(down, Ratio(constant, switched))
    return up, down


MOST_CLASSES = 256  # Most classes for which pairings are searched
WIDTHS = (1, 2, 3, 5, 10)  # The widths that are looked at, besides the largest


def widths_of(mechanism: Mechanism) -> list[int]:
    """Which widths are enumerated; none where there are too many classes."""
    if mechanism.classes > MOST_CLASSES:
        return []
    return sorted({width for width in WIDTHS if width < mechanism.classes} | {mechanism.classes})


def loss_of_width(mechanism: Mechanism, width: int) -> Ratio:
    """
    The largest ratio between two devices whose rounded sequences are equal up to renaming, without flips.

    Which `width` classes of the one to pair with which of the other is an assignment problem, solved in floating
    point; the figure is the exact product of the pairs it chose: attained, and at most rounding (1e-12) below the
    largest.
    """
    worst = EVEN
    for rows in row_sets(mechanism):
        classes = len(rows)
        ratios = [[_row_ratio(here, there, 0, 1) for there in rows] for here in rows]
        weights = np.array([[float(ratio.logarithm) for ratio in line] for line in ratios])
        # n - w idle rows and columns take up the others for nothing; idle with idle is made too dear.
        size = 2 * classes - width
        costs = np.zeros((size, size))
        costs[:classes, :classes] = -weights
        costs[classes:, classes:] = 1 + weights.sum()
        result = EVEN
        for here, there in zip(*linear_sum_assignment(costs), strict=True):
            if here < classes and there < classes:
                result *= ratios[here][there]
        worst = max(worst, result)
    return worst
