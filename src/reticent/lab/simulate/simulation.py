"""Running a plan on values, several times over: the truth, the estimates, and what people give away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.counts import Counts
from reticent.errors import ParameterError
from reticent.estimates import Estimate, HistogramEstimate, average, clustered_interval, estimate
from reticent.lab.fleet import VectorisedFleet
from reticent.plan import Metric, Plan, PrivacyCard, privacy_card
from reticent.privacy import Supports, loss_by_width, loss_of_constant_device, supports

Floats = NDArray[np.float64]

Table = Mapping[str, NDArray[Any]]
"""Per metric, whole values: one row per round, one column per device."""

_FIRST_ROUND = 1
_SOME_MONDAY = 1_700_438_400
"""Unix seconds: the rounds of a plan with sampled answers start with the window of this time."""
_REPETITIONS = 1 << 32


@dataclass(frozen=True)
class MetricEstimates:
    """
    The estimates of one metric beside the truth, round by round or window by window.

    A mean is one number per round, a histogram one per bucket: arrays are [repetition, round, number], or
    [repetition, window, number]. In each repetition the devices have other alphas, memos, cohorts and flips,
    and the same values.
    """

    metric: Metric
    confidence: float
    truth: Floats
    """[round, number]"""
    value: Floats
    lower: Floats
    upper: Floats
    half_width: Floats
    first: tuple[Estimate | HistogramEstimate, ...]
    """The estimates of the first repetition, one per round: what a collector would have shown."""
    period: Literal["round", "window"] = "round"

    @classmethod
    def of(
        cls,
        metric: Metric,
        confidence: float,
        truth: Sequence[Floats],
        estimates: Sequence[Sequence[Estimate | HistogramEstimate]],
        period: Literal["round", "window"] = "round",
    ) -> MetricEstimates:
        """Those of `estimates`, a list per repetition of one per round or window."""
        numbers = np.array([[_numbers(of_round) for of_round in rounds] for rounds in estimates])
        value, lower, upper, half_width = np.moveaxis(numbers, 3, 0)
        first = tuple(estimates[0])
        return cls(metric, confidence, np.array(truth), value, lower, upper, half_width, first, period)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """[repetition, round]: whether the interval holds the truth; of a histogram, all of them at once."""
        return np.asarray(np.all((self.lower <= self.truth) & (self.truth <= self.upper), axis=2))

    @property
    def coverage(self) -> Floats:
        """Per round, the share of repetitions whose interval held the truth."""
        return np.asarray(self.inside.mean(axis=0))

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """
        Where the coverage over all rounds is, at 95 %.

        Rounds of a repetition share their memo, so only repetitions are independent.
        """
        return clustered_interval(self.inside.mean(axis=1), self.inside.shape[1], 0.95)

    @property
    def absolute_error(self) -> Floats:
        """[round, number]: the mean distance from the truth."""
        return np.asarray(np.abs(self.value - self.truth).mean(axis=0))

    @property
    def bias(self) -> Floats:
        """[round, number]: the mean deviation from the truth, which is 0 but for chance."""
        return np.asarray((self.value - self.truth).mean(axis=0))

    def misses_too_often(self, false_alarm: float) -> bool:
        """Whether some round's intervals miss more often than promised, but for a chance of `false_alarm`."""
        repetitions, rounds = self.inside.shape
        hits = int(self.inside.sum(axis=0).min())
        return bool(binom.cdf(hits, repetitions, self.confidence) * rounds < false_alarm)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: a summary, and every number of every round or window, under "rounds" or "windows"."""
        low, high = self.coverage_interval
        return {
            "kind": self.metric.kind,
            "unit": self.metric.unit,
            "confidence": self.confidence,
            "coverage": float(self.inside.mean()),
            "coverage_lower": low,
            "coverage_upper": high,
            "half_width": float(self.half_width.mean()),
            "absolute_error": float(self.absolute_error.mean()),
            "bias": float(self.bias.mean()),
            f"{self.period}s": list(self.rows()),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per round or window, and per bucket of a histogram."""
        several = self.truth.shape[1] > 1
        for place, truths in enumerate(self.truth):
            for number, truth in enumerate(truths):
                bucket = {"bucket": number} if several else {}
                yield {
                    "metric": self.metric.name,
                    self.period: place,
                    **bucket,
                    "truth": float(truth),
                    "value": float(self.value[0, place, number]),
                    "lower": float(self.lower[0, place, number]),
                    "upper": float(self.upper[0, place, number]),
                    "half_width": float(self.half_width[0, place, number]),
                    "coverage": float(self.coverage[place]),
                    "absolute_error": float(self.absolute_error[place, number]),
                    "bias": float(self.bias[place, number]),
                }


