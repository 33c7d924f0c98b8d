"""Devices of one behaviour pattern: the loss by width, attained (Theorem "PermMem", erratum E18)."""

from itertools import permutations, product

import mpmath
import pytest

from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent_collector.privacy import loss_by_width, losses, pattern, upward

GRIDS = [
    Grid.even(6),
    Grid.even(6, 3),
    Grid.even(6, 2),
    Grid([0, 1, 6]),
    Grid([0, 1, 2, 6]),
    Grid([0, 4, 5, 6]),
]


def worst_by_width(enumeration, mechanism, flip, cohort=0):
    """Every pair of class sequences of every length that is a pattern's own: each class once."""
    worst = {}
    for size in range(1, mechanism.classes + 1):
        laws = [
            enumeration.of_classes(mechanism, flip, classes, cohort)
            for classes in permutations(range(mechanism.classes), size)
        ]
        worst[size] = enumeration.worst(product(laws, repeat=2))
    return worst


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: str(grid.points))
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_means_by_width(enumeration, attains, epsilon, grid):
    mechanism = OneBitMean(epsilon, grid=grid)
    for size, worst in worst_by_width(enumeration, mechanism, Flip(0)).items():
        assert attains(worst, loss_by_width(mechanism, size))
        assert loss_by_width(mechanism, size) <= upward(size * mechanism.epsilon)


@pytest.mark.parametrize("steps", [5, 7, 10])
@pytest.mark.parametrize("epsilon", ["1e-6", "1e-8", "1e-12"])
def test_the_integers_of_tiny_epsilons_are_in_the_figure(epsilon, steps):
    """Thresholds are rounded by up to 2⁻⁶⁴, which shows in the log-odds of inner cells from ε = 1e-6 down."""
    mechanism = OneBitMean(epsilon, steps, 1)
    with mpmath.workdps(60):
        ones = [mpmath.mpf(mechanism.thresholds(cell)[0]) for cell in range(mechanism.classes)]
        odds = sorted((abs(mpmath.log(one / (SCALE - one))) for one in ones), reverse=True)
        for size in range(1, mechanism.classes + 1):
            exact = mpmath.fsum(odds[:size])  # attained by pairing each cell with its mirror image
            assert exact <= loss_by_width(mechanism, size) <= upward(size * mechanism.epsilon)


@pytest.mark.parametrize("flip", [Flip(0), Flip("0.2")], ids=str)
@pytest.mark.parametrize("grid", GRIDS[:4], ids=lambda grid: str(grid.points))
def test_means_over_repeated_rounds(enumeration, grid, flip):
    mechanism = OneBitMean(1, grid=grid)
    rounds = 4 if mechanism.classes < 4 else 3
    by_pattern = {}
    for classes in product(range(mechanism.classes), repeat=rounds):
        law = enumeration.of_classes(mechanism, flip, classes)
        by_pattern.setdefault(pattern(classes), []).append(law)
    for shape, laws in by_pattern.items():
        assert enumeration.worst(product(laws, repeat=2)) <= loss_by_width(mechanism, len(set(shape)))


@pytest.mark.parametrize("variant", ["tight", "paper"])
@pytest.mark.parametrize(("buckets", "bits"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1)])
def test_d_bit_flip_by_width(enumeration, attains, buckets, bits, variant):
    mechanism = DBitFlip(1, Buckets.even(buckets, buckets), bits, variant)
    worst = worst_by_width(enumeration, mechanism, Flip(0), cohort=77)
    for size, loss in worst.items():
        assert attains(loss, loss_by_width(mechanism, size))
    assert attains(max(worst.values()), losses(mechanism, Flip(0)).lifetime)
    by_formula = min(mechanism.classes, 2) / (2 if variant == "paper" else 1) if bits == 1 else bits
    assert losses(mechanism, Flip(0)).lifetime == by_formula


def test_hadamard_loses_two_epsilon_for_ever(enumeration, attains):
    mechanism = HadamardBit(1, Buckets.even(3, 3))
    worst = worst_by_width(enumeration, mechanism, Flip(0), cohort=1)
    assert attains(worst[1], 1.0)
    assert attains(worst[2], 2.0)
    assert losses(mechanism, Flip(0)).lifetime == 2
    histories = product(range(3), repeat=3)
    by_pattern = {}
    for values in histories:
        classes = [mechanism.memo_class(value, 0, 1) for value in values]
        law = enumeration.of_values(mechanism, Flip(0), values, cohort=1)
        by_pattern.setdefault(pattern(classes), []).append(law)
    for shape, laws in by_pattern.items():
        assert enumeration.worst(product(laws, repeat=2)) <= loss_by_width(mechanism, len(set(shape)))


@pytest.mark.parametrize(
    "mechanism",
    [
        OneBitMean(1, 6),
        OneBitMean(1, 6, 2),
        HadamardBit(1, Buckets.even(3, 3)),
        DBitFlip(1, Buckets.even(3, 3), 2),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_different_patterns_lose_everything_without_flips(enumeration, mechanism):
    still = enumeration.of_classes(mechanism, Flip(0), (0, 0))
    moved = enumeration.of_classes(mechanism, Flip(0), (0, 1))
    assert mpmath.isinf(enumeration.loss(moved, still))
    assert not mpmath.isinf(enumeration.loss(still, moved))
    flipped = [enumeration.of_classes(mechanism, Flip("0.2"), classes) for classes in ((0, 1), (0, 0))]
    assert not mpmath.isinf(enumeration.loss(*flipped))
