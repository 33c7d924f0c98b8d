"""Matching two rounds: the formula against brute force and against a simulated fleet of real answers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan, Segment
from reticent_collector.plans import lint, plan_tracking, tracking
from reticent_lab.fleet import VectorisedFleet

FIFTH = Fraction(1, 5)


def best_matcher(law, channel, second, devices):
    """
    The chance that the best guess is right, by its definition.

    `law[m]` is that of what a device remembers, `channel[m][x]` of a report given that. The matcher sees a
    report x of one device, and of all devices y_1, …, y_n drawn by `second[m][y]`.
    """
    size = len(channel[0])
    joint = [
        [sum(p * channel[m][x] * second[m][y] for m, p in enumerate(law)) for y in range(len(second[0]))]
        for x in range(size)
    ]
    marginal = [sum(joint[x][y] for x in range(size)) for y in range(len(second[0]))]
    right = Fraction(0)
    for x in range(size):
        for seen in product(range(len(marginal)), repeat=devices):
            right += max(
                joint[x][y] * prod((marginal[z] for z in (*seen[:j], *seen[j + 1 :])), start=Fraction(1))
                for j, y in enumerate(seen)
            )
    return right / devices


def noisy(bits, gamma):
    """P(report | memory) of so many bits, each flipped."""
    return [
        [
            prod((gamma if (m ^ x) >> bit & 1 else 1 - gamma for bit in range(bits)), start=Fraction(1))
            for x in range(1 << bits)
        ]
        for m in range(1 << bits)
    ]


def biased(bits, theta):
    return [
        prod((theta if m >> bit & 1 else 1 - theta for bit in range(bits)), start=Fraction(1))
        for m in range(1 << bits)
    ]


EXACT = [[Fraction(m == x) for x in range(4)] for m in range(4)]


@pytest.mark.parametrize(("bits", "devices"), [(1, 2), (1, 5), (2, 2), (2, 3), (2, 4)])
@pytest.mark.parametrize("gamma", [FIFTH, Fraction(1, 20), Fraction(9, 20)])
def test_the_formula_is_that_of_the_best_matcher(bits, devices, gamma):
    figure = tracking(devices, 1, {gamma: bits})
    channel, half = noisy(bits, gamma), biased(bits, Fraction(1, 2))
    remembered = [[Fraction(m == x) for x in range(1 << bits)] for m in range(1 << bits)]
    assert figure.two_rounds == pytest.approx(float(best_matcher(half, channel, channel, devices)), rel=1e-12)
    known = best_matcher(half, channel, remembered, devices)
    assert figure.many_rounds == pytest.approx(float(known), rel=1e-12)


@pytest.mark.parametrize("devices", [2, 3, 4])
@pytest.mark.parametrize("gamma", [FIFTH, Fraction(1, 20), Fraction(2, 5)])
def test_no_population_is_matched_more_often(devices, gamma):
    """Bits that are mostly 0 are matched less, by one who knows what is remembered and by one who does not."""
    figure, channel = tracking(devices, 1, {gamma: 2}), noisy(2, gamma)
    laws = [biased(2, Fraction(theta, 20)) for theta in range(0, 11, 1 if devices < 4 else 5)]
    laws += [[Fraction(1, 2), 0, 0, Fraction(1, 2)], [Fraction(1, 3), Fraction(1, 3), Fraction(1, 3), 0]]
    for law in laws:
        assert best_matcher(law, channel, channel, devices) <= figure.two_rounds * (1 + 1e-12)
        assert best_matcher(law, channel, EXACT, devices) <= figure.many_rounds * (1 + 1e-12)


def test_marks_and_several_flips():
    """A cell of its own is as good as a bit without flips; unlike flips are told apart."""
    marked = tracking(4, 4, {})
    assert marked.two_rounds == marked.many_rounds == pytest.approx(4 / 4 * (1 - (3 / 4) ** 4))
    mixed = tracking(3, 1, {FIFTH: 1, Fraction(1, 20): 1})
    one, other = noisy(1, FIFTH), noisy(1, Fraction(1, 20))
    channel = [[one[m & 1][x & 1] * other[m >> 1][x >> 1] for x in range(4)] for m in range(4)]
    half = biased(2, Fraction(1, 2))
    assert mixed.two_rounds == pytest.approx(float(best_matcher(half, channel, channel, 3)), rel=1e-12)
    assert mixed.many_rounds == pytest.approx(float(best_matcher(half, channel, EXACT, 3)), rel=1e-12)


def test_large_plans_and_fleets_stay_in_range():
    many = {Fraction(number, 100): 50 for number in range(1, 9)}
    for devices in (1, 2, 10**6, 10**12):
        figure = tracking(devices, 2**900, many)
        assert figure.two_rounds == figure.many_rounds == 1
        small = tracking(devices, 1, {FIFTH: 1})
        assert 1 / devices <= small.two_rounds <= small.many_rounds <= 1


BIT = OneBitMean(1, 1000)


def counters(count, flip):
    return Plan("p", 1, 86_400, 86_400, tuple(Metric(f"m{i}", BIT, Flip(flip)) for i in range(count)))


def matched(fleet, values, devices):
    """The share of devices whose report of round 8 is nearest to that of round 7; ties count in part."""
    rounds = []
    for number in (7, 8):
        bits = np.hstack([fleet.bits(name, number, values) for name in fleet.plan.by_name])
        rounds.append(bits.astype(np.float32))
    first, second = rounds
    right = 0.0
    for start in range(0, devices, 1000):
        part = first[start : start + 1000]
        distance = part @ (1 - second.T) + (1 - part) @ second.T
        own = distance[np.arange(len(part)), np.arange(start, start + len(part))]
        least = distance.min(axis=1)
        right += float(np.sum((own == least) / np.sum(distance == least[:, None], axis=1)))
    return right / devices


@pytest.mark.parametrize(("count", "flip", "devices"), [(10, 0, 2000), (12, "0.05", 2000), (40, "0.2", 2000)])
def test_a_fleet_is_matched_as_often_as_the_formula_says(count, flip, devices):
    """Values of half the range make a remembered bit 0 or 1 alike; six standard errors, one alarm in 10⁹."""
    plan = counters(count, flip)
    fleet = VectorisedFleet(plan, devices, seed=5)
    share = matched(fleet, np.full(devices, 500), devices)
    figure = plan_tracking(plan, devices).two_rounds
    error = 6 * (figure * (1 - figure) / devices) ** 0.5
    assert abs(share - figure) <= error + 1e-3
    wrong = plan_tracking(counters(2 * count, flip), devices).two_rounds
    assert abs(share - wrong) > error, "twice the bits would be noticed"
    at_zero = matched(fleet, np.zeros(devices, dtype=np.int64), devices)
    assert at_zero <= figure + error


def test_the_figures_of_the_page():
    plain, forty, flipped = ((20, 0), (40, 0), (20, "0.2"))
    assert plan_tracking(counters(*plain), 20_000).two_rounds == pytest.approx(0.9905, abs=5e-5)
    assert plan_tracking(counters(*forty), 20_000).two_rounds > 0.9999
    assert plan_tracking(counters(*flipped), 20_000).two_rounds == pytest.approx(0.0073, abs=5e-5)
    assert plan_tracking(counters(*flipped), 20_000).many_rounds == pytest.approx(0.0832, abs=5e-5)


def test_the_matcher_sees_cohort_and_tags():
    histogram = Metric("h", HadamardBit(1, Buckets.even(24, 8)), Flip("0.2"))
    plan = Plan("p", 1, 60, 60, (histogram,))
    tagged = Plan("p", 1, 60, 60, (histogram,), segments=(Segment("os", ("a", "b", "c")),))
    alone, known = (plan_tracking(one, 10_000).many_rounds for one in (plan, tagged))
    assert alone == pytest.approx(tracking(10_000, 256, {FIFTH: 1}).many_rounds)
    assert known == pytest.approx(tracking(10_000, 1024, {FIFTH: 1}).many_rounds)
    assert known > 3.5 * alone


def test_the_linter_warns_above_a_tenth():
    rules = {
        devices: [problem.rule for problem in lint(counters(20, 0), devices=devices)]
        for devices in (10**5, 10**8)
    }
    assert "tracking" in rules[10**5]
    assert "tracking" not in rules[10**8]
