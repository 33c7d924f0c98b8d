"""Matching two rounds: the formula against brute force and against a simulated fleet of real answers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from math import prod

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Metric, Plan, Segment
from reticent_collector.plans import lint, plan_tracking, tracking
from reticent_collector.plans.matching import most_matched, tracking_in_words
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


def joint_matcher(bits, gamma, devices):
    """
    The expected share found by the best matcher of all reports at once, over all memories and reports.

    It knows the memories, sees the reports in unknown order, and for each device names the likeliest report by the
    posterior over all orders.
    """
    channel, orders = noisy(bits, gamma), list(permutations(range(devices)))
    right = Fraction(0)
    memories = list(product(range(1 << bits), repeat=devices))
    for memory in memories:
        for reports in product(range(1 << bits), repeat=devices):
            weights = [
                prod(channel[m][reports[at]] for m, at in zip(memory, order, strict=True)) for order in orders
            ]
            for device in range(devices):
                right += max(
                    sum(weight for weight, order in zip(weights, orders, strict=True) if order[device] == at)
                    for at in range(devices)
                )
    return right / len(memories) / len(orders) / devices


@pytest.mark.parametrize(("bits", "devices"), [(1, 2), (2, 2), (1, 3), (1, 4), (2, 3)])
def test_no_matcher_of_all_reports_finds_more(bits, devices):
    """By enumeration: more than one who judges reports one by one, from three devices on, and not above the bound."""
    figure = tracking(devices, 1, {FIFTH: bits})
    joint = float(joint_matcher(bits, FIFTH, devices))
    assert figure.many_rounds <= joint * (1 + 1e-12)
    assert joint <= figure.together
    if (bits, devices) == (2, 3):
        assert (round(joint, 3), round(figure.many_rounds, 3), round(figure.together, 3)) == (
            0.602,
            0.581,
            0.957,
        )


BOUNDS = [
    (1_000_000, 1, 5, "0.00003"),
    (1_000_000, 1, 10, "0.0010"),
    (100_000, 1, 10, "0.0102"),
    (10_000_000, 256, 10, "0.026"),
    (1_000_000, 256, 10, "0.262"),
    (20_000, 1, 20, "0.473"),
    (1_000_000, 256, 20, "0.574"),
    (10_000, 256, 10, "0.785"),
    (50_000, 256, 20, "0.919"),
    (1_000, 1, 40, "1"),
    (10_000, 256, 20, "1"),
    (100_000, 4096, 20, "1"),
]


@pytest.mark.parametrize(("devices", "marks", "bits", "printed"), BOUNDS)
def test_the_bound_for_any_matcher_is_that_of_the_notes(devices, marks, bits, printed):
    digits = len(printed.partition(".")[2])
    assert round(tracking(devices, marks, {FIFTH: bits}).together, digits) == float(printed)


SINGLE = [
    (1_000_000, 1, 5, "0.0000", "0.00001"),
    (1_000_000, 1, 10, "0.0000", "0.00011"),
    (100_000, 1, 10, "0.0002", "0.0011"),
    (10_000_000, 256, 10, "0.0006", "0.0028"),
    (1_000_000, 256, 10, "0.0055", "0.028"),
    (20_000, 1, 20, "0.0073", "0.0832"),
    (1_000_000, 256, 20, "0.023", "0.179"),
    (10_000, 256, 10, "0.173", "0.420"),
    (50_000, 256, 20, "0.140", "0.511"),
    (1_000, 1, 40, "0.178", "0.758"),
    (10_000, 256, 20, "0.314", "0.728"),
    (100_000, 4096, 20, "0.386", "0.784"),
]


@pytest.mark.parametrize(("devices", "marks", "bits", "two", "many"), SINGLE)
def test_one_report_at_a_time_is_that_of_the_notes(devices, marks, bits, two, many):
    figure = tracking(devices, marks, {FIFTH: bits})
    for seen, printed in ((figure.two_rounds, two), (figure.many_rounds, many)):
        assert seen == pytest.approx(float(printed), abs=0.51 * 10.0 ** -len(printed.partition(".")[2]))


DIVIDED = {
    "0.2": "2:.00026:.00032 3:.00041:.00048 5:.00105:.00080 10:.0110:.0016 20:.118:.0032",
    "0": "10:.102:.002 20:.995:.004",
}
"""By flip: so many metrics, the share that is found among 10,000 if all are answered, and if one is."""


@pytest.mark.parametrize("flip", DIVIDED)
def test_a_set_of_metrics_is_a_mark_and_leaves_fewer_bits(flip):
    for cell in DIVIDED[flip].split():
        count, *figures = cell.split(":")
        plan = counters(int(count), flip)
        for asked, figure in zip((None, 1), figures, strict=True):
            seen = plan_tracking(replace(plan, answers=Answers(metrics=asked)), 10_000).many_rounds
            assert seen == pytest.approx(float(figure), abs=0.51 * 10.0 ** -len(figure.partition(".")[2]))


@pytest.mark.parametrize(("devices", "bits"), [(1000, 40), (1000, 12)])
def test_an_assignment_of_all_reports_stays_below_the_bound(devices, bits):
    """One to one, by the least number of disagreements; it finds more than one report at a time does."""
    rng = np.random.default_rng(7)
    memory = rng.integers(0, 2, (devices, bits))
    reports = memory ^ (rng.random((devices, bits)) < 0.2)
    cost = memory @ (1 - reports.T) + (1 - memory) @ reports.T
    found = float(np.mean(linear_sum_assignment(cost)[1] == np.arange(devices)))
    figure = tracking(devices, 1, {FIFTH: bits})
    assert found <= figure.together
    if bits == 40:
        assert found > figure.many_rounds + 0.02, (
            "what is printed for one report at a time is no bound for this"
        )


def test_the_least_noisy_bits_are_taken_as_known():
    """Eight bits flipped rarely, then classes of 3,906 devices with 0.161 nats each; the others first give more."""
    assert most_matched(10**6, 1, {Fraction(1, 20): 8, Fraction(2, 5): 8}) == pytest.approx(0.03976, abs=1e-5)


def test_fewer_nats_would_not_be_a_bound():
    """With log2, or with the flips of two rounds for those of one, the bound falls below what is found."""
    flips = {FIFTH: 2}
    assert most_matched(3, 1, flips) > 0.602
    assert most_matched(3, 1, {2 * FIFTH * (1 - FIFTH): 2}) < most_matched(3, 1, flips)


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


def test_the_linter_allows_for_one_who_compares_all_reports():
    """A quarter more than one report at a time: 8.3 % of 20,000 become 10.4 %, above a tenth."""
    plan = counters(20, "0.2")
    assert 0.08 < plan_tracking(plan, 20_000).many_rounds < 0.1
    assert "tracking" in [problem.rule for problem in lint(plan, devices=20_000)]


def test_where_all_may_be_found_the_sentence_promises_nothing():
    assert tracking_in_words(tracking(1_000, 1, {Fraction(1, 5): 40})).endswith(
        "all reports at once may find all."
    )
    assert tracking_in_words(tracking(10**6, 256, {Fraction(1, 5): 10})).endswith(
        "on average never above 26.3 %."
    )
