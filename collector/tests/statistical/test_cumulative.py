"""The cumulative band holds at every edge at once, and quantiles read off it hold at every level at once."""

import math
import sys
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from reticent.mechanisms import Buckets, DBitFlip, HadamardBit
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts
from reticent_collector.estimates import cumulative

Draw = Callable[[Metric, np.ndarray, int, np.random.Generator], Iterator[HistogramCounts]]
Metrics = Callable[[int], dict[str, Callable[[float, object], Metric]]]
Populations = Callable[[int, int], dict[str, np.ndarray]]

BUCKETS, ROUNDS = 16, 150
NAMES = ("tight-1", "tight-4", "all", "hadamard")
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def misses(
    which: Metric, drawn: list[HistogramCounts], devices: np.ndarray, confidence: float
) -> tuple[int, int]:
    """Rounds in which the band misses an edge, and in which a quantile is missed."""
    present = devices[:-1] if which.absent else devices
    truth = np.concatenate(([0], np.cumsum(present))) / present.sum()
    buckets = len(present)
    middles = [(bucket + 0.5) * 24 / buckets for bucket in range(buckets)]  # where the devices are
    quantiles = [middles[int(np.searchsorted(truth[1:], level - 1e-12))] for level in LEVELS]
    bands = wrong_quantiles = 0
    for counts in drawn:
        band = cumulative(which, [counts], confidence)
        inside = (np.array(band.lower) <= truth + 1e-12) & (truth - 1e-12 <= np.array(band.upper))
        bands += not inside.all()
        found = [band.quantile(level) for level in LEVELS]
        wrong_quantiles += any(
            not each.lower <= value <= each.upper for each, value in zip(found, quantiles, strict=True)
        )
    return bands, wrong_quantiles


@pytest.mark.parametrize("population", ["flat", "mostly zero"])
@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_bands_and_quantiles_cover(
    name: str,
    epsilon: float,
    population: str,
    draw: Draw,
    histograms: Metrics,
    populations: Populations,
    misses_allowed: Callable[..., int],
) -> None:
    """From twenty devices to a million; false-alarm rate 1e-6 each."""
    which = histograms(BUCKETS)[name](epsilon, 0)
    for total in (20, 1_000, 1_000_000):
        devices = populations(BUCKETS, total)[population]
        drawn = [*draw(which, devices, 60, np.random.default_rng(12))]
        bands, wrong_quantiles = misses(which, drawn, devices, 0.95)
        assert bands <= misses_allowed(60)
        assert wrong_quantiles <= bands, "a quantile can only be missed where the band is"


def test_bands_of_devices_with_a_value_cover(
    draw: Draw, populations: Populations, misses_allowed: Callable[..., int]
) -> None:
    """Half, or nine in ten, have no value; false-alarm rate 1e-6 each. The band of all devices is refused."""
    for width in (0, 1, 9):

        def asked(buckets: Buckets, width: int = width) -> Metric:
            return Metric("start", DBitFlip(2, buckets, width) if width else HadamardBit(2, buckets))

        which = asked(Buckets.even(24, 8, absent=True))
        for total, absent in product((50, 2_000, 500_000), (0.5, 0.9)):
            present = populations(8, round(total * (1 - absent)))["mostly zero"]
            devices = np.append(present, total - present.sum())
            drawn = [*draw(which, devices, 60, np.random.default_rng(17))]
            bands, wrong_quantiles = misses(which, drawn, devices, 0.95)
            assert wrong_quantiles <= bands <= misses_allowed(60)
        truth = np.cumsum(present) / present.sum()
        of_all = asked(Buckets.even(27, 9))
        missed = [truth[0] > cumulative(of_all, [counts]).upper[1] for counts in drawn]
        assert sum(missed) > misses_allowed(60), "shares of all devices are not those of devices with a value"


