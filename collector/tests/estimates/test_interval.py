import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, multinomial, t

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import (
    clopper_pearson,
    clustered_interval,
    estimate,
    expected_half_width,
    expected_variance,
    paper_bound,
)


@given(
    st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.5, 0.9, 0.95, 0.999]),
)
@settings(deadline=None, max_examples=60)
def test_agrees_with_scipy(pair: tuple[int, int], confidence: float) -> None:
    """As far as SciPy goes: its root finder stops within 2e-12 (tails to 1e-7 are the test below)."""
    ones, reports = pair
    lower, upper = clopper_pearson(ones, reports, confidence)
    expected = binomtest(ones, reports).proportion_ci(confidence, method="exact")
    assert float(lower) == pytest.approx(expected.low, rel=1e-9, abs=5e-12)
    assert float(upper) == pytest.approx(expected.high, rel=1e-9, abs=5e-12)


def upper_tail(ones: int, reports: int, chance: float) -> float:
    """Pr[Bin(n, P) >= S], summed term by term in 30 digits for S above the mean."""
    with mpmath.workdps(30):
        p = mpmath.mpf(chance)
        term = mpmath.binomial(reports, ones) * p**ones * (1 - p) ** (reports - ones)
        total, count = mpmath.mpf(0), ones
        while count <= reports and term > mpmath.mpf(10) ** -20:
            total += term
            term *= p / (1 - p) * (reports - count) / (count + 1)
            count += 1
        return float(total)


@pytest.mark.parametrize(("ones", "reports"), [(410_000, 1_000_000), (3, 1_000_000), (999_990, 1_000_000)])
def test_ends_have_the_tails_they_promise(ones: int, reports: int) -> None:
    """Pr[Bin(n, lower) >= S] = α/2 = Pr[Bin(n, upper) <= S] = Pr[Bin(n, 1 - upper) >= n - S]."""
    lower, upper = clopper_pearson(ones, reports, 0.95)
    assert upper_tail(ones, reports, float(lower)) == pytest.approx(0.025, rel=1e-7)
    assert upper_tail(reports - ones, reports, 1 - float(upper)) == pytest.approx(0.025, rel=1e-7)


@pytest.mark.parametrize("reports", [1, 10, 1_000_000])
def test_none_and_all_are_exact(reports: int) -> None:
    """With S = 0 the upper end solves (1 - P)^n = α/2, and S = n mirrors it."""
    expected = -np.expm1(np.log(0.025) / reports)
    lower, upper = clopper_pearson([0, reports], [reports, reports], 0.95)
    assert lower[0] == 0.0
    assert upper[1] == 1.0
    assert upper[0] == pytest.approx(expected, rel=1e-12)
    assert 1 - lower[1] == pytest.approx(expected, rel=1e-9)


def test_intervals_that_hold_together_share_the_risk() -> None:
    together = clopper_pearson(40, 100, 0.95, together=5)
    alone = clopper_pearson(40, 100, 0.99)
    np.testing.assert_allclose(together, alone, rtol=1e-10)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 95, float("nan")])
def test_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(ParameterError, match="confidence"):
        clopper_pearson(1, 2, confidence)


Interval = Callable[[np.ndarray], tuple[float, float]]


def student(shares: np.ndarray) -> tuple[float, float]:
    """What one would take at first: it is too short where shares are near 1."""
    reach = t.ppf(0.975, len(shares) - 1) * shares.std(ddof=1) / np.sqrt(len(shares))
    return float(shares.mean() - reach), float(shares.mean() + reach)


def clustered(shares: np.ndarray) -> tuple[float, float]:
    return clustered_interval(shares, 2, 0.95)


