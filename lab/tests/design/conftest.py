"""Half-widths at worst by other means than reticent's: Beta quantiles and tanh, nothing of `estimates`."""

from __future__ import annotations

from math import tanh

import pytest
from scipy.stats import beta


class ByHand:
    """What a collector will see of one half is the worst there is, for every mechanism."""

    @staticmethod
    def middle(reports: float, confidence: float = 0.95, together: int = 1) -> float:
        """Half the Clopper-Pearson interval around one half."""
        tail = (1 - confidence) / together / 2
        lower = beta.ppf(tail, reports / 2, reports / 2 + 1)
        upper = beta.ppf(1 - tail, reports / 2 + 1, reports / 2)
        return float(upper - lower) / 2

    def mean(self, top: float, devices: int, epsilon: float, flip: float, confidence: float = 0.95) -> float:
        """From low to high, m is worth (1-2γ) tanh(ε/2)."""
        return top * self.middle(devices, confidence) / ((1 - 2 * flip) * tanh(epsilon / 2))

    def hadamard(self, buckets: int, devices: int, epsilon: float, flip: float) -> float:
        """A share moves the agreements by half the contrast, from 1/2 on."""
        return 2 * self.middle(devices, together=buckets) / ((1 - 2 * flip) * tanh(epsilon / 2))

    def d_bit(self, buckets: int, bits: int, devices: int, epsilon: float, flip: float) -> float:
        """Of n·d/k reports per bucket, where k divides 256; h = ε for one bit and ε/2 for more."""
        exponent = epsilon if bits == 1 else epsilon / 2
        reports = devices * bits / buckets
        return self.middle(reports, together=buckets) / ((1 - 2 * flip) * tanh(exponent / 2))


@pytest.fixture(scope="session")
def by_hand() -> ByHand:
    return ByHand()
