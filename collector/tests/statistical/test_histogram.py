"""Histograms: all buckets covered at once, unbiased, with the variances the formulas give."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts
from reticent_collector.estimates import estimate

Draw = Callable[[Metric, np.ndarray, int, np.random.Generator], Iterator[HistogramCounts]]
Metrics = Callable[[int], dict[str, Callable[[float, object], Metric]]]
Populations = Callable[[int, int], dict[str, np.ndarray]]

NAMES = ["tight-1", "paper-1", "tight-4", "paper-4", "all", "hadamard"]
BUCKETS = 12


def familywise_misses(
    which: Metric, drawn: list[HistogramCounts], truth: np.ndarray, confidence: float
) -> int:
    """In how many rounds at least one bucket's interval misses."""
    misses = 0
    for counts in drawn:
        found = estimate(which, counts, confidence).buckets
        misses += any(
            not bucket.lower <= share <= bucket.upper for bucket, share in zip(found, truth, strict=True)
        )
    return misses


def check_coverage(
    which: Metric,
    devices: np.ndarray,
    rounds: int,
    draw: Draw,
    misses_allowed: Callable[..., int],
    seed: int,
) -> None:
    truth = devices / devices.sum()
    drawn = [*draw(which, devices, rounds, np.random.default_rng(seed))]
    assert familywise_misses(which, drawn, truth, 0.95) <= misses_allowed(rounds)


@pytest.mark.parametrize("gamma", [0, "1/5"])
@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_all_buckets_are_covered_at_once(
    name: str,
    epsilon: float,
    gamma: object,
    draw: Draw,
    histograms: Metrics,
    populations: Populations,
    misses_allowed: Callable[..., int],
) -> None:
    """False-alarm rate 1e-6 per population; 12 buckets do not divide 256 cohorts, so windows are uneven."""
    which = histograms(BUCKETS)[name](epsilon, gamma)
    for seed, devices in enumerate(populations(BUCKETS, 20_000).values()):
        check_coverage(which, devices, 250, draw, misses_allowed, seed)


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("gamma", [0, "1/5"])
@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_all_buckets_are_covered_at_once_at_length(
    name: str,
    epsilon: float,
    gamma: object,
    draw: Draw,
    histograms: Metrics,
    populations: Populations,
    misses_allowed: Callable[..., int],
) -> None:
    which = histograms(32)[name](epsilon, gamma)
    for total in (500, 100_000):
        for seed, devices in enumerate(populations(32, total).values()):
            check_coverage(which, devices, 5_000, draw, misses_allowed, seed)


@pytest.mark.parametrize("name", ["tight-4", "hadamard"])
def test_the_coverage_test_can_fail(
    name: str,
    draw: Draw,
    histograms: Metrics,
    populations: Populations,
    misses_allowed: Callable[..., int],
) -> None:
    """Intervals that hold one bucket at a time, and wrong claims of ε, are refused."""
    devices = populations(BUCKETS, 200_000)["mostly zero"]
    truth = devices / devices.sum()
    drawn = [*draw(histograms(BUCKETS)[name](1, 0), devices, 300, np.random.default_rng(4))]
    allowed = misses_allowed(300)
    right = histograms(BUCKETS)[name](1, 0)
    assert familywise_misses(right, drawn, truth, 0.95) <= allowed
    assert familywise_misses(right, drawn, truth, 1 - 0.05 * BUCKETS) > allowed  # each at 5 %
    for wrong in (0.95, 1.05) if name == "hadamard" else (0.9, 1.1):
        assert familywise_misses(histograms(BUCKETS)[name](wrong, 0), drawn, truth, 0.95) > allowed