def _numbers(estimated: Estimate | HistogramEstimate) -> list[tuple[float, float, float, float]]:
    """One row for a mean, one per bucket for a histogram."""
    parts = estimated.buckets if isinstance(estimated, HistogramEstimate) else [estimated]
    middles = [(part.lower + part.upper) / 2 for part in parts]  # of the range, where nobody was asked
    return [
        (part.value if part.reports else middle, part.lower, part.upper, part.half_width)
        for part, middle in zip(parts, middles, strict=True)
    ]


@dataclass(frozen=True)
class People:
    """
    How the devices' remembered answers changed over the rounds, for one metric.

    A device's *width* is how many different remembered answers it used; its *pattern* is when it changed from
    one to another. The loss of a width holds between devices of the same pattern. That a device shares
    its pattern with few others is itself something that is seen, unless flips hide it.
    """

    metric: Metric
    rounds: int
    supports: Supports
    """How many devices share each pattern."""

    @property
    def share_by_width(self) -> dict[int, float]:
        """The share of devices per width."""
        per_width = np.bincount(self.supports.widths, weights=self.supports.counts)
        return {
            width: float(number / self.supports.devices) for width, number in enumerate(per_width) if number
        }

    @property
    def loss_by_width(self) -> dict[int, float]:
        """What any number of rounds lose to a device of each width that occurs, between equal patterns."""
        return {width: loss_by_width(self.metric.mechanism, width) for width in self.share_by_width}

    @property
    def mean_loss(self) -> float:
        """The mean of `loss_by_width` over devices."""
        losses = self.loss_by_width
        return sum(share * losses[width] for width, share in self.share_by_width.items())

    @property
    def constant_loss(self) -> float:
        """What these rounds lose to a device that never changed."""
        return loss_of_constant_device(self.metric.mechanism, self.metric.flip, self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "constant_share": self.supports.share_constant,
            "lonely_share": self.supports.share_lonely,
            "patterns": len(self.supports.counts),
            "largest_pattern": self.supports.largest,
            "share_by_width": self.share_by_width,
            "loss_by_width": self.loss_by_width,
            "mean_loss": self.mean_loss,
            "constant_loss": self.constant_loss,
        }


