"""Subset selection: its law in integers, its loss for every base set, and how precise it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb, exp, tanh

import pytest

from reticent.errors import ParameterError, PlanError
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, SubsetSelection
from reticent.mechanisms.subset_selection import best_size, weights
from reticent.plan import Metric, Plan
from reticent_collector.privacy import loss_per_round, losses

DIGITS = Context(prec=100)
Weights = Callable[[Fraction, int, int], tuple[int, int]]


def e_to(epsilon: Fraction) -> Fraction:
    return Fraction(DIGITS.exp(DIGITS.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))))


def law(mechanism: SubsetSelection, bucket: int, members: Sequence[int]) -> Counter[tuple[bool, ...]]:
    """Of 2⁶⁴ draws, how many give each set, from the device's own code at every place where it could change."""
    base = [place not in members for place in range(mechanism.bits)]
    chances: Counter[tuple[bool, ...]] = Counter()
    for start, end in pairwise(sorted({0, *mechanism.cuts(bucket), SCALE})):
        first, last = (mechanism.answer(bucket, 0, [draw], base) for draw in (start, end - 1))
        assert first == last
        chances[first] += end - start
    return chances


def law_in_words(
    epsilon: Fraction, count: int, size: int, bucket: int, members: Sequence[int], of: Weights = weights
) -> Counter[tuple[bool, ...]]:
    """The same from the words of the theorem: the shift is s with weight a where v - s is in B, with b elsewhere."""
    inside, outside = of(epsilon, count, size)
    chances: Counter[tuple[bool, ...]] = Counter()
    for shift in range(count):
        weight = inside if (bucket - shift) % count in members else outside
        shifted = {(member + shift) % count for member in members}
        chances[tuple(place in shifted for place in range(count))] += weight
    own = tuple(place in members for place in range(count))
    chances[own] += SCALE - chances.total()
    return chances


def worst(laws: Sequence[Counter[tuple[bool, ...]]]) -> Fraction:
    return max(
        Fraction(max(one[answered] for one in laws), min(one[answered] for one in laws))
        for answered in set().union(*laws)
    )


EPSILONS = [Fraction(text) for text in ("1/1000", "1/3", "1", "2", "5", "20")]


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_no_base_set_tells_more_than_epsilon(epsilon: Fraction) -> None:
    """All base sets, buckets and answers of up to five buckets, in integers."""
    for count in range(2, 6):
        for size in range(1, count):
            mechanism = SubsetSelection(epsilon, Buckets(range(count + 1)), size)
            for members in combinations(range(count), size):
                laws = [law(mechanism, bucket, members) for bucket in range(count)]
                assert worst(laws) <= e_to(epsilon)
                for bucket, chances in enumerate(laws):
                    assert chances == law_in_words(epsilon, count, size, bucket, members)


def test_an_outer_weight_that_is_rounded_down_would_tell_more() -> None:
    def rounded_down(epsilon: Fraction, count: int, size: int) -> tuple[int, int]:
        outside = int(SCALE / (size * e_to(epsilon) + count - size))
        return (SCALE - (count - size) * outside) // size, outside

    laws = [law_in_words(Fraction(1), 5, 2, bucket, (0, 1), rounded_down) for bucket in range(5)]
    assert worst(laws) > e_to(Fraction(1))


def test_the_channel_is_the_mean_over_all_base_sets() -> None:
    for count, size, epsilon in ((4, 1, 1), (5, 2, 2), (6, 3, Fraction(1, 2)), (6, 4, 5)):
        mechanism = SubsetSelection(epsilon, Buckets(range(count + 1)), size)
        sums = [Fraction(0)] * count
        for members in combinations(range(count), size):
            for answered, weight in law(mechanism, 1, members).items():
                for place, bit in enumerate(answered):
                    sums[place] += Fraction(weight * bit, comb(count, size) * SCALE)
        seen = mechanism.channel(Flip(0))
        assert sums == [seen.high if place == 1 else seen.low for place in range(count)]
        assert mechanism.chances(1) == tuple(sums)
        assert seen.high + (count - 1) * seen.low == size, "so the raw estimates add up to exactly 1"


