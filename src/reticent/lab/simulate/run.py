"""Running a plan on values, several times over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.counts import Counts
from reticent.errors import ParameterError
from reticent.estimates import Estimate, HistogramEstimate, estimate
from reticent.lab.fleet.vectorised import VectorisedFleet
from reticent.lab.simulate.figures import MetricFigures, figures_of
from reticent.lab.simulate.people import People, people_of
from reticent.lab.simulate.truth import sums, true_values
from reticent.plan import Plan

Table = Mapping[str, NDArray[Any]]
"""Per metric, whole values: one row per round, one column per device."""

_FIRST_ROUND = 1
_REPETITIONS = 1 << 32


@dataclass(frozen=True)
class Simulation:
    """What a plan would have told, over so many rounds of so many devices."""

    plan: Plan
    devices: int
    rounds: int
    repetitions: int
    seed: int
    metrics: Mapping[str, MetricFigures]
    people: Mapping[str, People]
    kept: Mapping[str, float]
    """Per metric, the part of all that was counted that is left within ranges and joint limits."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "plan": self.plan.name,
            "version": self.plan.version,
            "devices": self.devices,
            "rounds": self.rounds,
            "repetitions": self.repetitions,
            "seed": self.seed,
            "metrics": {
                name: {
                    **figures.to_dict(),
                    "kept_share": self.kept[name],
                    "people": self.people[name].to_dict(),
                }
                for name, figures in self.metrics.items()
            },
        }


def simulate(
    plan: Plan,
    values: Table,
    repetitions: int = 20,
    seed: int = 1,
    confidence: float = 0.95,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Simulation:
    """
    Run a plan on `values`, `repetitions` times: each time other devices' chance, the same values.

    Reports are those of the SDK, bit for bit (`VectorisedFleet`); rounds share their memo as real ones do.
    `progress` is told how many of all rounds are done.
    """
    rounds, devices = _shape(plan, values)
    if repetitions < 1:
        raise ParameterError("repetitions", "a whole number >= 1", repetitions)
    per_round = [{name: values[name][place] for name in plan.by_name} for place in range(rounds)]
    estimates: dict[str, list[list[Estimate | HistogramEstimate]]] = {name: [] for name in plan.by_name}
    for repetition in range(repetitions):
        fleet = VectorisedFleet(plan, devices, seed * _REPETITIONS + repetition)
        if repetition == 0:
            people = _people(fleet, per_round)
        for of_metric in estimates.values():
            of_metric.append([])
        for place, column in enumerate(per_round):
            for name, counts in _counts(fleet, _FIRST_ROUND + place, column).items():
                estimates[name][-1].append(estimate(plan.by_name[name], counts, confidence))
            progress(repetition * rounds + place + 1, repetitions * rounds)
    truths = [true_values(plan, column) for column in per_round]
    figures = {
        name: figures_of(plan.by_name[name], confidence, [truth[name] for truth in truths], estimates[name])
        for name in estimates
    }
    return Simulation(plan, devices, rounds, repetitions, seed, figures, people, _kept(plan, per_round))


def _counts(fleet: VectorisedFleet, number: int, column: Table) -> Mapping[str, Counts]:
    """The counts of a round; without tags, all devices are in one segment."""
    (counts,) = fleet.counts(number, column).values()
    return counts


def _people(fleet: VectorisedFleet, per_round: list[dict[str, NDArray[Any]]]) -> dict[str, People]:
    return {
        metric.name: people_of(metric, np.stack([fleet.cells(metric.name, column) for column in per_round]))
        for metric in fleet.plan.metrics
    }


def _kept(plan: Plan, per_round: list[dict[str, NDArray[Any]]]) -> dict[str, float]:
    found = [sums(plan, column) for column in per_round]
    given = {name: sum(each[name][0] for each in found) for name in plan.by_name}
    kept = {name: sum(each[name][1] for each in found) for name in plan.by_name}
    return {name: kept[name] / given[name] if given[name] > 0 else 1.0 for name in plan.by_name}


def _shape(plan: Plan, values: Table) -> tuple[int, int]:
    missing = [name for name in plan.by_name if name not in values]
    if missing:
        raise ParameterError("values", f"values for {', '.join(missing)}", "none")
    shapes = {values[name].shape for name in plan.by_name}
    shape = next(iter(shapes))
    if len(shapes) != 1 or len(shape) != 2 or 0 in shape:
        raise ParameterError(
            "values", "as many rounds and devices for each metric, at least one", sorted(map(str, shapes))
        )
    return int(shape[0]), int(shape[1])
