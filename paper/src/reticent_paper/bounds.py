"""Theorems 1, 2 and 3 against what happens: bounds, errors, and the intervals that reticent gives instead."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil, log

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.mechanisms import SCALE, Buckets, DBitFlip, OneBitMean
from reticent.plan import Metric
from reticent_collector.estimates import clopper_pearson, expected_half_width, paper_bound
from reticent_paper.claims import (
    DAY,
    EPSILONS,
    ExperimentResult,
    Finding,
    NumberTable,
    Rows,
    Setting,
    claim,
    table,
)
from reticent_paper.fleet_counts import ones_of, subsets
from reticent_paper.values import generator

SAME_ORDER = 1.1
CONFIDENCE = 0.95
FLEETS = (1_000, 10_000, 100_000, 1_000_000)
LOOKED_AT = (0.1, 1.0, 5.0)
PLACES = (0.01, 0.5)  # Means looked at, as parts of the range: near its end, and in its middle
BUCKETS = 32
HISTOGRAM_RUNS = 300  # Simulated rounds per histogram, at most
TINY_BUCKETS = 100
TINY_MISS = 0.2  # k and δ of the counter-example to Theorem 2, with one device, d = 1 and ε = 2 ln 3


def run(setting: Setting) -> ExperimentResult:
    """All tables of bounds, and the claims about them."""
    means = mean_bounds(setting)
    histograms = histogram_bounds(setting)
    orders = order_of_magnitude()
    tiny = tiny_fleet()
    chosen = chosen_values(setting)
    grids = any_granularity()
    return ExperimentResult(
        "bounds",
        "Bounds",
        "The error bounds of the theorems, errors, and exact intervals beside them, at 95 %.",
        tables=(means, histograms, tiny, orders, chosen, grids),
        claims=(
            theorem_1(means),
            theorem_2(histograms, tiny),
            theorem_2_order(orders),
            worst_case(chosen),
            theorem_3(grids),
        ),
    )


@table("theorem-1")
def mean_bounds(setting: Setting) -> Rows:
    """Theorem 1: mean of seconds in a day, all devices at one value"""
    draw = generator(setting.seed, "tables", "means")
    for devices, epsilon, place in product(FLEETS, LOOKED_AT, PLACES):
        metric = Metric("seconds", OneBitMean(epsilon, DAY))
        channel = metric.channel
        truth = place * DAY
        bound = paper_bound(metric, devices, CONFIDENCE)
        ones = draw.binomial(devices, float(channel.share(place)), setting.repetitions)
        errors = np.abs(DAY * channel.truth(ones / devices) - truth)
        by_bound, by_interval = coverages(metric, devices, place, bound)
        yield {
            "devices": devices,
            "ε": epsilon,
            "mean / m": place,
            "mean error (s)": float(errors.mean()),
            "95 % of errors below (s)": float(np.quantile(errors, CONFIDENCE)),
            "our half-width (s)": expected_half_width(metric, devices, CONFIDENCE, at=truth),
            "paper's bound (s)": bound,
            "bound covers": by_bound,
            "our interval covers": by_interval,
        }


def coverages(metric: Metric, devices: int, place: float, bound: float) -> tuple[float, float]:
    """How often the bound, and the Clopper-Pearson interval, hold the truth: binomial probabilities."""
    channel = metric.channel
    share = float(channel.share(place))
    spread = 10 * np.sqrt(devices * share * (1 - share)) + 10
    centre = devices * share
    ones = np.arange(max(0, int(centre - spread)), min(devices, int(centre + spread)) + 1)
    chances = binom.pmf(ones, devices, share)
    near = np.abs(channel.truth(ones / devices) - place) * DAY <= bound
    lower, upper = clopper_pearson(ones, devices, CONFIDENCE)
    inside = (lower <= share) & (share <= upper)
    return float(chances[near].sum()), float(chances[inside].sum())


@table("theorem-2")
def histogram_bounds(setting: Setting) -> Rows:
    """Theorem 2: 32 buckets, dBitFlip as printed, largest error over all buckets"""
    for devices, bits, epsilon in product((10_000, 300_000), (1, BUCKETS), (0.1, 1.0, 10.0)):
        draw = generator(setting.seed, "tables", "histograms", f"{devices} {bits} {epsilon}")
        mechanism = DBitFlip(epsilon, Buckets.even(DAY, BUCKETS), bits, "paper")
        metric = Metric("seconds", mechanism)
        channel = metric.channel
        in_buckets = heavy_first(devices)
        asked = subsets(in_buckets, bits, min(setting.repetitions, HISTOGRAM_RUNS), draw)
        ones = ones_of(asked, channel, draw)
        truth = in_buckets / devices
        expected = devices * bits / BUCKETS
        shares = (ones - asked.reports * float(channel.low)) / float(channel.contrast) / expected
        worst = np.abs(shares - truth).max(axis=1)
        ends = clopper_pearson(ones, asked.reports, CONFIDENCE, together=BUCKETS)
        lower, upper = (channel.truth(end) for end in ends)
        bound = paper_bound(metric, devices, CONFIDENCE)
        yield {
            "devices": devices,
            "d": bits,
            "ε": epsilon,
            "mean error": float(worst.mean()),
            "95 % of errors below": float(np.quantile(worst, CONFIDENCE)),
            "our half-width": expected_half_width(metric, devices, CONFIDENCE),
            "paper's bound": bound,
            "bound covers": float((worst <= bound).mean()),
            "our intervals cover": float(((lower <= truth) & (truth <= upper)).all(axis=1).mean()),
        }


def heavy_first(devices: int) -> NDArray[np.int64]:
    """Devices per bucket: half in the first, half of the rest in the next, and so on."""
    in_buckets = [devices >> (bucket + 1) for bucket in range(BUCKETS)]
    in_buckets[0] += devices - sum(in_buckets)
    return np.array(in_buckets)


@table("theorem-2-tiny")
def tiny_fleet() -> Rows:
    """Theorem 2 for one device: k = 100, d = 1, ε = 2 ln 3, δ = 0.2, by enumeration"""
    epsilon = Fraction(2 * log(3)).limit_denominator(10**12)
    metric = Metric("seconds", DBitFlip(epsilon, Buckets.even(100, TINY_BUCKETS), 1, "paper"))
    bound = paper_bound(metric, 1, 1 - TINY_MISS)
    channel = metric.channel
    miss = Fraction(0)
    worst = 0.0
    for asked, bit in product(range(TINY_BUCKETS), (0, 1)):
        one = channel.high if asked == 0 else channel.low
        frequency = float(TINY_BUCKETS * (bit - channel.low) / channel.contrast)
        error = max(abs(frequency - (asked == 0)), float(asked != 0))
        if error > bound:
            miss += Fraction(1, TINY_BUCKETS) * (one if bit else 1 - one)
            worst = max(worst, error)
    yield {
        "devices": 1,
        "paper's bound": bound,
        "largest error": worst,
        "allowed to miss": TINY_MISS,
        "misses": float(miss),
        "devices from which it is proved": ceil(log(6 * TINY_BUCKETS / TINY_MISS) / 4 * TINY_BUCKETS),
    }


@table("theorem-2-order")
def order_of_magnitude() -> Rows:
    """Theorem 2's bound against its order of magnitude (d = 4, n = 300,000)"""
    first = 0.0
    for epsilon in EPSILONS:
        metric = Metric("seconds", DBitFlip(epsilon, Buckets.even(DAY, BUCKETS), 4, "paper"))
        bound = paper_bound(metric, 300_000, CONFIDENCE)
        scaled = bound * epsilon
        first = first or scaled
        yield {"ε": epsilon, "bound": bound, "bound · ε": scaled, "relative to ε = 0.1": scaled / first}


