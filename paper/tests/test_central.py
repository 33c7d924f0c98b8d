import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, Channel, DBitFlip, Flip, OneBitMean
from reticent_collector.privacy import loss_per_round
from reticent_paper import central
from reticent_paper.central import central_loss, central_loss_one_round


def sum_of_bits(chances):
    """The law of a sum of independent bits, exactly."""
    law = [Fraction(1)]
    for chance in chances:
        law = [a * (1 - chance) + b * chance for a, b in zip([*law, 0], [0, *law], strict=True)]
    return law


def hockey_stick(law, other, epsilon):
    factor = Fraction(math.exp(epsilon))
    return sum(max(Fraction(0), p - factor * q) for p, q in zip(law, other, strict=True))


@pytest.mark.parametrize(("low", "high"), [("1/4", "3/4"), ("1/10", "9/10"), ("1/5", "3/5")])
@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-3])
def test_one_round_against_every_fleet(low, high, devices, delta):
    """All values of the others and of the device, also between the extremes, by exact arithmetic."""
    low, high = Fraction(low), Fraction(high)
    figure = central_loss_one_round(Channel(low, high), Flip(0), devices, delta)
    levels = [low, (low + 2 * high) / 3, high]

    def worst(epsilon):
        return max(
            hockey_stick(sum_of_bits([mine, *rest]), sum_of_bits([yours, *rest]), epsilon)
            for rest in product(levels, repeat=devices - 1)
            for mine, yours in product(levels, repeat=2)
        )

    assert worst(figure) <= delta
    assert figure == 0 or worst(figure * (1 - 1e-5)) > delta


def test_one_round_of_the_notes():
    table = {
        "1": {10**3: 0.127, 10**4: 0.0357, 10**5: 0.0101, 10**6: 0.0029},
        "0.569": {10**3: 0.066, 10**4: 0.019, 10**5: 0.0053, 10**6: 0.0015},
    }
    for epsilon, row in table.items():
        for devices, expected in row.items():
            figure = central_loss_one_round(OneBitMean(epsilon, 1), Flip(0), devices, 1e-6)
            assert figure == pytest.approx(expected, rel=0.025)


def test_a_flip_counts_in_one_round():
    with_flip = central_loss_one_round(OneBitMean(1, 1), Flip("0.2"), 1000, 1e-6)
    figure = loss_per_round(OneBitMean(1, 1), Flip("0.2"))
    assert with_flip == pytest.approx(
        central_loss_one_round(OneBitMean(figure, 1), Flip(0), 1000, 1e-6), rel=1e-5
    )


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("devices", [250, 601])
def test_the_splits_tried_for_large_fleets_are_the_worst_of_small_ones(monkeypatch, epsilon, devices):
    """Which split is worst is not proved. Where all can be tried, the few and their margin cover it."""
    mechanism, deltas = OneBitMean(epsilon, 1), (1e-2, 1e-5, 1e-9)
    monkeypatch.setattr(central, "ALL_SPLITS", 1000)
    exhaustive = [central_loss_one_round(mechanism, Flip(0), devices, delta) for delta in deltas]
    monkeypatch.setattr(central, "ALL_SPLITS", 10)
    few = [central_loss_one_round(mechanism, Flip(0), devices, delta) for delta in deltas]
    assert all(0.999_999 <= a / b <= 1.03 for a, b in zip(few, exhaustive, strict=True) if b)


def test_several_bits_change_two_counts():
    mechanism = DBitFlip(2, Buckets.even(4, 4), 2)
    single = central_loss_one_round(OneBitMean(1, 1), Flip(0), 500, 0.5e-6)
    assert central_loss_one_round(mechanism, Flip(0), 500, 1e-6) == pytest.approx(2 * single, rel=1e-9)


def gaussian(mu, delta):
    """ε of μ-Gaussian differential privacy at δ (Dong, Roth & Su 2022)."""
    return brentq(
        lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta,
        1e-9,
        50,
        xtol=1e-12,
    )


