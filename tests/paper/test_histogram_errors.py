"""Errors of histograms against n·Var of the formulas (MATHS.md 3), and equal lifetime losses."""

from dataclasses import replace
from math import cosh

import numpy as np
import pytest
from paper.experiment import EPSILONS, Setting
from paper.histogram_errors import AT_EQUAL_LIFETIME, stand_in_panels
from paper.histogram_methods import (
    BETTER_ESTIMATOR,
    BUCKETS,
    OURS,
    PAPER,
    SAME_AS_BIN_FLIP,
    BitFlip,
    Fleet,
)

from reticent.mechanisms import Buckets, DBitFlip, HadamardBit
from reticent.privacy import loss_by_width

TINY = Setting(seed=5, repetitions=100, fleets=(400, 2_000), days=3)
METHODS = {method.name: method for method in (*PAPER, SAME_AS_BIN_FLIP, *BETTER_ESTIMATOR, *OURS)}

LIGHT = {
    "1BitFlipPM": (509, 125, 29.5, 3.12),
    "4BitFlipPM": (127, 31.3, 7.37, 0.779),
    "BinFlip": (15.9, 3.92, 0.921, 0.097),
    "32BitFlipPM": (15.9, 3.92, 0.921, 0.097),
    "1BitFlipPM, tight": (125, 29.5, 5.79, 0.219),
    "KFlip": (75, 11.1, 0.916, 0.0082),
    "Hadamard bit": (16.7, 4.68, 1.72, 1.03),
    "BinFlip+": tuple(
        figure * 2 * cosh(epsilon / 2)
        for figure, epsilon in zip((15.9, 3.92, 0.921, 0.097), (0.5, 1, 2, 5), strict=True)
    ),
}
"""n·Var on an empty bucket of 32, for ε = 0.5, 1, 2 and 5."""

REPETITIONS, DEVICES = 4_000, 60_000


@pytest.fixture(scope="module")
def fleet():
    devices = np.zeros((REPETITIONS, BUCKETS), np.int64)
    devices[:, 0], devices[:, 1] = 0.9 * DEVICES, 0.1 * DEVICES
    return Fleet.draw(devices, 1, "test")


@pytest.mark.parametrize("name", LIGHT)
def test_an_empty_bucket_has_the_variance_of_the_formula(fleet, name):
    """
    A variance from 4,000 repetitions is known to 2.2 %, and 12.5 % is 5.6 standard errors.

    Four ε for eight methods: a false alarm below 1e-6. One and a half times the figure is refused.
    """
    method, source = METHODS[name], np.random.default_rng(2)
    for epsilon, expected in zip((0.5, 1, 2, 5), LIGHT[name], strict=True):
        estimates = method.estimate(epsilon, DEVICES, method.answers(epsilon, fleet, source))
        found = DEVICES * estimates[:, 7].var()
        assert found == pytest.approx(expected, rel=0.125 + 0.006)  # the figures have three digits
        assert 1.5 * found != pytest.approx(expected, rel=0.131)
        assert estimates[:, 7].mean() == pytest.approx(0, abs=5.6 * (expected / DEVICES / REPETITIONS) ** 0.5)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_heavy_bucket_tells_the_two_estimators_apart(fleet, width):
    """k/d·[B + h(1-d/k)] for the paper's, k/d·[B + h(1-h)(1-d/k)] for the ratio, at h = 0.9 and ε = 5."""
    epsilon, share, part = 5.0, 0.9, width / BUCKETS
    low = 1 / (np.exp(epsilon / 2) + 1)
    noise = low * (1 - low) / (1 - 2 * low) ** 2
    for ratio, spread in ((False, share), (True, share * (1 - share))):
        method = BitFlip(width, ratio=ratio)
        answers = method.answers(epsilon, fleet, np.random.default_rng(3))
        estimates = method.estimate(epsilon, DEVICES, answers)[:, 0]
        assert DEVICES * estimates.var() == pytest.approx((noise + spread * (1 - part)) / part, rel=0.13)
        assert estimates.mean() == pytest.approx(share, abs=5.6 * estimates.std() / REPETITIONS**0.5)


@pytest.mark.parametrize("method", AT_EQUAL_LIFETIME, ids=lambda method: method.name)
def test_lifetime_losses_are_those_of_the_privacy_figures(method):
    edges = Buckets.even(BUCKETS, BUCKETS)
    if method.name == "Hadamard bit":
        mechanism = HadamardBit(1, edges)
    else:
        variant = "tight" if method.name.endswith("tight") else "paper"
        width = getattr(method, "width", BUCKETS)
        mechanism = DBitFlip(1, edges, width, variant)
    assert method.lifetime == pytest.approx(loss_by_width(mechanism, mechanism.classes))


def test_panels_have_every_point_and_seeds_repeat():
    told = []
    pairs = stand_in_panels(TINY, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    for at_epsilon, at_lifetime in pairs:
        assert set(at_epsilon.lines) == set(METHODS)
        assert "KFlip" not in at_lifetime.lines
        lines = (*at_epsilon.lines.values(), *at_lifetime.lines.values())
        assert all(tuple(line) == EPSILONS and line[1.0].runs == 100 for line in lines)
    assert stand_in_panels(replace(TINY, population=None)) == pairs
    assert stand_in_panels(replace(TINY, seed=6)) != pairs


def test_a_lifetime_of_two_epsilon_buys_half_of_it_per_round():
    (at_epsilon, at_lifetime), *_ = stand_in_panels(TINY)
    hadamard, paper = "Hadamard bit", "1BitFlipPM"
    assert at_lifetime.lines[hadamard][2.0] == at_epsilon.lines[hadamard][1.0]
    assert at_lifetime.lines[paper] == at_epsilon.lines[paper]
