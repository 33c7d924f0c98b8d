"""The cumulative band holds at every edge at once, and quantiles read off it hold at every level at once."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from reticent.counts import HistogramCounts
from reticent.estimates import cumulative, estimate
from reticent.plan import Metric

Draw = Callable[[Metric, np.ndarray, int, np.random.Generator], Iterator[HistogramCounts]]
Metrics = Callable[[int], dict[str, Callable[[float, object], Metric]]]
Populations = Callable[[int, int], dict[str, np.ndarray]]

BUCKETS = 16
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.99)


def misses(
    which: Metric, drawn: list[HistogramCounts], devices: np.ndarray, confidence: float
) -> tuple[int, int]:
    """Rounds in which the band misses an edge, and in which a quantile is missed."""
    truth = np.concatenate(([0], np.cumsum(devices))) / devices.sum()
    middles = [(bucket + 0.5) * 24 / BUCKETS for bucket in range(BUCKETS)]  # where the devices are
    quantiles = [middles[int(np.searchsorted(truth[1:], level - 1e-12))] for level in LEVELS]
    bands = wrong_quantiles = 0
    for counts in drawn:
        band = cumulative(estimate(which, counts, confidence))
        inside = (np.array(band.lower) <= truth + 1e-12) & (truth - 1e-12 <= np.array(band.upper))
        bands += not inside.all()
        found = [band.quantile(level) for level in LEVELS]
        wrong_quantiles += any(
            not each.lower <= value <= each.upper for each, value in zip(found, quantiles, strict=True)
        )
    return bands, wrong_quantiles


@pytest.mark.parametrize("population", ["flat", "mostly zero"])
@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("name", ["tight-1", "tight-4", "all", "hadamard"])
def test_bands_and_quantiles_cover(
    name: str,
    epsilon: float,
    population: str,
    draw: Draw,
    histograms: Metrics,
    populations: Populations,
    misses_allowed: Callable[..., int],
) -> None:
    """False-alarm rate 1e-6 each."""
    which = histograms(BUCKETS)[name](epsilon, 0)
    devices = populations(BUCKETS, 20_000)[population]
    drawn = [*draw(which, devices, 250, np.random.default_rng(12))]
    bands, wrong_quantiles = misses(which, drawn, devices, 0.95)
    assert bands <= misses_allowed(250)
    assert wrong_quantiles <= bands, "a quantile can only be missed where the band is"


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("population", ["flat", "mostly zero"])
@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
@pytest.mark.parametrize("name", ["tight-1", "paper-1", "tight-4", "all", "hadamard"])
def test_bands_cover_at_length(
    name: str,
    epsilon: float,
    population: str,
    draw: Draw,
    histograms: Metrics,
    populations: Populations,
    misses_allowed: Callable[..., int],
) -> None:
    for gamma in (0, "1/5"):
        which = histograms(BUCKETS)[name](epsilon, gamma)
        for total in (1_000, 100_000):
            devices = populations(BUCKETS, total)[population]
            drawn = [*draw(which, devices, 4_000, np.random.default_rng(13))]
            assert misses(which, drawn, devices, 0.95)[0] <= misses_allowed(4_000)


def test_the_band_test_can_fail(
    draw: Draw, histograms: Metrics, populations: Populations, misses_allowed: Callable[..., int]
) -> None:
    """A band that holds one edge at a time is refused, and so is one for the wrong ε."""
    which = histograms(BUCKETS)["hadamard"](1, 0)
    devices = populations(BUCKETS, 20_000)["mostly zero"]
    drawn = [*draw(which, devices, 250, np.random.default_rng(14))]
    assert misses(which, drawn, devices, 1 - 0.05 * BUCKETS)[0] > misses_allowed(250)
    assert misses(histograms(BUCKETS)["hadamard"](1.3, 0), drawn, devices, 0.95)[0] > misses_allowed(250)


def test_errors_of_a_sum_add_in_squares(draw: Draw, histograms: Metrics, populations: Populations) -> None:
    """
    The variance of the share below each edge is at most what the half-widths say, and near it.

    2,500 rounds give a variance to 2.8 %; tolerance five times that. The half-widths speak of drawn
    devices while these are given, which lets the ratio fall below 1 but not far: noise dominates at ε = 1.
    """
    for name in ("tight-1", "tight-4", "all", "hadamard"):
        which = histograms(BUCKETS)[name](1, 0)
        devices = populations(BUCKETS, 50_000)["mostly zero"]
        drawn = [*draw(which, devices, 2_500, np.random.default_rng(15))]
        sums = np.cumsum([_values(which, counts) for counts in drawn], axis=1)[:, : BUCKETS // 2]
        widths = np.array([bucket.half_width for bucket in estimate(which, drawn[0]).buckets])
        claimed = np.cumsum((widths / 2.9552) ** 2)[: BUCKETS // 2]  # z of .05/16, two-sided
        ratio = sums.var(axis=0, ddof=1) / claimed
        assert ratio.max() < 1.14
        assert ratio.min() > 0.75


def _values(which: Metric, counts: HistogramCounts) -> np.ndarray:
    """The estimates, by the formulas, without their intervals: fast enough for thousands of rounds."""
    reports, ones = np.array(counts.reports), np.array(counts.ones)
    low = 1 / (math.exp(float(which.mechanism.response.epsilon)) + 1)
    if counts.rows_per_report == 1 and len(reports) != BUCKETS:
        size = len(reports)
        signs = np.array(
            [[(-1) ** (row & column).bit_count() for row in range(size)] for column in range(1, BUCKETS + 1)]
        )
        return signs @ (2 * ones - reports) / reports.sum() / (1 - 2 * low)
    return (ones / reports - low) / (1 - 2 * low)