@pytest.mark.parametrize(("devices", "expected"), [(10**4, 1.23), (10**5, 0.357), (10**6, 0.104)])
def test_a_year_of_rounds(devices, expected):
    figure = central_loss(Flip("0.2"), devices, 365, 1e-6)
    limit = gaussian(math.sqrt(365) * 0.6 / math.sqrt(devices * 0.16), 1e-6)
    assert limit == pytest.approx(expected, rel=0.01)
    assert limit < figure < 1.05 * limit


@pytest.mark.parametrize(("gamma", "devices"), [("0.2", 300), ("0.05", 1000), ("0.45", 5000)])
def test_one_round_of_the_certificate_is_nearly_exact(gamma, devices):
    flip = Flip(gamma)
    exact = central_loss_one_round(Channel(flip.probability, 1 - flip.probability), Flip(0), devices, 1e-6)
    assert exact <= central_loss(flip, devices, 1, 1e-6) <= 1.01 * exact


@pytest.mark.parametrize(("devices", "rounds"), [(1, 2), (2, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("delta", [0.1, 1e-3])
def test_few_rounds_against_every_history(devices, rounds, delta):
    """Every memo of the others and of the device in every round, exactly, over all sequences of counts."""
    gamma = Fraction(1, 5)
    figure = central_loss(Flip(gamma), devices, rounds, delta)

    def joint(mine, rest):
        laws = [
            sum_of_bits([m, *[1 - gamma] * j, *[gamma] * (devices - 1 - j)])
            for m, j in zip(mine, rest, strict=True)
        ]
        return [math.prod(chances) for chances in product(*laws)]

    def worst(epsilon):
        return max(
            hockey_stick(joint(mine, rest), joint(yours, rest), epsilon)
            for rest in product(range(devices), repeat=rounds)
            for mine, yours in product(product((gamma, 1 - gamma), repeat=rounds), repeat=2)
        )

    assert worst(figure) <= delta
    assert worst(figure * 0.97) > delta or worst(0) <= delta


def test_more_rounds_lose_more_and_more_devices_less():
    figures = [central_loss(Flip("0.2"), 1000, rounds, 1e-6) for rounds in (1, 10, 100)]
    assert figures == sorted(figures)
    fleets = [central_loss(Flip("0.2"), devices, 10, 1e-6) for devices in (10, 100, 1000)]
    assert fleets == sorted(fleets, reverse=True)


def test_flips_too_rare_to_hide_anything_leave_the_local_figure():
    gamma = Fraction(1, 10**9)
    assert central_loss(Flip(gamma), 700, 3, 1e-6) == pytest.approx(3 * math.log(1e9), rel=1e-9)


def test_without_flips_rounds_have_no_central_figure():
    assert central_loss(Flip(0), 10**6, 2, 1e-6) == math.inf


def test_the_mass_left_out_is_within_its_bound():
    """Bernstein's inequality, at every standard deviation there may be."""
    deviation = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 2000)])
    width = central.SPREAD * deviation + central._MARGIN
    exponent = width**2 / 2 / (deviation**2 + width / 3)
    assert 4 * math.exp(-exponent.min()) < central._BEYOND


def test_chernoffs_bound_on_wrapped_mass():
    masses, losses = np.array([0.25, 0.5, 0.25]), np.array([-1.0, 0.0, 1.0])
    exact = float(mpmath.binomial(40, 35) + sum(mpmath.binomial(40, k) for k in range(36, 41))) / 2**40
    assert exact <= central._mass_above(masses, losses, rounds=20, edge=15.0) <= 40 * exact
    assert central._mass_above(masses, losses, rounds=20, edge=21.0) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: central_loss(Flip("0.2"), 0, 1, 1e-6), "devices: expected a whole number >= 1"),
        (lambda: central_loss(Flip("0.2"), 1, 0, 1e-6), "rounds: expected a whole number >= 1"),
        (lambda: central_loss(Flip("0.2"), 1, 1, 1), "delta: expected a number between 0 and 1"),
        (lambda: central_loss(Flip("0.2"), 1, 365, 1e-12), "delta: expected at least"),
        (
            lambda: central_loss_one_round(Channel(Fraction(0), Fraction(1)), Flip(0), 9, 0.1),
            "channel: expected",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