def coverage(interval: Interval, clusters: int, chance: float, dependence: float) -> float:
    """How often the interval holds the chance, for clusters of two correlated trials: summed exactly."""
    both = chance**2 + dependence * chance * (1 - chance)
    law = multinomial(clusters, [1 - 2 * chance + both, 2 * (chance - both), both])
    covered = 0.0
    for none in range(clusters + 1):
        for one in range(clusters + 1 - none):
            counts = [none, one, clusters - none - one]
            low, high = interval(np.repeat([0.0, 0.5, 1.0], counts))
            covered += law.pmf(counts) * (low - 1e-12 <= chance <= high + 1e-12)
    return covered


@pytest.mark.parametrize("dependence", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("chance", [0.5, 0.9, 0.95])
def test_clusters_are_covered_whether_or_not_their_trials_hang_together(
    chance: float, dependence: float
) -> None:
    assert coverage(clustered, 20, chance, dependence) >= 0.95


def test_students_interval_would_not_do() -> None:
    assert coverage(student, 40, 0.95, 0.5) < 0.92
    assert coverage(clustered, 40, 0.95, 0.5) >= 0.95


def test_single_trials_and_agreement_are_counted_exactly() -> None:
    shares = np.array([1.0] * 19 + [0.0])
    expected = [float(end) for end in clopper_pearson(19, 20, 0.95)]
    assert clustered_interval(shares, 1, 0.95) == pytest.approx(expected)
    assert clustered_interval(np.ones(20), 7, 0.95) == pytest.approx((0.025 ** (1 / 20), 1.0))


def test_clusters_that_agree_more_than_chance_are_no_more_than_their_trials() -> None:
    """Shares that hardly differ vary as little as those of some 370 independent trials: there are 40."""
    shares = np.array([0.5] * 19 + [1.0])
    expected = [float(end) for end in clopper_pearson(21, 40, 0.95)]
    assert clustered_interval(shares, 2, 0.95) == pytest.approx(expected)


HOURS = Buckets.even(24, 32)


def coth(number: float) -> float:
    return 1 / math.tanh(number)


@pytest.mark.parametrize("gamma", [0, "1/5", "1/3"])
@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_theorems_1_and_6(epsilon: float, gamma: object) -> None:
    metric = Metric("m", OneBitMean(epsilon, 24), Flip(gamma))  # type: ignore[arg-type]
    rest = 1 - 2 * float(metric.flip.probability)
    expected = 24 / math.sqrt(2 * 1000) * coth(epsilon / 2) / rest * math.sqrt(math.log(2 / 0.05))
    assert paper_bound(metric, 1000) == pytest.approx(expected)
    assert estimate(metric, MeanCounts(1000, 500)).paper_bound == pytest.approx(expected)


@pytest.mark.parametrize(
    ("width", "variant", "exponent"), [(4, "tight", 0.5), (1, "paper", 0.5), (1, "tight", 1)]
)
def test_theorem_2(width: int, variant: str, exponent: float) -> None:
    metric = Metric("h", DBitFlip(1, HOURS, width, variant, "x"), Flip("1/5"))  # type: ignore[arg-type]
    expected = (
        math.sqrt(5 * 32 / (1000 * width)) * coth(exponent / 2) / 0.6 * math.sqrt(math.log(6 * 32 / 0.1))
    )
    assert paper_bound(metric, 1000, 0.9) == pytest.approx(expected)


def test_the_hadamard_bit_is_compared_with_the_papers_one_bit() -> None:
    one_bit = Metric("h", DBitFlip(1, HOURS, 1, "paper", "x"), Flip("1/5"))
    assert paper_bound(Metric("h", HadamardBit(1, HOURS), Flip("1/5")), 500) == pytest.approx(
        paper_bound(one_bit, 500)
    )


@pytest.mark.parametrize("ones", [280, 400, 500])
def test_the_exact_interval_is_narrower_than_the_papers(ones: int) -> None:
    """1.386 times at the middle for large n, and no less at n = 1000."""
    exact = estimate(Metric("m", OneBitMean(1, 24)), MeanCounts(1000 * ones, ones * ones))
    assert exact.paper_bound / exact.half_width >= 1.38
    middle = estimate(Metric("m", OneBitMean(1, 24)), MeanCounts(10**6, 500_000))
    assert middle.paper_bound / middle.half_width == pytest.approx(1.386, abs=0.002)


def test_manipulation_figures() -> None:
    """1.58 βm at ε = 1, 2.30 at ε′ = .569; Hadamard β (coth(ε/2) + 1); dBitFlip β (k/d) e^h/(e^h - 1)."""
    mean = estimate(Metric("m", OneBitMean(1, 24)), MeanCounts(1000, 400))
    assert mean.manipulation_bound(0.01) == pytest.approx(0.01 * 24 * 1.58, rel=2e-3)
    flipped = estimate(Metric("m", OneBitMean(1, 24), Flip("1/5")), MeanCounts(1000, 400))
    assert flipped.manipulation / 24 == pytest.approx(2.30, abs=0.005)
    rows = estimate(Metric("h", HadamardBit(1, HOURS)), HistogramCounts((10,) * 64, (5,) * 64))
    assert rows.buckets[7].manipulation == pytest.approx(coth(0.5) + 1)
    windows = estimate(
        Metric("h", DBitFlip(1, HOURS, 4, label="x")), HistogramCounts((100,) * 32, (40,) * 32, 4)
    )
    reach = math.exp(0.5) / (math.exp(0.5) - 1)
    assert windows.buckets[0].manipulation_bound(0.01) == pytest.approx(0.01 * 32 / 4 * reach)
    assert windows.buckets[0].manipulation_bound(0.5) == pytest.approx(reach)  # all of the bucket's reports


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ParameterError, match="share"):
        estimate(Metric("m", OneBitMean(1, 24)), MeanCounts(10, 4)).manipulation_bound(share)


