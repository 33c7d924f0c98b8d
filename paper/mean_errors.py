"""
How far off estimated means are: 1BitRRPM with and without flips, and Laplace (Figures 4 and 6).

One *repetition* gives every device a new alpha, memo and flips and runs all days; its error on a day is the
absolute difference between that day's estimate and the mean of that day's values. What is shown is the
average over days and repetitions, and the standard deviation of one day's error over both, which is what we
take the paper's error bars to be. Both depend on the law of single days only. (The deviation of a
repetition's *31-day average* is another quantity: remembered bits make the days of a repetition err together,
see `reticent.lab.fleet_counts`.) So each day is drawn by itself, as counts, with exactly the law of
device-by-device simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from paper.error_panels import Line, Panel, Spread
from paper.experiment import DAY, EPSILONS, Progress, Setting, quiet
from paper.fleet_days import SYNTHETIC, in_parallel, stand_in, stand_in_days, synthetic_days
from paper.population_cache import generator
from reticent.lab.baselines import Laplace
from reticent.lab.fleet_counts import Tally, ones_of_mean, total_of_laplace
from reticent.mechanisms import Flip, OneBitMean

FLIPS = {
    "1BitRRPM": Flip(0),
    "1BitRRPM+OP(1/10)": Flip("1/10"),
    "1BitRRPM+OP(1/3)": Flip("1/3"),
}
"""The paper's own mechanisms, by the flip probability."""

LINES = tuple(Line(name, place) for place, name in enumerate((*FLIPS, "Laplace")))


def stand_in_panels(setting: Setting, progress: Progress = quiet) -> tuple[Panel, ...]:
    """Figure 4: a panel per fleet size."""
    measured = []
    for place in range(len(setting.fleets)):
        measured.append(_stand_in_panel(place, setting))
        progress(place + 1, len(setting.fleets))
    return tuple(measured)


def synthetic_panels(setting: Setting, progress: Progress = quiet) -> tuple[Panel, ...]:
    """Figure 6: a panel per synthetic data set, of the smallest fleet."""
    measured = []
    for (title, _), days in zip(SYNTHETIC, synthetic_days(setting), strict=True):
        measured.append(measure(title, days, DAY, setting, f"fig6 {title}"))
        progress(len(measured), len(SYNTHETIC))
    return tuple(measured)


@lru_cache(maxsize=8)
def _stand_in_panel(place: int, setting: Setting) -> Panel:
    """Kept, since Figure 6 is compared with Figure 4."""
    days, title = stand_in_days(setting)[place], fleet_title(setting.fleets[place])
    return measure(title, days, stand_in(setting).max_value, setting, f"fig4 {title}")


def fleet_title(devices: int) -> str:
    """
    The number of devices as a title.

    >>> fleet_title(300_000), fleet_title(500)
    ('n = 0.3 million', 'n = 500')
    """
    return f"n = {devices / 1e6:g} million" if devices >= 100_000 else f"n = {devices:,}"


def measure(title: str, days: Sequence[Tally], max_value: int, setting: Setting, name: str) -> Panel:
    """The errors of each mechanism at each ε, over the days and `setting.repetitions`."""
    truths = np.array([day.mean for day in days])

    def spread(task: tuple[str, float]) -> Spread:
        mechanism, epsilon = task
        source = generator(setting.seed, name, mechanism, str(epsilon))
        estimates = estimated_means(mechanism, epsilon, days, max_value, setting.repetitions, source)
        return Spread.of(np.abs(estimates - truths[:, None]))

    tasks = [(line.mechanism, epsilon) for line in LINES for epsilon in EPSILONS]
    found = dict(zip(tasks, in_parallel(spread, tasks), strict=True))
    lines = {
        line.mechanism: {epsilon: found[line.mechanism, epsilon] for epsilon in EPSILONS} for line in LINES
    }
    return Panel(title, days[0].total, lines, float(truths.mean()))


def estimated_means(
    mechanism: str,
    epsilon: float,
    days: Sequence[Tally],
    max_value: int,
    repetitions: int,
    source: np.random.Generator,
) -> NDArray[np.float64]:
    """The estimated means, float64[days, repetitions]."""
    if mechanism == "Laplace":
        laplace = Laplace(epsilon, max_value)
        return np.stack([total_of_laplace(laplace, day, repetitions, source) / day.total for day in days])
    one_bit, flip = OneBitMean(epsilon, max_value), FLIPS[mechanism]
    seen = flip.channel(one_bit.response)
    shares = [ones_of_mean(one_bit, flip, day, repetitions, source) / day.total for day in days]
    return np.asarray(max_value * seen.truth(np.stack(shares)))