@pytest.mark.parametrize(
    ("count", "size", "epsilon", "inside", "outside", "rest"),
    [
        (4, 1, 1, 8768971294881393556, 3225924259609386020, 0),
        (10, 2, 1, 3731865564003923956, 1372876618212712963, 0),
        (21, 5, 1, 1694527251766758320, 623381738429735001, 0),
        (32, 8, 1, 1096121411860174193, 403240532451173253, 0),
        (10, 1, 2, 8316771019665368497, 1125552561560464791, 0),
    ],
)
def test_known_weights(count: int, size: int, epsilon: int, inside: int, outside: int, rest: int) -> None:
    mechanism = SubsetSelection(epsilon, Buckets(range(count + 1)))
    assert (mechanism.size, mechanism.inside, mechanism.outside, mechanism.rest) == (
        size, inside, outside, rest,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("draw", "members"), [(0, (4, 8)), (2**62, (0, 4)), (2**63, (0, 6)), (2**64 - 1, (2, 8))]
)
def test_known_sets(draw: int, members: tuple[int, ...]) -> None:
    mechanism = SubsetSelection(1, Buckets(range(11)))
    base = [place not in (3, 7) for place in range(10)]
    answered = mechanism.answer(4, 0, [draw], base)
    assert tuple(place for place, bit in enumerate(answered) if bit) == members


def test_of_equal_draws_the_earlier_bucket_is_in_the_base_set() -> None:
    mechanism = SubsetSelection(1, Buckets(range(11)))
    base = [5, 9, 5, 9, 9, 9, 9, 9, 9, 5]  # 0 and 2 of 0, 2 and 9; shifted to hold 1
    answered = mechanism.answer(1, 0, [0], base)
    assert [place for place, bit in enumerate(answered) if bit] == [1, 3]


TABLE = """
k   .5                    1                     2                     4
4   8.67 (1) 1.84 1.92    1.60 (1) 2.45 2.93    .230 (1) 4.00 7.50    .0197 (1) 9.2 55
8   11.8 (3) 1.35 1.42    2.57 (2) 1.53 1.82    .328 (1) 2.81 5.26    .0211 (1) 8.6 51
10  12.6 (4) 1.27 1.33    2.82 (2) 1.39 1.66    .377 (1) 2.44 4.57    .0218 (1) 8.3 49
16  13.6 (6) 1.17 1.22    3.11 (4) 1.26 1.51    .520 (2) 1.77 3.32    .0239 (1) 7.6 45
32  14.6 (12) 1.09 1.14   3.40 (8) 1.15 1.38    .618 (3) 1.49 2.79    .0294 (1) 6.1 37
64  15.2 (24) 1.05 1.10   3.54 (17) 1.11 1.32   .670 (7) 1.37 2.57    .0406 (1) 4.5 27
"""
"""n·Var of the share of an empty bucket, the best size, and how many times as much d-bit-flip and Hadamard have."""


def assert_like(text: str, number: float) -> None:
    decimals = len(text.partition(".")[2])
    assert number == pytest.approx(float(text), abs=0.51 * 10**-decimals)


def test_the_best_size_and_its_variance() -> None:
    heads, *lines = TABLE.strip().splitlines()
    for line in lines:
        count, *cells = line.split()
        for place, head in enumerate(heads.split()[1:]):
            variance, size, bits, hadamard = cells[4 * place : 4 * place + 4]
            epsilon = float(head)
            mechanism = SubsetSelection(epsilon, Buckets(range(int(count) + 1)))
            noise, sampling = mechanism.variances(Flip(0), 0.0)
            assert (f"({mechanism.size})", sampling) == (size, 0)
            assert_like(variance, noise)
            assert_like(bits, (tanh(epsilon / 4) ** -2 - 1) / 4 / noise)
            assert_like(hadamard, tanh(epsilon / 2) ** -2 / noise)


def test_a_size_is_the_best_of_all() -> None:
    """By the shares that P(Z | v) has, in floating point: the size is never worse than any other."""
    for epsilon, count in ((0.5, 21), (1.0, 33), (2.0, 100), (4.0, 256)):

        def variance(size: int, epsilon: float = epsilon, count: int = count) -> float:
            own = size * exp(epsilon) / (size * exp(epsilon) + count - size)
            other = (own * (size - 1) + (1 - own) * size) / (count - 1)
            return other * (1 - other) / (own - other) ** 2

        chosen = best_size(Fraction(epsilon), count)
        assert variance(chosen) == pytest.approx(min(map(variance, range(1, count))), rel=1e-12)