DAY = Metric("day", OneBitMean(1, 86_400))
FLIPPED = Metric("flipped", OneBitMean(1, 24), Flip("1/5"))
ROWS = Metric("rows", HadamardBit(1, HOURS))


def d_bit(epsilon: float, width: int, variant: str = "tight", buckets: int = 32) -> Metric:
    mechanism = DBitFlip(epsilon, Buckets.even(24, buckets), width, variant, "plan/hours")  # type: ignore[arg-type]
    return Metric("hours", mechanism)


def test_the_papers_figures() -> None:
    """n = 3e5, m = 86 400 s, ε = 1 has sd 151 s at x = 0 and 171 s at x = m/2."""
    assert math.sqrt(expected_variance(DAY, 300_000, at=0)) == pytest.approx(151, abs=0.5)
    assert math.sqrt(expected_variance(DAY, 300_000, at=43_200)) == pytest.approx(171, abs=0.5)
    assert expected_variance(DAY, 300_000) == pytest.approx(expected_variance(DAY, 300_000, at=43_200))


@pytest.mark.parametrize("x", [0.0, 3.0, 12.0, 24.0])
def test_mean_variance_is_that_of_a_binomial(x: float) -> None:
    """m² c² P(1 - P)/n, with the flip inside P and c; less the devices' own variance where it is known."""
    p = math.e / (math.e + 1)
    chance = 0.6 * (1 - p + x / 24 * (2 * p - 1)) + 0.2
    contrast = 0.6 * (2 * p - 1)
    expected = 24**2 * chance * (1 - chance) / contrast**2 / 1000
    assert expected_variance(FLIPPED, 1000, at=x) == pytest.approx(expected)
    own = x * (24 - x) / 2
    assert expected_variance(FLIPPED, 1000, at=x, spread=own) == pytest.approx(expected - own / 1000)


