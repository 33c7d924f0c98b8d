"""Figures of one to thirty devices: coverage computed over all that they can send; changes of devices that swap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest
from scipy.stats import binom

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, Mechanism, OneBitMean, SubsetSelection
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import Estimate, cumulative, difference, estimate

EPSILONS = (0.5, 2, 8)
FALSE_ALARM = 1e-6


def metrics(epsilon: float) -> Iterator[Metric]:
    """Means, and histograms whose buckets each have their part of the error: a third and a 32nd."""
    yield Metric("mean", OneBitMean(epsilon, 1))
    yield Metric("mean", OneBitMean(epsilon, 1), Flip("1/5"))
    for count in (3, 32):
        buckets = Buckets.even(count, count)
        yield Metric("h", HadamardBit(epsilon, buckets))
        yield Metric("h", DBitFlip(epsilon, buckets, count))
        yield Metric("h", SubsetSelection(epsilon, buckets))


def figure(metric: Metric, reports: int, ones: int) -> Estimate:
    """The mean, or the first bucket; of the Hadamard bit all reports are about one row."""
    if metric.kind == "mean":
        return estimate(metric, MeanCounts(reports, ones))
    rows, bits = metric.mechanism.row_count, metric.mechanism.bits
    if bits == 1:
        counts = HistogramCounts((reports,) + (0,) * (rows - 1), (ones,) + (0,) * (rows - 1))
    else:
        counts = HistogramCounts((reports,) * rows, (ones,) + (0,) * (rows - 1), bits)
    return estimate(metric, counts).buckets[0]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_single_figure_covers_from_one_device_on(epsilon: float) -> None:
    """For given devices, of which some are in the bucket, and for devices drawn; each end at its part of the error."""
    for metric in metrics(epsilon):
        low, high = float(metric.channel.low), float(metric.channel.high)
        tail = 0.025 / metric.mechanism.intervals
        for devices in (1, 2, 3, 7, 30):
            found = [figure(metric, devices, ones) for ones in range(devices + 1)]
            hits = [round((low + (high - low) * one.value) * devices) for one in found]
            ends = np.array([one.uncut for one in found])[np.argsort(hits)]
            for inside in {0, 1, devices // 2, devices}:
                truth = inside / devices
                given = np.convolve(
                    binom.pmf(np.arange(inside + 1), inside, high),
                    binom.pmf(np.arange(devices - inside + 1), devices - inside, low),
                )
                drawn = binom.pmf(np.arange(devices + 1), devices, low + (high - low) * truth)
                for law in (given, drawn):
                    assert law[ends[:, 0] > truth + 1e-12].sum() <= tail * (1 + 1e-9)
                    assert law[ends[:, 1] < truth - 1e-12].sum() <= tail * (1 + 1e-9)


def reports_of(mechanism: Mechanism) -> list[tuple[tuple[int, ...], tuple[int, ...], np.ndarray]]:
    """What one device can send, as rows that are asked and ones, with its chance by bucket."""
    chances, rows = mechanism.row_chances(Flip(0)), mechanism.row_count
    alone = np.eye(rows, dtype=int).tolist()
    if isinstance(mechanism, SubsetSelection):  # of one bucket
        return [((1,) * rows, tuple(alone[row]), chances[row]) for row in range(rows)]
    sent = []
    for row in range(rows):
        share = mechanism.coverage[row]
        sent.append((tuple(alone[row]), tuple(alone[row]), share * chances[row]))
        sent.append((tuple(alone[row]), (0,) * rows, share * (1 - chances[row])))
    return sent


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", ["hadamard", "d = 1", "subset"])
def test_bands_and_quantiles_cover_from_one_device_on(name: str, epsilon: float) -> None:
    """Three buckets, all that one, two and three devices drawn from a population can send."""
    buckets = Buckets.even(3, 3)
    mechanism: Mechanism = {
        "hadamard": HadamardBit(epsilon, buckets),
        "d = 1": DBitFlip(epsilon, buckets, 1),
        "subset": SubsetSelection(epsilon, buckets, 1),
    }[name]
    metric, sent = Metric("h", mechanism), reports_of(mechanism)
    bits = mechanism.bits
    for devices in (1, 2, 3):
        bands = []
        for picked in combinations_with_replacement(range(len(sent)), devices):
            reports, ones = (
                tuple(np.sum([sent[place][part] for place in picked], axis=0).tolist()) for part in (0, 1)
            )
            ways = factorial(devices) // prod(factorial(picked.count(place)) for place in set(picked))
            bands.append((picked, ways, cumulative(metric, [HistogramCounts(reports, ones, bits)])))
        for population in ((1, 0, 0), (0, 1, 0), (0.5, 0, 0.5), (0.1, 0.2, 0.7)):
            of_report = [float(chance @ population) for _, _, chance in sent]
            assert sum(of_report) == pytest.approx(1)
            truth = np.concatenate(([0], np.cumsum(population)))
            median = float(np.searchsorted(truth[1:], 0.5 - 1e-12)) + 0.5
            covered = 0.0
            for picked, ways, band in bands:
                held = (np.array(band.lower) <= truth + 1e-12) & (truth - 1e-12 <= np.array(band.upper))
                quantile = band.quantile(0.5)
                assert not held.all() or quantile.lower <= median <= quantile.upper
                covered += ways * prod(of_report[place] for place in picked) * held.all()
            assert covered >= 0.95


PART = {epsilon: Metric("part", OneBitMean(epsilon, 1)) for epsilon in (1, 2, 6)}
PLAN = Plan("p", 1, 21_600, 21_600, (PART[1],), answers=Answers(window=28))
FIRST = PLAN.window_of(20_000).first  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lengths", "epsilon", "repetitions"),
    [((4, 4), 1, 100), ((1, 4), 6, 100)]
    + [
        pytest.param(lengths, epsilon, 2000, marks=pytest.mark.soak)
        for lengths in ((1, 1), (4, 4), (1, 4), (2, 12))
        for epsilon in PART
    ],
)
def test_the_change_between_periods_of_devices_that_swap_is_covered(
    lengths: tuple[int, int], epsilon: int, repetitions: int
) -> None:
    """
    40 devices drawn 0 or 1 that keep it in a period and have the other in the next: 95 %, false-alarm rate 1e-6.

    That the share of ones is another one than that of the devices drawn is what the interval for these devices leaves
    out; where noise is small it is refused.
    """
    metric, devices = PART[epsilon], 40
    source = np.random.default_rng(29)
    low, high = float(metric.channel.low), float(metric.channel.high)
    missed = {False: 0, True: 0}
    for _ in range(repetitions):
        ones = int(source.binomial(devices, 0.4))
        sides = []
        for start, length, number in zip((100, 0), lengths, (ones, devices - ones), strict=True):
            hits = source.binomial(number, high, length) + source.binomial(devices - number, low, length)
            sides.append(
                {FIRST + 28 * (start + at): MeanCounts(devices, int(one)) for at, one in enumerate(hits)}
            )
        for these in missed:
            change = difference(metric, *sides, plan=PLAN, these=these)
            missed[these] += not change.uncut[0] <= 0.4 - 0.6 <= change.uncut[1]
    most = binom.isf(FALSE_ALARM, repetitions, 0.05)
    assert missed[False] <= most
    if epsilon == 6 and max(lengths) > 1:
        assert missed[True] > most
