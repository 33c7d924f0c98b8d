"""One round is ε'-LDP for every pair of values, and no less (Lemma 1, Theorem 2, Theorem "OP")."""

from fractions import Fraction
from itertools import permutations

import mpmath
import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent_collector.privacy import loss_per_round

GRIDS = [Grid.even(12), Grid.even(12, 6), Grid.even(12, 4), Grid([0, 1, 12]), Grid([0, 1, 7, 12])]
FLIPS = [Flip(0), Flip("0.2"), Flip("1/3"), Flip("0.499")]


@pytest.mark.parametrize("flip", FLIPS, ids=str)
@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: str(grid.points))
@pytest.mark.parametrize("epsilon", ["0.001", "1", "20"])
def test_means(enumeration, attains, epsilon, grid, flip):
    mechanism = OneBitMean(epsilon, grid=grid)
    values = [*range(13), Fraction(1, 3), Fraction(71, 7)]
    laws = [enumeration.of_values(mechanism, flip, [value]) for value in values]
    worst = enumeration.worst(permutations(laws, 2))
    assert attains(worst, loss_per_round(mechanism, flip), tolerance=1e-9 if epsilon != "1" else 1e-14)


def test_a_claim_slightly_too_small_is_refused(enumeration, attains):
    mechanism, flip = OneBitMean(1, 12), Flip("0.2")
    loss = enumeration.loss(*(enumeration.of_values(mechanism, flip, [value]) for value in (12, 0)))
    figure = loss_per_round(mechanism, flip)
    assert attains(loss, figure)
    assert not attains(loss, figure * (1 - 1e-14))
    assert not attains(loss, figure * (1 + 1e-13))


@pytest.mark.parametrize("flip", FLIPS[:3], ids=str)
@pytest.mark.parametrize("variant", ["tight", "paper"])
@pytest.mark.parametrize(
    ("buckets", "width"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 4)]
)
def test_d_bit_flip(enumeration, attains, buckets, width, variant, flip):
    mechanism = DBitFlip(1, Buckets.even(buckets, buckets), width, variant)
    for cohort in {mechanism.rows_of(cohort): cohort for cohort in range(256)}.values():
        laws = [enumeration.of_values(mechanism, flip, [value], cohort) for value in range(buckets)]
        assert attains(enumeration.worst(permutations(laws, 2)), loss_per_round(mechanism, flip))


@pytest.mark.parametrize("flip", FLIPS[:3], ids=str)
@pytest.mark.parametrize("buckets", [2, 3, 7])
def test_hadamard_for_every_row(enumeration, attains, buckets, flip):
    mechanism = HadamardBit(1, Buckets.even(buckets, buckets))
    figure = loss_per_round(mechanism, flip)
    losses = []
    for row in range(mechanism.size):
        laws = [enumeration.of_values(mechanism, flip, [value], row) for value in range(buckets)]
        losses.append(enumeration.worst(permutations(laws, 2)))
    assert losses[0] == 0  # row 0 is all ones: it asks nothing
    assert all(loss == 0 or attains(loss, figure) for loss in losses)
    assert attains(max(losses), figure)


def test_laws_are_laws(enumeration):
    mechanism = OneBitMean("0.7", grid=Grid([0, 1, 7, 12]))
    law = enumeration.of_values(mechanism, Flip("0.1"), [3, 9, 3])
    assert sum(law.values()) == (1 << 64) ** 7
    assert mpmath.isinf(enumeration.loss({((0,),): 1}, {((0,),): 0}))
