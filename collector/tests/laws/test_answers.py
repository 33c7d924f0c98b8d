"""
The device's own code has the law that the integers say, down to single draws.

A draw matters only by the side of its threshold on which it falls. `Scripted` hands `answer` the draw on either
side that is nearest to the threshold, so a comparison that is off by one draw in 2⁶⁴ gives a wrong bit.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

import mpmath
import numpy as np
import pytest

from reticent.device import answer
from reticent.mechanisms import SCALE, Flip, OneBitMean, RandomizedResponse
from reticent.plan import Metric, Plan
from reticent_lab.fleet import VectorisedFleet
from reticent_lab.fleet.draws import HashDraws, Places

PLAN = Plan.from_toml(
    '[plan]\nname = "p"\nversion = 1\nround = "1d"\n'
    '[metrics.a]\nkind = "mean"\nmax_value = 4\nepsilon = 1\nflip = 0.2\n'
    '[metrics.b]\nkind = "mean"\nmax_value = 4\nepsilon = 0.5\nflip = 0.1\nstep = 2\n'
    '[metrics.h]\nkind = "histogram"\nmax_value = 3\nbuckets = 3\nepsilon = 1\nflip = 0.3\n'
    'mechanism = "hadamard-bit"\n'
    '[groups.both]\nmetrics = ["a", "b"]\nmax_total = 4\n'
    '[segments]\nos = ["x", "y"]\n'
)


KINDS = Plan.from_toml(
    '[plan]\nname = "k"\nversion = 1\nround = "1d"\n'
    '[metrics.c]\nkind = "choice"\nlabels = ["x", "y"]\nmechanism = "hadamard-bit"\nepsilon = 1\n'
    '[metrics.f]\nkind = "flag"\nepsilon = 0.5\n'
    '[metrics.h]\nkind = "histogram"\nedges = [0, 1, 9]\nabsent = true\nmechanism = "d-bit-flip"\nepsilon = 2\n'
)


class Scripted:
    """Draws that give chosen bits: `memo[metric, class, place]` and `turned[metric, round, place]`."""

    window = None

    def __init__(self, alphas, memo, turned, cohort):
        self._alphas, self._memo, self._turned, self._cohort = alphas, memo, turned, cohort

    def alpha(self, metric):
        return self._alphas[metric.name]

    def memo(self, metric, memo_class):
        thresholds = metric.mechanism.thresholds(memo_class, self._cohort)
        return [one - self._memo[metric.name, memo_class, place] for place, one in enumerate(thresholds)]

    def flips(self, metric, round_number):
        bits = (self._turned[metric.name, round_number, place] for place in range(metric.bits))
        return [metric.flip.threshold - bit for bit in bits]

    def cohort(self):
        return self._cohort

    def report_id(self, version, round_number):
        return bytes(16)


def law_of_the_code(enumeration, plan, histories, clean, cohort):
    """P(reports of all rounds) from `answer` itself, over all alphas and remembered bits, without flips."""
    weights = {
        (metric.name, number, place): (SCALE - one, one)
        for metric in plan.metrics
        for number in range(metric.mechanism.classes)
        for place, one in enumerate(metric.mechanism.thresholds(number, cohort))
    }
    unturned = {(metric.name, number, 0): 0 for metric in plan.metrics for number in range(len(histories))}
    intervals = []
    for metric in plan.metrics:
        sizes = [size for size, _ in enumeration.alphas(metric.mechanism, clean[metric.name], cohort)]
        intervals.append([(sum(sizes[:place]), size) for place, size in enumerate(sizes)])
    law = {}
    for picked in product(*intervals):
        alphas = {name: start for name, (start, _) in zip(plan.by_name, picked, strict=True)}
        for bits in product((0, 1), repeat=len(weights)):
            memo = dict(zip(weights, bits, strict=True))
            draws = Scripted(alphas, memo, unturned, cohort)
            sent = tuple(
                answer(draws, plan, number, values).report.bits for number, values in enumerate(histories)
            )
            chance = prod(size for _, size in picked) * prod(weights[key][bit] for key, bit in memo.items())
            law[sent] = law.get(sent, 0) + chance
    total = SCALE ** (len(intervals) + len(weights))
    return {sent: Fraction(weight, total) for sent, weight in law.items()}


@pytest.mark.parametrize("cohort", [1, 3, 200])
@pytest.mark.parametrize(
    ("asked", "histories", "clean"),
    [
        (
            PLAN,
            [{"a": 4, "b": 4, "h": 0}, {"a": 1, "b": 2, "h": 1}],
            {"a": [2, 1], "b": [2, 2], "h": [0, 1]},  # 4 + 4 is scaled down to 2 + 2
        ),
        (KINDS, [{"c": "y", "f": True, "h": 9}, {}], {"c": [1, None], "f": [1, 0], "h": [9, None]}),
        (
            KINDS,
            [{"c": "fmt", "f": 7, "h": float("nan")}, {"c": "x", "h": 0}],
            {"c": [None, 0], "f": [1, 0], "h": [None, 0]},
        ),
    ],
    ids=["group", "kinds", "no label and no number"],
)
def test_remembered_answers_of_a_whole_plan(enumeration, asked, histories, clean, cohort):
    """Two rounds without flips: the joint law of all metrics is the product of their own."""
    metrics = tuple(replace(metric, flip=Flip(0)) for metric in asked.metrics)
    plan = replace(asked, metrics=metrics)
    laws = {m.name: enumeration.of_values(m.mechanism, m.flip, clean[m.name], cohort) for m in plan.metrics}
    totals = {name: sum(law.values()) for name, law in laws.items()}
    expected = {}
    for outcomes in product(*(law.items() for law in laws.values())):
        rounds = zip(*(outcome for outcome, _ in outcomes), strict=True)
        sent = tuple(bytes([sum(bit << 7 - i for i, (bit,) in enumerate(bits))]) for bits in rounds)
        chance = prod(
            Fraction(weight, totals[name]) for name, (_, weight) in zip(laws, outcomes, strict=True)
        )
        expected[sent] = expected.get(sent, 0) + chance
    expected = {sent: chance for sent, chance in expected.items() if chance}
    assert law_of_the_code(enumeration, plan, histories, clean, cohort) == expected


@pytest.mark.parametrize("memo", [0, 1])
@pytest.mark.parametrize("turned", [0, 1])
def test_a_draw_equal_to_its_threshold_is_not_below_it(memo, turned):
    """With <= in place of <, a memo or a flip would happen once more in 2⁶⁴ draws: more than epsilon allows."""
    draws = Scripted(
        dict.fromkeys(PLAN.by_name, 0),
        {(m.name, number, 0): memo for m in PLAN.metrics for number in range(m.mechanism.classes)},
        {(m.name, 7, 0): turned for m in PLAN.metrics},
        cohort=1,
    )
    report = answer(draws, PLAN, 7, {"a": 0, "b": 4, "h": 2}).report
    assert [report.bit(place) for place in range(PLAN.bits)] == [memo ^ turned] * 3


def test_one_draw_more_would_exceed_epsilon():
    """The integers keep e^ε; compared by <=, half of all epsilons would lose more than they say."""
    exceeded = 0
    for tenths in range(1, 41):
        coin = RandomizedResponse(Fraction(tenths, 10))
        with mpmath.workdps(60):
            odds = mpmath.exp(mpmath.mpf(tenths) / 10)
            assert mpmath.mpf(coin.high) / coin.low <= odds
            exceeded += bool(mpmath.mpf(coin.high - 1) / (coin.low - 1) > odds)
    assert 10 <= exceeded <= 35


# The fleet compares as the device does.

_INVERSES = (pow(0x94D049BB133111EB, -1, SCALE), pow(0xBF58476D1CE4E5B9, -1, SCALE))


def unmix(word: int) -> int:
    """The word that `mix` turns into this one: it is a bijection."""
    for shift, inverse in ((31, _INVERSES[0]), (27, _INVERSES[1]), (30, 1)):
        result = word
        for _ in range(3):
            result = word ^ result >> shift
        word = result * inverse % SCALE
    return word


def device_that_draws(places: Places, place: int, draw: int) -> int:
    """The number of the simulated device whose draw at a place is exactly this one."""
    state = unmix(draw) ^ place
    return (unmix(state) - places.key) * pow(0x9E3779B97F4A7C15, -1, SCALE) % SCALE


@pytest.mark.parametrize("what", ["memo", "flip"])
@pytest.mark.parametrize("below", [0, 1])
def test_the_fleet_compares_with_below_too(what, below):
    metric = Metric("a", OneBitMean(1, 4), Flip("0.2"))
    plan = Plan("p", 1, 86_400, 86_400, (metric,))
    threshold = metric.mechanism.thresholds(0)[0] if what == "memo" else metric.flip.threshold
    for seed in range(200):
        places = Places(seed, plan.name)
        place = places.memo(metric, 0, 0) if what == "memo" else places.flip(metric, 7, 0)
        device = device_that_draws(places, place, threshold - below)
        if device < 2**63 - 1:
            break
    values = {"a": np.zeros(1, dtype=np.int64)}
    [report] = VectorisedFleet(plan, 1, seed, first=device).reports(7, values)
    draws = HashDraws(seed, device, plan.name)
    assert (draws.memo(metric, 0) if what == "memo" else draws.flips(metric, 7)) == [threshold - below]
    if what == "memo":
        other = draws.flips(metric, 7)[0] < metric.flip.threshold
    else:
        other = draws.memo(metric, 0)[0] < metric.mechanism.thresholds(0)[0]
    assert report.bit(0) == below ^ other