@pytest.mark.parametrize(("buckets", "total"), [(32, 50), (256, 50), (256, 1_000)])
def test_few_reports_per_bucket(
    buckets: int,
    total: int,
    draw: Draw,
    histograms: Metrics,
    populations: Populations,
    misses_allowed: Callable[..., int],
) -> None:
    """One bit about one of many buckets, most of which nobody was asked about; false-alarm rate 1e-6."""
    which = histograms(buckets)["tight-1"](1, 0)
    devices = populations(buckets, total)["flat"]
    drawn = [*draw(which, devices, 100, np.random.default_rng(16))]
    assert misses(which, drawn, devices, 0.95)[0] <= misses_allowed(100)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_the_table_of_coverage(
    draw: Draw, histograms: Metrics, populations: Populations, misses_allowed: Callable[..., int]
) -> None:
    """
    Every mechanism from 20 to a million devices: the table in docs/reference/estimates.md, printed with -s.

    A cell is the lowest coverage of the band over populations, ε, flips and numbers of buckets. 150 rounds
    each; none may miss more than a correct band does with probability 1e-6: 23 of 150.
    """
    sizes = (20, 50, 200, 1_000, 10_000, 100_000, 1_000_000)
    rows = ["| mechanism | " + " | ".join(f"n = {size:,}" for size in sizes) + " |"]
    source = np.random.default_rng(13)
    for name in (*NAMES, "paper-1", "paper-4"):
        cells = []
        for total in sizes:
            worst = 0
            for buckets, epsilon, gamma in product((16, 64), (1, 4), (0, "1/5")):
                which = histograms(buckets)[name](epsilon, gamma)
                for devices in populations(buckets, total).values():
                    drawn = [*draw(which, devices, ROUNDS, source)]
                    bands, quantiles = misses(which, drawn, devices, 0.95)
                    assert quantiles <= bands <= misses_allowed(ROUNDS), (
                        name,
                        total,
                        buckets,
                        epsilon,
                        gamma,
                    )
                    worst = max(worst, bands)
            cells.append(f"{1 - worst / ROUNDS:.3f}")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    sys.stdout.write("\n".join(["", *rows, ""]))


def test_the_band_test_can_fail(
    draw: Draw, histograms: Metrics, populations: Populations, misses_allowed: Callable[..., int]
) -> None:
    """A band that holds one edge at a time is refused, and so is one for the wrong ε."""
    which = histograms(BUCKETS)["all"](1, 0)
    devices = populations(BUCKETS, 20_000)["mostly zero"]
    drawn = [*draw(which, devices, 250, np.random.default_rng(14))]
    assert misses(which, drawn, devices, 1 - 0.05 * (BUCKETS - 1))[0] > misses_allowed(250)
    assert misses(histograms(BUCKETS)["all"](1.3, 0), drawn, devices, 0.95)[0] > misses_allowed(250)


def test_what_a_report_adds_is_as_bounded_as_the_band_takes_it(histograms: Metrics) -> None:
    """
    The Hadamard band rests on E x² ≤ v: for sums of j buckets v is j/contrast², the formula of the variance.

    The width of the band for a million devices is that of a normal tail with this variance, times what the
    constant e²/2 of the inequality costs.
    """
    which = histograms(BUCKETS)["hadamard"](1, 0)
    ones = 31_250 * np.asarray(
        which.flip.channel(which.mechanism.response).share(which.mechanism.yes().mean(axis=1))
    )
    band = cumulative(which, [HistogramCounts((31_250,) * 32, tuple(ones.round().astype(int).tolist()))])
    contrast = (math.e - 1) / (math.e + 1)
    tail = 0.05 / 2 / (BUCKETS - 1)
    for edge in range(1, BUCKETS // 2 + 1):
        deviation = math.sqrt(edge / 1_000_000) / contrast
        assert band.upper[edge] - band.values[edge] == pytest.approx(
            norm.isf(2 * tail / math.e**2) * deviation, rel=0.02
        )
