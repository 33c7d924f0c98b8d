from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, multinomial, t

from reticent.errors import ParameterError
from reticent.estimates.interval import clopper_pearson, clustered_interval


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


def test_no_reports_leave_everything_possible() -> None:
    lower, upper = clopper_pearson(0, 0, 0.95)
    assert (float(lower), float(upper)) == (0.0, 1.0)


def test_intervals_that_hold_together_share_the_risk() -> None:
    together = clopper_pearson(40, 100, 0.95, together=5)
    alone = clopper_pearson(40, 100, 0.99)
    np.testing.assert_allclose(together, alone, rtol=1e-10)


def test_ends_rise_with_the_count() -> None:
    lower, upper = clopper_pearson(np.arange(501), np.full(501, 500), 0.95)
    assert (np.diff(lower) > 0).all()
    assert (np.diff(upper) > 0).all()


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
