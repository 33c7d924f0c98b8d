"""The bound is valid at its declared rate, is the best pair's likelihood, and the power is what is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from reticent.plan import Plan
from reticent_lab.audit.attacks import AnswerBit, Attack, Event, attacks_on
from reticent_lab.audit.bounds import (
    Fault,
    HistoryComparison,
    at_least,
    expected_lower,
    judge,
    noticed_faults,
    ratio_bounds,
)
from reticent_lab.audit.enumeration import enumerate_plan
from reticent_lab.audit.exact import Enumerated
from reticent_lab.audit.scenarios import histories

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
    lower = float(ratio_bounds(hits, devices, other, others, together, alarm)[1])

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
    counts = np.arange(devices + 1)
    weights = np.outer(
        binom.pmf(counts, devices, chance), binom.pmf(counts, devices, chance / math.exp(odds))
    )
    estimate, lower, _ = ratio_bounds(
        *np.meshgrid(counts, [devices], indexing="ij"), counts, devices, 1, alarm
    )
    assert 0 < (weights * (lower > odds)).sum() <= alarm
    assert (weights * (estimate > odds)).sum() > 3 * alarm  # the estimate itself would not do


def test_no_devices_no_bound() -> None:
    assert ratio_bounds(0, 0, 5, 10, 1)[1] == 0.0
    assert ratio_bounds(0, 10, 0, 10, 1)[1] == 0.0


def test_a_lower_bound_is_never_printed_above_itself() -> None:
    assert [at_least(lower) for lower in (0.99999, 1.0, 0.0, 1e-9)] == [
        "0.9999",
        "1.0000",
        "0.0000",
        "0.0000",
    ]


def test_every_comparison_counts_towards_the_bound() -> None:
    """Bonferroni: the more is looked at, the less each proves; of one name the strongest is kept."""
    one = HistoryComparison("m", "w", 0.5, None, 700, 1000, 300, 1000)
    weaker = HistoryComparison("m", "w", 0.5, None, 600, 1000, 300, 1000)
    [alone], [among] = judge([one]), judge([weaker, one, weaker])
    assert alone.lower == ratio_bounds(700, 1000, 300, 1000, 1)[1]
    assert among.lower == ratio_bounds(700, 1000, 300, 1000, 3)[1] < alone.lower
    assert alone.above is (alone.lower > 0.5)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5])
def test_a_fault_is_noticed_in_the_share_of_devices_that_is_said(share: float) -> None:
    """4,000 runs of devices of which so many have the fault: 0.98 of them notice, and fewer with half the share."""
    devices, runs, coins = 4_000, 4_000, np.random.default_rng(3)
    seen = HistoryComparison("m", "w", 0.0, None, int(share * devices), devices, int(share * devices), devices,
                      fault=Fault("breaks"))  # fmt: skip
    events = [seen] * EVENTS
    noticed = noticed_faults(events)["breaks"]
    assert noticed is not None

    def rate(part: float) -> float:
        hits = coins.binomial(devices, (1 - part) * share + part, runs)
        other_hits = coins.binomial(devices, (1 - part) * share, runs)
        return float((ratio_bounds(hits, devices, other_hits, devices, EVENTS)[1] > 0).mean())

    assert rate(noticed) > 0.97
    assert rate(noticed / 2) < 0.5
    few = HistoryComparison("m", "w", 0.0, None, 5, 10, 5, 10, fault=Fault("breaks"))
    assert noticed_faults([few] * EVENTS) == {"breaks": None}


def an_event(plan: Plan, devices: int, rounds: int) -> Event:
    attacks = attacks_on(plan, histories(plan, 10), enumerate_plan(plan, 10))
    what = f"constant, {rounds} rounds"
    return Event(next(attack for attack in attacks if attack.loss.what == what), devices, devices)


def excess_of(event: Event) -> float | None:
    """The smallest excess of ε that is noticed, among so many events."""
    seen = HistoryComparison("m", "w", 1.0, None, 1, 2, 1, 2, event.notices)
    return judge([seen] * EVENTS)[0].notice


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
    hits = np.arange(int(middle - spread), int(middle + spread), step)
    below, above = (
        np.zeros_like(hits),
        np.full_like(hits, devices),
    )  # the largest other count that still flags
    while (above - below > 1).any():
        other = (below + above) // 2
        flags = ratio_bounds(hits, devices, other, devices, EVENTS)[1] > attack.loss.claim
        below, above = np.where(flags, other, below), np.where(flags, above, other)
    weights = binom.cdf(hits + step - 1, devices, first) - binom.cdf(hits - 1, devices, first)
    return float((weights * binom.cdf(below, devices, second)).sum())


def test_by_default_seven_percent_too_much_are_noticed(plans: dict[str, Plan]) -> None:
    """ε = 1.07 under a claim of 1.0, with flips: each direction of the attack finds it out, nearly always."""
    plan = plans["mean"]
    devices = int(1_200_000 / sum(world.weight * world.rounds for world in histories(plan, 10).worlds))
    event = an_event(plan, devices, 2)
    excess = excess_of(event)
    assert excess is not None
    assert excess < 0.07
    assert chance_of_flag(event, 1 + excess) == pytest.approx(0.98, abs=0.01)
    assert chance_of_flag(event, 1.0) < 1e-6


def test_fewer_devices_notice_less(plans: dict[str, Plan]) -> None:
    excesses = [excess_of(an_event(plans["mean"], devices, 2)) for devices in (2_000, 20_000, 200_000)]
    assert excesses == sorted(excesses, reverse=True)
    assert excess_of(an_event(plans["mean"], 20, 2)) is None


def test_no_other_threshold_promises_more() -> None:
    """For a constant device the likelihood ratio rises with the ones: the best event is "so many or more"."""
    devices, memo = 50_000, 0.7310585786
    mark = AnswerBit("m", 0, 1, 0.2, memo, 1 - memo)
    [accepted] = Event(
        Attack(Enumerated("m", "w", 1.0, 1.0, False, ""), 0, 1, 10, (mark,)), devices, devices
    ).accepted
    promised = []
    for ones in range(1, 11):
        here, there = (binom.sf(ones - 1, 10, rate) for rate in (0.8, 0.2))
        first, second = memo * here + (1 - memo) * there, (1 - memo) * here + memo * there
        promised.append(float(expected_lower(first, devices, second, devices)))
    least = 1 + int(np.argmax(promised))
    assert 5 < least <= 8
    assert np.flatnonzero(accepted).tolist() == list(range(least, 11))
