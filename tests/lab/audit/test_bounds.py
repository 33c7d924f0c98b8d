"""The bound is valid at its declared rate, is the best pair's likelihood, and the power is what is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from reticent.lab.audit.attacks import Attack, Event, Mark, attacks_on
from reticent.lab.audit.bounds import Comparison, expected_lower, judge, ratio_bound, smallest_excess
from reticent.lab.audit.enumeration import constant_over, enumerate_plan
from reticent.lab.audit.run import REPORTS, ROUNDS
from reticent.lab.audit.scenarios import histories
from reticent.plan import Plan

EVENTS = 100
"""More than the audit of one mean has."""


def divergence(share: float, chance: float) -> float:
    """KL(share ‖ chance) of two coins."""
    parts = ((share, chance), (1 - share, 1 - chance))
    return sum(a * math.log(a / b) if a else 0.0 for a, b in parts if a or b)


@pytest.mark.parametrize(("hits", "other"), [(170, 30), (300, 10), (300, 0), (155, 55), (299, 150)])
def test_the_bound_is_where_the_best_pair_is_just_refuted(hits: int, other: int) -> None:
    """By a search over P, without the quadratic equation that the bound solves."""
    devices, others, together, alarm = 300, 200, 7, 1e-3
    lower = ratio_bound(hits, devices, other, others, together, alarm).lower

    def refutation(chance: float) -> float:
        return devices * divergence(hits / devices, chance) + others * divergence(
            other / others, chance * math.exp(-lower)
        )

    least = minimize_scalar(refutation, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12})
    assert lower > 0
    assert (1 + least.fun) * math.exp(-least.fun) == pytest.approx(alarm / (2 * together), rel=1e-3)


@pytest.mark.parametrize(("chance", "odds"), [(0.6386, 0.5694), (0.3, 1.0), (0.02, 0.5)])
def test_the_bound_is_wrong_as_seldom_as_declared(chance: float, odds: float) -> None:
    """
    Exactly: the chance, over all pairs of counts, that the bound is above the true loss.

    It must be at most the declared rate, and the test must be able to tell.
    """
    devices, alarm = 30, 0.05
    other = chance / math.exp(odds)
    counts = np.arange(devices + 1)
    weights = np.outer(binom.pmf(counts, devices, chance), binom.pmf(counts, devices, other))
    bounds = [[ratio_bound(int(a), devices, int(b), devices, 1, alarm) for b in counts] for a in counts]
    rate = float((weights * np.array([[each.lower > odds for each in row] for row in bounds])).sum())
    naive = float((weights * np.array([[each.estimate > odds for each in row] for row in bounds])).sum())
    assert 0 < rate <= alarm
    assert naive > 3 * alarm  # the estimate itself would not do


def test_no_devices_no_bound() -> None:
    assert ratio_bound(0, 0, 5, 10, 1).lower == 0.0
    assert ratio_bound(0, 10, 0, 10, 1).lower == 0.0


def test_every_comparison_counts_towards_the_bound() -> None:
    """Bonferroni: the more is looked at, the less each proves; of one name the strongest is kept."""
    one = Comparison("m", "w", 0.5, None, 700, 1000, 300, 1000)
    weaker = Comparison("m", "w", 0.5, None, 600, 1000, 300, 1000)
    [alone], [among] = judge([one]), judge([weaker, one, weaker])
    assert alone.lower == ratio_bound(700, 1000, 300, 1000, 1).lower
    assert among.lower == ratio_bound(700, 1000, 300, 1000, 3).lower < alone.lower
    assert alone.above is (alone.lower > 0.5)


def an_event(plan: Plan, devices: int, rounds: int) -> Event:
    attacks = attacks_on(plan, histories(plan, ROUNDS), enumerate_plan(plan, ROUNDS))
    return Event(next(attack for attack in attacks if attack.what == constant_over(rounds)), devices, devices)


def chance_of_flag(event: Event, epsilon: float, gamma: float = 0.2) -> float:
    """The exact chance that one direction of the attack flags a mean of this ε, from binomials alone."""
    attack, devices = event.attack, event.devices
    share = 1 / (1 + math.exp(-epsilon))
    [accepted] = event.accepted
    kept, turned = (
        sum(binom.pmf(count, attack.rounds, rate) for count in np.flatnonzero(accepted))
        for rate in (1 - gamma, gamma)
    )
    first, second = share * kept + (1 - share) * turned, (1 - share) * kept + share * turned
    step = max(1, devices // 1000)
    middle, spread = devices * first, 6.5 * math.sqrt(devices * first * (1 - first))
    flagged = 0.0
    for hits in range(int(middle - spread), int(middle + spread), step):
        below, above = 0, devices  # the largest other count that still flags
        while above - below > 1:
            other = (below + above) // 2
            lower = ratio_bound(hits, devices, other, devices, EVENTS).lower
            below, above = (other, above) if lower > attack.claim else (below, other)
        weight = binom.cdf(hits + step - 1, devices, first) - binom.cdf(hits - 1, devices, first)
        flagged += weight * binom.cdf(below, devices, second)
    return flagged


def test_by_default_seven_percent_too_much_are_noticed(plans: dict[str, Plan]) -> None:
    """ε = 1.07 under a claim of 1.0, with flips: each direction of the attack finds it out, nearly always."""
    plan = plans["mean"]
    worlds = histories(plan, ROUNDS).worlds
    devices = int(REPORTS / sum(world.weight * world.rounds for world in worlds))
    event = an_event(plan, devices, 2)
    excess = smallest_excess(event.notices, EVENTS)
    assert excess is not None
    assert excess < 0.07
    assert chance_of_flag(event, 1 + excess) == pytest.approx(0.98, abs=0.01)
    assert chance_of_flag(event, 1.0) < 1e-6


def test_fewer_devices_notice_less(plans: dict[str, Plan]) -> None:
    found = [
        smallest_excess(an_event(plans["mean"], devices, 2).notices, EVENTS)
        for devices in (2_000, 20_000, 200_000)
    ]
    assert found == sorted(found, reverse=True)
    assert smallest_excess(an_event(plans["mean"], 20, 2).notices, EVENTS) is None


def test_the_event_is_a_threshold_on_the_number_of_ones(plans: dict[str, Plan]) -> None:
    """For a constant device the likelihood ratio rises with the ones: the best event is "so many or more"."""
    [accepted] = an_event(plans["mean"], 50_000, 10).accepted
    counts = np.arange(len(accepted))
    assert counts[accepted].min() == counts[~accepted].max() + 1
    assert 5 < counts[accepted].min() <= 8


def test_no_other_threshold_promises_more() -> None:
    devices, memo = 50_000, 0.7310585786
    mark = Mark("m", 0, 1, 0.2, memo, 1 - memo)
    event = Event(Attack("m", "w", 1.0, 1.0, 0, 1, 10, (mark,)), devices, devices)
    [accepted] = event.accepted
    promised = []
    for ones in range(1, 11):
        here, there = (binom.sf(ones - 1, 10, rate) for rate in (0.8, 0.2))
        first, second = memo * here + (1 - memo) * there, (1 - memo) * here + memo * there
        promised.append(float(expected_lower(first, devices, second, devices)))
    assert 1 + int(np.argmax(promised)) == int(np.flatnonzero(accepted).min())
