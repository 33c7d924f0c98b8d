"""Counters that share a limit: the exact worst case, attained (Theorem "MultiApp", errata E12 to E14)."""

from fractions import Fraction
from itertools import product
from math import prod

import mpmath
import pytest

from reticent.mechanisms import Flip, OneBitMean
from reticent_collector.privacy import joint_limit_loss


def chances(enumeration, mechanism, flip, top):
    """P(answer 1) in one round per value, as fractions."""
    laws = {value: enumeration.of_values(mechanism, flip, [value]) for value in range(top + 1)}
    return {value: Fraction(law[(1,),], sum(law.values())) for value, law in laws.items()}


def worst(tables, limit):
    """The largest ratio over all vectors of whole numbers within the limit and all answers."""
    vectors = [v for v in product(*(range(len(table)) for table in tables)) if sum(v) <= limit]
    best = Fraction(0)
    for answers in product((0, 1), repeat=len(tables)):
        seen = [
            prod(
                table[x] if answer else 1 - table[x]
                for table, x, answer in zip(tables, v, answers, strict=True)
            )
            for v in vectors
        ]
        best = max(best, max(seen) / min(seen))
    with mpmath.workdps(60):
        return mpmath.log(mpmath.mpf(best.numerator) / best.denominator)


@pytest.mark.parametrize("flip", [Flip(0), Flip("0.2")], ids=str)
@pytest.mark.parametrize(
    ("counters", "top", "limit"),
    [(1, 4, 4), (2, 4, 4), (3, 4, 4), (3, 2, 4), (4, 2, 4), (2, 4, 2), (3, 2, 1)],
)
def test_alike(enumeration, attains, counters, top, limit, flip):
    mechanism = OneBitMean(1, top)
    table = chances(enumeration, mechanism, flip, top)
    figure = joint_limit_loss([mechanism] * counters, [flip] * counters, limit)
    loss = worst([table] * counters, limit)
    on_lattice = (counters, top, limit) not in {(3, 2, 1)}
    assert attains(loss, figure) if on_lattice else loss <= figure


def test_alike_with_steps_and_a_limit_of_one_and_a_half(enumeration, attains):
    mechanism = OneBitMean(1, 4, 2)
    table = chances(enumeration, mechanism, Flip(0), 4)
    assert attains(worst([table] * 3, 6), joint_limit_loss([mechanism] * 3, [Flip(0)] * 3, 6))


@pytest.mark.parametrize("limit", [2, 3, 4, 6, 9])
def test_different_counters_stay_within_the_bound(enumeration, limit):
    mechanisms = [OneBitMean(1, 4), OneBitMean("0.5", 2), OneBitMean(2, 3)]
    flips = [Flip(0), Flip("0.2"), Flip("0.1")]
    tables = [chances(enumeration, m, f, m.max_value) for m, f in zip(mechanisms, flips, strict=True)]
    loss = worst(tables, limit)
    figure = joint_limit_loss(mechanisms, flips, limit)
    assert loss <= figure
    assert figure <= 1.35 * loss  # and is worth having


def test_without_the_limit_losses_add(enumeration, attains):
    mechanisms, flips = [OneBitMean(1, 2), OneBitMean(2, 2)], [Flip(0)] * 2
    tables = [chances(enumeration, m, f, 2) for m, f in zip(mechanisms, flips, strict=True)]
    assert attains(worst(tables, 4), joint_limit_loss(mechanisms, flips, 4))
    assert joint_limit_loss(mechanisms, flips, 4) == 3


def test_constant_vectors_over_many_rounds(enumeration):
    """A constant vector is one memo bit per counter, seen through ever more flips: τ = ε bounds them all."""
    mechanism, flip, rounds = OneBitMean(1, 2), Flip("0.2"), 4
    laws = {value: enumeration.of_values(mechanism, flip, [value] * rounds) for value in range(3)}
    all_rounds = joint_limit_loss([mechanism] * 2, [flip] * 2, 2, rounds="all")
    one_round = joint_limit_loss([mechanism] * 2, [flip] * 2, 2, rounds="one")
    vectors = [v for v in product(range(3), repeat=2) if sum(v) <= 2]
    pairs = [
        sum(enumeration.loss(laws[a], laws[b]) for a, b in zip(x, y, strict=True))
        for x, y in product(vectors, repeat=2)
    ]
    assert one_round < max(pairs) <= all_rounds == 2
