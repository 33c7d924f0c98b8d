"""
Exact simulation of counts: who was asked what is a multinomial, what they said is a binomial.

No device is simulated one by one, and nothing here uses the estimates: chances are computed from ε and γ
with `math.exp`, windows and rows come from the mechanism. One draw has exactly the law of one round of a real
fleet whose values are given (and whose cohorts are not).
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, hadamard_sign
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts

Draw = Callable[[Metric, np.ndarray, int, np.random.Generator], Iterator[HistogramCounts]]


def seen_chance(epsilon: float, gamma: float, truth: float) -> float:
    """Pr[1] that a collector sees, from the definitions: Eq. 1 of the paper, then the flip."""
    low = 1 / (math.exp(epsilon) + 1)
    return (1 - 2 * gamma) * (low + truth * (1 - 2 * low)) + gamma


def _chances(metric: Metric) -> tuple[float, float]:
    epsilon, gamma = float(metric.mechanism.response.epsilon), float(metric.flip.probability)
    return seen_chance(epsilon, gamma, 0), seen_chance(epsilon, gamma, 1)


def draw_counts(
    metric: Metric, devices: np.ndarray, rounds: int, source: np.random.Generator
) -> Iterator[HistogramCounts]:
    """Counts of `rounds` independent rounds, each with `devices[u]` devices in bucket u."""
    mechanism = metric.mechanism
    rows = _hadamard if isinstance(mechanism, HadamardBit) else _windows
    for told, ones in rows(metric, devices, rounds, source):
        yield HistogramCounts(tuple(told.tolist()), tuple(ones.tolist()), metric.bits)


def _hadamard(
    metric: Metric, devices: np.ndarray, rounds: int, source: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    mechanism = metric.mechanism
    assert isinstance(mechanism, HadamardBit)
    low, high = _chances(metric)
    size = mechanism.size
    table = np.stack([source.multinomial(count, [1 / size] * size, rounds) for count in devices], axis=2)
    sides = hadamard_sign(np.arange(size)[:, None], np.arange(len(devices))[None, :] + 1) > 0
    yes, told = (table * sides).sum(axis=2), table.sum(axis=2)
    ones = source.binomial(yes, high) + source.binomial(told - yes, low)
    yield from zip(told, ones, strict=True)


def _windows(
    metric: Metric, devices: np.ndarray, rounds: int, source: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    mechanism = metric.mechanism
    assert isinstance(mechanism, DBitFlip)
    low, high = _chances(metric)
    windows: dict[tuple[int, ...], int] = {}
    for cohort in range(256):
        window = mechanism.rows_of(cohort)
        windows[window] = windows.get(window, 0) + 1
    weights = np.array([*windows.values()]) / 256
    covers = np.array([[bucket in window for window in windows] for bucket in range(len(devices))])
    table = np.stack([source.multinomial(count, weights, rounds) for count in devices], axis=1)
    told = table.sum(axis=1) @ covers.T
    yes = np.einsum("rvw,vw->rv", table, covers)
    ones = source.binomial(yes, high) + source.binomial(told - yes, low)
    yield from zip(told, ones, strict=True)


@pytest.fixture(scope="session")
def chance() -> Callable[[float, float, float], float]:
    return seen_chance


@pytest.fixture(scope="session")
def draw() -> Draw:
    return draw_counts


def most_misses(trials: int, rate: float = 0.05, false_alarm: float = 1e-6) -> int:
    """A correct interval misses more often than this with probability below `false_alarm`."""
    return int(binom.isf(false_alarm, trials, rate))


@pytest.fixture(scope="session")
def misses_allowed() -> Callable[..., int]:
    return most_misses


def histogram_metrics(buckets: int) -> dict[str, Callable[[float, object], Metric]]:
    """The mechanisms under test, by name, for a given ε and flip."""
    edges = Buckets.even(24, buckets)

    def flipping(width: int, variant: str) -> Callable[[float, object], Metric]:
        return lambda epsilon, gamma: Metric(
            "h",
            DBitFlip(epsilon, edges, width, variant, "plan/h"),  # type: ignore[arg-type]
            Flip(gamma),  # type: ignore[arg-type]
        )

    return {
        "tight-1": flipping(1, "tight"),
        "paper-1": flipping(1, "paper"),
        "tight-4": flipping(4, "tight"),
        "paper-4": flipping(4, "paper"),
        "all": flipping(buckets, "tight"),
        "hadamard": lambda epsilon, gamma: Metric("h", HadamardBit(epsilon, edges), Flip(gamma)),  # type: ignore[arg-type]
    }


@pytest.fixture(scope="session")
def histograms() -> Callable[[int], dict[str, Callable[[float, object], Metric]]]:
    return histogram_metrics


def shares_to_devices(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole devices per bucket, `total` altogether, as near to `shares` as can be."""
    ends = np.round(np.concatenate(([0.0], np.cumsum(shares))) / np.sum(shares) * total).astype(int)
    return np.array([right - left for left, right in pairwise(ends)])


@pytest.fixture(scope="session")
def populations() -> Callable[[int, int], dict[str, np.ndarray]]:
    def build(buckets: int, total: int) -> dict[str, np.ndarray]:
        return {
            "flat": shares_to_devices(np.ones(buckets), total),
            "mostly zero": shares_to_devices(
                np.concatenate(([0.85], np.full(buckets - 1, 0.15 / (buckets - 1)))), total
            ),
        }

    return build
