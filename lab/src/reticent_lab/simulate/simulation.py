"""Running a plan on values, several times over: the truth, the estimates, and what people give away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.errors import ParameterError
from reticent.plan import Metric, Plan
from reticent_collector.counts import Counts
from reticent_collector.estimates import Estimate, HistogramEstimate, clustered_interval, estimate
from reticent_collector.privacy import loss_by_width, loss_of_constant_device
from reticent_collector.privacy.card import PrivacyCard, privacy_card
from reticent_lab.crowd import MEMORY, Crowd, CrowdDraws, Floats, Table, in_range, law_of
from reticent_lab.pattern_supports import PatternCounts, Supports

_PEOPLE = 2**31  # The place of the people's random numbers, which no block of a crowd has


@dataclass(frozen=True)
class MetricEstimates:
    """
    The estimates of one metric beside the truth: arrays are [repetition, round or window, number].

    A mean is one number, a histogram one per bucket. Repetitions have the same values and other alphas, memos and
    flips.
    """

    metric: Metric
    confidence: float
    truth: Floats  #: [round, number]
    value: Floats
    lower: Floats
    upper: Floats
    half_width: Floats
    period: Literal["round", "window"] = "round"

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
        """The coverage over all rounds, at 95 %: rounds share memos, so only repetitions are independent."""
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


def _numbers(estimates: Sequence[Estimate | HistogramEstimate]) -> Floats:
    """Value, lower, upper and half-width: [4, round, number]; the middle of the range where nobody was asked."""
    rows = [each.buckets if isinstance(each, HistogramEstimate) else [each] for each in estimates]
    return np.array(
        [
            [[part.value if part.reports else (part.lower + part.upper) / 2 for part in row] for row in rows],
            *(
                [[getattr(part, name) for part in row] for row in rows]
                for name in ("lower", "upper", "half_width")
            ),
        ]
    )


def _beside(
    metric: Metric,
    confidence: float,
    truth: Floats,
    repetitions: Sequence[Floats],
    period: Literal["round", "window"] = "round",
) -> MetricEstimates:
    value, lower, upper, half_width = np.stack(repetitions, axis=1)
    return MetricEstimates(metric, confidence, truth, value, lower, upper, half_width, period)


@dataclass(frozen=True)
class People:
    """
    How remembered answers changed over the rounds, for one metric: of one device per individual.

    A device's *width* is how many different remembered answers it used, its *pattern* when it changed between
    them. The loss of a width holds between devices of the same pattern; that few share a pattern is itself seen,
    unless flips hide it.
    """

    metric: Metric
    rounds: int
    supports: Supports  #: How many devices share each pattern

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
    individuals: int
    """How many histories of values there are; each is shared by `devices / individuals` devices."""
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
            "individuals": self.individuals,
            "rounds": self.rounds,
            "repetitions": self.repetitions,
            "seed": self.seed,
            **({"loss": loss} if self.windows else {}),
            "metrics": metrics,
        }


def simulate(
    plan: Plan,
    values: Table | Crowd,
    repetitions: int = 20,
    seed: int = 1,
    confidence: float = 0.95,
    progress: Callable[[int, int], None] = lambda done, total: None,
    memory: int = MEMORY,
) -> Simulation:
    """
    Run a plan on `values` (a table with one device per individual, or a `Crowd`), `repetitions` times.

    Counts are drawn with the law of the SDK's reports (`CrowdDraws`), all rounds jointly. With sampled answers the
    first round is the first of a window, and each window is estimated as well. There must be enough devices that
    every round has a report about every metric. A run that would need more than `memory` bytes is refused.
    """
    crowd = values if isinstance(values, Crowd) else Crowd.of({**values})
    if repetitions < 1:
        raise ParameterError("repetitions", "a whole number >= 1", repetitions)
    draws = CrowdDraws(plan, crowd, seed)
    rounds = crowd.rounds
    _check_memory(plan, draws, repetitions, memory)
    truth = _Truth(plan, crowd, seed)
    steps = len(draws.parts) + repetitions
    drawn = draws.draw(repetitions, truth.look, lambda done, _: progress(done, steps))
    width = plan.answers.window or rounds
    spans = [slice(start, start + width) for start in range(0, rounds, width)]
    numbers: dict[str, list[Floats]] = {name: [] for name in plan.by_name}
    pooled: dict[str, list[Floats]] = {name: [] for name in plan.by_name if plan.answers.sampled}
    for repetition, tallies in enumerate(drawn):
        for name, metric in plan.by_name.items():
            counts = tallies[name].counts
            _check_answered(name, counts, crowd.devices)
            numbers[name].append(_numbers([estimate(metric, each, confidence) for each in counts]))
            if name in pooled:
                together = [estimate(metric, reduce(add, counts[span]), confidence) for span in spans]
                pooled[name].append(_numbers(together))
        progress(len(draws.parts) + repetition + 1, steps)
    windows = {
        name: _beside(plan.by_name[name], confidence, truth.by_span(name, spans), of_windows, "window")
        for name, of_windows in pooled.items()
    }
    return Simulation(
        plan,
        crowd.devices,
        crowd.individuals,
        rounds,
        repetitions,
        seed,
        {
            name: _beside(plan.by_name[name], confidence, truth.by_round(name), of_rounds)
            for name, of_rounds in numbers.items()
        },
        truth.people(),
        {name: truth.kept(name) for name in plan.by_name},
        windows,
    )


def _check_answered(name: str, counts: Sequence[Counts], devices: int) -> None:
    if not all(of_round.devices for of_round in counts):
        expected = f"enough for a report about {name} in every round"
        raise ParameterError("devices", expected, devices, "a round without answers has no estimate")


class _Truth:
    """What is so in a crowd, added up part by part: per metric the truth, what ranges cut off, and who changes when."""

    def __init__(self, plan: Plan, crowd: Crowd, seed: int) -> None:
        self._plan = plan
        self._crowd = crowd
        self._seed = seed
        self._laws = {metric.name: law_of(metric) for metric in plan.metrics}
        self._totals: dict[str, Floats | float] = dict.fromkeys(self._laws, 0.0)
        self._given = dict.fromkeys(self._laws, 0.0)
        self._left = dict.fromkeys(self._laws, 0.0)
        self._patterns: dict[str, PatternCounts] = {}
        if not plan.answers.sampled:
            for metric in plan.metrics:
                self._patterns[metric.name] = PatternCounts(crowd.rounds, metric.mechanism.classes)

    def look(self, part: slice, raw: Table, inside: Table) -> None:
        """Add a part of the crowd: its values as counted, and as a device takes them."""
        copies = self._crowd.copies(part)
        for place, (name, law) in enumerate(self._laws.items()):
            self._totals[name] = self._totals[name] + law.truth(inside[name].T, copies)
            given = [raw[own] for own in self._plan.by_name[name].recorded]
            self._given[name] += float(np.maximum(given, 0).sum(axis=(0, 1), dtype=np.float64) @ copies)
            left = np.maximum(inside[name], 0)
            self._left[name] += float(left.reshape(-1, len(copies)).sum(axis=0) @ copies)
            if self._patterns:
                people_draw = np.random.default_rng([self._seed, _PEOPLE, part.start, place])
                self._patterns[name].add(law.classes(inside[name].T, people_draw))

    def by_round(self, name: str) -> Floats:
        """[round, number]: what the estimates of a metric aim at."""
        return np.asarray(self._totals[name]) / self._crowd.devices

    def by_span(self, name: str, spans: Sequence[slice]) -> Floats:
        """[span, number]: the same, over the rounds of each span."""
        by_round = self.by_round(name)
        return np.array([by_round[span].mean(axis=0) for span in spans])

    def kept(self, name: str) -> float:
        """The part of all that was counted that is left within ranges and joint limits."""
        return self._left[name] / self._given[name] if self._given[name] > 0 else 1.0

    def people(self) -> dict[str, People]:
        """Who changed when; empty where answers are sampled."""
        return {
            name: People(self._plan.by_name[name], self._crowd.rounds, counted.supports())
            for name, counted in self._patterns.items()
        }


def _check_memory(plan: Plan, draws: CrowdDraws, repetitions: int, memory: int) -> None:
    rounds = draws.crowd.rounds
    people = 0
    if not plan.answers.sampled:
        people = draws.crowd.individuals * len(plan.metrics) * (-(-rounds // 16) * 8 + 2 * rounds)
    intervals = sum(metric.mechanism.intervals for metric in plan.metrics)
    needed = draws.memory(repetitions) + people + 40 * repetitions * rounds * intervals
    if needed > memory:
        raise ParameterError(
            "memory",
            f"at least {needed / 2**30:.1f} GiB for {rounds:,} rounds of {draws.crowd.individuals:,} individuals,"
            f" {len(plan.metrics)} metrics and {repetitions:,} repetitions",
            f"{memory / 2**30:.1f} GiB",
            "simulate fewer rounds, individuals or repetitions, or allow more memory",
        )


def true_values(plan: Plan, values: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """Per metric, what a round's estimate aims at, of the values as a device takes them: the mean, or shares."""
    inside = in_range(plan, values)
    ones = np.ones(next(iter(inside.values())).shape[-1], dtype=np.int64)
    return {
        name: law_of(plan.by_name[name]).truth(np.expand_dims(column.T, 1), ones)[0] / len(ones)
        for name, column in inside.items()
    }