@pytest.mark.parametrize(
    ("count", "epsilon", "gain"), [(32, 0.5, 1.07), (32, 1, 1.07), (32, 2, 1.03), (64, 4, 0.79)]
)
def test_the_gain_over_a_bit_per_bucket_is_less_for_heavy_buckets(
    count: int, epsilon: float, gain: float
) -> None:
    """At a share of .2, where few heavy buckets may even lose."""
    buckets = Buckets(range(count + 1))
    noise = sum(DBitFlip(epsilon, buckets, count).variances(Flip(0), 0.2))
    assert noise / sum(SubsetSelection(epsilon, buckets).variances(Flip(0), 0.2)) == pytest.approx(
        gain, abs=0.006
    )


def test_variances_are_those_of_a_coin() -> None:
    mechanism = SubsetSelection(1, Buckets(range(11)), 2)
    seen = mechanism.channel(Flip(0))
    low, high = float(seen.low), float(seen.high)
    noise, sampling = mechanism.variances(Flip(0), 0.2)
    share = low + 0.2 * (high - low)
    assert noise + sampling == pytest.approx(share * (1 - share) / (high - low) ** 2)
    assert sampling == pytest.approx(0.16)


def test_what_cannot_be_is_refused() -> None:
    buckets = Buckets(range(11))
    for size in (0, 10, 11, -1):
        with pytest.raises(ParameterError, match="from 1 to 9"):
            SubsetSelection(1, buckets, size)
    with pytest.raises(ParameterError, match="epsilon"):
        SubsetSelection("9e-13", buckets)
    with pytest.raises(ParameterError, match="at most 256"):
        SubsetSelection(1, Buckets(range(258)))
    mechanism = SubsetSelection(1, buckets)
    for refused in (
        lambda: mechanism.thresholds(0),
        lambda: mechanism.channel(Flip(0.2)),
        lambda: loss_per_round(mechanism, Flip(0.2)),
        lambda: Plan("p", 1, 3600, 3600, (Metric("m", mechanism),)),
    ):
        with pytest.raises(ParameterError):
            refused()


def test_its_losses() -> None:
    """A window loses epsilon; remembered, every bucket of a pattern would lose as much."""
    mechanism = SubsetSelection(Fraction(1, 2), Buckets(range(11)))
    assert loss_per_round(mechanism, Flip(0)) == 0.5
    assert losses(mechanism, Flip(0)).lifetime == 5.0


SAMPLED = """
[plan]
name = "p"
version = 1
round = "6h"
[answers]
kind = "sampled"
window = "7d"
[metrics.m]
kind = "histogram"
max_value = 10
buckets = 10
epsilon = 1
"""
REMEMBERED = SAMPLED.replace('kind = "sampled"\nwindow = "7d"\n', "")


def test_a_plan_may_leave_the_mechanism_out() -> None:
    [metric] = Plan.from_toml(SAMPLED).metrics
    assert metric.mechanism == SubsetSelection(1, Buckets.even(10, 10), 2)
    named = Plan.from_toml(SAMPLED + 'mechanism = "subset"\nsize = 2\n').metrics[0]
    assert named.digest == metric.digest
    assert Plan.from_toml(SAMPLED + 'mechanism = "subset"\nsize = 3\n').metrics[0].digest != metric.digest
    assert Plan.from_toml(REMEMBERED).metrics[0].mechanism.name == "hadamard-bit"
    many = REMEMBERED.replace("buckets = 10", "buckets = 256")
    assert Plan.from_toml(many).metrics[0].mechanism.name == "d-bit-flip"


@pytest.mark.parametrize(
    ("text", "where", "rule"),
    [
        (REMEMBERED + 'mechanism = "subset"', "metrics.m.mechanism", "conflict"),
        (REMEMBERED + 'mechanism = "subset"\nsize = 2', "metrics.m.mechanism", "conflict"),
        (SAMPLED + "flip = 0.1", "metrics.m.flip", "conflict"),
        (SAMPLED + "bits = 2", "metrics.m.bits", "conflict"),
        (REMEMBERED + "size = 2", "metrics.m.size", "conflict"),
        (SAMPLED + "size = 10", "metrics.m.size", "parameter"),
        (SAMPLED + "size = 0", "metrics.m.size", "range"),
        (SAMPLED + 'size = "2"', "metrics.m.size", "range"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(text: str, where: str, rule: str) -> None:
    with pytest.raises(PlanError) as raised:
        Plan.from_toml(text)
    assert [(problem.where, problem.rule) for problem in raised.value.problems] == [(where, rule)]
