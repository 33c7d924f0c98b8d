"""
Tail bounds from convex order: laws that are more spread out than what was seen, and their upper means.

X is below Y in convex order (X ≤cx Y) when E f(X) ≤ E f(Y) for every convex f. Then both have the same mean, and

    Pr[X > CVaR_a(Y)] ≤ a,        CVaR_a(Y) = min over c of c + E(Y - c)⁺ / a,

the mean of the a likeliest-to-be-large part of Y: if Pr[X > t] > a, then t < CVaR_a(X) ≤ CVaR_a(Y). The
quantile of Y would not do: X may have a heavier tail than Y at one point.

A law is kept as chances on a grid. Wherever a grid gets too fine it is made coarser by giving the chance of a
point to its two neighbours, half each: that keeps the mean and spreads, so every result is on the wide side
(by less than one part in a thousand). What is cut off at the ends has a chance below 1e-14.

Two laws serve: `Steady`, of devices that keep their value and answer several times, and `Asked`, of devices of
which some are asked each time. `pooling` says which reports are below which.
"""

from __future__ import annotations

from functools import lru_cache
from math import asin, ceil, floor, pi, sin, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from reticent_collector.estimates.interval import Floats

MOST_POINTS = 1024  # a finer grid is made coarser
CUT = 1e-15
LONGEST_TAILS = 8  # standard deviations; the one of a device's answers is at most half of their number
NODES = 25  # truths at which the upper mean of an average is computed; a polynomial runs through them
LARGEST_SIDE = 0.99  # |1 - 2M| of the truth M at a node, at most; see `average_excess`
MARGIN = 0.0005
"""
Added to an upper mean, as a part of its distance from the mean, for the error of that polynomial.

With it 16/n for n devices, because sums of few devices are on few points and the upper mean has kinks. Both were
measured, at truths drawn at random: .0002 and 14/n are needed.
"""
FEW = 2000
"""Sums of so few devices are on few points: the upper mean has kinks that no polynomial follows."""
COARSE = 256  # truths of few devices at which the excess is computed, for its largest
FINE = 512  # truths per root of the devices at which the upper mean is, for an end of an interval
GUESSES = 8  # of the end of an interval, before it is searched by bisection; two to four are usual
SMALLEST_DEVIATION = 1e-9  # by which anything is divided
BERRY_ESSEEN = 0.56  # Shevtsova 2010, for terms that are not identical
SMALLEST_TAIL = 0.003  # for which the normal bound was checked
_NORMAL = NormalDist()


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
        start = int(left[0])
        size = int(left[-1] - left[0]) + 2
        chances = np.zeros(size)
        np.add.at(chances, left - start, self.chances - right_part)
        np.add.at(chances, left - start + 1, right_part)
        return Law(start, step, chances)


def convolved(one: Law, other: Law) -> Law:
    """The law of the sum of two independent numbers on the same grid."""
    size = len(one.chances) + len(other.chances) - 1
    padded = _fast_length(size)
    wave = np.fft.rfft(one.chances, padded)
    product = wave * (wave if other is one else np.fft.rfft(other.chances, padded))
    chances = np.maximum(np.fft.irfft(product, padded)[:size], 0.0)
    first = int(chances.cumsum().searchsorted(CUT, "right"))
    last = size - int(chances[::-1].cumsum().searchsorted(CUT, "right"))
    kept = chances[first:last].copy()
    kept[0] += chances[:first].sum()
    kept[-1] += chances[last:].sum()
    return Law(one.start + other.start + first, one.step, kept / kept.sum())


@lru_cache(maxsize=4096)
def _fast_length(size: int) -> int:
    """The next length of which a Fourier transform is fast."""
    from scipy.fft import next_fast_len

    return int(next_fast_len(size, real=True))


