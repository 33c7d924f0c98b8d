"""Means: exact coverage, exact and simulated unbiasedness, and proof that each test can fail."""

import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import estimate

Chance = Callable[[float, float, float], float]
Ends = Callable[[int], tuple[float, float]]

POPULATIONS = {
    "all at 0": [(1.0, 0.0)],
    "all at .01": [(1.0, 0.01)],
    "all in the middle": [(1.0, 0.5)],
    "all at the top": [(1.0, 1.0)],
    "85 % at 0": [(0.85, 0.0), (0.15, 0.5)],
    "half at 0, half at the top": [(0.5, 0.0), (0.5, 1.0)],
}
"""[(share of devices, their value as a part of the range)]."""


def metric(epsilon: float, gamma: object = 0) -> Metric:
    return Metric("mean", OneBitMean(epsilon, 1), Flip(gamma))  # type: ignore[arg-type]


def exact_coverage(ends: Ends, truth: float, groups: list[tuple[int, float]]) -> float:
    """
    Pr[lower(S) ≤ truth ≤ upper(S)] for S = Σ Bin(n_g, p_g), exactly.

    Both ends rise with S, so the counts that cover the truth are a run S₁ … S₂, found by bisection; its
    probability is a binomial one for one group, and a sum over the first group's count for two. That sum
    leaves out what is beyond 9 standard deviations: less than 1e-17.
    """
    n = sum(size for size, _ in groups)
    first = _least(lambda count: ends(count)[1] >= truth, n)
    beyond = _least(lambda count: ends(count)[0] > truth, n)
    if len(groups) == 1:
        size, p = groups[0]
        return float(binom.cdf(beyond - 1, size, p) - binom.cdf(first - 1, size, p))
    (size, p), (other, q) = groups
    reach = 9 * math.sqrt(size * p * (1 - p)) + 9
    counts = np.arange(max(0, int(size * p - reach)), min(size, int(size * p + reach)) + 1)
    inside = binom.cdf(beyond - 1 - counts, other, q) - binom.cdf(first - 1 - counts, other, q)
    return float(binom.pmf(counts, size, p) @ inside)


def _least(holds: Callable[[int], bool], n: int) -> int:
    """The least count in 0 … n for which a condition holds that, once true, stays true; n + 1 if none."""
    low, high = 0, n + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def of_estimate(which: Metric, n: int) -> Ends:
    def ends(ones: int) -> tuple[float, float]:
        found = estimate(which, MeanCounts(n, ones))
        return found.lower, found.upper

    return ends


def population(name: str, n: int, epsilon: float, gamma: float, chance: Chance) -> tuple[float, list]:
    groups = [(round(share * n), value) for share, value in POPULATIONS[name]]
    truth = sum(size * value for size, value in groups) / n
    return truth, [(size, chance(epsilon, gamma, value)) for size, value in groups]


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_exact_coverage_is_at_least_what_is_claimed(name: str, epsilon: float, chance: Chance) -> None:
    for gamma in (0, "1/5", "1/3"):
        which = metric(epsilon, gamma)
        for n in (20, 200, 1_000, 10_000, 100_000, 1_000_000):
            truth, groups = population(name, n, epsilon, float(which.flip.probability), chance)
            covered = exact_coverage(of_estimate(which, n), truth, groups)
            assert covered >= 0.95 - 1e-9, (gamma, n, covered)
            if len(groups) == 1 and 0 < truth < 1 and n >= 1_000:
                assert covered <= 0.97, "an exact interval should not be wide of the mark either"


def test_the_row_of_the_mean_in_the_table_of_coverage(chance: Chance) -> None:
    """docs/reference/estimates.md: the lowest coverage over populations, ε = 1 and 4, flips of 0 and 0.2."""
    cells = []
    for n in (20, 200, 1_000, 10_000, 1_000_000):
        lowest = 1.0
        for name, epsilon, gamma in product(POPULATIONS, (1, 4), (0, "1/5")):
            which = metric(epsilon, gamma)
            truth, groups = population(name, n, epsilon, float(which.flip.probability), chance)
            lowest = min(lowest, exact_coverage(of_estimate(which, n), truth, groups))
        cells.append(f"{math.floor(1000 * lowest + 1e-9) / 1000:.3f}".removeprefix("0"))
    page = Path(__file__).parents[3] / "docs" / "reference" / "estimates.md"
    assert re.findall(r"^mean, exactly +(.*)$", page.read_text(), re.MULTILINE)[0].split() == cells


