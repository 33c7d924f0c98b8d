"""
One round of a whole fleet as counts, with exactly the law of device-by-device simulation.

How many devices hold which value, a `Tally`, is all that matters: a round of three million devices takes as long
as one of three thousand. Each call draws `repetitions` independent rounds of devices that have not answered
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import next_fast_len

from reticent.errors import ParameterError
from reticent.mechanisms import COHORTS, Buckets, Channel, Flip, Mechanism, OneBitMean
from reticent_paper.baselines import KFlip, Laplace

Numbers = NDArray[np.int64]

_TABLE = 1 << 24  # Values below this are counted in a table; larger ones are sorted
_FEW = 8  # Up to so many different chances, a binomial is drawn for each
_NOTHING = 45.0  # e^-45 = 3e-20: what is smaller does not count


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """
    The values of a round without the devices: distinct whole values, and how many devices hold each.

    >>> day = Tally.of(np.array([0, 0, 7_200, 0]))
    >>> day.values.tolist(), day.devices.tolist(), day.total, day.mean
    ([0, 7200], [3, 1], 4, 1800.0)
    """

    values: Numbers  #: Distinct, increasing
    devices: Numbers  #: How many hold each value; all positive

    @classmethod
    def of(cls, values: NDArray[Any]) -> Tally:
        """Count the whole, non-negative values of a fleet."""
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < 0:
            raise ParameterError(
                "values",
                "one whole number >= 0 per device",
                f"{values.dtype}{list(values.shape)}",
                "count one round at a time",
            )
        if values.max() < _TABLE:
            table = np.bincount(values)
            distinct = np.flatnonzero(table)
            devices = table[distinct]
        else:
            distinct, devices = np.unique(values, return_counts=True)
        return cls(distinct.astype(np.int64), devices.astype(np.int64))

    @property
    def total(self) -> int:
        """The number of devices, n."""
        return int(self.devices.sum())

    @property
    def mean(self) -> float:
        """The mean of the values: the truth that a mean is estimated for."""
        return float(self.devices @ self.values) / self.total

    @property
    def variance(self) -> float:
        """The variance V of the values over these devices, as a population."""
        return float((self.devices * (self.values - self.mean) ** 2).sum()) / self.total

    def per_bucket(self, buckets: Buckets) -> Numbers:
        """How many devices are in each bucket."""
        edges = [ceil(edge) for edge in buckets.edges]
        places = np.searchsorted(edges, self.values, side="right") - 1
        devices = np.zeros(len(buckets), dtype=np.int64)
        np.add.at(devices, np.clip(places, 0, len(buckets.edges) - 2), self.devices)
        return devices


# Means


@dataclass(frozen=True, slots=True, eq=False)
class SumOfBits:
    """
    S = the number of ones among independent bits, of which `devices[j]` are 1 with probability `chances[j]`.

    Its law (Poisson-binomial) follows from its characteristic function φ(θ) = Π_j (1 + P_j (e^{iθ} - 1))^{N_j} by
    a discrete Fourier transform over a window of at least 28 standard deviations and 64 more, outside of which
    Bernstein's inequality leaves less than 1e-20. Since |φ(θ)| ≤ exp(-σ² (1 - cos θ)), about forty values of φ
    are not negligible.

    >>> first, law = SumOfBits(np.array([0.5, 1.0]), np.array([2, 1])).law()
    >>> first, law.round(12).tolist()
    (0, [0.0, 0.25, 0.5, 0.25])
    """

    chances: NDArray[np.float64]
    devices: Numbers

    @property
    def mean(self) -> float:
        """Σ N_j P_j."""
        return float((self.devices * self.chances).sum())

    @property
    def variance(self) -> float:
        """σ² = Σ N_j P_j (1 - P_j)."""
        return float((self.devices * self.chances * (1 - self.chances)).sum())

    def draw(self, repetitions: int, generator: np.random.Generator) -> Numbers:
        """Draw S so many times."""
        if len(self.devices) <= _FEW:
            ones = generator.binomial(self.devices, self.chances, (repetitions, len(self.devices)))
            return np.asarray(ones.sum(axis=1), dtype=np.int64)
        first, law = self.law()
        below = np.cumsum(law)
        places = np.searchsorted(below, generator.random(repetitions) * below[-1], side="right")
        return np.asarray(first + places, dtype=np.int64)

    def law(self) -> tuple[int, NDArray[np.float64]]:
        """The least value that counts, and the probabilities of it and of each that follows."""
        total = int(self.devices.sum())
        deviation = sqrt(self.variance)
        width = min(total + 1, next_fast_len(ceil(28 * deviation) + 64, real=True))
        first = max(0, min(round(self.mean) - width // 2, total + 1 - width))
        angles = 2 * pi / width * np.arange(width // 2 + 1)
        angles = angles[self.variance * (1 - np.cos(angles)) < _NOTHING]
        around = np.expm1(1j * angles)
        radius = float(np.abs(around).max() * self.chances.max())
        if radius < 0.5:
            logarithm = self._series(around, radius)
        else:
            logarithm = np.array([self._log_product(angle) for angle in angles.tolist()])
        transform = np.exp(logarithm - 1j * first * angles)
        law = np.maximum(np.fft.irfft(np.conj(transform), width), 0.0)
        return first, law / law.sum()

    def _series(self, around: NDArray[np.complex128], radius: float) -> NDArray[np.complex128]:
        """Log φ = Σ_k (-1)^{k+1} M_k z^k / k with the power sums M_k = Σ_j N_j P_j^k, z = e^{iθ} - 1."""
        total = float(self.devices.sum())
        terms = max(2, ceil((log(total) + _NOTHING) / -log(radius))) if radius > 0 else 2
        sums = []
        power = self.devices.astype(np.float64)
        for _ in range(terms):
            power = power * self.chances
            sums.append(float(power.sum()))
        result = np.zeros_like(around)
        for order in range(terms, 0, -1):
            result = (result + (-1) ** (order + 1) * sums[order - 1] / order) * around
        return result

    def _log_product(self, angle: float) -> complex:
        lost = -2 * self.chances * (1 - self.chances) * (1 - np.cos(angle))
        with np.errstate(divide="ignore"):
            size = np.log1p(np.maximum(lost, -1.0)) / 2
        turn = np.arctan2(self.chances * np.sin(angle), 1 + self.chances * (np.cos(angle) - 1))
        return complex(float((self.devices * size).sum()), float((self.devices * turn).sum()))


def chances_of_one(mechanism: OneBitMean, flip: Flip, values: NDArray[Any]) -> NDArray[np.float64]:
    """
    The chance that the collector sees 1 from a device with each value, over its alpha, memo and flip.

    It is linear between the exact chances of the grid points (and with equal steps, Eq. 1 with ε').

    >>> chances_of_one(OneBitMean(1, 60), Flip(0), np.array([0, 30, 60])).round(4).tolist()
    [0.2689, 0.5, 0.7311]
    """
    points = [float(point) for point in mechanism.grid.points]
    chances = [float(flip.chance_of_one(threshold)) for threshold in mechanism.cell_thresholds]
    return np.asarray(np.interp(values, points, chances))


def ones_of_mean(
    mechanism: OneBitMean, flip: Flip, tally: Tally, repetitions: int, generator: np.random.Generator
) -> Numbers:
    """Draw how many of the devices answer 1, each with an alpha and a memo of its own."""
    chances = chances_of_one(mechanism, flip, tally.values)
    return SumOfBits(chances, tally.devices).draw(repetitions, generator)


def total_of_laplace(
    mechanism: Laplace, tally: Tally, repetitions: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw the sum of the answers: that of n Laplace variables is the difference of two Gamma ones of shape n."""
    up, down = generator.standard_gamma(tally.total, (2, repetitions))
    return np.asarray(tally.total * tally.mean + mechanism.scale * (up - down))


# Histograms: who is asked about which bucket, which no noise touches, and what they say


@dataclass(frozen=True, slots=True, eq=False)
class AskedCounts:
    """
    Per repetition and row (a bucket, or a row of the Hadamard matrix), how many devices answer, and how many
    truly yes.

    Given these numbers the answers are independent coins (`ones_of`), so several ε can share them.
    """

    reports: Numbers  #: int64[repetitions, rows]
    yes: Numbers  #: int64[repetitions, rows]: devices in the bucket asked about, or on the side of +1


def _per_repetition(devices: ArrayLike, repetitions: int) -> Numbers:
    counts = np.asarray(devices, dtype=np.int64)
    return np.broadcast_to(counts, (repetitions, counts.shape[-1]))


def everyone(devices: ArrayLike, repetitions: int) -> AskedCounts:
    """BinFlip, and dBitFlip with d = k: every device answers about every bucket. Nothing is drawn."""
    counts = _per_repetition(devices, repetitions)
    return AskedCounts(np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape), counts)


