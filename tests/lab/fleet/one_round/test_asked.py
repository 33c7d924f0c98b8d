"""Who is asked, and what they say: exact laws of tiny fleets, then the devices of the SDK."""

from fractions import Fraction

import numpy as np
import pytest

from reticent.counts import count_reports
from reticent.lab.baselines import BinFlip, BinFlipPlus, KFlip
from reticent.lab.fleet import SdkFleet, VectorisedFleet
from reticent.lab.fleet_counts import (
    Tally,
    accepted,
    everyone,
    named,
    ones_of,
    ones_of_mean,
    rows,
    subsets,
    windows,
)
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent.mechanisms.hadamard_bit import hadamard_sign
from reticent.plan import Metric, Plan
from reticent.reports import from_packed

THREE, FOUR = Buckets.even(3, 3), Buckets.even(4, 4)


def counted(asked, channel, generator):
    """(reports, ones) in one row."""
    ones = ones_of(asked, channel, generator)
    return [*asked.reports[0], *ones[0]]


def answer_chances(response, bucket, asked, flip=None):
    turned = Fraction((flip or Flip(0)).threshold, SCALE)
    chances = [Fraction(response.high if each == bucket else response.low, SCALE) for each in asked]
    return [chance * (1 - turned) + (1 - chance) * turned for chance in chances]


@pytest.mark.parametrize(
    ("width", "devices"), [(1, [2, 0, 1]), (2, [1, 1, 0]), (2, [0, 2, 0]), (3, [1, 0, 1])]
)
def test_subsets_have_the_law_of_devices_that_draw_them(laws, width, devices):
    mechanism, flip = DBitFlip(2, THREE, width, "paper"), Flip("1/10")
    alone = {
        bucket: laws.mixed(
            [
                laws.about(asked, 3, answer_chances(mechanism.response, bucket, asked, flip))
                for asked in laws.subsets(3, width)
            ]
        )
        for bucket in range(3)
    }
    exact = laws.of_devices(alone[bucket] for bucket in range(3) for _ in range(devices[bucket]))
    channel = flip.channel(mechanism.response)

    def law(per_bucket, seen=channel):
        return laws.of_sampler(lambda source: counted(subsets(per_bucket, width, 1, source), seen, source))

    assert laws.distance(law(devices), exact) < 1e-12
    assert laws.distance(law(devices, Flip(0).channel(mechanism.response)), exact) > 0.01
    assert laws.distance(law(devices[::-1] if devices != devices[::-1] else [2, 0, 0]), exact) > 0.01


def test_windows_have_the_law_of_cohorts_and_not_that_of_subsets(laws):
    mechanism = DBitFlip(2, FOUR, 2, "tight", label="plan/hours")
    alone = {
        bucket: laws.mixed(
            [
                laws.about(asked, 4, answer_chances(mechanism.response, bucket, asked))
                for asked in (mechanism.window(cohort) for cohort in range(256))
            ]
        )
        for bucket in range(4)
    }
    exact = laws.of_devices([alone[0], alone[2]])
    channel = Flip(0).channel(mechanism.response)
    drawn = laws.of_sampler(lambda g: counted(windows(mechanism, [1, 0, 1, 0], 1, g), channel, g))
    other = laws.of_sampler(lambda g: counted(subsets([1, 0, 1, 0], 2, 1, g), channel, g))
    assert laws.distance(drawn, exact) < 1e-12
    assert laws.distance(other, exact) > 0.1


def test_hadamard_rows_have_the_law_of_devices(laws):
    mechanism = HadamardBit(1, THREE)
    alone = {}
    for bucket in range(3):
        per_row = []
        for row in range(4):
            positive = hadamard_sign(row, bucket + 1) > 0
            chance = Fraction(mechanism.response.high if positive else mechanism.response.low, SCALE)
            per_row.append(laws.about((row,), 4, [chance]))
        alone[bucket] = laws.mixed(per_row)
    exact = laws.of_devices([alone[0], alone[2]])
    channel = Flip(0).channel(mechanism.response)
    drawn = laws.of_sampler(lambda g: counted(rows(mechanism, [1, 0, 1], 1, g), channel, g))
    assert laws.distance(drawn, exact) < 1e-12
    wrong = laws.of_sampler(lambda g: counted(rows(mechanism, [1, 1, 0], 1, g), channel, g))
    assert laws.distance(wrong, exact) > 0.01


def test_bin_flip_asks_everyone(laws):
    mechanism = BinFlip(1, 3)
    alone = [
        laws.about((0, 1, 2), 3, answer_chances(mechanism.response, bucket, (0, 1, 2)))
        for bucket in (0, 0, 2)
    ]
    drawn = laws.of_sampler(lambda g: counted(everyone([2, 0, 1], 1), mechanism.channel, g))
    assert laws.distance(drawn, laws.of_devices(alone)) < 1e-12


def test_k_flip_names_buckets_with_the_law_of_devices(laws):
    mechanism = KFlip(1, 3)
    odds = mechanism.channel.high / mechanism.channel.low
    alone = [
        {
            tuple(int(place == name) for place in range(3)): (odds if name == bucket else 1) / (odds + 2)
            for name in range(3)
        }
        for bucket in (0, 0, 2)
    ]
    drawn = laws.of_sampler(lambda g: named(mechanism, [2, 0, 1], 1, g)[0])
    assert laws.distance(drawn, laws.of_devices(alone)) < 1e-12
    wrong = laws.of_sampler(lambda g: named(mechanism, [1, 1, 1], 1, g)[0])
    assert laws.distance(wrong, laws.of_devices(alone)) > 0.05


