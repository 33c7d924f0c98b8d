"""What holds for every goal: the limit, the direction of each change, and each way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent_lab.design import MOST_EPSILON, Choice, Goal, choose, ways_out

few = settings(max_examples=12, deadline=None, derandomize=True)


@st.composite
def goals(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Goal:
    """Goals of all kinds: most of them just out of reach or just within it, some far off."""
    buckets = draw(st.sampled_from([None, None, 2, 3, 8, 12]))
    privacy = draw(st.sampled_from(["epsilon", "lifetime"]))
    change = draw(st.sampled_from(["flip", "change_time"]))
    hidden = st.integers(1, 400) if change == "flip" else st.integers(200, 9000)
    limit = draw(st.sampled_from([2, 77, 512, 1000, 1234, 4000, 8000]))
    goal = Goal(
        max_value=draw(st.sampled_from(["1", "24", "86400", "0.7"])),
        devices=draw(st.integers(1, 999)) * 10 ** draw(st.integers(2, 6)),
        buckets=buckets,
        segments=draw(st.sampled_from([1, 1, 3])),
        **{privacy: Fraction(limit, 1000), change: Fraction(draw(hidden), 1000)},
    )
    nearest = Fraction(choose(goal).chosen.half_width)
    percent = draw(st.sampled_from([30, 80, 90, 95, 99, 101, 110, 150]))
    return replace(goal, half_width=min(nearest * percent / 100, goal.top * Fraction(49, 100)))


def exact_lifetime(found: Choice) -> Fraction:
    """2ε for a bit, d·ε for d of them, as a rational."""
    return max(found.chosen.metric.bits, 2) * found.chosen.epsilon


@few
@given(goals())
def test_the_limits_are_never_exceeded(goal: Goal) -> None:
    found = choose(goal)
    if goal.lifetime is not None:
        assert exact_lifetime(found) <= goal.lifetime
    if goal.epsilon is not None:
        assert found.chosen.epsilon <= goal.epsilon
        assert exact_lifetime(found) <= 2 * goal.epsilon
    if goal.change_time is not None:
        with mpmath.workdps(40):
            flip = mpmath.mpf(found.chosen.flip.numerator) / found.chosen.flip.denominator
            loss = found.chosen.metric.bits * mpmath.log((1 - flip) / flip)
            assert loss <= mpmath.mpf(goal.change_time.numerator) / goal.change_time.denominator
    assert found.chosen.losses.lifetime == float(exact_lifetime(found)) or (
        0 < found.chosen.losses.lifetime - exact_lifetime(found) < 1e-12
    )


@few
@given(goals())
def test_met_means_met(goal: Goal) -> None:
    found = choose(goal)
    assert found.met == (Fraction(found.chosen.half_width) <= goal.half_width)


@few
@given(goals(), st.integers(1, 1000))
def test_more_devices_never_cost_more(goal: Goal, percent: int) -> None:
    less, more = choose(goal), choose(replace(goal, devices=goal.devices * (100 + percent) // 100))
    assert more.met or not less.met
    if less.met:
        assert more.chosen.losses.lifetime <= less.chosen.losses.lifetime


@few
@given(goals(), st.integers(1, 99))
def test_a_stricter_limit_never_narrows_the_interval(goal: Goal, percent: int) -> None:
    part = "lifetime" if goal.epsilon is None else "epsilon"
    least = Fraction(2, 1000) if part == "lifetime" else Fraction(1, 1000)
    limit = max(getattr(goal, part) * percent / 100, least)
    strict, loose = choose(replace(goal, **{part: limit})), choose(goal)
    assert strict.chosen.half_width >= loose.chosen.half_width
    assert loose.met or not strict.met


@few
@given(goals())
def test_each_way_out_is_one_and_nothing_less_is(goal: Goal) -> None:
    found = choose(goal)
    assert (ways_out(found) == ()) == found.met
    for way in ways_out(found):
        if way.instead is None:
            assert not choose(replace(goal, **{way.part: furthest(goal, way.part)})).met
            continue
        assert choose(replace(goal, **{way.part: way.instead})).met, way
        almost = just_above(way.instead) if way.part == "flip" else just_below(way.instead)
        if way.part != "half_width":
            almost = Fraction(almost) if way.part != "devices" else int(almost)
            assert not choose(replace(goal, **{way.part: almost})).met, way
        elif almost < found.chosen.half_width:
            assert not choose(replace(goal, half_width=almost)).met, way


def furthest(goal: Goal, part: str) -> Fraction | int:
    """As far as a goal can go, to see that it would not do either."""
    return {
        "devices": 10**12,
        "epsilon": MOST_EPSILON,
        "lifetime": Fraction(10_000),
        "half_width": goal.top * Fraction(499, 1000),
        "flip": Fraction(0),
        "change_time": Fraction(20),
    }[part]


def just_below(number: Fraction | int) -> Fraction:
    """The number of three digits before one of three digits; the whole number, where there are fewer."""
    if isinstance(number, int) and number <= 1000:
        return Fraction(number - 1)
    unit = unit_of(Fraction(number))
    return number - (unit if number > 100 * unit else unit / 10)


def just_above(number: Fraction) -> Fraction:
    """The number of three digits after one of three digits; the least flip there is, after zero."""
    return number + unit_of(number) if number else Fraction(1, 10**9)


def unit_of(number: Fraction) -> Fraction:
    """What the third digit counts."""
    unit = Fraction(1, 10**15)
    while number >= 1000 * unit:
        unit *= 10
    return unit


def test_the_steps_between_numbers_of_three_digits() -> None:
    assert just_below(Fraction("1.01")) == 1
    assert just_below(Fraction(1)) == Fraction("0.999")
    assert just_below(102_000) == 101_000
    assert just_below(100_000) == 99_900
    assert just_below(57) == 56
    assert just_above(Fraction("0.197")) == Fraction("0.198")