def subsets(devices: ArrayLike, width: int, repetitions: int, generator: np.random.Generator) -> AskedCounts:
    """
    The paper's dBitFlip: each device draws `width` of the buckets, without replacement (§2.2).

    A device with r picks left when s buckets are left takes the next one with probability r/s, so how many take
    it is a binomial for every (own bucket, r). Devices whose own bucket has passed are counted together.
    """
    counts = _per_repetition(devices, repetitions)
    buckets = counts.shape[1]
    if width == buckets:
        return everyone(counts, repetitions)
    reports, yes = np.zeros(counts.shape, np.int64), np.zeros(counts.shape, np.int64)
    waiting = np.zeros((width + 1, repetitions, buckets + 1), np.int64)
    waiting[width, :, :buckets] = counts
    for bucket in range(buckets):
        for picks in range(1, width + 1):
            here = waiting[picks, :, bucket:]
            taking = generator.binomial(here, min(1.0, picks / (buckets - bucket)))
            reports[:, bucket] += taking.sum(axis=1)
            yes[:, bucket] += taking[:, 0]
            waiting[picks, :, bucket:] -= taking
            waiting[picks - 1, :, bucket:] += taking
        waiting[:, :, buckets] += waiting[:, :, bucket]
    return AskedCounts(reports, yes)