def _coarser(law: Law) -> Law:
    before = law.start % 2
    after = (before + len(law.chances) + 1) % 2
    chances = np.concatenate((np.zeros(before), law.chances, np.zeros(after)))
    kept = chances[::2].copy()
    given = chances[1::2] / 2
    kept[:-1] += given
    kept[1:] += given
    return Law((law.start - before) // 2, 2 * law.step, kept)


def sum_of(chances: Floats, times: int) -> Law:
    """The law of the sum of `times` independent numbers, each 0, 1, 2, … with these `chances`."""
    power = Law(0, 1.0, chances)
    total = None
    while True:
        while len(power.chances) > MOST_POINTS:
            power = _coarser(power)
            total = total and _coarser(total)
        if times % 2:
            total = convolved(total, power) if total else power
        times //= 2
        if not times:
            return total or Law(0, 1.0, np.ones(1))
        power = convolved(power, power)


# The average of one metric over several rounds or windows


class Steady(NamedTuple):
    """
    The share of hits among devices that keep their value and answer `times` times each.

    A device's truth is 1 with chance M and 0 otherwise. It hits with chance `high` or `low`, independently each
    time: its sum of hits is Bin(times, high) with chance M and Bin(times, low) otherwise.
    """

    devices: int
    times: int
    low: float
    high: float

    @property
    def misses(self) -> Steady:
        """The law of the share of misses, at 1 - M."""
        symmetric = abs(self.low + self.high - 1) < 1e-12
        return self if symmetric else self._replace(low=1 - self.high, high=1 - self.low)

    @property
    def widest(self) -> float:
        """The truth M at which the variance is largest."""
        skew = self.high * (1 - self.high) - self.low * (1 - self.low)
        return min(max(0.5 + skew / (2 * self.times * (self.high - self.low) ** 2), 0.0), 1.0)

    def variance(self, truth: Any) -> Any:
        """((high-low)² M(1-M) + [M high(1-high) + (1-M) low(1-low)] / times) / devices."""
        answer = truth * self.high * (1 - self.high) + (1 - truth) * self.low * (1 - self.low)
        return ((self.high - self.low) ** 2 * truth * (1 - truth) + answer / self.times) / self.devices

    def upper_mean(self, truth: float, tail: float) -> float:
        """CVaR of the share of hits at M = `truth`."""
        if self.times == 1 and self.devices <= FEW:  # independent coins
            share = np.array([self.low + (self.high - self.low) * truth])
            return _upper_mean_of_hits(self.devices, share, np.ones(1), tail) / self.devices
        return _sum_of_hits(self, truth).upper_mean(tail) / (self.devices * self.times)


class Asked(NamedTuple):
    """
    The share of hits among `reports` that are each from any of the devices, which keep their value.

    J ~ Bin(devices, M) of the truths are 1, and given J the hits are Bin(reports, low + (high-low) J/devices).
    """

    devices: int
    reports: int
    low: float
    high: float

    @property
    def misses(self) -> Asked:
        """The law of the share of misses, at 1 - M."""
        symmetric = abs(self.low + self.high - 1) < 1e-12
        return self if symmetric else self._replace(low=1 - self.high, high=1 - self.low)

    @property
    def widest(self) -> float:
        """The truth M at which the variance is largest."""
        of_reports, of_people = 1 / self.reports, (1 - 1 / self.reports) / self.devices
        skew = (1 - 2 * self.low) / (self.high - self.low)
        widest = (skew * of_reports + of_people) / (2 * (of_reports + of_people))
        return min(max(widest, 0.0), 1.0)

    def variance(self, truth: Any) -> Any:
        """P(1-P)/N + (high-low)² M(1-M)/n · (1 - 1/N), with P the mean of the share, N reports and n devices."""
        share = self.low + (self.high - self.low) * truth
        people = (self.high - self.low) ** 2 * truth * (1 - truth) / self.devices
        return share * (1 - share) / self.reports + people * (1 - 1 / self.reports)

    def upper_mean(self, truth: float, tail: float) -> float:
        """CVaR of the share of hits at M = `truth`."""
        people = sum_of(np.array([1 - truth, truth]), self.devices)
        if len(people.chances) > MOST_GROUPS:
            people = people.on_grid(ceil(len(people.chances) / MOST_GROUPS) * people.step)
        share = np.clip(self.low + (self.high - self.low) * people.points / self.devices, 0.0, 1.0)
        return _upper_mean_of_hits(self.reports, share, people.chances, tail) / self.reports


def _upper_mean_of_hits(reports: int, share: Floats, chances: Floats, tail: float) -> float:
    """CVaR of Bin(reports, share), where the share is one of several with these chances."""
    from scipy.special import bdtrc

    below, above = -1, reports  # Pr[hits > below] > tail >= Pr[hits > above]
    while above - below > 1:
        middle = (below + above) // 2
        if float(chances @ bdtrc(middle, reports, share)) > tail:
            below = middle
        else:
            above = middle
    # E(Bin(N, P) - t)+ = N P Pr[Bin(N-1, P) >= t] - t Pr[Bin(N, P) > t]
    at_least = np.ones_like(share)
    if above and reports > 1:
        at_least = bdtrc(above - 1, reports - 1, share) if above < reports else 0 * share
    elif above:
        at_least = 0 * share
    beyond = reports * share * at_least - above * bdtrc(above, reports, share)
    return above + float(chances @ beyond) / tail


@lru_cache(maxsize=1024)
def _sum_of_hits(law: Steady, truth: float) -> Law:
    """The law of all hits at M = `truth`: the same for every tail, of which an average and a difference have three."""
    if LONGEST_TAILS * law.times * sqrt(law.devices) > MOST_POINTS:
        chances = (1 - truth) * _binomial(law.times, law.low) + truth * _binomial(law.times, law.high)
        return sum_of(chances, law.devices)
    # All but a chance of 1e-13 is within half of MOST_POINTS of the mean: a transform of that length tells the sum.
    none, one = _wave(law.times, law.low), _wave(law.times, law.high)
    chances = np.fft.irfft(_power(none + truth * (one - none), law.devices), MOST_POINTS)
    mean = law.devices * law.times * (law.low + (law.high - law.low) * truth)
    start = round(mean) - MOST_POINTS // 2
    first = start % MOST_POINTS
    chances = np.maximum(np.concatenate((chances[first:], chances[:first])), 0.0)
    return Law(start, 1.0, chances / chances.sum())


@lru_cache(maxsize=256)
def _wave(times: int, chance: float) -> Any:
    """The Fourier transform of a binomial law, on a circle of `MOST_POINTS`."""
    return np.fft.rfft(_binomial(times, chance), MOST_POINTS)


def _power(wave: Any, times: int) -> Any:
    """A power by squares, which takes a tenth of the time of NumPy's."""
    power = np.ones_like(wave)
    while times:
        if times % 2:
            power = power * wave
        times //= 2
        wave = wave * wave
    return power


MOST_GROUPS = 128  # numbers of devices with truth 1 that `Asked` tells apart; a finer law is spread
Repeated = Steady | Asked


@lru_cache(maxsize=1024)
def _binomial(times: int, chance: float) -> Floats:
    from scipy.special import gammaln, xlog1py, xlogy

    hits = np.arange(times + 1)
    ways = gammaln(times + 1) - gammaln(hits + 1) - gammaln(times - hits + 1)
    chances: Floats = np.exp(ways + xlogy(hits, chance) + xlog1py(times - hits, -chance))
    return np.asarray(chances / chances.sum())


@lru_cache(maxsize=512)
def _spread_to_excess(law: Repeated, tail: float) -> Floats:
    """
    How many standard deviations the upper mean is from the mean, as a polynomial.

    It is one of Chebyshev's, in 1 - 2M as a part of its largest.
    """
    nodes = chebyshev.chebpts2(NODES if law.devices > 10 * FEW else 2 * NODES)
    ratios = []
    for truth in (1 - LARGEST_SIDE * nodes) / 2:
        mean = law.low + (law.high - law.low) * truth
        ratios.append((law.upper_mean(truth, tail) - mean) / sqrt(law.variance(truth)))
    coefficients: Floats = chebyshev.chebfit(nodes, np.array(ratios), len(nodes) - 1)
    return coefficients


@lru_cache(maxsize=1 << 16)
def _upper_mean_at(law: Repeated, tail: float, place: int, places: int) -> tuple[float, float]:
    """The mean share of hits at one of so many truths, denser towards 0 and 1, and the upper mean there."""
    truth = sin(pi / 2 * place / places) ** 2
    return law.low + (law.high - law.low) * truth, law.upper_mean(truth, tail)


def largest_excess(law: Repeated, box: tuple[float, float], tail: float) -> float:
    """
    By how much a share of hits exceeds its mean at most, in the mean of its largest part `tail`.

    That is for the worst mean in the box. These add under any dependence. That a share falls short by as much has
    the chance for its misses.
    """
    if law.devices > FEW:
        return float(average_excess(law, np.linspace(*box, 65), tail).max())
    truths = np.clip((np.array(box) - law.low) / (law.high - law.low), 0.0, 1.0)
    first, last = np.arcsin(np.sqrt(truths)) / pi * 2 * COARSE
    return (1 + 2 / law.devices) * _largest_at(law, tail, floor(first), ceil(last))


@lru_cache(maxsize=4096)
def _largest_at(law: Repeated, tail: float, first: int, last: int) -> float:
    """The largest excess at the truths from one place to another: boxes that are alike share it."""
    at_places = (_upper_mean_at(law, tail, place, COARSE) for place in range(first, last + 1))
    return max(upper - mean for mean, upper in at_places)


def average_excess(law: Repeated, share: Floats, tail: float) -> Floats:
    """
    The same for the mean `share`, of more than `FEW` devices.

    Where less than one truth in two hundred is 1 (or 0), it is that for one in two hundred.
    """
    side = np.clip(1 - 2 * (share - law.low) / (law.high - law.low), -LARGEST_SIDE, LARGEST_SIDE)
    ratio = chebyshev.chebval(side / LARGEST_SIDE, _spread_to_excess(law, tail))
    return np.asarray((1 + MARGIN + 16 / law.devices) * ratio * np.sqrt(law.variance((1 - side) / 2)))


def _normal_excess(law: Repeated, share: Floats, tail: float) -> Floats:
    """
    The same for one share alone, where devices are so many that its law is nearly normal; infinite elsewhere.

    **Theorem.** A sum of independent terms, each within an interval of length 1, of variance σ² at most, exceeds
    its mean by more than zσ with chance `tail` at most, z = Φ⁻¹(1 - tail + .56/σ), where .56/σ ≤ tail/4. *Proof.*
    With s ≤ σ its standard deviation and r = σ/s, Berry and Esseen's inequality gives Φ(-zr) + .56 r/σ, which is
    convex in r, `tail` at r = 1 and no more at r = 3. From there on Bernstein's is below `tail`. ∎

    These do not add: quantiles of dependent sums may exceed the sum of quantiles.
    """
    from scipy.special import ndtri

    if isinstance(law, Asked) or tail < SMALLEST_TAIL:
        return np.full_like(share, np.inf)
    truth = np.clip((share - law.low) / (law.high - law.low), 0.0, 1.0)
    deviation = law.devices * np.sqrt(law.variance(truth))
    gap = BERRY_ESSEEN / np.maximum(deviation, 1e-300)
    z = ndtri(1 - tail + np.minimum(gap, tail / 4))
    return np.where(gap <= tail / 4, z * deviation / law.devices, np.inf)


@lru_cache(maxsize=64)
def _upper_limits(law: Repeated, tail: float) -> tuple[Floats, Floats]:
    """Means of the share of hits, and what it exceeds at each with chance `tail` at most."""
    means = law.low + (law.high - law.low) * np.sin(np.linspace(0, np.pi / 2, 4001)) ** 2
    excess = np.minimum(average_excess(law, means, tail), _normal_excess(law, means, tail))
    return means, np.maximum.accumulate(means + excess)


def average_interval(law: Repeated, share: Floats, tail: float) -> tuple[Floats, Floats]:
    """
    The means that explain a share of hits: each end is wrong with chance `tail` at most.

    The upper mean grows with the mean, since a larger truth makes every sum larger. So the lower end is where it
    falls below what was seen. The mean is known to lie between `low` and `high`: an end beyond them is as far from
    what was seen as the nearest of the two allows, so that the width stays that of the noise.
    """
    return _lowest_mean(law, share, tail), 1 - _lowest_mean(law.misses, 1 - share, tail)


def _lowest_mean(law: Repeated, share: Floats, tail: float) -> Floats:
    if law.devices <= FEW:
        return np.array([_last_refused(law, float(one), tail) for one in share.flat]).reshape(share.shape)
    means, largest = _upper_limits(law, tail)
    beyond = share - np.clip(share, largest[0], largest[-1])
    return np.asarray(np.interp(share, largest, means) + beyond)


@lru_cache(maxsize=4096)
def _last_refused(law: Repeated, share: float, tail: float) -> float:
    """
    The last of many means whose upper mean is below the share.

    A mean between two of them has an upper mean up to that of the next, so none that explains the share is refused.
    """
    places = FINE * ceil(sqrt(law.devices))
    refused, explains = 0, places + 1  # the last is refused if it is beyond the range
    lowest, highest = (_upper_mean_at(law, tail, place, places)[1] for place in (0, places))
    if not lowest < share:
        return law.low + share - lowest
    # The number of standard deviations between mean and upper mean changes slowly from truth to truth: from that
    # at one place follows where to look next. Bisection takes over where this does not end soon.
    spread = _NORMAL.pdf(_NORMAL.inv_cdf(tail)) / tail  # of a normal law
    tries = 0
    while explains - refused > 1:
        tries += 1
        guess = _place_of(law, share, spread, places) if tries <= GUESSES else (refused + explains) // 2
        middle = min(max(guess, refused + 1), explains - 1)
        mean, upper = _upper_mean_at(law, tail, middle, places)
        truth = sin(pi / 2 * middle / places) ** 2
        spread = (upper - mean) / max(sqrt(law.variance(truth)), SMALLEST_DEVIATION)
        if upper * (1 + 1e-12) < share:
            refused = middle
        else:
            explains = middle
    return _upper_mean_at(law, tail, refused, places)[0] + max(share - highest, 0.0)


def _place_of(law: Repeated, share: float, spread: float, places: int) -> int:
    """The last place whose mean is so many standard deviations below a share."""
    none, half, all_ = (law.variance(truth) * spread**2 for truth in (0.0, 0.5, 1.0))
    square = 2 * (none + all_ - 2 * half)  # the variance is a polynomial of the truth, of degree 2
    gap, slope = share - law.low, law.high - law.low
    first, second, third = slope**2 - square, -2 * slope * gap - (all_ - none - square), gap**2 - none
    root = (-second - sqrt(max(second**2 - 4 * first * third, 0.0))) / (2 * first)
    return floor(2 / pi * places * asin(sqrt(min(max(root, 0.0), 1.0))))


# The difference of two rounds or periods


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


FREQUENCIES = 64
PERIOD = 24  # standard deviations after which the computed law repeats itself
NOT_SMOOTH = 1e-8


@lru_cache(maxsize=4096)
def opposed_excess(
    later: Steady, later_truth: float, earlier: Steady, earlier_truth: float, tail: float
) -> float:
    """
    How far a difference of two shares of hits exceeds its mean with chance `tail` at most, for devices in both.

    Who was drawn enters both sides, in the worst case in opposite ways: of the truths, the more are 1 on one side
    the fewer are on the other (J₂ = F₂⁻¹(U), J₁ = F₁⁻¹(1-U)); given J₂ and J₁ the hits are independent. The law is
    computed from its characteristic function; where that does not vanish soon enough, since hits are few, the
    excess is the sum of those of both sides, which is no less.
    """
    high = sum_of(np.array([1 - later_truth, later_truth]), later.devices)
    low = sum_of(np.array([1 - earlier_truth, earlier_truth]), earlier.devices)
    falling = np.cumsum(low.chances[::-1])
    rising = np.cumsum(high.chances)
    ends = np.union1d(rising, falling)
    weights = np.diff(ends, prepend=0.0)
    middles = ends - weights / 2
    ones = high.points[np.minimum(np.searchsorted(rising, middles), len(rising) - 1)]
    others = low.points[::-1][np.minimum(np.searchsorted(falling, middles), len(falling) - 1)]
    weights = weights / weights.sum()
    gap = _mean_share(later, ones) - _mean_share(earlier, others)
    mean = float(weights @ gap)
    noise = later.variance(0.0) + earlier.variance(0.0), later.variance(1.0) + earlier.variance(1.0)
    deviation = sqrt(float(weights @ (gap - mean) ** 2) + max(noise))
    waves = 2 * pi / (PERIOD * deviation) * np.arange(FREQUENCIES)
    logs = _log_wave(later, ones, waves) + _log_wave(earlier, others, -waves) - 1j * waves * mean
    wave = weights @ np.exp(logs)
    if abs(wave[-1]) > NOT_SMOOTH:
        rises = float(_mean_share(later, later_truth * later.devices))
        falls = 1 - float(_mean_share(earlier, earlier_truth * earlier.devices))
        return largest_excess(later, (rises, rises), tail) + largest_excess(
            earlier.misses, (falls, falls), tail
        )
    points = 2048
    chances = np.fft.irfft(np.concatenate((wave.conj(), np.zeros(points // 2 + 1 - FREQUENCIES))), points)
    law = Law(-points // 2, PERIOD * deviation / points, np.maximum(np.fft.fftshift(chances), 0.0))
    return law.upper_mean(tail) - law.mean


def _mean_share(law: Steady, ones: Any) -> Any:
    """The mean share of hits where so many truths are 1."""
    return law.low + (law.high - law.low) * ones / law.devices


def _log_wave(law: Steady, ones: Floats, waves: Any) -> Any:
    """Ln E exp(iω · share of hits), by the number of truths that are 1 and by ω."""
    turns = np.expm1(1j * waves / (law.devices * law.times))
    of_ones, of_zeros = np.log1p(law.high * turns), np.log1p(law.low * turns)
    return law.times * (np.outer(ones, of_ones) + np.outer(law.devices - ones, of_zeros))
