"""
Tail bounds from convex order: laws that are more spread out than what was seen, and their upper means.

X is below Y in convex order (X ≤cx Y) when E f(X) ≤ E f(Y) for every convex f. Then both have the same mean, and

    Pr[X > CVaR_a(Y)] ≤ a,        CVaR_a(Y) = min over c of c + E(Y - c)⁺ / a,

the mean of the a likeliest-to-be-large part of Y: if Pr[X > t] > a, then t < CVaR_a(X) ≤ CVaR_a(Y). The
quantile of Y would not do: X may have a heavier tail than Y at one point.

A law is kept as chances on a grid. Wherever a grid gets too fine it is made coarser by giving the chance of a
point to its two neighbours, half each: that keeps the mean and spreads, so every result is on the wide side
(by less than one part in a thousand). What is cut off at the ends has a chance below 1e-14.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import gammaln, xlog1py, xlogy

from reticent_collector.estimates.interval import Floats

MOST_POINTS = 1024  # a finer grid is made coarser
CUT = 1e-15
NODES = 13  # shares at which the upper mean of an average is computed; a polynomial runs through them
LARGEST_SIDE = 0.99  # |1 - 2M| of the share M of devices that remember a 1, at most; see `average_excess`
FEW = 4000
"""Sums of so few devices are on few points: the upper mean is less smooth, and needs more nodes."""
MARGIN = 0.0075
"""
Added to an upper mean, as a part of its distance from the mean, for the error of that polynomial.

