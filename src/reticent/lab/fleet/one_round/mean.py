"""What reaches the collector in one round about a mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.lab.baselines import Laplace
from reticent.lab.fleet.one_round.bits import SumOfBits
from reticent.lab.fleet.one_round.tally import Tally
from reticent.mechanisms import Flip, OneBitMean


def chances_of_one(mechanism: OneBitMean, flip: Flip, values: NDArray[Any]) -> NDArray[np.float64]:
    """
    The chance that the collector sees 1 from a device with each value, over its alpha, its memo and its flip.

    A value between two grid points goes to either of them in proportion to its distance from the other, so
    the chance is linear between the exact chances of the points (and with equal steps, Eq. 1 with ε').

    >>> chances_of_one(OneBitMean(1, 60), Flip(0), np.array([0, 30, 60])).round(4).tolist()
    [0.2689, 0.5, 0.7311]
    """
    points = [float(point) for point in mechanism.grid.points]
    chances = [float(flip.chance_of_one(threshold)) for threshold in mechanism.cell_thresholds]
    return np.asarray(np.interp(values, points, chances))


def ones_of_mean(
    mechanism: OneBitMean, flip: Flip, tally: Tally, repetitions: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw how many of the devices answer 1, each with an alpha and a memo of its own."""
    chances = chances_of_one(mechanism, flip, tally.values)
    return SumOfBits(chances, tally.devices).draw(repetitions, generator)


def total_of_laplace(
    mechanism: Laplace, tally: Tally, repetitions: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """
    Draw the sum of the devices' answers.

    One Laplace variable is the difference of two exponentials of mean b, so the sum of n of them is that
    of two Gamma variables of shape n.
    """
    up, down = generator.standard_gamma(tally.total, (2, repetitions))
    return np.asarray(tally.total * tally.mean + mechanism.scale * (up - down))