@pytest.mark.parametrize(
    ("variant", "width", "figures"),
    [
        ("paper", 1, (509, 125, 29.5, 3.12)),
        ("paper", 4, (127, 31.3, 7.37, 0.779)),
        ("tight", 32, (15.9, 3.92, 0.921, 0.097)),
        ("tight", 1, (125, 29.5, 5.79, 0.219)),
    ],
)
def test_light_buckets_of_d_bit_flip(variant: str, width: int, figures: tuple[float, ...]) -> None:
    """n·Var for ε = .5, 1, 2, 5 with 32 buckets."""
    for epsilon, figure in zip((0.5, 1, 2, 5), figures, strict=True):
        variance = expected_variance(d_bit(epsilon, width, variant), 1000, at=0) * 1000
        assert variance == pytest.approx(figure, rel=0.006)


@pytest.mark.parametrize("h", [0.0, 0.25, 0.9])
@pytest.mark.parametrize("width", [1, 4, 8])
def test_d_bit_flip_for_given_devices(width: int, h: float) -> None:
    """k/(nd) [B_v + h(1-h)(1-d/k)], B_v = [(1-h) q(1-q) + h p(1-p)]/(p-q)²."""
    exponent = 2.0 if width == 1 else 1.0
    p = math.exp(exponent) / (math.exp(exponent) + 1)
    noise = p * (1 - p) / (2 * p - 1) ** 2
    expected = 8 / (1000 * width) * (noise + h * (1 - h) * (1 - width / 8))
    variance = expected_variance(d_bit(2, width, buckets=8), 1000, at=h, spread=h * (1 - h))
    assert variance == pytest.approx(expected)


def test_hadamard_variances() -> None:
    """16.7, 4.68, 1.72, 1.03; c² - h² for drawn devices and c² - h for given ones."""
    for epsilon, figure in zip((0.5, 1, 2, 5), (16.7, 4.68, 1.72, 1.03), strict=True):
        metric = Metric("rows", HadamardBit(epsilon, HOURS))
        assert expected_variance(metric, 1000) * 1000 == pytest.approx(figure, rel=0.005)
    square = 1 / math.tanh(0.5) ** 2
    assert expected_variance(ROWS, 10, at=0.85) * 10 == pytest.approx(square - 0.85**2)
    assert expected_variance(ROWS, 10, at=0.85, spread=0.85 * 0.15) * 10 == pytest.approx(square - 0.85)


@pytest.mark.parametrize("metric", [DAY, FLIPPED])
def test_the_half_width_expected_is_the_one_that_comes(metric: Metric) -> None:
    got = estimate(metric, MeanCounts(10_000, 5_000))
    assert expected_half_width(metric, 10_000) == pytest.approx(got.half_width)
    for ones in range(3000, 7001, 500):
        assert estimate(metric, MeanCounts(10_000, ones)).half_width <= got.half_width + 1e-9


def test_histograms_are_judged_by_their_worst_bucket() -> None:
    flat = HistogramCounts((100,) * 64, (50,) * 64)
    assert expected_half_width(ROWS, 6400) == pytest.approx(estimate(ROWS, flat).buckets[0].half_width)
    # 12 buckets do not divide 256 cohorts: some are covered by 21/256 and some by 22/256
    uneven = d_bit(1, 1, buckets=12)
    assert min(uneven.mechanism.coverage) < max(uneven.mechanism.coverage)  # type: ignore[union-attr]
    even = d_bit(1, 12, buckets=12)
    assert expected_half_width(uneven, 25_600, at=0.1) > expected_half_width(even, 25_600, at=0.1)
    assert expected_variance(uneven, 25_600, at=0) == pytest.approx(
        math.e / (math.e - 1) ** 2 / (25_600 * 21 / 256)
    )


def test_what_cannot_be_is_refused() -> None:
    for refused in (
        lambda: expected_half_width(DAY, 0),
        lambda: paper_bound(DAY, 0),
        lambda: expected_half_width(DAY, 10, at=86_401),
        lambda: expected_half_width(ROWS, 10, at=-0.1),
        lambda: expected_half_width(DAY, 10, confidence=1),
        lambda: expected_variance(ROWS, 10, at=0.5, spread=0.3),
        lambda: expected_variance(ROWS, 0),
    ):
        with pytest.raises(ParameterError):
            refused()