@pytest.mark.soak
@pytest.mark.parametrize("name", POPULATIONS)
def test_exact_coverage_everywhere(name: str, chance: Chance) -> None:
    for epsilon in (0.01, 0.1, 0.5, 1, 2, 5, 10):
        for gamma in (0, "1/10", "1/5", "1/3", "9/20"):
            which = metric(epsilon, gamma)
            for n in np.unique(np.geomspace(20, 1_000_000, 40).astype(int) // 20 * 20).tolist():
                truth, groups = population(name, n, epsilon, float(which.flip.probability), chance)
                covered = exact_coverage(of_estimate(which, n), truth, groups)
                assert covered >= 0.95 - 1e-9, (epsilon, gamma, n, covered)


def test_mixed_devices_are_covered_more_often(chance: Chance) -> None:
    """Half at 0, half at the top: unlike coins vary less, by P(1-P) = .1966 to .25, hence 2Φ(2.210) - 1."""
    truth, groups = population("half at 0, half at the top", 10_000, 1, 0, chance)
    assert exact_coverage(of_estimate(metric(1), 10_000), truth, groups) == pytest.approx(0.9729, abs=0.001)


def test_the_coverage_test_refuses_the_textbook_interval(chance: Chance) -> None:
    """Wald's interval covers 93.1 % at n = 1,000, ε = 5, x/m = .01: the computation above finds it out."""
    low = chance(5, 0, 0)
    contrast = chance(5, 0, 1) - low

    def wald(ones: int) -> tuple[float, float]:
        share = ones / 1000
        half = 1.959964 * math.sqrt(share * (1 - share) / 1000)
        return (share - half - low) / contrast, (share + half - low) / contrast

    truth, groups = population("all at .01", 1000, 5, 0, chance)
    assert exact_coverage(wald, truth, groups) == pytest.approx(0.931, abs=0.001)


@pytest.mark.parametrize("name", ["all at .01", "85 % at 0"])
def test_simulated_coverage(name: str, chance: Chance, misses_allowed: Callable[..., int]) -> None:
    """False-alarm rate 1e-6 per population; a wrong ε, either way, is refused."""
    source = np.random.default_rng(20)
    truth, groups = population(name, 100_000, 1, 0.2, chance)
    ones = sum(source.binomial(size, p, 1500) for size, p in groups)

    def misses(which: Metric) -> int:
        found = [estimate(which, MeanCounts(100_000, int(count))) for count in ones]
        return sum(not each.lower <= truth <= each.upper for each in found)

    assert misses(metric(1, "1/5")) <= misses_allowed(1500)
    assert misses(metric(0.9, "1/5")) > misses_allowed(1500)
    assert misses(metric(1.1, "1/5")) > misses_allowed(1500)


@pytest.mark.parametrize("gamma", [0, "1/5"])
@pytest.mark.parametrize("truth", [0.0, 0.1, 0.5, 1.0])
def test_the_expected_value_is_the_truth(truth: float, gamma: object, chance: Chance) -> None:
    """Summed over every count that 40 devices can give; a claim of another ε or γ is refused."""
    p = chance(1, float(Flip(gamma).probability), truth)  # type: ignore[arg-type]
    weights = binom.pmf(np.arange(41), 40, p)

    def expected(which: Metric) -> float:
        values = [estimate(which, MeanCounts(40, ones)).value for ones in range(41)]
        return float(weights @ np.array(values))

    assert expected(metric(1, gamma)) == pytest.approx(truth, abs=1e-11)
    if truth != 0.5:  # where every channel agrees
        assert abs(expected(metric(0.99, gamma)) - truth) > 1e-3
        assert abs(expected(metric(1.01, gamma)) - truth) > 1e-3
        assert abs(expected(metric(1, "1/4")) - truth) > 1e-3


def agrees(which: Metric, ones: np.ndarray, n: int, truth: float) -> bool:
    """Whether the mean of the estimates is the truth, by a normal test of level 1e-7 (5.33 sd)."""
    values = np.array([estimate(which, MeanCounts(n, int(count))).value for count in ones])
    return bool(abs(values.mean() - truth) < 5.33 * values.std(ddof=1) / math.sqrt(len(ones)))


@pytest.mark.parametrize("name", ["all at .01", "85 % at 0"])
def test_simulated_unbiasedness_refuses_other_claims(name: str, chance: Chance) -> None:
    source = np.random.default_rng(21)
    truth, groups = population(name, 1_000_000, 1, 0, chance)
    ones = sum(source.binomial(size, p, 1000) for size, p in groups)
    assert agrees(metric(1), ones, 1_000_000, truth)
    assert not agrees(metric(0.99), ones, 1_000_000, truth)  # a noisier claim is refused
    assert not agrees(metric(1.01), ones, 1_000_000, truth)  # so is a less private one
    assert not agrees(metric(1, "1/100"), ones, 1_000_000, truth)  # and a flip that was not made


def test_simulated_spread_is_what_is_expected(chance: Chance) -> None:
    """sd of 20,000 estimates against n·Var = (c² - 1)/4 + x(1-x) - V; 2.5 % is five standard errors."""
    source = np.random.default_rng(22)
    truth, groups = population("85 % at 0", 10_000, 1, 0, chance)
    ones = sum(source.binomial(size, p, 20_000) for size, p in groups)
    low, high = chance(1, 0, 0), chance(1, 0, 1)
    values = (ones / 10_000 - low) / (high - low)
    square = 1 / math.tanh(0.5) ** 2
    own = 0.85 * 0.15 * 0.25
    assert values.std() * 100 == pytest.approx(
        math.sqrt((square - 1) / 4 + truth * (1 - truth) - own), rel=0.025
    )
