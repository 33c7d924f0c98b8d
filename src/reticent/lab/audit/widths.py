"""Losses between devices of one behaviour pattern, by pairing classes with classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from reticent.lab.audit.exact import Row, row_sets
from reticent.lab.audit.figures import EVEN, Ratio
from reticent.mechanisms import SCALE, Mechanism

Floats = NDArray[np.float64]

MOST_CLASSES = 256
"""Most classes for which pairings are searched."""

WIDTHS = (1, 2, 3, 5, 10)
"""The widths that are looked at, besides the largest."""


def widths_of(mechanism: Mechanism) -> list[int]:
    """Which widths are enumerated; none where there are too many classes."""
    if mechanism.classes > MOST_CLASSES:
        return []
    return sorted({width for width in WIDTHS if width < mechanism.classes} | {mechanism.classes})


def loss_of_width(mechanism: Mechanism, width: int) -> Ratio:
    """
    The largest ratio between two devices whose rounded sequences are equal up to renaming, without flips.

    Position a of the pattern is class u_a of one device and class v_a of the other; u_a are `width` different
    classes, so are the v_a, and each pair contributes the largest ratio of its answers. Which classes to pair
    is an assignment problem, solved in floating point; the figure is the exact product of the pairs it
    chose, hence one that is attained, and not more than rounding (1e-12) below the largest.
    """
    return max((_heaviest(rows, width) for rows in row_sets(mechanism)), default=EVEN)


def _heaviest(rows: Sequence[Row], width: int) -> Ratio:
    ratios = [[_pair(here, there) for there in rows] for here in rows]
    weights = np.array([[float(each.logarithm) for each in line] for line in ratios])
    chosen = zip(*linear_sum_assignment(_padded(weights, width)), strict=True)
    result = EVEN
    for here, there in chosen:
        if here < len(rows) and there < len(rows):
            result *= ratios[here][there]
    return result


def _pair(here: Row, there: Row) -> Ratio:
    """The largest ratio of one remembered answer: each bit shows what it is likelier for `here` to show."""
    result = EVEN
    for one, other in zip(here, there, strict=True):
        if one > other:
            result *= Ratio(one, other)
        elif one < other:
            result *= Ratio(SCALE - one, SCALE - other)
    return result


def _padded(weights: Floats, width: int) -> Floats:
    """
    Costs whose cheapest full assignment pairs exactly `width` rows with columns.

    n - w idle rows and columns take up the others for nothing; idle with idle is made too dear.
    """
    classes = len(weights)
    idle = classes - width
    costs = np.zeros((classes + idle, classes + idle))
    costs[:classes, :classes] = -weights
    costs[classes:, classes:] = 1 + weights.sum()
    return costs