def test_bin_flip_plus_has_the_law_of_public_strings_and_acceptance(laws):
    mechanism = BinFlipPlus(2, 3)
    low, accept = mechanism.channel.low, mechanism.response
    alone = []
    for bucket in (0, 2):
        law = {}
        for string, weight in laws.about((0, 1, 2), 3, [low] * 3).items():
            agree = Fraction(accept.high if string[3 + bucket] else accept.low, SCALE)
            law[string] = law.get(string, 0) + weight * agree
            law[(0,) * 6] = law.get((0,) * 6, 0) + weight * (1 - agree)
        alone.append(law)
    drawn = laws.of_sampler(lambda g: counted(accepted(mechanism, [1, 0, 1], 1, g), mechanism.channel, g))
    assert laws.distance(drawn, laws.of_devices(alone)) < 1e-12
    all_accept = laws.of_sampler(lambda g: counted(everyone([1, 0, 1], 1), mechanism.channel, g))
    assert laws.distance(all_accept, laws.of_devices(alone)) > 0.1


EIGHT = Buckets.even(64, 8)
PLAN = Plan(
    "counts",
    1,
    60,
    60,
    (
        Metric("mean", OneBitMean(1, 64), Flip("0.1")),
        Metric("steps", OneBitMean(2, grid=Grid([0, 7, 30, 64]))),
        Metric("hadamard", HadamardBit(1, EIGHT), Flip("0.2")),
        Metric("tight", DBitFlip(1, EIGHT, 1)),
        Metric("paper", DBitFlip(2, EIGHT, 3, "paper"), Flip("0.1")),
        Metric("every", DBitFlip(2, EIGHT, 8)),
    ),
)


def draw(metric, tally, repetitions, source):
    """(reports, ones) per repetition, as counts."""
    mechanism = metric.mechanism
    if isinstance(mechanism, OneBitMean):
        ones = ones_of_mean(mechanism, metric.flip, tally, repetitions, source)[:, None]
        return np.full_like(ones, tally.total), ones
    devices = tally.per_bucket(mechanism.buckets)
    asked = (rows if isinstance(mechanism, HadamardBit) else windows)(mechanism, devices, repetitions, source)
    return asked.reports, ones_of(asked, metric.flip.channel(mechanism.response), source)


def counts_of(reports):
    (counts,) = count_reports(reports, PLAN).values()
    return {name: list(each.rows()) for name, each in counts.items()}


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(9).choice([0, 0, 0, 5, 17, 31, 40, 63, 64], 400)


def test_devices_of_the_sdk_count_as_drawn(values):
    """
    One round of 4,000 devices of the SDK: each count within 5.6 standard deviations of the mean of the draws.

    40 counts, each off by chance once in 5e7: the false-alarm rate is below 1e-6. Counts of a fleet with
    other values are refused (but for the Hadamard bit, whose single rows say too little).
    """
    fleet = SdkFleet(PLAN, 4_000, seed=5)
    many, source = np.tile(values, 10), np.random.default_rng(6)
    found = counts_of(list(fleet.reports(0, {metric.name: many.tolist() for metric in PLAN.metrics})))
    refused = 0
    for metric in PLAN.metrics:
        for tally, wrong in ((Tally.of(many), False), (Tally.of(np.full_like(many, 64)), True)):
            _, ones = draw(metric, tally, 4_000, source)
            score = np.abs(np.array([row[2] for row in found[metric.name]]) - ones.mean(axis=0)) / ones.std(
                axis=0
            )
            assert wrong or score.max() < 5.6, metric.name
            refused += wrong and score.max() > 5.6
    assert refused >= len(PLAN.metrics) - 1


def test_vectorised_fleets_vary_as_drawn(values):
    """
    120 fleets of 200 devices: means, variances and neighbours' covariances of reports and ones.

    Each of 162 figures may be off by 5.8 standard errors of the 120 (7e-9 by chance): below 2e-6 in all, with
    a fixed seed. Buckets drawn as the paper does, not in windows, are refused by the covariances.
    """
    values = values[:200]
    columns = {metric.name: values for metric in PLAN.metrics}
    fleets = [
        counts_of(from_packed(VectorisedFleet(PLAN, 200, seed).packed(0, columns), PLAN))
        for seed in range(120)
    ]
    source, tally = np.random.default_rng(8), Tally.of(values)
    for metric in PLAN.metrics:
        seen = np.array([[row[1:] for row in fleet[metric.name]] for fleet in fleets]).transpose(2, 0, 1)
        assert worst(seen, draw(metric, tally, 20_000, source)) < 5.8, metric.name
    paper = PLAN.by_name["paper"]
    seen = np.array([[row[1:] for row in fleet["paper"]] for fleet in fleets]).transpose(2, 0, 1)
    asked = subsets(tally.per_bucket(EIGHT), 3, 20_000, source)
    drawn = asked.reports, ones_of(asked, paper.flip.channel(paper.mechanism.response), source)
    assert worst(seen, drawn) > 5.8


def worst(seen, drawn):
    """The largest difference between moments of counts seen and counts drawn, in standard errors."""
    scores = [0.0]
    for few, many in zip(seen, drawn, strict=True):
        centre = many.mean(axis=0)
        for first, second in ((few, many), *(_products(few, many, centre, shift) for shift in range(2))):
            error = np.hypot(second.std(axis=0) / len(first) ** 0.5, second.std(axis=0) / len(second) ** 0.5)
            moved = np.abs(first.mean(axis=0) - second.mean(axis=0))[error > 0] / error[error > 0]
            scores += moved.tolist()
    return max(scores)


def _products(few, many, centre, shift):
    """Squares (shift 0), or products of every two rows (shift 1)."""
    if shift == 0:
        return (few - centre) ** 2, (many - centre) ** 2
    one, other = np.triu_indices(few.shape[1], 1)
    return tuple((each - centre)[:, one] * (each - centre)[:, other] for each in (few, many))