@pytest.mark.parametrize("name", NAMES)
def test_simulated_unbiasedness_refuses_other_claims(
    name: str, draw: Draw, histograms: Metrics, populations: Populations
) -> None:
    """Each of 12 buckets by a normal test of level 1e-7 (5.33 sd); ε off by a tenth is refused."""
    devices = populations(BUCKETS, 500_000)["mostly zero"]
    truth = devices / devices.sum()
    drawn = [*draw(histograms(BUCKETS)[name](1, "1/5"), devices, 200, np.random.default_rng(5))]

    def agrees(which: Metric) -> bool:
        values = np.array([estimate(which, counts).values for counts in drawn])
        error = np.abs(values.mean(axis=0) - truth)
        return bool((error < 5.33 * values.std(axis=0, ddof=1) / math.sqrt(len(drawn))).all())

    assert agrees(histograms(BUCKETS)[name](1, "1/5"))
    assert not agrees(histograms(BUCKETS)[name](0.9, "1/5"))
    assert not agrees(histograms(BUCKETS)[name](1.1, "1/5"))


def raw_values(which: Metric, drawn: list[HistogramCounts]) -> np.ndarray:
    return np.array([estimate(which, counts).values for counts in drawn])


@pytest.fixture(scope="module")
def hadamard_values(draw: Draw, populations: Populations) -> dict[str, np.ndarray]:
    """2,000 rounds of 1e5 devices at ε = 1 over 32 buckets, estimated: [round, bucket], per population."""
    which = Metric("h", HadamardBit(1, Buckets.even(24, 32)))
    return {
        name: raw_values(which, [*draw(which, devices, 2_000, np.random.default_rng(6))])
        for name, devices in populations(32, 100_000).items()
    }


@pytest.mark.parametrize("name", ["flat", "mostly zero"])
def test_the_hadamard_variance_is_coth_squared(name: str, hadamard_values: dict[str, np.ndarray]) -> None:
    """
    n·Var = 4.68 within 3 % at ε = 1, k = 32, n = 1e5, over the light buckets.

    2,000 rounds of 31 uncorrelated buckets give the variance to .57 %: 3 % is over five standard errors,
    and ε = .95 or 1.05 would not pass.
    """
    per_report = 100_000 * hadamard_values[name].var(axis=0, ddof=1)
    assert per_report[1:].mean() == pytest.approx(4.68, rel=0.03)
    for wrong in (0.95, 1.05):
        assert per_report[1:].mean() != pytest.approx(math.tanh(wrong / 2) ** -2, rel=0.03)
    if name == "mostly zero":  # given devices: c² - h; one bucket is known to 3.2 %
        assert per_report[0] == pytest.approx(4.683 - 0.85, rel=0.16)


def test_buckets_of_the_hadamard_bit_are_uncorrelated(hadamard_values: dict[str, np.ndarray]) -> None:
    """496 correlations of 2,000 rounds each: all within 5.5 standard errors of 0 (false alarm 2e-5)."""
    correlations = np.corrcoef(hadamard_values["mostly zero"].T)[np.triu_indices(32, 1)]
    assert np.abs(correlations).max() < 5.5 / math.sqrt(2_000)


def test_a_ratio_per_row_would_gain_little(draw: Draw, populations: Populations) -> None:
    """c² - Σh² in place of c² - h_v²: 3.96 for 4.68 on light buckets when 85 % share one; 4 % is 5 sd."""
    which = Metric("h", HadamardBit(1, Buckets.even(24, 32)))
    source = np.random.default_rng(8)
    shares = populations(32, 100_000)["mostly zero"] / 100_000
    signs = np.array([[(-1) ** (row & column).bit_count() for row in range(64)] for column in range(1, 33)])
    plain, by_row = [], []
    for _ in range(1_000):  # drawn devices: another multinomial each time
        counts = next(iter(draw(which, source.multinomial(100_000, shares), 1, source)))
        plain.append(estimate(which, counts).values)
        margins = 2 * np.array(counts.ones) / np.array(counts.reports) - 1
        by_row.append(signs @ margins / 64 / math.tanh(0.5))
    assert 100_000 * np.var(plain, axis=0, ddof=1)[1:].mean() == pytest.approx(4.683, rel=0.04)
    assert 100_000 * np.var(by_row, axis=0, ddof=1)[1:].mean() == pytest.approx(3.96, rel=0.04)


