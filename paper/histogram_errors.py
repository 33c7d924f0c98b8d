"""
How far off estimated histograms are: the largest error over 32 buckets (Figures 5 and 7).

One *repetition* is one day, the days taken in turn: with 3,000 repetitions each of 31 days is drawn 96 or 97
times, every time with new buckets, memos and noise for all devices. (The paper: "We repeat the experiment
3000 times".) The error is max_v |ĥ(v) - h(v)| against that day's own histogram. Shown are its mean and its
standard deviation over all repetitions. Counts are drawn with exactly the joint law over all buckets that
device-by-device simulation has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from paper.error_panels import Line, Panel, Spread
from paper.experiment import DAY, EPSILONS, Progress, Setting, quiet
from paper.fleet_days import SYNTHETIC, in_parallel, stand_in, stand_in_days, synthetic_days
from paper.histogram_methods import (
    BETTER_ESTIMATOR,
    BUCKETS,
    OURS,
    PAPER,
    SAME_AS_BIN_FLIP,
    Fleet,
    Method,
)
from paper.mean_errors import fleet_title
from paper.population_cache import generator
from reticent.lab.fleet_counts import Tally
from reticent.mechanisms import Buckets
from reticent.mechanisms.exact import exact

AT_EQUAL_EPSILON = (*PAPER, SAME_AS_BIN_FLIP, *BETTER_ESTIMATOR, *OURS)
AT_EQUAL_LIFETIME: tuple[Method, ...] = (
    *(method for method in PAPER if method.lifetime < float("inf")),
    *OURS,
)
"""What can be remembered at all."""

PAPER_LINES = tuple(Line(method.name, place) for place, method in enumerate(PAPER))
OUR_LINES = (
    *(line for line in PAPER_LINES if line.mechanism in ("1BitFlipPM", "4BitFlipPM", "BinFlip")),
    *(Line(method.name, len(PAPER) + place, dashed=True) for place, method in enumerate(OURS)),
)

Pair = tuple[Panel, Panel]
"""The same data at equal ε, and at equal lifetime loss."""


def stand_in_panels(setting: Setting, progress: Progress = quiet) -> tuple[Pair, ...]:
    """Figure 5: panels per fleet size."""
    measured = []
    for place in range(len(setting.fleets)):
        measured.append(_stand_in_panel(place, setting))
        progress(place + 1, len(setting.fleets))
    return tuple(measured)


def synthetic_panels(setting: Setting, progress: Progress = quiet) -> tuple[Pair, ...]:
    """Figure 7: panels per synthetic data set, of the smallest fleet."""
    measured = []
    for (title, _), days in zip(SYNTHETIC, synthetic_days(setting), strict=True):
        measured.append(measure(title, days, DAY, setting, f"fig7 {title}"))
        progress(len(measured), len(SYNTHETIC))
    return tuple(measured)


@lru_cache(maxsize=8)
def _stand_in_panel(place: int, setting: Setting) -> Pair:
    """Kept, since Figure 7 is compared with Figure 5."""
    days, title = stand_in_days(setting)[place], fleet_title(setting.fleets[place])
    return measure(title, days, stand_in(setting).max_value, setting, f"fig5 {title}")


def measure(title: str, days: Sequence[Tally], max_value: int, setting: Setting, name: str) -> Pair:
    """The errors of each method at each ε and at each lifetime loss."""
    edges = Buckets.even(max_value, BUCKETS)
    per_day = np.stack([day.per_bucket(edges) for day in days])
    fleet = Fleet.draw(per_day[np.arange(setting.repetitions) % len(days)], setting.seed, name)

    def spread(task: tuple[Method, float, bool]) -> Spread:
        method, given, of_lifetime = task
        epsilon = exact(given) / (exact(method.lifetime) if of_lifetime else 1)
        source = generator(setting.seed, name, method.name, str(epsilon))
        answers = method.answers(epsilon, fleet, source)
        estimates = method.estimate(epsilon, fleet.total, answers)
        return Spread.of(np.abs(estimates - fleet.truth).max(axis=1))

    tasks = [(method, given, False) for method in AT_EQUAL_EPSILON for given in EPSILONS]
    tasks += [(method, given, True) for method in AT_EQUAL_LIFETIME for given in EPSILONS]
    found = dict(zip(tasks, in_parallel(spread, tasks), strict=True))

    def lines(methods: Sequence[Method], of_lifetime: bool) -> Mapping[str, Mapping[float, Spread]]:
        return {
            method.name: {given: found[method, given, of_lifetime] for given in EPSILONS}
            for method in methods
        }

    return (
        Panel(title, fleet.total, lines(AT_EQUAL_EPSILON, False)),
        Panel(title, fleet.total, lines(AT_EQUAL_LIFETIME, True)),
    )