def by_cohort(
    mechanism: Mechanism, devices: ArrayLike, repetitions: int, generator: np.random.Generator
) -> AskedCounts:
    """
    Histograms of reticent: each device draws a cohort, which names the rows that its bits speak of.

    With the Hadamard bit that is one row of the matrix, with dBitFlip a window of a public shuffle: each bucket
    has the law it has in the paper (exactly where the buckets divide 256), but two go together only if they are
    neighbours.
    """
    counts = _per_repetition(devices, repetitions)
    cohorts = [mechanism.rows_of(cohort) for cohort in range(COHORTS)]
    distinct = sorted(set(cohorts))
    shares = [cohorts.count(rows) / COHORTS for rows in distinct]
    speaks = np.array([[row in rows for row in range(mechanism.row_count)] for rows in distinct])
    truth = mechanism.yes() > 0
    reports = np.zeros((repetitions, mechanism.row_count), np.int64)
    yes = np.zeros_like(reports)
    for bucket in range(counts.shape[1]):
        per_row = generator.multinomial(counts[:, bucket], shares) @ speaks
        reports += per_row
        yes += per_row * truth[:, bucket]
    return AskedCounts(reports, yes)


def ones_of(asked: AskedCounts, channel: Channel, generator: np.random.Generator) -> Numbers:
    """Draw how many of those asked are heard to say 1, flips included, per repetition and row."""
    right = generator.binomial(asked.yes, float(channel.high))
    wrong = generator.binomial(asked.reports - asked.yes, float(channel.low))
    return np.asarray(right + wrong, dtype=np.int64)


def named(mechanism: KFlip, devices: ArrayLike, repetitions: int, generator: np.random.Generator) -> Numbers:
    """Draw how often KFlip names each bucket: the true one with probability p - q, otherwise any, all alike."""
    counts = _per_repetition(devices, repetitions)
    truthful = generator.binomial(counts, float(mechanism.channel.contrast))
    others = counts.sum(axis=1) - truthful.sum(axis=1)
    anywhere = generator.multinomial(others, np.full(mechanism.buckets, 1 / mechanism.buckets))
    return np.asarray(truthful + anywhere, dtype=np.int64)
