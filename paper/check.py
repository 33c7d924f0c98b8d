"""
The simulation of counts against plain device-by-device simulation: the same errors, in less time.

The plain way computes chances from ε and γ with `math.exp` and draws bits per device; it shares nothing with
`reticent.lab.fleet_counts` but the mechanisms' definitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import exp, hypot, sqrt
from time import thread_time

import numpy as np
from numpy.typing import NDArray

from paper import histograms
from paper.claims import Result, Rows, Setting, table
from paper.means import FLIPS, MECHANISMS, estimated_means
from paper.values import generator, in_parallel, stand_in
from reticent.errors import ParameterError
from reticent.lab.fleet_counts import Tally
from reticent.mechanisms import Buckets, hadamard_sign

DEVICES = 5_000
REPETITIONS = 400
"""The slice that is simulated device by device."""

AT = (1.0, 5.0)
"""The ε of the comparison."""

BOUND = 4.5
"""Means and deviations agree up to so many standard errors of their difference."""

Numbers = NDArray[np.int64]
Errors = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One mechanism at one ε, simulated in both ways."""

    mechanism: str
    epsilon: float
    by_device: Errors
    by_count: Errors
    seconds_by_device: float
    """Processor time of all repetitions."""
    seconds_by_count: float
    days: int
    """Days that one point of a figure takes per repetition."""

    @property
    def of_means(self) -> float:
        """The difference of the mean errors, in standard errors."""
        spread = hypot(*(errors.std() / sqrt(errors.size) for errors in (self.by_device, self.by_count)))
        return float((self.by_device.mean() - self.by_count.mean()) / spread)

    @property
    def of_deviations(self) -> float:
        """The difference of the standard deviations, in standard errors: √((μ₄ - σ⁴)/(4σ²N)), for any law."""

        def uncertainty(errors: Errors) -> float:
            deviation = float(errors.std())
            fourth = float(((errors - errors.mean()) ** 4).mean())
            return sqrt((fourth - deviation**4) / (4 * deviation**2 * errors.size))

        spread = hypot(uncertainty(self.by_device), uncertainty(self.by_count))
        return float((self.by_device.std() - self.by_count.std()) / spread)

    @property
    def agrees(self) -> bool:
        """Whether both are within the bound."""
        return abs(self.of_means) <= BOUND and abs(self.of_deviations) <= BOUND


def run(setting: Setting) -> Result:
    """Errors of every mechanism of Figures 4 and 5, simulated in both ways on a slice of the fleet."""
    devices = min(DEVICES, *setting.fleets)
    population = stand_in(setting)
    values = population.values(devices, 1, generator(setting.seed, "check", "values"))[0].astype(np.int64)
    mechanisms: list[str | histograms.Method] = [*MECHANISMS, *histograms.PAPER, *histograms.OURS]

    compared = in_parallel(
        lambda task: compare(*task, values, population.max_value, setting), product(mechanisms, AT)
    )
    agreeing = sum(comparison.agrees for comparison in compared)
    return Result(
        "check",
        "Counts against devices",
        f"{devices:,} devices on one day, {compared[0].by_device.size:,} repetitions device by device and "
        f"{setting.repetitions:,} as counts. The means and standard deviations of the errors differ by at "
        f"most {BOUND:g} standard errors in {agreeing} of {len(compared)} comparisons (if the laws are the "
        "same, about one in 70,000 differs by more). Times are processor time on the slice and differ from "
        "run to run.",
        (agreement(compared), times(compared, devices, setting)),
    )


def compare(
    mechanism: str | histograms.Method, epsilon: float, values: Numbers, max_value: int, setting: Setting
) -> Compared:
    """Both ways to simulate estimated means, or histograms."""
    name = mechanism if isinstance(mechanism, str) else mechanism.name
    source = generator(setting.seed, "check", name, str(epsilon))
    runs, tally = range(min(REPETITIONS, setting.repetitions)), Tally.of(values)
    start = thread_time()
    if isinstance(mechanism, str):
        one_by_one = [mean_by_device(mechanism, epsilon, values, max_value, source) for _ in runs]
        middle = thread_time()
        counted = estimated_means(mechanism, epsilon, (tally,), max_value, setting.repetitions, source)[0]
        end = thread_time()
        plain, quick = (np.abs(np.asarray(means) - values.mean()) for means in (one_by_one, counted))
        return Compared(name, epsilon, plain, quick, middle - start, end - middle, setting.days)
    per_bucket = tally.per_bucket(Buckets.even(max_value, histograms.BUCKETS))
    buckets, truth = np.repeat(np.arange(histograms.BUCKETS), per_bucket), per_bucket / len(values)
    start = thread_time()
    shares = [
        mechanism.estimate(epsilon, len(values), answers_by_device(mechanism, epsilon, buckets, source))
        for _ in runs
    ]
    middle = thread_time()
    devices = np.broadcast_to(per_bucket, (setting.repetitions, histograms.BUCKETS))
    fleet = histograms.Fleet(devices, {mechanism.asks: histograms.ask(mechanism.asks, devices, source)})
    counted = mechanism.estimate(epsilon, len(values), mechanism.answers(epsilon, fleet, source))
    end = thread_time()
    plain, quick = (np.abs(estimated - truth).max(axis=1) for estimated in (np.concatenate(shares), counted))
    return Compared(name, epsilon, plain, quick, middle - start, end - middle, 1)


