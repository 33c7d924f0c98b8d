"""The simulation of counts against plain device-by-device simulation: the same errors, in less time."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from time import thread_time

import numpy as np
from numpy.typing import NDArray

from paper.device_by_device import answers, estimated_mean
from paper.experiment import Progress, Result, Setting, Table, quiet
from paper.fleet_days import in_parallel, stand_in
from paper.histogram_methods import BUCKETS, OURS, PAPER, Fleet, Method, ask
from paper.mean_errors import FLIPS, LINES, estimated_means
from paper.population_cache import generator
from reticent.lab.fleet_counts import Tally
from reticent.mechanisms import Buckets

DEVICES = 5_000
REPETITIONS = 400
"""The slice that is simulated device by device."""

AT = (1.0, 5.0)
"""The ε of the comparison."""

BOUND = 4.5
"""Means and deviations agree up to so many standard errors of their difference."""

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
        """The difference of the standard deviations, in standard errors."""
        spread = hypot(_uncertain_deviation(self.by_device), _uncertain_deviation(self.by_count))
        return float((self.by_device.std() - self.by_count.std()) / spread)

    @property
    def agrees(self) -> bool:
        """Whether both are within the bound."""
        return abs(self.of_means) <= BOUND and abs(self.of_deviations) <= BOUND


def _uncertain_deviation(errors: Errors) -> float:
    """The standard error of a standard deviation, for any law: √((μ₄ - σ⁴)/(4σ²N))."""
    deviation = float(errors.std())
    fourth = float(((errors - errors.mean()) ** 4).mean())
    return sqrt((fourth - deviation**4) / (4 * deviation**2 * errors.size))


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """Errors of every mechanism of Figures 4 and 5, simulated in both ways on a slice of the fleet."""
    devices = min(DEVICES, *setting.fleets)
    population = stand_in(setting)
    values = population.values(devices, 1, generator(setting.seed, "check", "values"))[0].astype(np.int64)
    compared = _compare(values, population.max_value, setting, progress)
    agreeing = sum(each.agrees for each in compared)
    return Result(
        "check",
        "Counts against devices",
        f"{devices:,} devices on one day, {compared[0].by_device.size:,} repetitions device by device and "
        f"{setting.repetitions:,} as counts. The means and standard deviations of the errors differ by at "
        f"most {BOUND:g} standard errors in {agreeing} of {len(compared)} comparisons (if the laws are the "
        "same, about one in 70,000 differs by more). Times are processor time on the slice and differ from "
        "run to run.",
        (_agreement(compared), _times(compared, devices, setting)),
    )


def _compare(
    values: NDArray[np.int64], max_value: int, setting: Setting, progress: Progress
) -> list[Compared]:
    mechanisms: list[str | Method] = [*(line.mechanism for line in LINES), *PAPER, *OURS]
    tasks = [(mechanism, epsilon) for mechanism in mechanisms for epsilon in AT]
    done = 0

    def work(task: tuple[str | Method, float]) -> Compared:
        nonlocal done
        mechanism, epsilon = task
        if isinstance(mechanism, str):
            compared = _means(mechanism, epsilon, values, max_value, setting)
        else:
            compared = _histograms(mechanism, epsilon, values, max_value, setting)
        done += 1
        progress(done, len(tasks))
        return compared

    return in_parallel(work, tasks)


def _means(
    mechanism: str, epsilon: float, values: NDArray[np.int64], max_value: int, setting: Setting
) -> Compared:
    gamma = float(FLIPS[mechanism].probability) if mechanism in FLIPS else None
    source = generator(setting.seed, "check", mechanism, str(epsilon))
    runs = range(min(REPETITIONS, setting.repetitions))
    truth = values.mean()
    start = thread_time()
    one_by_one = [estimated_mean(values, max_value, epsilon, gamma, source) for _ in runs]
    middle = thread_time()
    counted = estimated_means(mechanism, epsilon, [Tally.of(values)], max_value, setting.repetitions, source)
    end = thread_time()
    plain, quick = (np.abs(np.asarray(each) - truth) for each in (one_by_one, counted[0]))
    return Compared(mechanism, epsilon, plain, quick, middle - start, end - middle, setting.days)


def _histograms(
    method: Method, epsilon: float, values: NDArray[np.int64], max_value: int, setting: Setting
) -> Compared:
    source = generator(setting.seed, "check", method.name, str(epsilon))
    per_bucket = Tally.of(values).per_bucket(Buckets.even(max_value, BUCKETS))
    buckets, truth = np.repeat(np.arange(BUCKETS), per_bucket), per_bucket / len(values)
    start = thread_time()
    one_by_one = [
        method.estimate(epsilon, len(values), answers(method, epsilon, buckets, source))
        for _ in range(min(REPETITIONS, setting.repetitions))
    ]
    middle = thread_time()
    devices = np.broadcast_to(per_bucket, (setting.repetitions, BUCKETS))
    fleet = Fleet(devices, {method.asks: ask(method.asks, devices, source)})
    counted = method.estimate(epsilon, len(values), method.answers(epsilon, fleet, source))
    end = thread_time()
    plain, quick = (np.abs(each - truth).max(axis=1) for each in (np.concatenate(one_by_one), counted))
    return Compared(method.name, epsilon, plain, quick, middle - start, end - middle, 1)


def _agreement(compared: list[Compared]) -> Table:
    rows = [
        (
            each.mechanism,
            each.epsilon,
            float(each.by_device.mean()),
            float(each.by_count.mean()),
            each.of_means,
            float(each.by_device.std()),
            float(each.by_count.std()),
            each.of_deviations,
            "yes" if each.agrees else "no",
        )
        for each in compared
    ]
    columns = (
        "mechanism",
        "ε",
        "mean error, devices",
        "mean error, counts",
        "difference (standard errors)",
        "deviation, devices",
        "deviation, counts",
        "difference (standard errors) ",
        "agree",
    )
    return Table("check", "Errors simulated device by device and as counts", columns, tuple(rows))


def _times(compared: list[Compared], devices: int, setting: Setting) -> Table:
    most, rows = max(setting.fleets), []
    for each in compared:
        per_round = each.seconds_by_device / each.by_device.size / devices
        plain = per_round * most * setting.repetitions * each.days
        counted = each.seconds_by_count * each.days
        rows.append((each.mechanism, each.epsilon, 1e6 * per_round, plain / 3600, counted, plain / counted))
    columns = (
        "mechanism",
        "ε",
        "devices: seconds per million",
        f"devices: hours for a point of the figure ({most:,} devices)",
        "counts: seconds for a point of the figure",
        "times faster",
    )
    return Table("check-time", "Processor time, extrapolated to full size", columns, tuple(rows))