With it 1.5/n for n devices, because sums of few devices are on few points and the upper mean has kinks.
"""


class Law(NamedTuple):
    """Chances of the points (start + i) · step."""

    start: int
    step: float
    chances: Floats

    @property
    def points(self) -> Floats:
        """Where the chances are."""
        return np.asarray((self.start + np.arange(len(self.chances))) * self.step, dtype=np.float64)

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.points @ self.chances)

    def __neg__(self) -> Law:
        return Law(-(self.start + len(self.chances) - 1), self.step, self.chances[::-1])

    def upper_mean(self, tail: float) -> float:
        """CVaR: the mean of the largest part of the law whose chance is `tail`."""
        above = np.concatenate((np.cumsum(self.chances[::-1])[-2::-1], [0.0]))
        place = int(np.argmax(above <= tail))
        points = self.points
        largest = float(points[place + 1 :] @ self.chances[place + 1 :])
        return (largest + float(points[place]) * (tail - float(above[place]))) / tail

    def on_grid(self, step: float) -> Law:
        """The law with each chance split between the two nearest points of another grid: no narrower."""
        places = self.points / step
        left = np.floor(places).astype(np.int64)
        right_part = self.chances * (places - left)
        start, size = int(left[0]), int(left[-1] - left[0]) + 2
        chances = np.zeros(size)
        np.add.at(chances, left - start, self.chances - right_part)
        np.add.at(chances, left - start + 1, right_part)
        return Law(start, step, chances)


def convolved(one: Law, other: Law) -> Law:
    """The law of the sum of two independent numbers on the same grid."""
    size = len(one.chances) + len(other.chances) - 1
    padded = next_fast_len(size, real=True)
    wave = rfft(one.chances, padded)
    product = wave * (wave if other is one else rfft(other.chances, padded))
    chances = np.maximum(irfft(product, padded)[:size], 0.0)
    first = int(np.argmax(np.cumsum(chances) > CUT))
    last = size - int(np.argmax(np.cumsum(chances[::-1]) > CUT))
    kept = chances[first:last].copy()
    kept[0] += chances[:first].sum()
    kept[-1] += chances[last:].sum()
    return Law(one.start + other.start + first, one.step, kept / kept.sum())


def _coarser(law: Law) -> Law:
    before = law.start % 2
    after = (before + len(law.chances) + 1) % 2
    chances = np.concatenate((np.zeros(before), law.chances, np.zeros(after)))
    kept, given = chances[::2].copy(), chances[1::2] / 2
    kept[:-1] += given
    kept[1:] += given
    return Law((law.start - before) // 2, 2 * law.step, kept)


def sum_of(chances: Floats, times: int) -> Law:
    """The law of the sum of `times` independent numbers, each 0, 1, 2, … with these `chances`."""
    power, total = Law(0, 1.0, chances), None
    while True:
        while len(power.chances) > MOST_POINTS:
            power, total = _coarser(power), total and _coarser(total)
        if times % 2:
            total = convolved(total, power) if total else power
        times //= 2
        if not times:
            return total or Law(0, 1.0, np.ones(1))
        power = convolved(power, power)


# The average of one metric over several rounds


@lru_cache(maxsize=512)
def _spread_to_excess(devices: int, rounds: int, flip: float, tail: float) -> Floats:
    """
    How many standard deviations the upper mean of the sum of all bits is from its mean, as a polynomial.

    Of *n* devices that keep their value each remembers a 1 with chance M and turns it over in each of R
    rounds with chance γ: a device's sum of bits is Bin(R, 1 - γ) with chance M and Bin(R, γ) otherwise. The
    polynomial (Chebyshev's) is in 1 - 2M, as a part of its largest.
    """
    ones = np.arange(rounds + 1)
    ways = gammaln(rounds + 1) - gammaln(ones + 1) - gammaln(rounds - ones + 1)
    low = np.exp(ways + xlogy(ones, flip) + xlog1py(rounds - ones, -flip))
    low /= low.sum()
    nodes = chebyshev.chebpts2(NODES if devices > FEW else 4 * NODES)
    ratios = []
    for memo in (1 - LARGEST_SIDE * nodes) / 2:
        law = sum_of((1 - memo) * low + memo * low[::-1], devices)
        deviation = rounds * sqrt(devices * _variance(memo, rounds, flip))
        ratios.append((law.upper_mean(tail) - law.mean) / deviation)
    coefficients: Floats = chebyshev.chebfit(nodes, np.array(ratios), len(nodes) - 1)
    return coefficients


def _variance(memo: Any, rounds: int, flip: float) -> Any:
    """Of one device's average of bits: (1-2γ)² M(1-M) + γ(1-γ)/R."""
    return (1 - 2 * flip) ** 2 * memo * (1 - memo) + flip * (1 - flip) / rounds


def average_excess(share: Floats, devices: int, rounds: int, flip: float, tail: float) -> Floats:
    """
    By how much an average of bits with mean `share` exceeds it with chance `tail` at most.

    Over `rounds` rounds of at least `devices` devices each, whose bits are remembered and turned over with
    chance `flip` independently in each round. That it falls short by as much has the chance for 1 - `share`. Where
    less than one device in two hundred remembers a 1 (or a 0), the excess is that for one in two hundred.
    """
    side = np.clip((1 - 2 * share) / (1 - 2 * flip), -LARGEST_SIDE, LARGEST_SIDE)
    ratio = chebyshev.chebval(side / LARGEST_SIDE, _spread_to_excess(devices, rounds, flip, tail))
    deviation = np.sqrt(_variance((1 - side) / 2, rounds, flip) / devices)
    return np.asarray((1 + MARGIN + 1.5 / devices) * ratio * deviation)


@lru_cache(maxsize=64)
def _upper_means(devices: int, rounds: int, flip: float, tail: float) -> tuple[Floats, Floats]:
    means = flip + (1 - 2 * flip) * np.sin(np.linspace(0, np.pi / 2, 4001)) ** 2
    return means, np.maximum.accumulate(means + average_excess(means, devices, rounds, flip, tail))


def average_interval(
    share: Floats, devices: int, rounds: int, flip: float, tail: float
) -> tuple[Floats, Floats]:
    """
    The means that explain an average of bits: each end is wrong with chance `tail` at most.

    The upper mean grows with the mean, since remembering a 1 more often makes every sum larger. So the lower
    end is where it falls below what was seen. The mean is known to lie between γ and 1 - γ: an end beyond them
    is as far from what was seen as the nearest of the two allows, so that the width stays that of the noise.
    """
    means, largest = _upper_means(devices, rounds, flip, tail)

    def lowest(seen: Floats) -> Floats:
        beyond = seen - np.clip(seen, largest[0], largest[-1])
        return np.asarray(np.interp(seen, largest, means) + beyond)

    return lowest(share), 1 - lowest(1 - share)


# The difference of two rounds


@lru_cache(maxsize=4096)
def difference_excess(
    later: float, later_devices: int, earlier: float, earlier_devices: int, tail: float
) -> float:
    """How far a difference of two independent shares of ones exceeds its mean with chance `tail` at most."""
    one = sum_of(np.array([1 - later, later]), later_devices)
    other = sum_of(np.array([1 - earlier, earlier]), earlier_devices)
    first = Law(one.start, one.step / later_devices, one.chances)
    second = Law(other.start, other.step / earlier_devices, other.chances)
    # On one grid: as fine as the coarser of the two, but at least 128 points to the larger spread.
    spread = max(len(first.chances) * first.step, len(second.chances) * second.step)
    step = min(max(first.step, second.step), spread / 2048)
    law = convolved(first.on_grid(step), (-second).on_grid(step))
    return law.upper_mean(tail) - law.mean
