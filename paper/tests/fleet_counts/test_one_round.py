"""One round as counts: exact laws of tiny fleets, then the devices of the SDK."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kstest, laplace
from tests.shared.exact_laws import bits_about, distance, law_of_devices, law_of_sampler, mixed

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean, hadamard_sign
from reticent.plan import Metric, Plan
from reticent.reports import from_packed
from reticent_collector.counts import count_reports
from reticent_lab.fleet import SdkFleet, VectorisedFleet
from reticent_paper.baselines import BinFlip, BinFlipPlus, KFlip, Laplace
from reticent_paper.fleet_counts import (
    SumOfBits,
    Tally,
    by_cohort,
    chances_of_one,
    everyone,
    named,
    ones_of,
    ones_of_mean,
    subsets,
    total_of_laplace,
)

THREE, FOUR = Buckets.even(3, 3), Buckets.even(4, 4)


@pytest.mark.parametrize("shift", [0, 1 << 25])
def test_a_tally_knows_what_the_values_knew(shift):
    values = np.random.default_rng(1).integers(0, 50, 1000) + shift
    tally = Tally.of(values)
    assert np.array_equal(np.repeat(tally.values, tally.devices), np.sort(values))
    assert (tally.total, tally.mean) == (1000, pytest.approx(values.mean()))
    assert tally.variance == pytest.approx(values.var())


@pytest.mark.parametrize("edges", [Buckets.even(86_400, 32), Buckets([0, Fraction(5, 2), 7, 10])])
def test_buckets_are_those_of_the_device(edges):
    values = np.random.default_rng(2).integers(0, int(edges.max_value) + 1, 2000)
    values[:3] = 0, int(edges.max_value), int(edges.edges[1])
    expected = [0] * len(edges)
    for value in values.tolist():
        expected[edges.index(value)] += 1
    assert Tally.of(values).per_bucket(edges).tolist() == expected


@pytest.mark.parametrize(
    "values", [np.array([0.5]), np.array([-1]), np.array([], int), np.zeros((2, 2), int)]
)
def test_what_is_no_round_is_refused(values):
    with pytest.raises(ParameterError, match="one whole number >= 0 per device"):
        Tally.of(values)


# Means


def seen_chance(mechanism: OneBitMean, flip: Flip, value: int) -> Fraction:
    """Over all 2⁶⁴ alphas and the draws of the memo and the flip, from the thresholds of the device."""
    low, high = 0, SCALE  # the least alpha that takes the value up, by bisection on the device's own rule
    while low < high:
        middle = (low + high) // 2
        if mechanism.grid.cell(value, middle) > mechanism.grid.cell(value, 0):
            high = middle
        else:
            low = middle + 1
    below = mechanism.grid.cell(value, 0)
    up = Fraction(SCALE - low, SCALE)
    chance = (1 - up) * Fraction(mechanism.cell_thresholds[below], SCALE)
    if up:
        chance += up * Fraction(mechanism.cell_thresholds[below + 1], SCALE)
    turned = Fraction(flip.threshold, SCALE)
    return chance * (1 - turned) + (1 - chance) * turned


@pytest.mark.parametrize("gamma", ["0", "1/3"])
@pytest.mark.parametrize("mechanism", [OneBitMean(1, 60), OneBitMean("5", grid=Grid([0, 7, 30, 60]))])
def test_the_chance_of_a_one_is_that_of_the_device(mechanism, gamma):
    values = [0, 1, 7, 29, 30, 59, 60]
    found = chances_of_one(mechanism, Flip(gamma), np.array(values))
    expected = [float(seen_chance(mechanism, Flip(gamma), value)) for value in values]
    assert found.tolist() == pytest.approx(expected, abs=1e-15)


def test_the_count_of_a_tiny_fleet_has_the_law_of_its_devices():
    mechanism, flip, values = OneBitMean(1, 60), Flip("1/10"), [0, 13, 13, 60]
    exact = law_of_devices(
        {(1,): chance, (0,): 1 - chance}
        for chance in (seen_chance(mechanism, flip, value) for value in values)
    )
    tally = Tally.of(np.array(values))
    drawn = law_of_sampler(lambda generator: ones_of_mean(mechanism, flip, tally, 1, generator))
    assert distance(drawn, exact) < 1e-12
    unflipped = law_of_sampler(lambda generator: ones_of_mean(mechanism, Flip(0), tally, 1, generator))
    assert distance(unflipped, exact) > 0.01
    first, law = SumOfBits(chances_of_one(mechanism, flip, tally.values), tally.devices).law()
    assert distance({(first + place,): mass for place, mass in enumerate(law)}, exact) < 1e-12


def test_one_laplace_device_is_laplace():
    """Kolmogorov-Smirnov on 20,000 draws, false alarm 1e-6; another scale is refused."""
    one = total_of_laplace(Laplace(1, 24), Tally.of(np.array([10])), 20_000, np.random.default_rng(3))
    assert kstest(one, laplace(10, 24).cdf).pvalue > 1e-6
    assert kstest(one, laplace(10, 22).cdf).pvalue < 1e-6


def test_many_laplace_devices_have_the_law_of_their_sum():
    """Two-sample Kolmogorov-Smirnov against a sum device by device, false alarm 1e-6."""
    source, values = np.random.default_rng(4), np.array([0, 3, 3, 20, 24])
    total = total_of_laplace(Laplace(2, 24), Tally.of(values), 20_000, source)
    plain = (values + source.laplace(0, 12, (20_000, 5))).sum(axis=1)
    assert kstest(total, plain).pvalue > 1e-6
    assert kstest(total, 1.1 * plain).pvalue < 1e-6


# Histograms: who is asked, and what they say


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
def test_subsets_have_the_law_of_devices_that_draw_them(width, devices):
    mechanism, flip = DBitFlip(2, THREE, width, "paper"), Flip("1/10")
    alone = {
        bucket: mixed(
            [
                bits_about(asked, 3, answer_chances(mechanism.response, bucket, asked, flip))
                for asked in combinations(range(3), width)
            ]
        )
        for bucket in range(3)
    }
    exact = law_of_devices(alone[bucket] for bucket in range(3) for _ in range(devices[bucket]))
    channel = flip.channel(mechanism.response)

    def law(per_bucket, seen=channel):
        return law_of_sampler(lambda source: counted(subsets(per_bucket, width, 1, source), seen, source))

    assert distance(law(devices), exact) < 1e-12
    assert distance(law(devices, Flip(0).channel(mechanism.response)), exact) > 0.01
    assert distance(law(devices[::-1] if devices != devices[::-1] else [2, 0, 0]), exact) > 0.01


def test_windows_have_the_law_of_cohorts_and_not_that_of_subsets():
    mechanism = DBitFlip(2, FOUR, 2, "tight", label="plan/hours")
    alone = {
        bucket: mixed(
            [
                bits_about(asked, 4, answer_chances(mechanism.response, bucket, asked))
                for asked in (mechanism.rows_of(cohort) for cohort in range(256))
            ]
        )
        for bucket in range(4)
    }
    exact = law_of_devices([alone[0], alone[2]])
    channel = Flip(0).channel(mechanism.response)
    drawn = law_of_sampler(lambda g: counted(by_cohort(mechanism, [1, 0, 1, 0], 1, g), channel, g))
    other = law_of_sampler(lambda g: counted(subsets([1, 0, 1, 0], 2, 1, g), channel, g))
    assert distance(drawn, exact) < 1e-12
    assert distance(other, exact) > 0.1


def test_hadamard_rows_have_the_law_of_devices():
    mechanism = HadamardBit(1, THREE)
    alone = {}
    for bucket in range(3):
        per_row = []
        for row in range(4):
            positive = hadamard_sign(row, bucket + 1) > 0
            chance = Fraction(mechanism.response.high if positive else mechanism.response.low, SCALE)
            per_row.append(bits_about((row,), 4, [chance]))
        alone[bucket] = mixed(per_row)
    exact = law_of_devices([alone[0], alone[2]])
    channel = Flip(0).channel(mechanism.response)
    drawn = law_of_sampler(lambda g: counted(by_cohort(mechanism, [1, 0, 1], 1, g), channel, g))
    assert distance(drawn, exact) < 1e-12
    wrong = law_of_sampler(lambda g: counted(by_cohort(mechanism, [1, 1, 0], 1, g), channel, g))
    assert distance(wrong, exact) > 0.01


def test_bin_flip_asks_everyone():
    mechanism = BinFlip(1, 3)
    alone = [
        bits_about((0, 1, 2), 3, answer_chances(mechanism.response, bucket, (0, 1, 2)))
        for bucket in (0, 0, 2)
    ]
    drawn = law_of_sampler(lambda g: counted(everyone([2, 0, 1], 1), mechanism.channel, g))
    assert distance(drawn, law_of_devices(alone)) < 1e-12


def test_k_flip_names_buckets_with_the_law_of_devices():
    mechanism = KFlip(1, 3)
    odds = mechanism.channel.high / mechanism.channel.low
    alone = [
        {
            tuple(int(place == name) for place in range(3)): (odds if name == bucket else 1) / (odds + 2)
            for name in range(3)
        }
        for bucket in (0, 0, 2)
    ]
    drawn = law_of_sampler(lambda g: named(mechanism, [2, 0, 1], 1, g)[0])
    assert distance(drawn, law_of_devices(alone)) < 1e-12
    wrong = law_of_sampler(lambda g: named(mechanism, [1, 1, 1], 1, g)[0])
    assert distance(wrong, law_of_devices(alone)) > 0.05


def test_bin_flip_plus_has_the_law_of_public_strings_and_acceptance():
    mechanism = BinFlipPlus(2, 3)
    low, accept = mechanism.channel.low, mechanism.response
    alone = []
    for bucket in (0, 2):
        law = {}
        for string, weight in bits_about((0, 1, 2), 3, [low] * 3).items():
            agree = Fraction(accept.high if string[3 + bucket] else accept.low, SCALE)
            law[string] = law.get(string, 0) + weight * agree
            law[(0,) * 6] = law.get((0,) * 6, 0) + weight * (1 - agree)
        alone.append(law)

    def accepting(g):  # as Figure 5 draws them
        return everyone(g.binomial(np.array([[1, 0, 1]]), mechanism.acceptance), 1)

    drawn = law_of_sampler(lambda g: counted(accepting(g), mechanism.channel, g))
    assert distance(drawn, law_of_devices(alone)) < 1e-12
    all_accept = law_of_sampler(lambda g: counted(everyone([1, 0, 1], 1), mechanism.channel, g))
    assert distance(all_accept, law_of_devices(alone)) > 0.1


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
    if metric.kind == "mean":
        ones = ones_of_mean(mechanism, metric.flip, tally, repetitions, source)[:, None]
        return np.full_like(ones, tally.total), ones
    devices = tally.per_bucket(mechanism.buckets)
    asked = by_cohort(mechanism, devices, repetitions, source)
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
