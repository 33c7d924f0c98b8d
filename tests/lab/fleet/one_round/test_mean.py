from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from reticent.lab.baselines import Laplace
from reticent.lab.fleet_counts import SumOfBits, Tally, chances_of_one, ones_of_mean, total_of_laplace
from reticent.mechanisms import SCALE, Flip, Grid, OneBitMean

GRID = Grid([0, 7, 30, 60])


def seen_chance(mechanism: OneBitMean, flip: Flip, value: int) -> Fraction:
    """Over all 2⁶⁴ alphas and the draws of the memo and the flip, from the thresholds of the device."""
    low, high = 0, SCALE  # the least alpha that takes the value up, by bisection on the device's own rule
    while low < high:
        middle = (low + high) // 2
        if mechanism.grid.cell(value, middle) > mechanism.grid.cell(value, 0):
            high = middle
        else:
            low = middle + 1
    below = mechanism.grid.cell(value, 0)
    up = Fraction(SCALE - low, SCALE)
    chance = (1 - up) * Fraction(mechanism.cell_thresholds[below], SCALE)
    if up:
        chance += up * Fraction(mechanism.cell_thresholds[below + 1], SCALE)
    turned = Fraction(flip.threshold, SCALE)
    return chance * (1 - turned) + (1 - chance) * turned


@pytest.mark.parametrize("gamma", ["0", "1/3"])
@pytest.mark.parametrize("mechanism", [OneBitMean(1, 60), OneBitMean("5", grid=GRID)])
def test_the_chance_of_a_one_is_that_of_the_device(mechanism, gamma):
    values = [0, 1, 7, 29, 30, 59, 60]
    found = chances_of_one(mechanism, Flip(gamma), np.array(values))
    expected = [float(seen_chance(mechanism, Flip(gamma), value)) for value in values]
    assert found.tolist() == pytest.approx(expected, abs=1e-15)


def test_the_count_of_a_tiny_fleet_has_the_law_of_its_devices(laws):
    mechanism, flip, values = OneBitMean(1, 60), Flip("1/10"), [0, 13, 13, 60]
    exact = laws.of_devices(
        {(1,): chance, (0,): 1 - chance}
        for chance in (seen_chance(mechanism, flip, value) for value in values)
    )
    tally = Tally.of(np.array(values))
    drawn = laws.of_sampler(lambda generator: ones_of_mean(mechanism, flip, tally, 1, generator))
    assert laws.distance(drawn, exact) < 1e-12
    unflipped = laws.of_sampler(lambda generator: ones_of_mean(mechanism, Flip(0), tally, 1, generator))
    assert laws.distance(unflipped, exact) > 0.01
    first, law = SumOfBits(chances_of_one(mechanism, flip, tally.values), tally.devices).law()
    assert laws.distance({(first + place,): mass for place, mass in enumerate(law)}, exact) < 1e-12


def test_one_laplace_device_is_laplace():
    """Kolmogorov-Smirnov on 20,000 draws, false alarm 1e-6; another scale is refused."""
    one = total_of_laplace(Laplace(1, 24), Tally.of(np.array([10])), 20_000, np.random.default_rng(3))
    assert kstest(one, laplace(10, 24).cdf).pvalue > 1e-6
    assert kstest(one, laplace(10, 22).cdf).pvalue < 1e-6


def test_many_laplace_devices_have_the_law_of_their_sum():
    """Two-sample Kolmogorov-Smirnov against a sum device by device, false alarm 1e-6."""
    source, values = np.random.default_rng(4), np.array([0, 3, 3, 20, 24])
    total = total_of_laplace(Laplace(2, 24), Tally.of(values), 20_000, source)
    plain = (values + source.laplace(0, 12, (20_000, 5))).sum(axis=1)
    assert kstest(total, plain).pvalue > 1e-6
    assert kstest(total, 1.1 * plain).pvalue < 1e-6
