import math

import pytest

from reticent.counts import HistogramCounts, MeanCounts
from reticent.errors import ParameterError
from reticent.estimates import estimate, expected_half_width, expected_variance
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric

HOURS = Buckets.even(24, 32)
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
        found = expected_variance(d_bit(epsilon, width, variant), 1000, at=0) * 1000
        assert found == pytest.approx(figure, rel=0.006)


@pytest.mark.parametrize("h", [0.0, 0.25, 0.9])
@pytest.mark.parametrize("width", [1, 4, 8])
def test_d_bit_flip_for_given_devices(width: int, h: float) -> None:
    """k/(nd) [B_v + h(1-h)(1-d/k)], B_v = [(1-h) q(1-q) + h p(1-p)]/(p-q)²."""
    exponent = 2.0 if width == 1 else 1.0
    p = math.exp(exponent) / (math.exp(exponent) + 1)
    noise = p * (1 - p) / (2 * p - 1) ** 2
    expected = 8 / (1000 * width) * (noise + h * (1 - h) * (1 - width / 8))
    found = expected_variance(d_bit(2, width, buckets=8), 1000, at=h, spread=h * (1 - h))
    assert found == pytest.approx(expected)


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


def test_close_to_the_normal_approximation_when_many() -> None:
    sd = math.sqrt(expected_variance(DAY, 1_000_000, at=10_000))
    assert expected_half_width(DAY, 1_000_000, at=10_000) == pytest.approx(1.959964 * sd, rel=2e-3)


def test_what_cannot_be_is_refused() -> None:
    for refused in (
        lambda: expected_half_width(DAY, 0),
        lambda: expected_half_width(DAY, 10, at=86_401),
        lambda: expected_half_width(ROWS, 10, at=-0.1),
        lambda: expected_half_width(DAY, 10, confidence=1),
        lambda: expected_variance(ROWS, 10, at=0.5, spread=0.3),
        lambda: expected_variance(ROWS, 0),
    ):
        with pytest.raises(ParameterError):
            refused()