def mean_by_device(
    mechanism: str, epsilon: float, values: Numbers, max_value: int, source: np.random.Generator
) -> float:
    """One round of 1BitRRPM, with or without flips, or of Laplace."""
    if mechanism not in FLIPS:
        return float((values + source.laplace(0.0, max_value / epsilon, len(values))).mean())
    gamma = float(FLIPS[mechanism].probability)
    up = source.integers(0, max_value, len(values)) < values
    remembered = source.random(len(values)) < _chance(epsilon, up)
    sent = remembered ^ (source.random(len(values)) < gamma)
    low, contrast = 1 / (exp(epsilon) + 1), (exp(epsilon) - 1) / (exp(epsilon) + 1)
    return float(max_value * ((sent.mean() - gamma) / (1 - 2 * gamma) - low) / contrast)


def answers_by_device(
    method: histograms.Method, epsilon: float, buckets: Numbers, source: np.random.Generator
) -> histograms.Answers:
    """One round of a histogram method for devices in these buckets."""
    devices, size = len(buckets), histograms.BUCKETS
    reports = np.full(histograms.BUCKETS, devices)
    match method:
        case histograms.BitFlip():
            # Each device draws its d buckets: those with the d smallest of k random numbers.
            order = np.argpartition(source.random((devices, histograms.BUCKETS)), method.width - 1, axis=1)
            picks = order[:, : method.width]
            exponent = epsilon if method.tight and method.width == 1 else epsilon / 2
            bits = source.random(picks.shape) < _chance(exponent, picks == buckets[:, None])
            reports, ones = (np.bincount(some, minlength=size) for some in (picks.ravel(), picks[bits]))
        case histograms.EveryBucket():
            own = buckets[:, None] == np.arange(histograms.BUCKETS)
            ones = (source.random((devices, histograms.BUCKETS)) < _chance(epsilon / 2, own)).sum(axis=0)
        case histograms.OneName():
            true = source.random(devices) < exp(epsilon) / (exp(epsilon) + histograms.BUCKETS - 1)
            lie = (buckets + source.integers(1, histograms.BUCKETS, devices)) % histograms.BUCKETS
            ones = np.bincount(np.where(true, buckets, lie), minlength=size)
        case histograms.Accepted():
            public = source.random((devices, histograms.BUCKETS)) < 1 / (exp(epsilon / 2) + 1)
            own = public[np.arange(devices), buckets]
            kept = public[source.random(devices) < _chance(epsilon, own)]
            reports, ones = np.full(histograms.BUCKETS, len(kept)), kept.sum(axis=0)
        case histograms.Hadamard():
            size = 2 * histograms.BUCKETS
            rows = source.integers(0, size, devices)
            bits = source.random(devices) < _chance(epsilon, hadamard_sign(rows, buckets + 1) > 0)
            reports, ones = (np.bincount(some, minlength=size) for some in (rows, rows[bits]))
        case _:
            raise ParameterError("method", "a method of the figures", method.name)
    return histograms.Answers(reports[None, :], ones[None, :])


def _chance(exponent: float, truth: NDArray[np.bool_]) -> Errors:
    """The chance of a 1 by randomized response: e^h/(e^h + 1) where the truth is yes."""
    return np.where(truth, exp(exponent), 1.0) / (exp(exponent) + 1)


@table("check")
def agreement(compared: list[Compared]) -> Rows:
    """Errors simulated device by device and as counts"""
    for comparison in compared:
        yield {
            "mechanism": comparison.mechanism,
            "ε": comparison.epsilon,
            "mean error, devices": float(comparison.by_device.mean()),
            "mean error, counts": float(comparison.by_count.mean()),
            "difference (standard errors)": comparison.of_means,
            "deviation, devices": float(comparison.by_device.std()),
            "deviation, counts": float(comparison.by_count.std()),
            "difference (standard errors) ": comparison.of_deviations,
            "agree": "yes" if comparison.agrees else "no",
        }


@table("check-time")
def times(compared: list[Compared], devices: int, setting: Setting) -> Rows:
    """Processor time, extrapolated to full size"""
    most = max(setting.fleets)
    for comparison in compared:
        per_round = comparison.seconds_by_device / comparison.by_device.size / devices
        plain = per_round * most * setting.repetitions * comparison.days
        counted = comparison.seconds_by_count * comparison.days
        yield {
            "mechanism": comparison.mechanism,
            "ε": comparison.epsilon,
            "devices: seconds per million": 1e6 * per_round,
            f"devices: hours for a point of the figure ({most:,} devices)": plain / 3600,
            "counts: seconds for a point of the figure": counted,
            "times faster": plain / counted,
        }