@dataclass(frozen=True)
class Simulation:
    """What a plan would have told, over so many rounds of so many devices."""

    plan: Plan
    devices: int
    rounds: int
    repetitions: int
    seed: int
    metrics: Mapping[str, MetricEstimates]
    people: Mapping[str, People]
    """Empty where answers are sampled: nothing is remembered, and `card` has what a window loses."""
    kept: Mapping[str, float]
    """Per metric, the part of all that was counted that is left within ranges and joint limits."""
    windows: Mapping[str, MetricEstimates] = field(default_factory=dict)
    """
    Where answers are sampled: the rounds of each window together (the last may have fewer).

    The truth of a window is the mean over all devices and rounds in it.
    """

    @property
    def card(self) -> PrivacyCard:
        """What these rounds cost a device."""
        return privacy_card(self.plan, self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        metrics = {
            name: {**metric.to_dict(), "kept_share": self.kept[name]} for name, metric in self.metrics.items()
        }
        for name, people in self.people.items():
            metrics[name]["people"] = people.to_dict()
        for name, pooled in self.windows.items():
            metrics[name]["windows"] = pooled.to_dict()
        card = self.card
        loss = {"window": card.window, "windows": card.windows, "any_history": card.any_history}
        return {
            "plan": self.plan.name,
            "version": self.plan.version,
            "devices": self.devices,
            "rounds": self.rounds,
            "repetitions": self.repetitions,
            "seed": self.seed,
            **({"loss": loss} if self.windows else {}),
            "metrics": metrics,
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
    Where answers are sampled, the first round is the first of a window, a round has the reports of the devices
    that pick it, and the rounds of each window are estimated together as well (`Simulation.windows`). There
    must be enough devices that every round has a report about every metric.
    `progress` is told how many of all rounds are done.
    """
    missing = [name for name in plan.by_name if name not in values]
    if missing:
        raise ParameterError("values", f"values for {', '.join(missing)}", "none")
    shapes = {values[name].shape for name in plan.by_name}
    shape = next(iter(shapes))
    if len(shapes) != 1 or len(shape) != 2 or 0 in shape:
        expected = "as many rounds and devices for each metric, at least one"
        raise ParameterError("values", expected, sorted(map(str, shapes)))
    rounds, devices = shape
    if repetitions < 1:
        raise ParameterError("repetitions", "a whole number >= 1", repetitions)
    per_round = [{name: values[name][place] for name in plan.by_name} for place in range(rounds)]
    estimates: dict[str, list[list[Estimate | HistogramEstimate]]] = {name: [] for name in plan.by_name}
    pooled: dict[str, list[list[Estimate | HistogramEstimate]]] = {name: [] for name in plan.by_name}
    people: dict[str, People] = {}
    window = plan.window_of(plan.round_at(_SOME_MONDAY))
    first = window.first if window else _FIRST_ROUND
    width = plan.answers.window
    spans = [slice(start, start + width) for start in range(0, rounds, width)] if window else []
    for repetition in range(repetitions):
        fleet = VectorisedFleet(plan, devices, seed * _REPETITIONS + repetition)
        if repetition == 0 and not plan.answers.sampled:
            for metric in plan.metrics:
                classes = np.stack([fleet.cells(metric.name, column) for column in per_round])
                people[metric.name] = People(metric, rounds, supports(classes.T))
        counts: dict[str, list[Counts]] = {name: [] for name in plan.by_name}
        for place, column in enumerate(per_round):
            for name, of_round in _counted(fleet, first + place, column).items():
                counts[name].append(of_round)
            progress(repetition * rounds + place + 1, repetitions * rounds)
        for name, of_rounds in counts.items():
            metric = plan.by_name[name]
            estimates[name].append([estimate(metric, of_round, confidence) for of_round in of_rounds])
            pooled[name].append(
                [average(metric, of_rounds[span], confidence, plan.answers) for span in spans]
            )
    truths = [true_values(plan, column) for column in per_round]
    metrics, windows = {}, {}
    for name, metric in plan.by_name.items():
        truth = [of_round[name] for of_round in truths]
        metrics[name] = MetricEstimates.of(metric, confidence, truth, estimates[name])
        if spans:
            in_windows = [np.mean(truth[span], axis=0) for span in spans]
            windows[name] = MetricEstimates.of(metric, confidence, in_windows, pooled[name], "window")
    inside = [_in_range(plan, column) for column in per_round]
    kept = {}
    for name in plan.by_name:
        given = sum(float(np.maximum(column[name], 0).sum(dtype=np.float64)) for column in per_round)
        left = sum(float(column[name].sum()) for column in inside)
        kept[name] = left / given if given > 0 else 1.0
    return Simulation(plan, devices, rounds, repetitions, seed, metrics, people, kept, windows)


def _counted(
    fleet: VectorisedFleet, round_number: int, values: Mapping[str, NDArray[Any]]
) -> dict[str, Counts]:
    """The counts of a round, in which every metric is asked of someone."""
    by_slice = list(fleet.counts(round_number, values).values())  # no tags: one segment, or none
    counts = by_slice[0] if by_slice else {}
    silent = [name for name in fleet.plan.by_name if name not in counts or not counts[name].devices]
    if silent:
        expected = f"enough for a report about {silent[0]} in every round"
        hint = "a round that nobody answers has no estimate"
        raise ParameterError("devices", expected, fleet.devices, hint)
    return counts


def true_values(plan: Plan, values: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """
    Per metric, the numbers that a round's estimate aims at: the mean, or the share of devices per bucket.

    They are those of the values as a device takes them: cut to the range, and scaled to joint limits. What
    was cut off is lost to every estimate; `Simulation.kept` tells how much that is.
    """
    truths = {}
    for name, inside in _in_range(plan, values).items():
        metric, mechanism = plan.by_name[name], plan.by_name[name].mechanism
        if mechanism.kind == "mean":
            truths[name] = np.array([inside.mean()])
        else:
            edges = np.array([float(edge) for edge in mechanism.points])
            buckets = np.searchsorted(edges[1:-1], inside, side="right")
            if metric.absent:
                buckets[values[name] < 0] = mechanism.intervals - 1
            truths[name] = np.bincount(buckets, minlength=mechanism.intervals) / len(inside)
    return truths


def _in_range(plan: Plan, values: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """The values of a round as a device takes them."""
    inside = {
        name: np.clip(values[name].astype(np.float64), 0.0, float(top))
        for name, top in plan.max_values.items()
    }
    for group in plan.groups:
        total = np.sum([inside[name] for name in group.metrics], axis=0)
        factor = float(group.max_total) / np.maximum(total, float(group.max_total))
        for name in group.metrics:
            inside[name] = inside[name] * factor
    return inside
