"""A device that never changes loses ε_T in T rounds, never more than ε (MATHS: erratum E11)."""

from itertools import permutations

import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent_collector.privacy import loss_of_constant_device, losses

FLIPS = [Flip(0), Flip("0.2"), Flip("0.45")]


@pytest.mark.parametrize("flip", FLIPS, ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "grid", [Grid.even(6), Grid.even(6, 2), Grid([0, 1, 6])], ids=lambda grid: str(grid.points)
)
def test_means(enumeration, attains, grid, rounds, flip):
    mechanism = OneBitMean(1, grid=grid)
    laws = [enumeration.of_values(mechanism, flip, [value] * rounds) for value in range(7)]
    worst = enumeration.worst(permutations(laws, 2))
    assert attains(worst, loss_of_constant_device(mechanism, flip, rounds))
    assert worst <= losses(mechanism, flip).constant == 1


@pytest.mark.parametrize("flip", FLIPS, ids=str)
@pytest.mark.parametrize("variant", ["tight", "paper"])
@pytest.mark.parametrize(("width", "rounds"), [(1, 1), (1, 4), (2, 2), (2, 3), (3, 2)])
def test_d_bit_flip(enumeration, attains, width, rounds, variant, flip):
    mechanism = DBitFlip(1, Buckets.even(3, 3), width, variant)
    laws = [enumeration.of_values(mechanism, flip, [value] * rounds, cohort=100) for value in range(3)]
    worst = enumeration.worst(permutations(laws, 2))
    assert attains(worst, loss_of_constant_device(mechanism, flip, rounds))
    assert worst <= losses(mechanism, flip).constant


def test_the_papers_single_bit_loses_half_of_its_epsilon():
    mechanism = DBitFlip(1, Buckets.even(3, 3), 1, "paper")
    assert losses(mechanism, Flip(0)).constant == 0.5


@pytest.mark.parametrize("flip", FLIPS, ids=str)
@pytest.mark.parametrize("rounds", [1, 4])
def test_hadamard(enumeration, attains, rounds, flip):
    mechanism = HadamardBit(1, Buckets.even(3, 3))
    for row in range(1, 4):
        laws = [enumeration.of_values(mechanism, flip, [value] * rounds, row) for value in range(3)]
        worst = enumeration.worst(permutations(laws, 2))
        assert attains(worst, loss_of_constant_device(mechanism, flip, rounds))
