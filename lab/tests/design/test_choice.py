"""What is chosen, against half-widths and losses computed without reticent's estimates and privacy."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from math import atanh, log, sqrt

import pytest

from reticent_lab.design import Candidate, Goal, choose

RUNGS = [
    Fraction(digits, 10 ** (2 - decade)) for decade in (-3, -2, -1, 0) for digits in range(100, 1000)
] + [Fraction(digits, 10) for digits in range(100, 201)]
"""0.001 to 20 in three digits."""


@pytest.mark.parametrize("devices", [100_000, 1_000_000])
@pytest.mark.parametrize("flip", ["0", "0.2"])
@pytest.mark.parametrize("half_width", [120, 240, 1000])
def test_the_mean_agrees_with_the_normal_approximation(devices: int, flip: str, half_width: int) -> None:
    """H = z m coth(ε/2) / (2 (1-2γ) √n), solved for ε, to the next number of three digits."""
    contrast = 1.959964 * 21_600 / (2 * sqrt(devices) * half_width * (1 - 2 * float(flip)))
    found = choose(Goal(max_value=21_600, devices=devices, half_width=half_width, flip=flip, epsilon=20))
    assert found.met == (contrast < 1)
    if found.met:
        assert float(found.chosen.epsilon) == pytest.approx(2 * atanh(contrast), rel=0.012)
        assert found.chosen.losses.lifetime == pytest.approx(2 * float(found.chosen.epsilon), rel=1e-12)


@pytest.mark.parametrize(
    ("devices", "half_width", "flip"), [(1000, 4, 0.1), (10**5, "0.3", 0.2), (50, 11, 0)]
)
def test_the_mean_has_the_very_first_epsilon_that_will_do(by_hand, devices, half_width, flip) -> None:
    found = choose(Goal(max_value=24, devices=devices, half_width=half_width, flip=flip, epsilon=20))
    expected = next(e for e in RUNGS if by_hand.mean(24, devices, float(e), flip) <= Fraction(half_width))
    assert found.met
    assert found.chosen.epsilon == expected
    assert found.chosen.half_width == pytest.approx(
        by_hand.mean(24, devices, float(expected), flip), rel=1e-9
    )


@pytest.mark.parametrize("buckets", [2, 4, 8, 32])
@pytest.mark.parametrize("half_width", [0.01, 0.03, 0.1])
def test_the_histogram_is_the_one_that_loses_least_for_life(by_hand, buckets: int, half_width: float) -> None:
    """By brute force over mechanisms and epsilons: Hadamard and one bit lose 2ε, d ≥ 2 bits lose d·ε."""
    devices, flip = 400_000, 0.1
    ways = {("hadamard-bit", 1): (2, lambda e: by_hand.hadamard(buckets, devices, e, flip))}
    for bits in [2**power for power in range(6) if 2**power <= buckets]:
        ways["d-bit-flip", bits] = (
            max(bits, 2),
            lambda e, d=bits: by_hand.d_bit(buckets, d, devices, e, flip),
        )
    losses = {}
    for way, (factor, width) in ways.items():
        place = bisect_left(RUNGS, True, key=lambda e, width=width: width(float(e)) <= half_width)
        if place < len(RUNGS):
            losses[way] = factor * RUNGS[place]
    best = min(losses.values())
    found = choose(
        Goal(max_value=24, devices=devices, half_width=half_width, flip=flip, buckets=buckets, lifetime=1000)
    )
    chosen = found.chosen.candidate
    assert found.met
    assert found.chosen.losses.lifetime == pytest.approx(float(best), rel=1e-12)
    assert losses[chosen.mechanism, chosen.bits] == best


def test_one_hadamard_bit_for_many_buckets_and_none_for_two() -> None:
    """n·Var at worst: c² for Hadamard, k c²/4 for one bit of dBitFlip."""
    many = choose(Goal(max_value=24, devices=10**6, half_width="0.02", buckets=32))
    two = choose(Goal(max_value=24, devices=10**6, half_width="0.02", buckets=2))
    assert many.chosen.candidate == Candidate("hadamard-bit")
    assert two.chosen.candidate.mechanism == "d-bit-flip"


def test_the_table_of_equal_longitudinal_budgets() -> None:
    """MATHS.md 9: k = 32, light buckets; at E = 2 and 8 one Hadamard bit is best, at 16 it is 2BitFlipPM."""
    best = {
        lifetime: choose(
            Goal(max_value=24, devices=10**6, lifetime=lifetime, flip=0, buckets=32, expected="1/32")
        ).chosen.candidate
        for lifetime in (2, 8, 16)
    }
    assert best == {
        2: Candidate("hadamard-bit"),
        8: Candidate("hadamard-bit"),
        16: Candidate("d-bit-flip", bits=2),
    }


def test_an_even_limit_is_used_to_the_full() -> None:
    """0.3 is not a float, and 2 · 0.3 rounded up is above 0.6 as a float: the limit must not lose by that."""
    assert choose(Goal(max_value=24, devices=1000, epsilon="0.3")).chosen.epsilon == Fraction(3, 10)
    assert choose(Goal(max_value=24, devices=1000, lifetime="0.6")).chosen.epsilon == Fraction(3, 10)
    assert choose(Goal(max_value=24, devices=1000, epsilon="0.29999")).chosen.epsilon == Fraction("0.299")


@pytest.mark.parametrize(
    ("limit", "flip", "fewer"),
    [
        ("1.387", "0.2", "0.199"),
        ("1.386", "0.201", "0.2"),
        ("0.848", "0.3", "0.299"),
        ("7", "0.000912", "0.000911"),
    ],
)
def test_the_least_flip_that_hides_a_change(limit: str, flip: str, fewer: str) -> None:
    found = choose(Goal(max_value=24, devices=1000, epsilon=1, change_time=limit)).chosen
    assert found.flip == Fraction(flip)
    odds = [log((1 - float(gamma)) / float(gamma)) for gamma in (flip, fewer)]
    assert odds[0] <= float(limit) < odds[1]


def test_many_bits_need_more_flips_for_the_same_limit() -> None:
    """d answer bits lose d·Λ per round: γ = 1/(1 + e^(X/d)), in three digits."""
    goal = Goal(max_value=24, devices=1000, epsilon=1, change_time=2, buckets=8)
    flips = [Candidate("d-bit-flip", bits).flip(goal) for bits in (1, 2, 4)]
    assert [float(flip) for flip in flips] == [0.120, 0.269, 0.378]


def test_an_expected_mean_is_taken_at_its_word() -> None:
    """m² c² P(1-P)/n: near the ends of the range less ε will do than at the worst mean."""
    goals = [
        Goal(max_value=24, devices=10**6, half_width="0.04", flip=0, epsilon=20, expected=at)
        for at in (0, 6, 12, None)
    ]
    found = [choose(goal).chosen for goal in goals]
    assert found[0].epsilon < found[1].epsilon < found[2].epsilon == found[3].epsilon
    low = 1 / (2.718281828459045 ** float(found[0].epsilon) + 1)
    normal = 1.959964 * 24 * sqrt(low * (1 - low)) / (1 - 2 * low) / 1000
    assert found[0].half_width == pytest.approx(normal, rel=2e-3)
    assert found[0].worst_half_width > found[0].half_width


def test_without_a_goal_for_precision_the_narrowest_within_the_limit(by_hand) -> None:
    found = choose(Goal(max_value=24, devices=10_000, lifetime=1, flip="0.1"))
    assert found.met
    assert found.chosen.epsilon == Fraction(1, 2)
    assert found.chosen.half_width == pytest.approx(by_hand.mean(24, 10_000, 0.5, 0.1), rel=1e-9)


def test_segments_are_fleets_of_their_own() -> None:
    parts = choose(Goal(max_value=24, devices=90_000, half_width="0.5", segments=3))
    alone = choose(Goal(max_value=24, devices=30_000, half_width="0.5"))
    assert parts.chosen.metric == alone.chosen.metric
    assert parts.chosen.half_width == alone.chosen.half_width
