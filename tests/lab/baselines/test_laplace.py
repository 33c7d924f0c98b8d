from itertools import pairwise
from math import sqrt, tanh
from random import Random

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import brentq

from reticent.errors import ParameterError
from reticent.lab.baselines import Laplace


def one_bit_variance(epsilon: float, share: float) -> float:
    """n·Var of 1BitMean at x = share·m, in units of m²: coth²(ε/2)/4 - (x/m - 1/2)²."""
    return 1 / tanh(epsilon / 2) ** 2 / 4 - (share - 0.5) ** 2


@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_the_density_is_laplaces(epsilon):
    mechanism = Laplace(epsilon, 24)
    answers = np.linspace(-100, 100, 2001)
    expected = stats.laplace.pdf(answers, loc=7, scale=24 / epsilon)
    assert mechanism.density(7, answers) == pytest.approx(expected, rel=1e-12)
    assert mechanism.density(7, 3.0) == pytest.approx(mechanism.density(7, np.array([3.0]))[0], rel=1e-15)
    pieces = pairwise([-60 * mechanism.scale, 7, 60 * mechanism.scale])
    assert sum(
        integrate.quad(lambda y: mechanism.density(7, y), *ends)[0] for ends in pieces
    ) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.1, 1, 5])
def test_the_largest_ratio_is_e_to_the_epsilon(epsilon):
    mechanism = Laplace(epsilon, 24)
    answers = np.linspace(-50, 74, 1241)
    values = np.linspace(0, 24, 25)[:, None]
    logs = np.log(mechanism.density(values, answers))
    assert (logs.max(axis=0) - logs.min(axis=0)).max() == pytest.approx(epsilon, rel=1e-12)
    assert mechanism.loss == epsilon


def test_variance_is_that_of_the_noise_at_every_value():
    mechanism = Laplace(2, 10)
    assert mechanism.variance() == pytest.approx(stats.laplace(scale=5).var())
    assert mechanism.variance(np.array([0.0, 5.0])).tolist() == [50.0, 50.0]
    assert mechanism.estimate(3.25) == 3.25


def test_erratum_22_one_bit_is_not_consistently_better():
    at_zero = [
        one_bit_variance(epsilon, 0) < Laplace(epsilon, 1).variance() for epsilon in (0.1, 1, 2, 5, 10)
    ]
    assert all(at_zero)
    crossing = brentq(lambda epsilon: one_bit_variance(epsilon, 0.5) - Laplace(epsilon, 1).variance(), 1, 5)
    assert crossing == pytest.approx(2.32, abs=5e-3)
    assert sqrt(one_bit_variance(10, 0.5) / Laplace(10, 1).variance()) == pytest.approx(3.5, abs=0.05)
    assert sqrt(one_bit_variance(10, 0.5) / one_bit_variance(10, 0)) == pytest.approx(74, abs=0.5)


def test_answers_are_drawn_from_the_law():
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-6; fixed seed."""
    random = Random(2006)
    mechanism = Laplace(1, 24)
    answers = np.array([mechanism.answer(6, random) for _ in range(60_000)])

    def agrees(value: float, epsilon: float) -> bool:
        return stats.kstest(answers, stats.laplace(loc=value, scale=24 / epsilon).cdf).pvalue >= 1e-6

    assert agrees(6, 1)
    assert not agrees(6, 0.9)
    assert not agrees(6, 1.1)
    assert not agrees(7, 1)


@pytest.mark.parametrize(
    ("arguments", "name", "got"),
    [((0, 24), "epsilon", 0), ((1, 0), "max_value", 0), ((1, "wide"), "max_value", "'wide'")],
)
def test_bad_parameters(arguments, name, got):
    with pytest.raises(ParameterError) as caught:
        Laplace(*arguments)
    assert (caught.value.name, caught.value.got) == (name, got)