@pytest.mark.parametrize(
    ("buckets", "width", "epsilon", "share", "gain"),
    [(8, 1, 1, 0.5, 1.19), (8, 2, 4, 0.8, 2.6), (32, 1, 5, 0.9, 9.4)],
)
def test_the_ratio_estimator_against_the_papers(
    buckets: int, width: int, epsilon: float, share: float, gain: float, draw: Draw
) -> None:
    """
    Var = k/(nd) [B + h(1-h)(1-d/k)] for the ratio, k/(nd) [B + h(1-d/k)] for the paper's; 6,000 rounds give
    each to 1.8 %, tolerance five times that. Neither variance passes for the other.
    """
    which = Metric("h", DBitFlip(epsilon, Buckets.even(24, buckets), width, label="plan/h"))
    rest = np.full(buckets - 1, round(16_000 * (1 - share) / (buckets - 1)))
    devices = np.concatenate(([16_000 - rest.sum()], rest))
    n, h = devices.sum(), devices[0] / devices.sum()
    exponent = float(which.mechanism.response.epsilon)
    low = 1 / (math.exp(exponent) + 1)
    ratio, paper = [], []
    for counts in draw(which, devices, 6_000, np.random.default_rng(9)):
        told, ones = counts.reports[0], counts.ones[0]
        ratio.append((ones / told - low) / (1 - 2 * low))
        paper.append(buckets / (n * width) * (ones - told * low) / (1 - 2 * low))
    noise = low * (1 - low) / (1 - 2 * low) ** 2
    scale, missed = buckets / (n * width), 1 - width / buckets
    assert np.var(ratio) == pytest.approx(scale * (noise + h * (1 - h) * missed), rel=0.092)
    assert np.var(paper) == pytest.approx(scale * (noise + h * missed), rel=0.092)
    assert np.var(paper) / np.var(ratio) == pytest.approx(gain, rel=0.1)
    assert ratio[-1] == pytest.approx(estimate(which, counts).values[0])  # what is shipped


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("gamma", [0, "1/5"])
def test_covariances_of_d_bit_flip_exactly(width: int, gamma: object) -> None:
    """
    In rationals, over 256 cohorts and every bucket. The linear part of the ratio estimator is
    Z_v = [v asked] (b_v - P_v) / (π_v contrast), with E[Z] = 0, E[Z_v²] = (noise + h(1-h)) / π_v, and

        E[Z_v Z_w] = - π_vw / (π_v π_w) · h_v h_w  ≤  0,

    so half-widths may be added in squares.
    """
    flip = Flip(gamma)  # type: ignore[arg-type]
    mechanism = DBitFlip(1, Buckets.even(24, 5), width, label="plan/h")
    channel = flip.channel(mechanism.response)
    shares = [Fraction(part, 20) for part in (12, 4, 2, 1, 1)]
    windows = [mechanism.rows_of(cohort) for cohort in range(256)]
    asked = [Fraction(sum(v in window for window in windows), 256) for v in range(5)]

    def left(v: int, value: int) -> Fraction:
        """E[b_v - P_v] for a device in bucket `value`."""
        return ((v == value) - shares[v]) * channel.contrast

    for v in range(5):
        assert sum(h * left(v, value) for value, h in enumerate(shares)) == 0
        p = channel.low + shares[v] * channel.contrast
        noise = (channel.contrast**-2 - 1) / 4
        assert p * (1 - p) / channel.contrast**2 == noise + shares[v] * (1 - shares[v])
        for w in range(v):
            both = Fraction(sum(v in window and w in window for window in windows), 256)
            product = sum(h * left(v, value) * left(w, value) for value, h in enumerate(shares))
            covariance = both * product / (asked[v] * asked[w] * channel.contrast**2)
            assert covariance == -both / (asked[v] * asked[w]) * shares[v] * shares[w]
            assert covariance <= 0
