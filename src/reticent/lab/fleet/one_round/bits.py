"""The sum of many independent bits that are not alike: its law to the last digits, and draws from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

_FEW = 8
"""Up to so many different chances, a binomial is drawn for each."""

_NOTHING = 45.0
"""e^-45 = 3e-20: what is smaller does not count."""


@dataclass(frozen=True, slots=True, eq=False)
class SumOfBits:
    """
    S = the number of ones among independent bits, of which `devices[j]` are 1 with probability `chances[j]`.

    The law of S is known as Poisson-binomial. It is had from its characteristic function

        φ(θ) = Π_j ( 1 + P_j (e^{iθ} - 1) )^{N_j}

    by a discrete Fourier transform over a window of at least 28 standard deviations and 64 more. Bernstein's
    inequality leaves less than 1e-20 outside the window. Since |φ(θ)| ≤ exp(-σ² (1 - cos θ)), about forty
    values of φ are not negligible, whatever the number of devices.

    >>> toss = SumOfBits(np.array([0.5, 1.0]), np.array([2, 1]))
    >>> first, law = toss.law()
    >>> first, law.round(12).tolist()
    (0, [0.0, 0.25, 0.5, 0.25])
    """

    chances: NDArray[np.float64]
    devices: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Σ N_j P_j."""
        return float(self.devices @ self.chances)

    @property
    def variance(self) -> float:
        """σ² = Σ N_j P_j (1 - P_j)."""
        return float(self.devices @ (self.chances * (1 - self.chances)))

    def draw(self, repetitions: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draw S so many times."""
        if len(self.devices) <= _FEW:
            each = generator.binomial(self.devices, self.chances, (repetitions, len(self.devices)))
            return np.asarray(each.sum(axis=1), dtype=np.int64)
        first, law = self.law()
        below = np.cumsum(law)
        places = np.searchsorted(below, generator.random(repetitions) * below[-1], side="right")
        return np.asarray(first + places, dtype=np.int64)

    def law(self) -> tuple[int, NDArray[np.float64]]:
        """The least value that counts, and the probabilities of it and of each that follows."""
        total, deviation = int(self.devices.sum()), sqrt(self.variance)
        width = min(total + 1, next_fast_len(ceil(28 * deviation) + 64, real=True))
        first = max(0, min(round(self.mean) - width // 2, total + 1 - width))
        angles = 2 * pi / width * np.arange(width // 2 + 1)
        angles = angles[self.variance * (1 - np.cos(angles)) < _NOTHING]
        transform = np.exp(self._log_characteristic(angles) - 1j * first * angles)
        law = np.maximum(np.fft.irfft(np.conj(transform), width), 0.0)
        return first, law / law.sum()

    def _log_characteristic(self, angles: NDArray[np.float64]) -> NDArray[np.complex128]:
        """The logarithm of φ at each angle."""
        around = np.expm1(1j * angles)
        radius = float(np.abs(around).max() * self.chances.max())
        if radius < 0.5:
            return self._series(around, radius)
        return np.array([self._log_product(angle) for angle in angles.tolist()])

    def _series(self, around: NDArray[np.complex128], radius: float) -> NDArray[np.complex128]:
        """
        Σ_k (-1)^{k+1} M_k z^k / k with the power sums M_k = Σ_j N_j P_j^k, z = e^{iθ} - 1.

        That is Σ_j N_j ln(1 + P_j z) term by term. A large fleet has small angles, and about ten
        terms take the place of a logarithm per value and angle.
        """
        total = float(self.devices.sum())
        terms = max(2, ceil((log(total) + _NOTHING) / -log(radius))) if radius > 0 else 2
        sums, power = [], self.devices.astype(np.float64)
        for _ in range(terms):
            power = power * self.chances
            sums.append(float(power.sum()))
        result = np.zeros_like(around)
        for order in range(terms, 0, -1):
            result = (result + (-1) ** (order + 1) * sums[order - 1] / order) * around
        return result

    def _log_product(self, angle: float) -> complex:
        """The logarithm of φ at one angle, factor by factor."""
        lost = -2 * self.chances * (1 - self.chances) * (1 - np.cos(angle))
        with np.errstate(divide="ignore"):
            size = np.log1p(np.maximum(lost, -1.0)) / 2
        turn = np.arctan2(self.chances * np.sin(angle), 1 + self.chances * (np.cos(angle) - 1))
        return complex(float(self.devices @ size), float(self.devices @ turn))
