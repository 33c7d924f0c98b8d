"""What all rounds lose between devices of one behaviour pattern, by the width of the pattern."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Mechanism
from reticent.privacy.assignment import best_assignments
from reticent.privacy.figures import precise, raised, upward

LARGEST_ASSIGNMENT = 65
"""Most cells of an uneven grid for which the assignment problem is solved; beyond, its bound is given."""

_UNIT = 1 << 120
"""Weights of the assignment problem are whole numbers in units of 1/_UNIT, rounded up."""


def loss_by_width(mechanism: Mechanism, width: int) -> float:
    """
    What any number of rounds lose between two devices that share a behaviour pattern of `width`.

    Claim (Theorem 4, made exact): let two devices have rounded sequences (of cells, buckets or
    classes) that are equal up to renaming, with w distinct elements. Given these rounded sequences, every
    sequence of answers has probabilities that differ by a factor of at most e^loss, over any number of rounds
    and with any flips (flips only lower it). The pairs are all such pairs, the worst is taken.

    Mean: position a of the pattern is cell u_a of one device and v_a of the other, and contributes

        D(u, v) = max( ln P(u)/P(v), ln (1-P(u))/(1-P(v)) ),

    so the loss is the heaviest matching of w cells with w cells. Since D(u, v) ≤ f(u) + g(v) with
    f = ln 2 max(P, 1-P) and g = -ln 2 min(P, 1-P), it is at most the sum of the w largest |ln P/(1-P)|, and
    pairing cell i with cell K - i attains this on every grid that is symmetric about m/2. On another grid
    the matching is computed exactly, up to `LARGEST_ASSIGNMENT` points; with more, this bound is returned.

    dBitFlip: each device visits each of its d buckets at most once in a pattern and each visit changes one
    bit, hence 2h·min(w, d) for d ≥ 2 and h·min(w, 2) for d = 1. Hadamard: ε·w, w ≤ 2.

    Observer: sees all rounds of both, linked, and knows both rounded sequences. Not covered: devices with
    different patterns. Without flips their loss is infinite (a device that never changes can never show a
    change); with flips see `loss_of_switch` and `loss_of_any_histories`. Nor does a fixed pair of *values*
    stay within one pattern for every alpha.

    >>> from reticent.mechanisms import OneBitMean
    >>> fine = OneBitMean(1, max_value=20, step=1)
    >>> [round(loss_by_width(fine, width), 2) for width in (1, 2, 3, 5, 10, 21)]
    [1.0, 2.0, 2.89, 4.55, 7.8, 10.61]
    """
    _check(mechanism, width)
    if mechanism.kind == "mean":
        return _mean_losses(mechanism)[width - 1]
    return upward(mechanism.response.epsilon * mechanism.changed_bits(width))


def width_bound(mechanism: Mechanism, width: int) -> float:
    """
    w·ε, the paper's bound on `loss_by_width` (Theorem 4): never below it, and simpler to explain.

    >>> from reticent.mechanisms import OneBitMean
    >>> width_bound(OneBitMean(1, max_value=20, step=1), 21)
    21.0
    """
    _check(mechanism, width)
    return upward(mechanism.epsilon * width)


def lifetime_loss(mechanism: Mechanism) -> float:
    """`loss_by_width` at the largest width there is: a device that uses every answer it can remember."""
    return loss_by_width(mechanism, mechanism.classes)


def is_symmetric(mechanism: Mechanism) -> bool:
    """Whether the grid is its own mirror image, as every even grid is."""
    points = mechanism.points
    return all(left + right == points[-1] for left, right in zip(points, reversed(points), strict=True))


@lru_cache(maxsize=256)
def _mean_losses(mechanism: Mechanism) -> tuple[float, ...]:
    """The loss for w = 1, 2, …, K + 1."""
    if is_symmetric(mechanism) or mechanism.classes > LARGEST_ASSIGNMENT:
        totals = list(accumulate(sorted(_log_odds(mechanism), reverse=True)))
    else:
        totals = best_assignments(_pair_losses(mechanism))
    return tuple(upward(Fraction(total, _UNIT)) for total in totals)


@precise
def _log_odds(mechanism: Mechanism) -> list[int]:
    """|ln P/(1-P)| per cell: the larger of the formula's and the integer thresholds'."""
    laws = _cell_logarithms(mechanism)
    return [
        max(_scaled(abs(law[cell][0] - law[cell][1]), mechanism.epsilon) for law in laws)
        for cell in range(mechanism.classes)
    ]


@precise
def _pair_losses(mechanism: Mechanism) -> list[list[int]]:
    """D(u, v) for all pairs of cells: the larger of the formula's and the integer thresholds'."""
    laws = _cell_logarithms(mechanism)
    cells = range(mechanism.classes)
    return [
        [max(_scaled(_pair_loss(law[u], law[v]), mechanism.epsilon) for law in laws) for v in cells]
        for u in cells
    ]


def _pair_loss(here: tuple[Decimal, Decimal], there: tuple[Decimal, Decimal]) -> Decimal:
    """D of two cells, from their logarithms of P(1) and P(0)."""
    return max(here[0] - there[0], here[1] - there[1])


def _scaled(figure: Decimal, ceiling: Fraction) -> int:
    """In units, rounded up; no two cells differ by more than e^ε, and ε is known exactly."""
    return ceil(min(raised(figure), ceiling) * _UNIT) if figure else 0


@precise
def _cell_logarithms(mechanism: Mechanism) -> tuple[list[tuple[Decimal, Decimal]], ...]:
    """(ln P(1), ln P(0)) per cell, once by Eq. 1 and once by the integers that devices compare with."""
    shares = [mechanism.shares(cell)[0] for cell in range(mechanism.classes)]
    ideal = [(share.ln(), (1 - share).ln()) for share in shares]
    thresholds = [mechanism.thresholds(cell, 0)[0] for cell in range(mechanism.classes)]
    whole = [(Decimal(one).ln(), Decimal(SCALE - one).ln()) for one in thresholds]
    return ideal, whole


def _check(mechanism: Mechanism, width: int) -> None:
    if not 1 <= width <= mechanism.classes:
        raise ParameterError("width", f"a whole number from 1 to {mechanism.classes}", width)
