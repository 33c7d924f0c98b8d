"""Splits: amounts with a joint limit, answered as the part in front at a moment, through the houses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

from reticent.device import Policy, answer
from reticent.device.answers import part_at, part_hit
from reticent.device.prf import FixedPurpose
from reticent.errors import ParameterError, PlanError
from reticent.losses import loss_of_report
from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean, SubsetSelection
from reticent.plan import Metric, Plan
from reticent.testing import sandbox
from reticent_collector.counts import HistogramCounts
from reticent_collector.estimates import (
    HistogramEstimate,
    average,
    difference,
    estimate,
    expected_half_width,
    expected_variance,
)
from reticent_collector.estimates.postprocess import clip, norm_sub
from reticent_collector.plans import diff
from reticent_collector.plans.export import export_plan
from reticent_collector.privacy import joint_limit_loss
from reticent_collector.privacy.card import privacy_card
from reticent_lab.audit import audit
from reticent_lab.crowd import Crowd, SplitLaw
from reticent_lab.fleet import VectorisedFleet
from reticent_lab.fleet.draws import HashDraws
from reticent_lab.simulate import simulate, true_values
from reticent_lake.frames import from_frame

HEAD = '[plan]\nname = "splits"\nversion = 1\nround = "6h"\n'
APPS = """
[metrics.apps]
kind = "split"
unit = "second"
max_value = 21600
labels = ["editor", "browser", "games"]
epsilon = 1
"""
REMEMBERED = "min_reports = 1\n" + HEAD + APPS
SAMPLED = REMEMBERED + '[answers]\nkind = "sampled"\nwindow = "7d"\n'
FALSE_ALARM = 1e-6


def apps(text: str = SAMPLED) -> Metric:
    return Plan.from_toml(text).metrics[0]


def test_a_split_is_a_choice_with_amounts() -> None:
    metric = apps()
    assert metric.kind == "split"
    assert metric.mechanism == SubsetSelection(1, Buckets(range(4), absent=True))
    assert apps(REMEMBERED).mechanism == HadamardBit(1, Buckets(range(4), absent=True))
    assert metric.bucket_labels == ("editor", "browser", "games", "unused")
    assert metric.recorded == ("apps/editor", "apps/browser", "apps/games")
    assert (metric.max_value, metric.top, metric.labels) == (21_600, 21_600.0, ())
    changed = {
        apps(text).digest
        for text in (
            SAMPLED,
            SAMPLED.replace("21600", "21601"),
            SAMPLED.replace('"games"', '"game"'),
            SAMPLED.replace('"editor", "browser"', '"browser", "editor"'),
            SAMPLED.replace("epsilon = 1", "epsilon = 2"),
            REMEMBERED,
        )
    }
    assert len(changed) == 6
    other = diff(Plan.from_toml(REMEMBERED), Plan.from_toml(REMEMBERED.replace('"games"', '"game"')))
    assert other.new_answers == ("apps",)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (APPS.replace("max_value = 21600\n", ""), "max_value"),
        (APPS.replace("21600", "0"), "max_value"),
        (APPS.replace('"games"', '"unused"'), "labels"),
        (APPS.replace('["editor", "browser", "games"]', '["editor"]'), "labels"),
        (APPS.replace('labels = ["editor", "browser", "games"]\n', ""), "labels"),
        (APPS + 'pick = "first"', "pick"),
        (APPS + "buckets = 4", "buckets"),
        (APPS + "step = 10", "step"),
        (APPS + 'mechanism = "subset"', "mechanism"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(text: str, place: str) -> None:
    with pytest.raises(PlanError) as raised:
        Plan.from_toml(HEAD + text)
    assert {problem.where for problem in raised.value.problems} == {f"metrics.apps.{place}"}


def test_a_split_that_cannot_be_is_refused() -> None:
    three = HadamardBit(1, Buckets(range(3), absent=True))
    for wrong in (
        {"parts": ("a", "b")},
        {"max_total": 5},
        {"parts": ("a",), "max_total": 5},
        {"parts": ("a", "b"), "labels": ("a", "b"), "max_total": 5},
    ):
        with pytest.raises(ParameterError):
            Metric("apps", three, **wrong)  # type: ignore[arg-type]
    Metric("apps", three, parts=("a", "b"), max_total=5)


# What a device does


@pytest.mark.parametrize("amounts", [(0, 0, 0), (12, 0, 0), (3, 4, 5), (0, 0, 11), (1, 0, 2), (5, 1, 0)])
def test_counts_over_all_moments_are_the_amounts(amounts: tuple[int, ...]) -> None:
    """As many of M moments, evenly spaced, pick a part as it has; one more at its end belongs to the next part."""
    limit = 12
    moments = [-(-moment * 2**64 // limit) for moment in range(limit)]
    picked = [part_at(amounts, limit, moment) for moment in moments]
    assert [picked.count(part) for part in range(3)] == list(amounts)
    assert picked.count(None) == limit - sum(amounts)
    assert picked == sorted(picked, key=lambda part: 3 if part is None else part), "one after another"


def test_above_the_limit_amounts_are_scaled_not_cut() -> None:
    plan = Plan.from_toml(SAMPLED)
    window = plan.window_of(80_000)
    assert window is not None
    picked = []
    for device in range(600):
        draws = HashDraws(7, device, plan.name, window.start)
        values = {"apps/editor": 21_600, "apps/browser": 21_600, "apps/games": 21_600}
        answered = answer(draws, plan, draws.picked_round(window), values)
        picked.append(answered.visited["apps"])
    assert all(150 < picked.count(part) < 250 for part in range(3))
    assert picked.count(3) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 2, 3), (1, 2, 4)),
        ((2,) * 9 + (1,), (2,) * 8 + (1, 2)),
        ((5, 5, 10), (10, 5, 5)),
        ((0, 0, 0), (20, 0, 0)),
    ],
)
def test_darts_hit_by_share_and_mostly_the_same_bar(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    """All darts, one for each height of each bar: as many hit a bar as it is high, and most that hit hit both."""
    limit = 20
    bars = len(before) + 1
    darts = [
        -(-(bar * 2**64 + height * 2**64 // limit + 2**40) // bars)
        for bar, height in product(range(bars), range(limit))
    ]
    hits = [part_hit(before, limit, [dart]) for dart in darts if hits_a_bar(before, limit, dart)]
    assert [hits.count(part) for part in range(len(before))] == list(before)
    assert len(hits) == limit
    one, other = ({dart for dart in darts if hits_a_bar(of, limit, dart)} for of in (before, after))
    moved = Fraction(sum(abs(a - b) for a, b in zip(before, after, strict=True)), 2 * limit)
    moved += Fraction(abs(sum(before) - sum(after)), 2 * limit)
    assert 1 - Fraction(len(one & other), len(one | other)) == 2 * moved / (1 + moved)


def hits_a_bar(amounts: tuple[int, ...], limit: int, dart: int) -> bool:
    """Whether a dart hits, by its bar and height."""
    bar, height = divmod(dart * (len(amounts) + 1), 2**64)
    return height * limit < [*amounts, limit - sum(amounts)][bar] * 2**64


def test_a_dart_hits_below_the_height_of_a_bar_to_the_last_digit_and_none_may_hit() -> None:
    edge = -(
        -(2**64 // 3 + 1) // 2
    )  # of two bars, a third of the limit high: the first dart that misses the first
    assert (part_hit((1,), 3, [edge - 1]), part_hit((1,), 3, [edge])) == (0, None)
    assert (part_hit((6, 0, 3), 12, [2**61 - 1]), part_hit((6, 0, 3), 12, [2**61])) == (0, None)


def test_a_split_costs_the_same_darts_whatever_its_amounts_are() -> None:
    class Counting(HashDraws):
        def fixed(self, metric: Metric, purpose: FixedPurpose, count: int) -> Sequence[int]:
            asked.append((purpose, count))
            return super().fixed(metric, purpose, count)

    plan = Plan.from_toml(REMEMBERED)
    for values in ({}, {"apps/editor": 21_600}, {"apps/editor": 7, "apps/games": 90_000}):
        asked: list[tuple[str, int]] = []
        answer(Counting(7, 1, plan.name, None), plan, 80_000, values)
        assert asked == [("darts", 48 * 4)]


def test_one_second_from_the_last_to_the_first_label() -> None:
    """Darts change the label in less than a tenth of devices; a moment would in almost half of them."""
    limit = 20
    first, last = (1, *(2,) * 8, 2), (2, *(2,) * 8, 1)
    words = np.random.default_rng(5).integers(0, 2**64, (800, 40), dtype=np.uint64).tolist()
    moments = sum(part_at(first, limit, row[0]) != part_at(last, limit, row[0]) for row in words)
    darts = sum(part_hit(first, limit, row) != part_hit(last, limit, row) for row in words)
    assert 0.36 < moments / 800 < 0.54
    assert 0.05 < darts / 800 < 0.15


def test_programs_record_each_part_by_its_name() -> None:
    with sandbox(Plan.from_toml(REMEMBERED), policy=Policy.unlimited(), debug=False) as box:
        box.device.add("apps/editor", 20)
        box.device.add("apps/editor", 22)
        box.device.set("apps/games", 100_000)
        box.device.add("apps/browser", float("nan"))
        box.device.add("apps", 5)
        box.device.add("apps/none", 5)
        assert box.values() == {"apps/editor": 42, "apps/games": 21_600, "apps/browser": 0}
        box.next_round()
        [report] = box.reports
        assert len(report.bits) == 1


# Losses


def test_a_window_loses_epsilon_and_a_card_is_that_of_a_choice() -> None:
    assert loss_of_report(Plan.from_toml(SAMPLED)) == 1.0
    card = privacy_card(Plan.from_toml(REMEMBERED))
    choice = REMEMBERED.replace('"split"', '"choice"').replace("max_value = 21600\n", "")
    assert card.loss == privacy_card(Plan.from_toml(choice)).loss
    assert card.loss.lifetime == 2.0


@pytest.mark.parametrize("text", [SAMPLED, REMEMBERED], ids=["sampled", "remembered"])
def test_an_audit_finds_devices_sound(text: str) -> None:
    plan = Plan.from_toml(text.replace(', "games"', ""))
    checked = audit(plan, lives=1, rounds=4, families=("values",))
    assert checked.problems == []
    assert checked.sound


# Fleets, crowds and estimates


@pytest.mark.parametrize(
    "text", [SAMPLED, REMEMBERED.replace("21600", '"43199/2"')], ids=["sampled", "remembered"]
)
def test_a_fleet_answers_bit_for_bit_as_devices_do(text: str) -> None:
    plan, devices = Plan.from_toml(text), 300
    random = np.random.default_rng(3)
    values = {
        name: random.integers(0, 24_000, devices) // (place + 1) ** 3
        for place, name in enumerate(plan.recorded)
    }
    values["apps/editor"][:50] = 0
    window = plan.window_of(80_000)
    fleet = VectorisedFleet(plan, devices, seed=3)
    number = window.first if window else 80_000
    reports = {report.id: report for report in fleet.reports(number, values)}
    assert len(reports) > 10
    for device in range(devices):
        draws = HashDraws(3, device, plan.name, window.start if window else None)
        if window is None or draws.picked_round(window) == number:
            own = {name: int(column[device]) for name, column in values.items()}
            report = answer(draws, plan, number, own).report
            assert reports[report.id] == report


def test_a_crowd_draws_parts_by_their_shares() -> None:
    random = np.random.default_rng(1)
    inside = np.array([[[3.0, 1.0], [3.0, 2.0]], [[0.0, 12.0], [6.0, 6.0]]])  # [individual, round, part]
    metric = Metric("m", SubsetSelection(1, Buckets(range(3), absent=True)), parts=("a", "b"), max_total=12)
    law = SplitLaw(metric)
    assert law.truth(inside, np.array([2, 1])).tolist() == [[6.0, 14.0, 16.0], [12.0, 10.0, 14.0]]
    devices = np.repeat(inside[:1], 40_000, axis=0)
    thrown = law._thrown(devices, random)
    for place, expected in ((0, [3, 1, 8]), (1, [3, 2, 7])):
        seen = np.bincount(thrown[:, place], minlength=3)
        due = 40_000 * np.array(expected) / 12
        assert ((seen - due) ** 2 / due).sum() < chi2.isf(FALSE_ALARM, 2)
    moved = (thrown[:, 0] != thrown[:, 1]).mean()
    # The first dart to hit hits one of them alone with a chance of 2/13; the other may still come to the same part.
    assert moved == pytest.approx((5 / 12 + 11 / 12) / 13, abs=0.008)


@pytest.mark.parametrize("text", [SAMPLED, REMEMBERED], ids=["sampled", "remembered"])
def test_estimates_are_mean_amounts_and_the_unused_rest(text: str) -> None:
    plan = Plan.from_toml(text)
    rounds = 28 if plan.answers.sampled else 1
    values = {
        "apps/editor": np.full((rounds, 3), 7200),
        "apps/browser": np.tile([0, 3600, 30_000], (rounds, 1)),
        "apps/games": np.zeros((rounds, 3), dtype=np.int64),
    }
    done = simulate(plan, Crowd.of(values, devices=60_000), repetitions=20, seed=2, confidence=0.95)
    figures = (done.windows if plan.answers.sampled else done.metrics)["apps"]
    truth = figures.truth[0]
    scaled = 21_600 * 7200 / (7200 + 21_600)
    assert truth.tolist() == pytest.approx(
        [(2 * 7200 + scaled) / 3, (3600 + 21_600 - scaled) / 3, 0.0, 21_600 - sum(truth[:3])]
    )
    assert figures.value.mean(axis=0)[0] == pytest.approx(truth, abs=600)
    assert not figures.misses_too_often(FALSE_ALARM)


def test_an_estimate_has_the_unit_of_amounts() -> None:
    metric = apps()
    counts = HistogramCounts((1000,) * 4, (300, 250, 200, 250), 4)
    found = estimate(metric, counts)
    assert isinstance(found, HistogramEstimate)
    assert sum(found.values) == pytest.approx(21_600)
    assert {number.unit for number in found.buckets} == {"second"}
    assert {number.span for number in found.buckets} == {(0.0, 21_600.0)}
    assert str(found).startswith("editor: ")
    assert "second" in str(found)
    assert sum(norm_sub(found)) == pytest.approx(21_600)
    assert max(clip(found)) <= 21_600
    shares = estimate(
        Metric("command", metric.mechanism, labels=metric.parts), counts
    )  # the same counts as a choice
    assert found.values == pytest.approx([21_600 * value for value in shares.values])
    frame = found.to_frame()
    assert from_frame(frame) == found
    assert set(frame["unit"].to_pylist()) == {"second"}
    later = HistogramCounts((1000,) * 4, (350, 200, 200, 250), 4)
    plan = Plan.from_toml(SAMPLED)
    window = plan.window_of(80_000)
    assert window is not None
    first = window.first
    changed = difference(metric, {first + 28: later}, {first: counts}, plan=plan)
    assert changed.buckets[0].value == pytest.approx(0.05 * 21_600 / float(metric.channel.contrast))
    both = average(metric, {first: counts, first + 28: later}, plan=plan)
    assert sum(both.values) == pytest.approx(21_600)
    assert expected_half_width(metric, 1000) < 21_600
    assert expected_variance(metric, 1000, 0.0) == pytest.approx(
        21_600**2 * float(metric.channel.low * (1 - metric.channel.low) / metric.channel.contrast**2) / 1000
    )
    assert true_values(plan, {name: np.zeros(3, dtype=int) for name in plan.recorded})["apps"].tolist() == [
        0, 0, 0, 21_600,
    ]  # fmt: skip


TABLE = """
5, .5   13.4 10.6 15.9
5, 1    2.28 2.28 3.92
5, 2    .279 .279 .921
10, 1   3.97 2.87 3.92
10, 2   .401 .401 .921
20, .5  49.1 14.1 15.9
20, 1   7.36 3.25 3.92
20, 2   .646 .558 .921
"""
"""n·Var/M² of a part that few devices have, of t parts and the rest: size 1, the best size, a bit per label."""


def test_variances_are_those_of_the_choice_of_t_plus_one_labels() -> None:
    for line in TABLE.strip().splitlines():
        given, cells = line.split("  ", maxsplit=1)
        parts, epsilon = given.split(", ")
        buckets = Buckets(range(int(parts) + 1), absent=True)
        one, best = (
            SubsetSelection(float(epsilon), buckets, size).variances(apps().flip, 0.0)[0]
            for size in (1, None)
        )
        for text, number in zip(cells.split(), (one, best), strict=False):
            decimals = len(text.partition(".")[2])
            assert number == pytest.approx(float(text), abs=0.51 * 10**-decimals)


BITS = """
5, .5      .239  17.4  1.65 1.63 1.59
5, 1       .458  4.69  2.06 1.94 1.67
5, 2       .848  1.31  4.70 3.79 2.61
5, 2.645   1.073 .789  7.47 4.97 2.90
10, 1      .450  4.87  1.69 1.65 1.56
10, 2      .817  1.42  3.53 2.82 1.87
20, .5     .236  17.9  1.27 1.26 1.25
20, 1      .446  4.94  1.52 1.48 1.39
20, 1.322  .570  3.00  1.76 1.68 1.50
20, 2      .804  1.47  2.63 2.25 1.65
20, 2.645  1.000 .921  4.76 3.09 1.68
"""
"""
Of t counters with a joint limit that lose as much together: ε of each, n·Var/M² of one that few devices have, and how
many times less a split has, for shares of 0, .05 and .2.
"""


def test_gains_over_counters_with_a_joint_limit_at_the_same_loss() -> None:
    for line in BITS.strip().splitlines():
        given, tau, light, *gains = line.replace(", ", ",").split()
        parts, loss = (float(text) for text in given.split(","))
        counter = OneBitMean(tau, 1)
        joint = joint_limit_loss([counter] * int(parts), [Flip(0)] * int(parts), 1)
        assert joint == pytest.approx(loss, abs=2.5e-3)
        split = SubsetSelection(loss, Buckets(range(int(parts) + 1), absent=True))
        bit = counter.channel(Flip(0))
        for share, gain in zip((0.0, 0.05, 0.2), gains, strict=True):
            one = float(bit.share(share))
            of_bits = one * (1 - one) / float(bit.contrast) ** 2
            if not share:
                assert of_bits == pytest.approx(float(light), rel=0.006)
            assert of_bits / sum(split.variances(Flip(0), share)) == pytest.approx(float(gain), rel=0.008)


def test_an_export_has_labels_and_the_limit() -> None:
    [metric] = json.loads(json.dumps(export_plan(Plan.from_toml(SAMPLED))))["metrics"]
    assert (metric["kind"], metric["max_total"]) == ("split", "21600")
    assert metric["labels"] == ["editor", "browser", "games"]