@table("chosen-values")
def chosen_values(setting: Setting) -> Rows:
    """The error, in parts of the range, were values chosen after the coins (ε = 1)"""
    metric = Metric("part", OneBitMean(1, 1))
    channel = metric.channel
    for devices in FLEETS:
        coins = generator(setting.seed, "tables", "chosen", str(devices)).random(devices)
        bits = coins < float(channel.high)
        values = np.where(bits, np.clip(channel.truth(coins), 0, 1), 0)
        error = float(channel.truth(bits.mean()) - values.mean())
        bound = paper_bound(metric, devices, CONFIDENCE)
        yield {"devices": devices, "error": error, "Theorem 1's bound": bound, "error / bound": error / bound}


@table("theorem-3")
def any_granularity() -> Rows:
    """Theorem 3: the chance of a 1 after α-point rounding, against Eq. 1 (ε = 1)"""
    values = range(0, DAY + 1, 1_350)
    unrounded = OneBitMean(1, DAY, step=1_350).cell_thresholds
    for parts in (1, 2, 3, 20):
        mechanism = OneBitMean(1, DAY, Fraction(DAY, parts))
        apart = max(
            abs(chance_after_rounding(mechanism, value) - Fraction(straight, SCALE))
            for value, straight in zip(values, unrounded, strict=True)
        )
        yield {"m/s": parts, "values": len(values), "largest difference": float(apart)}


