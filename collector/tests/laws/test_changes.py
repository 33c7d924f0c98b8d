"""When a device changed, and whether it did: Λ per round, exact switches, and the bound for any histories."""

from itertools import combinations, pairwise, product

import mpmath
import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent_collector.privacy import loss_of_any_histories, loss_of_moved_change, loss_of_switch

FLIPS = [Flip("0.2"), Flip("0.4")]


@pytest.mark.parametrize("flip", FLIPS, ids=str)
@pytest.mark.parametrize("moved", [1, 2, 3])
def test_a_moved_change_costs_exactly_lambda_per_round_given_the_memo(enumeration, attains, moved, flip):
    early, late = (enumeration.of_memo(flip, [0] * stay + [1] * (5 - stay)) for stay in (1, 1 + moved))
    figure = loss_of_moved_change(OneBitMean(1, 6), flip, moved)
    assert attains(enumeration.loss(early, late), figure)
    assert attains(enumeration.loss(late, early), figure)
    with mpmath.workdps(40):
        printed = -moved * mpmath.log(mpmath.mpf(flip.probability.numerator) / flip.probability.denominator)
        assert figure < printed  # erratum E9: the paper's γ^δ is true and loose


def test_averaged_over_memos_it_is_approached_from_below(enumeration):
    mechanism, flip = OneBitMean(1, 6), Flip("0.1")
    figure = loss_of_moved_change(mechanism, flip, 1)
    gaps = []
    for stay in (1, 2, 3, 4):
        early, late = ([0] * (stay + extra) + [1] * (stay + 1 - extra) for extra in (0, 1))
        laws = [enumeration.of_classes(mechanism, flip, classes) for classes in (early, late)]
        gaps.append(figure - max(enumeration.loss(*laws), enumeration.loss(*reversed(laws))))
    assert all(gap > 0 for gap in gaps)
    assert all(later < earlier / 2 for earlier, later in pairwise(gaps))


def test_at_one_half_nothing_would_show():
    """Erratum E9: near γ = 1/2 the truth tends to 0, where the printed bound tends to δ ln 2."""
    assert loss_of_moved_change(OneBitMean(1, 6), Flip("0.4999999"), 1) < 1e-6


@pytest.mark.parametrize("flip", FLIPS, ids=str)
def test_a_moved_change_of_several_bits(enumeration, flip):
    mechanism = DBitFlip(4, Buckets.even(3, 3), 2)
    figure = loss_of_moved_change(mechanism, flip, 1)
    assert figure == pytest.approx(2 * loss_of_moved_change(OneBitMean(1, 6), flip, 1), rel=1e-15)
    gaps = []
    for stay in (1, 2):
        early, late = ([0] * (stay + extra) + [1] * (stay + 1 - extra) for extra in (0, 1))
        laws = [enumeration.of_classes(mechanism, flip, classes) for classes in (early, late)]
        gaps.append(figure - enumeration.loss(*laws))
    assert 0 < gaps[1] < gaps[0] < figure


@pytest.mark.parametrize("flip", [Flip("0.2"), Flip("0.4"), Flip(0)], ids=str)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (2, 2), (3, 1)])
@pytest.mark.parametrize(
    "mechanism",
    [
        OneBitMean(1, 6),
        OneBitMean(1, 6, 3),
        OneBitMean(3, grid=Grid([0, 1, 4, 5, 6])),
        HadamardBit(1, Buckets.even(3, 3)),
        DBitFlip(1, Buckets.even(3, 3), 1),
        DBitFlip(1, Buckets.even(3, 3), 1, "paper"),
    ],
    ids=repr,
)
def test_switched_once_against_constant(enumeration, attains, mechanism, before, after, flip):
    classes = range(mechanism.classes)
    still = [enumeration.of_classes(mechanism, flip, [c] * (before + after)) for c in classes]
    moved = [
        enumeration.of_classes(mechanism, flip, [a] * before + [b] * after)
        for a, b in product(classes, repeat=2)
    ]
    figure = loss_of_switch(mechanism, flip, before, after)
    up, down = enumeration.worst(product(moved, still)), enumeration.worst(product(still, moved))
    assert attains(down, figure.constant_over_switched)
    if flip.probability:
        assert attains(up, figure.switched_over_constant)
    else:
        assert mpmath.isinf(up)
        assert mpmath.isinf(figure.worst)


@pytest.mark.parametrize("variant", ["tight", "paper"])
@pytest.mark.parametrize("bits", [2, 3])
def test_switches_of_several_bits(enumeration, attains, bits, variant):
    mechanism, flip = DBitFlip(1, Buckets.even(3, 3), bits, variant), Flip("0.3")
    classes = range(mechanism.classes)
    still = [enumeration.of_classes(mechanism, flip, [c, c]) for c in classes]
    moved = [enumeration.of_classes(mechanism, flip, [a, b]) for a, b in product(classes, repeat=2)]
    figure = loss_of_switch(mechanism, flip, 1, 1)
    assert attains(enumeration.worst(product(moved, still)), figure.switched_over_constant)
    assert attains(enumeration.worst(product(still, moved)), figure.constant_over_switched)


def test_switches_of_values_over_alphas(enumeration):
    mechanism, flip = OneBitMean(1, 6, 3), Flip("0.2")
    figure = loss_of_switch(mechanism, flip, 1, 2)
    still = [enumeration.of_values(mechanism, flip, [x] * 3) for x in range(7)]
    moved = [enumeration.of_values(mechanism, flip, [x, y, y]) for x, y in product(range(7), repeat=2)]
    assert enumeration.worst(product(moved, still)) <= figure.switched_over_constant
    assert enumeration.worst(product(still, moved)) <= figure.constant_over_switched


@pytest.mark.parametrize("flip", [Flip("0.2"), Flip("0.45")], ids=str)
@pytest.mark.parametrize(
    ("mechanism", "rounds"),
    [
        (OneBitMean(1, 6), 5),
        (OneBitMean(1, 6, 3), 3),
        (HadamardBit(2, Buckets.even(3, 3)), 4),
        (DBitFlip(1, Buckets.even(2, 2), 2), 2),
    ],
    ids=["mean", "mean on three points", "hadamard", "two bits"],
)
def test_any_histories_stay_within_the_bound(enumeration, mechanism, rounds, flip):
    """Every pair of sequences of classes; the bound is not below, nor five times the worst of them."""
    laws = [
        enumeration.of_classes(mechanism, flip, classes)
        for classes in product(range(mechanism.classes), repeat=rounds)
    ]
    worst = enumeration.worst(product(laws, repeat=2))
    assert worst <= loss_of_any_histories(mechanism, flip, rounds) <= 5 * worst


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("flip", [Flip("0.05"), Flip("0.2"), Flip("0.49")], ids=str)
def test_histories_of_values_over_alphas_too(enumeration, rounds, flip):
    mechanism = OneBitMean(1, 2)
    laws = [enumeration.of_values(mechanism, flip, values) for values in product(range(3), repeat=rounds)]
    bound = loss_of_any_histories(mechanism, flip, rounds)
    assert enumeration.worst(combinations(laws, 2)) <= bound
    assert enumeration.worst((b, a) for a, b in combinations(laws, 2)) <= bound
