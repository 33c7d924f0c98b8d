"""The bound is valid at its declared rate, Clopper-Pearson is scipy's, and the power is what is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from reticent.lab.audit.attacks import (
    Attack,
    Event,
    Mark,
    attacks_on,
    expected_lower,
    ratio_bound,
    smallest_excess,
)
from reticent.lab.audit.blind import count_events
from reticent.lab.audit.enumeration import constant_over, enumerate_plan
from reticent.lab.audit.run import REPORTS, ROUNDS
from reticent.lab.audit.scenarios import histories
from reticent.plan import Plan


@pytest.mark.parametrize(("hits", "other"), [(70, 30), (0, 100), (100, 0), (55, 55)])
def test_the_ends_are_those_of_scipy(hits: int, other: int) -> None:
    together, alarm = 7, 1e-3
    level = 1 - alarm / together
    first = binomtest(hits, 100).proportion_ci(level, method="exact")
    second = binomtest(other, 100).proportion_ci(level, method="exact")
    found = ratio_bound(hits, 100, other, 100, together, alarm)
    expected = math.log(first.low / second.high) if first.low else -math.inf
    assert found.lower == pytest.approx(max(0.0, expected), rel=1e-9)
    assert found.upper == pytest.approx(
        math.log(first.high / second.low) if second.low else math.inf, rel=1e-9
    )


@pytest.mark.parametrize(("chance", "odds"), [(0.6386, 0.5694), (0.3, 1.0), (0.02, 0.5)])
def test_the_bound_is_wrong_as_seldom_as_declared(chance: float, odds: float) -> None:
    """
    Exactly: the chance, over all pairs of counts, that the bound is above the true loss.

    It must be at most the declared rate, and the test must be able to tell.
    """
    devices, alarm = 60, 0.05
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


def an_event(plan: Plan, devices: int, rounds: int = ROUNDS) -> Event:
    told = histories(plan, rounds)
    attacks = attacks_on(plan, told, rounds, enumerate_plan(plan, rounds))
    together = len(attacks) + count_events(len(told.worlds)) + 10
    attack = next(each for each in attacks if each.what == constant_over(rounds))
    return Event(attack, devices, devices, together)


def chance_of_flag(event: Event, epsilon: float, gamma: float = 0.2) -> float:
    """The exact chance that one direction of the attack flags a mean of this ε, from binomials alone."""
    attack, (devices, _, together) = event.attack, event.sizes
    share = 1 / (1 + math.exp(-epsilon))
    [accepted] = event.accepted
    totals = [
        sum(
            binom.pmf(a, attack.parts[0], rate) * binom.pmf(b, attack.parts[1], rate)
            for a, b in zip(*np.nonzero(accepted), strict=True)
        )
        for rate in (1 - gamma, gamma)
    ]
    first = share * totals[0] + (1 - share) * totals[1]
    second = (1 - share) * totals[0] + share * totals[1]
    grid = np.arange(0, devices + 1, max(1, devices // 4000))
    flagged = 0.0
    for hits in grid[(binom.cdf(grid, devices, first) > 1e-9) & (binom.sf(grid, devices, first) > 1e-9)]:
        below, above = 0, devices  # the largest other count that still flags
        while above - below > 1:
            middle = (below + above) // 2
            high = ratio_bound(int(hits), devices, middle, devices, together).lower
            below, above = (middle, above) if high > attack.claim else (below, middle)
        step = binom.cdf(hits + grid[1] - 1, devices, first) - binom.cdf(hits - 1, devices, first)
        flagged += step * binom.cdf(below, devices, second)
    return flagged


def test_by_default_a_tenth_too_much_is_noticed(plans: dict[str, Plan]) -> None:
    """ε = 1.1 under a claim of 1.0, with flips: each direction of the attack finds it out, nearly always."""
    plan = plans["mean"]
    worlds = histories(plan, ROUNDS).worlds
    devices = int(REPORTS / ROUNDS / sum(world.weight for world in worlds))
    event = an_event(plan, devices)
    assert chance_of_flag(event, 1.1) > 0.98
    assert chance_of_flag(event, 1.0) < 1e-6
    assert event.notices(0.1)
    excess = smallest_excess(event)
    assert excess is not None
    assert chance_of_flag(event, 1 + excess) == pytest.approx(0.985, abs=0.015)


def test_fewer_devices_notice_less(plans: dict[str, Plan]) -> None:
    found = [smallest_excess(an_event(plans["mean"], devices)) for devices in (5_000, 50_000, 500_000)]
    assert found == sorted(found, reverse=True)
    assert smallest_excess(an_event(plans["mean"], 20)) is None


def test_the_event_is_a_threshold_on_the_number_of_ones(plans: dict[str, Plan]) -> None:
    """For a constant device the likelihood ratio rises with the ones: the best event is "so many or more"."""
    [accepted] = an_event(plans["mean"], 50_000).accepted
    total = np.add.outer(*(np.arange(size) for size in accepted.shape))
    assert total[accepted].min() == total[~accepted].max() + 1
    assert 5 < total[accepted].min() <= 8


def test_no_other_threshold_promises_more(plans: dict[str, Plan]) -> None:
    devices, together = 50_000, 30
    mark = Mark("m", 0, 1, 0.2, (0.7310585786, None), (0.2689414214, None))
    event = Event(Attack("m", "w", 1.0, 1.0, 0, 1, (5, 5), (mark,)), devices, devices, together)
    [accepted] = event.accepted
    least = int(np.add.outer(np.arange(6), np.arange(6))[accepted].min())
    promised = []
    for ones in range(1, 11):
        here, there = (binom.sf(ones - 1, 10, rate) for rate in (0.8, 0.2))
        first, second = 0.7310585786 * here + 0.2689414214 * there, 0.2689414214 * here + 0.7310585786 * there
        promised.append(float(expected_lower(first, devices, second, devices, together)))
    assert 1 + int(np.argmax(promised)) == least
