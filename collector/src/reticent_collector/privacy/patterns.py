"""
Behaviour patterns (Definition 2), and what all rounds lose between devices that share one.

A pattern says when a device was in the same mode, not which mode it was; its width is the number of modes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Mechanism
from reticent_collector.privacy.rounding import precise, raised, upward

LARGEST_ASSIGNMENT = 65
"""Most cells of an uneven grid for which the assignment problem is solved; beyond, its bound is given."""

_UNIT = 1 << 120  # weights of the assignment problem are whole numbers in units of 1/_UNIT, rounded up


def pattern(sequence: Iterable[Hashable]) -> tuple[int, ...]:
    """
    The behaviour pattern of a sequence of rounded values: each renamed by the order of its first occurrence.

    Two sequences have one pattern exactly when a renaming of values turns one into the other.

    >>> pattern(["low", "high", "low", "off"]), pattern([7, 3, 7, 0])
    ((0, 1, 0, 2), (0, 1, 0, 2))
    """
    names: dict[Hashable, int] = {}
    return tuple(names.setdefault(value, len(names)) for value in sequence)


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
    the matching is computed exactly, up to `LARGEST_ASSIGNMENT` points; with more, this bound is returned. The
    paper's bound is w·ε, which is never below.

    dBitFlip: each device visits each of its d buckets at most once in a pattern and each visit changes one
    bit, hence 2h·min(w, d) for d ≥ 2 and h·min(w, 2) for d = 1. Hadamard: ε·w, w ≤ 2.

    Theorems `loss_by_width_of_mean` and `loss_by_width_of_histogram` of proofs/; a certificate checks the matching.

    Observer: sees all rounds of both, linked, and knows both rounded sequences. Not covered: devices with
    different patterns. Without flips their loss is infinite (a device that never changes can never show a
    change); with flips see `loss_of_switch` and `loss_of_any_histories`. Nor does a fixed pair of *values*
    stay within one pattern for every alpha.

    >>> from reticent.mechanisms import OneBitMean
    >>> fine = OneBitMean(1, max_value=20, step=1)
    >>> [round(loss_by_width(fine, width), 2) for width in (1, 2, 3, 5, 10, 21)]
    [1.0, 2.0, 2.89, 4.55, 7.8, 10.61]
    """
    if not 1 <= width <= mechanism.classes:
        raise ParameterError("width", f"a whole number from 1 to {mechanism.classes}", width)
    if mechanism.kind == "mean":
        return _mean_losses(mechanism)[width - 1]
    return upward(mechanism.response.epsilon * mechanism.changed_bits(width))


def lifetime_loss(mechanism: Mechanism) -> float:
    """`loss_by_width` at the largest width there is: a device that uses every answer it can remember."""
    return loss_by_width(mechanism, mechanism.classes)


@lru_cache(maxsize=256)
@precise
def _mean_losses(mechanism: Mechanism) -> tuple[float, ...]:
    """The loss for w = 1, 2, …, K + 1: by the formula and by the integers, the larger of the two."""
    cells = range(mechanism.classes)
    shares = [mechanism.shares(cell)[0] for cell in cells]
    ones = [mechanism.thresholds(cell, 0)[0] for cell in cells]
    laws = (
        [(share.ln(), (1 - share).ln()) for share in shares],
        [(Decimal(one).ln(), Decimal(SCALE - one).ln()) for one in ones],
    )

    def scaled(loss: Decimal) -> int:
        """In units, rounded up; no two cells differ by more than e^ε, and ε is known exactly."""
        return ceil(min(raised(loss), mechanism.epsilon) * _UNIT) if loss else 0

    if _is_symmetric(mechanism.points) or mechanism.classes > LARGEST_ASSIGNMENT:
        odds = [max(scaled(abs(law[cell][0] - law[cell][1])) for law in laws) for cell in cells]
        totals = list(accumulate(sorted(odds, reverse=True)))
    else:

        def between(u: int, v: int) -> int:
            """What one remembered answer tells between two cells."""
            return max(scaled(max(law[u][0] - law[v][0], law[u][1] - law[v][1])) for law in laws)

        totals = best_assignments([[between(u, v) for v in cells] for u in cells])
    return tuple(upward(Fraction(total, _UNIT)) for total in totals)


def _is_symmetric(points: Sequence[int | Fraction]) -> bool:
    """Whether a grid is the same read from both ends."""
    return all(left + right == points[-1] for left, right in zip(points, reversed(points), strict=True))


def best_assignments(weights: Sequence[Sequence[int]]) -> list[int]:
    """
    The largest total weight of w pairs (row, column), no row or column twice, for w = 1, 2, …, n.

    Successive shortest augmenting paths with potentials (Edmonds & Karp 1972): after w paths the matching is
    a best one of w pairs, so one run serves every w. Whole numbers, so the result is exact. O(n³).

    >>> best_assignments([[0, 3, 5], [3, 0, 2], [5, 2, 0]])
    [5, 10, 10]
    """
    size = len(weights)
    row_of: dict[int, int] = {}
    free_rows = set(range(size))
    row_potential = [0] * size
    column_potential = [0] * size
    totals = []
    while free_rows:
        column, parent = _augmenting_path(weights, row_of, free_rows, row_potential, column_potential)
        column_of = {row: taken for taken, row in row_of.items()}
        while True:  # turn the path that ends in the free column
            row = parent[column]
            row_of[column] = row
            if row in free_rows:
                free_rows.discard(row)
                break
            column = column_of[row]
        totals.append(sum(weights[row][taken] for taken, row in row_of.items()))
    return totals


def _augmenting_path(
    weights: Sequence[Sequence[int]],
    row_of: Mapping[int, int],
    free_rows: Set[int],
    row_potential: list[int],
    column_potential: list[int],
) -> tuple[int, dict[int, int]]:
    """
    A cheapest path from a free row to a free column (a heavy pair is a short one): that column, and the row
    before each column. Raises the potentials, which keep every length from falling below 0 and so prove the
    matching a best one.
    """
    top = max(max(row) for row in weights)
    distance: dict[int, int] = {}
    parent: dict[int, int] = {}
    settled: dict[int, int] = {}
    row_distance = dict.fromkeys(free_rows, 0)
    fresh = list(free_rows)
    while True:
        for row in fresh:
            start = row_distance[row] + top - row_potential[row]
            for column, weight in enumerate(weights[row]):
                length = start - weight - column_potential[column]
                if column not in settled and length < distance.get(column, length + 1):
                    distance[column] = length
                    parent[column] = row
        nearest = min(distance, key=distance.__getitem__)
        settled[nearest] = reached = distance.pop(nearest)
        if nearest not in row_of:
            break
        row_distance[row_of[nearest]] = reached
        fresh = [row_of[nearest]]
    for row, length in row_distance.items():
        row_potential[row] += reached - length
    for column, length in settled.items():
        column_potential[column] -= reached - length
    return nearest, parent
