"""The law of a sum of unlike bits, against exact convolution."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2

from reticent_paper.fleet_counts import SumOfBits


def convolved(chances: list[Fraction], devices: list[int]) -> list[Fraction]:
    law = [Fraction(1)]
    for chance, number in zip(chances, devices, strict=True):
        for _ in range(number):
            up, down = [*law, Fraction(0)], [Fraction(0), *law]
            law = [a * (1 - chance) + b * chance for a, b in zip(up, down, strict=True)]
    return law


@pytest.mark.parametrize(
    ("chances", "devices"),
    [
        ([Fraction(1, 2)], [9]),
        ([Fraction(0), Fraction(1, 7), Fraction(1)], [3, 5, 2]),
        ([Fraction(place, 13) for place in range(1, 13)], [1, 2, 3] * 4),
        ([Fraction(1, 1000), Fraction(999, 1000)], [20, 30]),
    ],
)
def test_few_devices_against_fractions(chances, devices):
    first, law = SumOfBits(np.array([float(each) for each in chances]), np.array(devices)).law()
    exact = np.array([float(each) for each in convolved(chances, devices)])
    assert (first, len(law)) == (0, len(exact))
    assert np.abs(law - exact).sum() < 1e-13


@pytest.mark.parametrize("scale", [30, 3_000, 60_000])
def test_many_devices_against_convolved_binomials(scale):
    """Both the product (small sums) and the series (large sums) are within 1e-10 of the exact law."""
    chances = np.array([0.02, 0.27, 0.5, 0.51, 0.9])
    devices = scale * np.array([5, 1, 2, 1, 3])
    exact, start = np.array([1.0]), 0
    for chance, number in zip(chances, devices, strict=True):
        low, high = binom.isf(1 - 1e-15, number, chance), binom.isf(1e-15, number, chance)
        exact = np.convolve(exact, binom.pmf(np.arange(low, high + 1), number, chance))
        start += int(low)
    bits = SumOfBits(chances, devices)
    first, law = bits.law()
    places = np.arange(start, start + len(exact)) - first
    inside = (places >= 0) & (places < len(law))
    assert np.abs(law[places[inside]] - exact[inside]).sum() < 1e-10
    assert exact[inside].sum() > 1 - 1e-10
    alike = binom.pmf(np.arange(first, first + len(law)), devices.sum(), bits.mean / devices.sum())
    assert np.abs(law - alike).sum() > 0.1  # a plain binomial of the same mean is another law


@pytest.mark.parametrize("kinds", [3, 12])
def test_draws_follow_the_law(kinds):
    """
    Chi-square over the cells that hold 1e-3 or more, at a false-alarm rate of 1e-6; both ways of drawing.
    """
    chances = np.linspace(0.05, 0.95, kinds)
    bits = SumOfBits(chances, np.full(kinds, 600 // kinds))
    draws = bits.draw(40_000, np.random.default_rng(kinds))
    assert _fits(draws, bits)
    assert not _fits(draws, SumOfBits(chances * 0.99, bits.devices))
    wider = SumOfBits(np.full(kinds, chances.mean()), bits.devices)  # the same mean, another variance
    assert wider.mean == pytest.approx(bits.mean)
    assert not _fits(draws, wider)


def _fits(draws: np.ndarray, bits: SumOfBits) -> bool:
    first, law = bits.law()
    cells = np.flatnonzero(law > 1e-3)
    seen = np.bincount(np.clip(draws - first, 0, len(law) - 1), minlength=len(law))[cells]
    seen, chance = np.append(seen, len(draws) - seen.sum()), np.append(law[cells], 1 - law[cells].sum())
    statistic = ((seen - len(draws) * chance) ** 2 / (len(draws) * chance)).sum()
    return bool(statistic < chi2.isf(1e-6, len(cells)))