def chance_after_rounding(mechanism: OneBitMean, value: int) -> Fraction:
    """The chance of a remembered 1 over all 2⁶⁴ alphas: the least that rounds up is found by bisection."""
    below = mechanism.grid.cell(value, 0)
    least = 0
    none = SCALE
    while least < none:
        middle = (least + none) // 2
        if mechanism.grid.cell(value, middle) > below:
            none = middle
        else:
            least = middle + 1
    up = Fraction(SCALE - least, SCALE)
    above = mechanism.cell_thresholds[min(below + 1, mechanism.grid.steps)]
    return ((1 - up) * mechanism.cell_thresholds[below] + up * above) / SCALE


@claim("§2.1, Theorem 1 and Lemma 3", "With probability at least 1-δ", "", "exact")
def theorem_1(table: NumberTable) -> Finding:
    """With probability 1 - δ the error of the mean is within the bound."""
    covers = table.numbers("bound covers")
    return Finding(
        f"covered {100 * min(covers):.2f} % or more, at 95 %",
        min(covers) >= CONFIDENCE,
        "the bound misses too often",
    )


@claim("§2.2, Theorem 2", "With probability at least 1-δ", "E6")
def theorem_2(table: NumberTable, tiny: NumberTable) -> Finding:
    """The bound on the largest error of a bucket holds for any n."""
    covers = table.numbers("bound covers")
    (misses,), (allowed,) = tiny.numbers("misses"), tiny.numbers("allowed to miss")
    large = min(covers) >= CONFIDENCE
    small = misses <= allowed
    return Finding(
        f"misses {misses:.3f} > {allowed:g} with n = 1",
        large and small,
        "nd/k ≥ ln(6k/δ)/4" if large else "nor does it for large fleets",
    )


@claim(
    "§2.2, Theorem 2",
    "the union bound over the k buckets",
    "E7",
    "exact",
    f"of this order: within {SAME_ORDER:g} times of its value at ε = 0.1",
)
def theorem_2_order(table: NumberTable) -> Finding:
    """The bound is O(√(k log(k/δ)/(ε²nd)))."""
    relative = table.numbers("relative to ε = 0.1")
    return Finding(
        f"off by {relative[-1]:.2f} at ε = 10", max(relative) < SAME_ORDER, "for ε = O(1)", partly=True
    )


@claim("§1.1", "we do worst case analysis", "E25")
def worst_case(table: NumberTable) -> Finding:
    """The error is the maximum over all vectors of values: a worst-case analysis."""
    ratios = table.numbers("error / bound")
    return Finding(
        f"{max(ratios):,.0f} times the bound if values follow the coins",
        max(ratios) <= 1,
        "for each fixed vector",
        partly=True,
    )


@claim("§3.1, Theorem 3", "Independent of the value of discretization granularity s", "", "exact")
def theorem_3(table: NumberTable) -> Finding:
    """The accuracy with α-point rounding is that of Theorem 1 for any granularity s."""
    apart = max(table.numbers("largest difference"))
    return Finding(f"probabilities differ by {apart:.0e}", apart < 1e-15, "rounding is biased")
