"""Laws on grids: exact where they are small, and never narrower than the truth where they are coarse."""

import numpy as np
import pytest
from scipy.stats import binom

from reticent.estimates.convex_order import Law, average_excess, difference_excess, sum_of


def upper_mean(coins: int, chance: float, tail: float) -> float:
    """CVaR of a binomial, from its exact tail."""
    place = binom.isf(tail, coins, chance)
    above = np.arange(place + 1, min(coins, place + 12 * np.sqrt(coins) + 50) + 1)
    weights = binom.pmf(above, coins, chance)
    return float((above @ weights + place * (tail - weights.sum())) / tail)


@pytest.mark.parametrize("tail", [0.025, 0.0001])
@pytest.mark.parametrize("chance", [0.02, 0.3, 0.5])
@pytest.mark.parametrize("coins", [1, 7, 20, 1_000, 100_003, 1_000_000])
def test_the_upper_mean_of_many_coins(coins: int, chance: float, tail: float) -> None:
    """Never below the exact one, and above it by less than a thousandth of its distance from the mean."""
    law = sum_of(np.array([1 - chance, chance]), coins)
    assert law.chances.sum() == pytest.approx(1, abs=1e-12)
    assert law.mean == pytest.approx(coins * chance, rel=1e-12)
    exact = upper_mean(coins, chance, tail) - coins * chance
    assert exact * (1 - 1e-9) <= law.upper_mean(tail) - law.mean <= exact * 1.001


def test_another_grid_keeps_the_mean_and_is_no_narrower() -> None:
    law = sum_of(np.array([0.7, 0.3]), 50)
    moved = law.on_grid(0.77)
    assert moved.mean == pytest.approx(law.mean)
    for at in np.linspace(0, 50, 101):
        before = np.maximum(law.points - at, 0) @ law.chances
        assert np.maximum(moved.points - at, 0) @ moved.chances >= before - 1e-12
    assert (-law).mean == pytest.approx(-law.mean)
    assert Law(3, 2.0, np.array([0.25, 0.75])).points.tolist() == [6.0, 8.0]


def test_a_difference_is_exact_for_few_coins() -> None:
    """Twelve coins against nine, on the grid of thirty-sixths."""
    law: dict[float, float] = {}
    for one in range(13):
        for other in range(10):
            key = round(one / 12 - other / 9, 12)
            chance = float(binom.pmf(one, 12, 0.4) * binom.pmf(other, 9, 0.6))
            law[key] = law.get(key, 0.0) + chance
    values = np.array(sorted(law))
    exact = Law(0, 1.0, np.array([law[value] for value in values]))
    places = values - values[0]
    step = 1 / 36
    chances = np.zeros(round(places[-1] / step) + 1)
    chances[np.round(places / step).astype(int)] = exact.chances
    excess = Law(round(values[0] / step), step, chances).upper_mean(0.025) - (0.4 - 0.6)
    assert excess * (1 - 1e-9) <= difference_excess(0.4, 12, 0.6, 9, 0.025) <= excess * 1.005


@pytest.mark.parametrize("devices", [5, 33, 100, 3_999, 20_000])
def test_the_excess_of_an_average_is_never_below_its_law(devices: int) -> None:
    """The polynomial and its margin, between its nodes; for the smallest fleets the margin is 1.5/n."""
    for rounds, flip, tail in ((2, 0.2, 0.0008), (7, 0.2, 0.025), (200, 0.01, 0.025), (30, 0.4, 0.025)):
        low = binom.pmf(np.arange(rounds + 1), rounds, flip)
        for memo in (0.0061, 0.07, 0.37, 0.71, 0.9937):
            law = sum_of((1 - memo) * low + memo * low[::-1], devices)
            exact = (law.upper_mean(tail) - law.mean) / devices / rounds
            share = np.array(flip + (1 - 2 * flip) * memo)
            excess = float(average_excess(share, devices, rounds, flip, tail))
            assert exact <= excess <= exact * (1.02 + 3 / devices)
