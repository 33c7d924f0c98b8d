"""What to give up, against half-widths computed by hand; that each will do is in test_properties.py."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from reticent_lab.design import Goal, choose, ways_out

MEAN = Goal(max_value=24, devices=10_000, half_width="0.7", epsilon=1, flip="0.3")
SHARES = Goal(max_value=24, devices=64_000, half_width="0.1", lifetime=2, flip="0.4", buckets=8)


def instead(goal: Goal) -> dict[str, Fraction | int | None]:
    return {way.part: way.instead for way in ways_out(choose(goal))}


def test_a_goal_that_is_met_has_nothing_to_give_up() -> None:
    assert ways_out(choose(replace(MEAN, half_width=Fraction(6)))) == ()
    assert ways_out(choose(replace(MEAN, half_width=None))) == ()


def test_of_a_mean(by_hand) -> None:
    """Each is the first of three digits that will do: a hundred devices, 0.01 or 0.001 less would not."""
    found = instead(MEAN)
    assert list(found) == ["devices", "epsilon", "half_width", "flip"]
    devices, epsilon, flip = int(found["devices"]), float(found["epsilon"]), float(found["flip"])
    assert by_hand.mean(24, devices, 1, 0.3) <= 0.7 < by_hand.mean(24, devices - 100, 1, 0.3)
    assert by_hand.mean(24, 10_000, epsilon, 0.3) <= 0.7 < by_hand.mean(24, 10_000, epsilon - 0.01, 0.3)
    assert by_hand.mean(24, 10_000, 1, flip) <= 0.7 < by_hand.mean(24, 10_000, 1, flip + 0.001)
    assert found["half_width"] == Fraction("1.28")
    assert 1.27 < by_hand.mean(24, 10_000, 1, 0.3) <= 1.28


def test_what_no_plan_can_have_is_said(by_hand) -> None:
    found = instead(replace(MEAN, half_width=Fraction(1, 2)))
    assert found["epsilon"] is None
    assert by_hand.mean(24, 10_000, 20, 0.3) > 0.5
    assert found["flip"] is None
    assert by_hand.mean(24, 10_000, 1, 0) > 0.5


def test_the_flip_is_the_largest_of_any_mechanism(by_hand) -> None:
    """Both mechanisms would do with fewer flips; the Hadamard bit with more of them left."""
    found = instead(SHARES)
    flip = float(found["flip"])
    assert by_hand.hadamard(8, 64_000, 1, flip) <= 0.1 < by_hand.hadamard(8, 64_000, 1, flip + 0.001)
    assert by_hand.d_bit(8, 1, 64_000, 1, 0) <= 0.1 < by_hand.d_bit(8, 1, 64_000, 1, flip)


def test_nothing_to_give_up_where_there_is_nothing() -> None:
    assert "flip" not in instead(replace(MEAN, flip=Fraction(0), half_width=Fraction(1, 10)))


def test_a_change_time_is_given_up_as_such(by_hand) -> None:
    """Λ = ln((1-γ)/γ) of the largest flip that would do, rounded up."""
    found = instead(replace(SHARES, flip=None, change_time=Fraction("0.4")))
    assert list(found)[-1] == "change_time"
    limit = float(found["change_time"])
    largest = max(flip / 1000 for flip in range(1, 499) if by_hand.hadamard(8, 64_000, 1, flip / 1000) <= 0.1)
    assert 1 / (1 + 2.718281828459045**limit) == pytest.approx(largest, abs=0.002)


def test_the_usual_limit_is_named_when_there_is_none(by_hand) -> None:
    goal = replace(MEAN, epsilon=None, half_width=Fraction("0.3"))
    limit = next(way for way in ways_out(choose(goal)) if way.part == "epsilon")
    assert (limit.wanted, limit.instead) == (4, None)
    assert by_hand.mean(24, 10_000, 20, 0.3) > 0.3
