"""Simulated fleets whose days and weeks are read through `Results`: how often intervals hold the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import hypot, sqrt

import numpy as np

from reticent.plan import Plan
from reticent_collector.estimates import Estimate, estimate
from reticent_collector.results import Result, Results, Selection
from reticent_collector.stores import CountsByTags, RoundInfo, RoundKey
from reticent_collector.stores.backend import DeletedMetric
from reticent_lab.fleet import VectorisedFleet

METRICS = """
min_reports = 1
[plan]
name = "fleet"
version = 1
round = "6h"

[metrics.steady]
kind = "mean"
max_value = 100
epsilon = 1.0
FLIP
[metrics.swaps]
kind = "mean"
max_value = 100
epsilon = 1.0
FLIP
[metrics.spread]
kind = "histogram"
max_value = 100
buckets = 4
mechanism = "hadamard-bit"
epsilon = 1.0
FLIP
[metrics.theme]
kind = "choice"
labels = ["dark", "light"]
mechanism = "d-bit-flip"
bits = 1
epsilon = 2.0
FLIP
"""
PLANS = {
    "remembered, flips": METRICS.replace("FLIP", "flip = 0.2"),
    "remembered": METRICS.replace("FLIP", ""),
    "sampled": METRICS.replace("FLIP", "") + '[answers]\nkind = "sampled"\nwindow = "1d"\n',
}
MONDAY = 345_600 // 21_600 + 28 * 2_900
"""A round that begins on a Monday."""


class Counted:
    """A store of sealed rounds that is given their counts, and has no table of results."""

    table = None

    def __init__(self, plan: Plan, counts: dict[int, CountsByTags]) -> None:
        self._plan, self._counts = plan, counts

    def plans(self) -> list[Plan]:
        return [self._plan]

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        keys = [RoundKey(self._plan.name, 1, number) for number in sorted(self._counts, reverse=True)]
        return [RoundInfo(key, "sealed", 1) for key in keys[:last]]

    def counts(self, key: RoundKey) -> CountsByTags:
        return self._counts[key.round]

    shown = counts

    def deleted(self) -> set[DeletedMetric]:
        return set()

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        return {key: self.counts(key) for key in keys}


def values_of(devices: int, day: int) -> dict[str, list[object]]:
    """
    Half of the devices at the bottom, the others at the top of the range.

    *Steady* devices stay there. In the other metrics all devices change places at midnight, so the fleet's
    figures stay the same, while every device has another remembered answer.
    """
    steady, other = ((np.arange(devices) + shift) % 2 == 0 for shift in (0, day % 2))
    return {
        "steady": list(np.where(steady, 100, 0)),
        "swaps": list(np.where(other, 100, 0)),
        "spread": list(np.where(other, 99, 0)),
        "theme": list(np.where(other, 1, 0)),
    }


TRUTHS = {
    "steady": (50.0,),
    "swaps": (50.0,),
    "spread": (0.5, 0.0, 0.0, 0.5),
    "theme": (0.5, 0.5, 0.0),
}


def count_misses(
    answers: str, every: str, devices: int, days: int, repetitions: int, bits: int = 1
) -> Counter[str]:
    """
    How often an interval misses the truth, and a change that is none is called clear.

    `by root` is what the textbook's rule would do: a round's half-width over the root of the number of rounds.
    """
    plan = Plan.from_toml(PLANS[answers].replace("bits = 1", f"bits = {bits}"))
    misses = Counter[str]()
    for seed in range(repetitions):
        fleet, counts = VectorisedFleet(plan, devices, seed), {}
        for number in range(MONDAY, MONDAY + 4 * days):
            by_slice = fleet.counts(number, values_of(devices, (number - MONDAY) // 4))
            counts[number] = {tags: by_metric for (_, tags), by_metric in by_slice.items()}
        results = Results(Counted(plan, counts), lambda: (MONDAY + 400) * 21_600.0)
        (*_, first) = results.estimates(Selection(plan.name, every=every, last=1))
        for result in results.estimates(
            Selection(plan.name, every=every, since=first.start, until=first.end)
        ):
            misses[result.metric.name] += not _holds(result)
            if isinstance(result.estimate, Estimate):
                error = abs(result.estimate.value - TRUTHS[result.metric.name][0])
                misses[f"{result.metric.name} by root"] += error > _root_width(result)
        for change in results.changes(Selection(plan.name, every=every, last=1)):
            misses[f"{change.figure.metric.name} alarms"] += change.clear
            if isinstance(change.estimate, Estimate):
                narrow = hypot(_root_width(change.figure), _root_width(change.baseline))
                misses[f"{change.figure.metric.name} alarms by root"] += abs(change.estimate.value) > narrow
    return misses


def _holds(result: Result) -> bool:
    numbers = [result.estimate] if isinstance(result.estimate, Estimate) else result.estimate.buckets
    return all(
        number.lower <= truth <= number.upper
        for number, truth in zip(numbers, TRUTHS[result.metric.name], strict=True)
    )


def _root_width(result: Result) -> float:
    half_widths = [estimate(result.metric, counts).half_width for counts in result.by_round.values()]
    return float(np.mean(half_widths)) / sqrt(len(half_widths))
