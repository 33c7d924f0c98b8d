"""
Many devices over many rounds, drawn as counts: exactly the law of device-by-device simulation.

A *crowd* is some individuals, each with a history of values and a number of devices that share it. Devices of one
individual are split by what they draw, and the answers of each part are one binomial.

    mean, remembered        alpha splits devices at the sorted fractions of the values into at most T + 1 parts; a
                            part has one history of cells, and a binomial per cell
    histogram, remembered   the cohort splits them (multinomial); a binomial per class and bit
    sampled                 the picked round and the metrics asked split them; one fresh binomial per answer
    flips                   two binomials per round and row, over all devices

A part keeps its remembered answers for all rounds, so rounds are drawn jointly. The time depends on individuals,
not on devices. Probabilities are 53-bit numbers where a device compares 64-bit ones. Not covered: that histograms
share a device's cohort, which correlates their counts with each other.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.mechanisms import COHORTS, SCALE, Flip, Mechanism, SubsetSelection
from reticent.plan import Metric, Plan
from reticent_collector.counts import Counts, counts_from_rows
from reticent_lab.fleet import Population, Recorded
from reticent_lab.fleet.draws import blocks
from reticent_lab.fleet.population import taken_by

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

Histories = Callable[[np.random.Generator], Numbers]
"""Draws the reports and ones of remembered answers, before flips: int64[2, rounds, rows]."""

Table = Mapping[str, NDArray[Any]]  # Per metric, whole values: one row per round, one column per individual
MEMORY = 1 << 30  # Bytes that a simulation may need before it is refused
_BLOCK = 1 << 22
"""Values of a block of individuals, all rounds and metrics together. It is fixed: what is drawn depends on it."""
_THREADS = 4
_MOST = 2**53  # Devices, at most: sums of counts stay exact in floating point


@dataclass(frozen=True)
class Crowd:
    """
    Individuals, and how many devices share the values of each: as evenly as whole numbers allow.

    `values(part)` gives `{metric: int[rounds, individuals]}` of some individuals, the same each time.

    >>> Crowd.of({"minutes": np.array([[0, 30, 60]])}, devices=7).copies(slice(0, 3)).tolist()
    [2, 2, 3]
    """

    rounds: int
    individuals: int
    devices: int
    values: Callable[[slice], Table]

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.individuals < 1:
            raise ParameterError(
                "values", "at least one round and one individual", (self.rounds, self.individuals)
            )
        if not self.individuals <= self.devices < _MOST:
            expected = f"a whole number from {self.individuals}, the individuals, to below 2^53"
            raise ParameterError("devices", expected, self.devices)

    @classmethod
    def of(cls, values: Table, devices: int | None = None) -> Crowd:
        """The individuals of a table; each is one device unless there are to be more of them."""
        shapes = {column.shape for column in values.values()}
        shape = next(iter(shapes), ())
        if len(shapes) != 1 or len(shape) != 2 or 0 in shape:
            expected = "as many rounds and individuals for each metric, at least one"
            raise ParameterError("values", expected, sorted(map(str, shapes)))

        def part(individuals: slice) -> Table:
            return {name: column[:, individuals] for name, column in values.items()}

        return cls(shape[0], shape[1], devices or shape[1], part)

    @classmethod
    def drawn(
        cls,
        plan: Plan,
        sources: Mapping[str, Population],
        rounds: int,
        individuals: int,
        devices: int,
        seed: int,
    ) -> Crowd:
        """
        Individuals of populations, one per metric, drawn a block at a time.

        Metrics that share a recording keep each of its people together; some are chosen at random if there are
        more.
        """
        recorded: dict[str, NDArray[np.int32]] = {}
        for name, source in sources.items():
            if isinstance(source, Recorded):
                if individuals > len(source.individuals):
                    raise ParameterError("individuals", f"at most those in {source.name}", individuals)
                recorded[name] = source.values(individuals, rounds, np.random.default_rng([seed, 0]))

        def part(some: slice) -> Table:
            values = {}
            for place, (name, source) in enumerate(sources.items(), 1):
                if name in recorded:
                    column = recorded[name][:, some]
                else:
                    draw = np.random.default_rng([seed, place, some.start])
                    column = source.values(some.stop - some.start, rounds, draw)
                is_taken = isinstance(source, Recorded) and source.metric is not None
                values[name] = column if is_taken else taken_by(plan.recorded[name], column)
            return values

        return cls(rounds, individuals, devices, part)

    def copies(self, part: slice) -> Numbers:
        """How many devices each of these individuals stands for."""
        share, rest = divmod(self.devices, self.individuals)
        places = np.arange(part.start, part.stop + 1) * rest // self.individuals
        return np.asarray(share + np.diff(places), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """The reports and ones of one metric: int64[rounds, rows] each."""

    metric: Metric
    reports: Numbers
    ones: Numbers

    @property
    def counts(self) -> list[Counts]:
        """The counts of each round, as a collector has them."""
        return [
            counts_from_rows(
                self.metric, zip(range(len(reports)), reports.tolist(), ones.tolist(), strict=True)
            )
            for reports, ones in zip(self.reports, self.ones, strict=True)
        ]


class CrowdDraws:
    """
    Draws what a collector counts when a plan is asked of a crowd, over all its rounds jointly.

    `draw(repetitions)` has other chance and the same values in each repetition. Sampled answers begin with a
    window. Devices of different segments answer independently, so each segment is a crowd of its own:
    `segment` is its place among the plan's, by default the last, in which every tag is "other".

    >>> from reticent.mechanisms import OneBitMean
    >>> plan = Plan("demo", 1, 3600, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> crowd = Crowd.of({"minutes": np.array([[0, 60], [0, 30]])}, devices=1_500_000_000)
    >>> (drawn,) = CrowdDraws(plan, crowd, seed=1).draw(repetitions=1)
    >>> drawn["minutes"].reports.tolist()
    [[1500000000], [1500000000]]
    """

    def __init__(self, plan: Plan, crowd: Crowd, seed: int, segment: int | None = None) -> None:
        self.plan = plan
        self.crowd = crowd
        self.seed = seed
        self._laws = {metric.name: law_of(metric) for metric in plan.metrics}
        width = sum(metric.bits for metric in plan.metrics) * crowd.rounds
        self.block = max(16, min(_BLOCK // width, 1 << 14))
        segments = prod(len(known.tags) for known in plan.segments)
        if segment is not None and not 0 <= segment < segments:
            raise ParameterError("segment", f"a place from 0 to {segments - 1}", segment)
        self._segment = segments - 1 if segment is None else segment

    @property
    def parts(self) -> list[slice]:
        """The individuals, a block at a time."""
        return list(blocks(self.crowd.individuals, self.block))

    def memory(self, repetitions: int) -> int:
        """Bytes that drawing needs, about: the values of some blocks with scratch memory, and all tallies."""
        size = min(self.block, self.crowd.individuals) * self.crowd.rounds
        widest = max(metric.bits for metric in self.plan.metrics)
        blocks = _threads() * size * (12 * len(self.plan.metrics) + 100 + 24 * widest)
        rows = sum(metric.mechanism.row_count for metric in self.plan.metrics)
        return blocks + 16 * repetitions * self.crowd.rounds * rows

    def draw(
        self,
        repetitions: int,
        look: Callable[[slice, Table, Table], None] = lambda part, values, inside: None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[dict[str, Tallies]]:
        """
        Draw so many times; `look` is shown the values of each block, as given and as a device takes them.

        Blocks are drawn on all cores, each with random numbers of its own; `look` and `progress` are called in
        order.
        """
        tallies = {
            metric.name: np.zeros(
                (2, repetitions, self.crowd.rounds, metric.mechanism.row_count), dtype=np.int64
            )
            for metric in self.plan.metrics
        }
        parts = self.parts
        with ThreadPoolExecutor(_threads()) as pool:
            # A block that waits for its turn has no values yet; sums of floats are taken in order.
            waiting = (pool.submit(self._block, part, repetitions) for part in parts)
            running = deque(islice(waiting, _threads()))
            for done in range(1, len(parts) + 1):
                part, values, inside, block = running.popleft().result()
                running.extend(islice(waiting, 1))
                for (name, repetition), numbers in block.items():
                    tallies[name][:, repetition] += numbers
                look(part, values, inside)
                progress(done, len(parts))
        return [self._flipped(repetition, tallies) for repetition in range(repetitions)]

    def _block(
        self, part: slice, repetitions: int
    ) -> tuple[slice, Table, Table, dict[tuple[str, int], Numbers]]:
        """The values of a block, the same as devices take them, and its tallies, int64[2, rounds, rows] each."""
        values = self.crowd.values(part)
        inside = in_range(self.plan, values)
        copies = self.crowd.copies(part)
        tallies = {}
        if self.plan.answers.sampled:
            for repetition in range(repetitions):
                source = self._generator(part.start, repetition, len(self._laws))
                asked = self._asked(self._picked(copies, source), source)
                for place, ((name, law), answering) in enumerate(zip(self._laws.items(), asked, strict=True)):
                    generator = self._generator(part.start, repetition, place)
                    tallies[name, repetition] = law.fresh(inside[name].T, answering, generator)
        elif self.plan.is_divided:
            for repetition in range(repetitions):
                asked = self._asked(copies, self._generator(part.start, repetition, len(self._laws)))
                for place, ((name, law), answering) in enumerate(zip(self._laws.items(), asked, strict=True)):
                    generator = self._generator(part.start, repetition, place)
                    tallies[name, repetition] = law.histories(inside[name].T, answering)(generator)
        else:
            for place, (name, law) in enumerate(self._laws.items()):
                histories = law.histories(inside[name].T, copies)
                for repetition in range(repetitions):
                    generator = self._generator(part.start, repetition, place)
                    tallies[name, repetition] = histories(generator)
        return part, values, inside, tallies

    def _generator(self, start: int, repetition: int, place: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, start, self._segment, repetition, place])

    def _picked(self, copies: Numbers, generator: np.random.Generator) -> Numbers:
        """How many devices pick each round of its window: int64[individuals, rounds]."""
        rounds = self.crowd.rounds
        width = self.plan.answers.window
        picked = np.empty((len(copies), rounds), dtype=np.int64)
        for first in range(0, rounds, width):
            of_window = generator.multinomial(copies, np.full(width, 1 / width))
            picked[:, first : first + width] = of_window[:, : rounds - first]
        return picked

    def _asked(self, answering: Numbers, generator: np.random.Generator) -> Iterator[Numbers]:
        """
        Per metric, how many of the devices that answer are asked about it, shaped as `answering`.

        A device picks `plan.asked` metrics. With r picks left when s metrics are left it takes the next with
        probability r/s, so how many take it is a binomial for every r.
        """
        metrics = len(self._laws)
        asked = self.plan.asked
        waiting = {asked: answering}  # by picks left
        for place in range(metrics):
            taking = {
                left: generator.binomial(waiting[left], min(1.0, left / (metrics - place)))
                for left in range(1, asked + 1)
                if left in waiting
            }
            yield np.sum(list(taking.values()), axis=0)
            for left, number in taking.items():
                waiting[left] = waiting[left] - number
                waiting[left - 1] = waiting.get(left - 1, 0) + number

    def _flipped(self, repetition: int, tallies: Mapping[str, Numbers]) -> dict[str, Tallies]:
        drawn = {}
        generator = np.random.default_rng([self.seed, self.crowd.individuals, self._segment, repetition, 0])
        for metric in self.plan.metrics:
            reports, ones = tallies[metric.name][:, repetition]
            if metric.flip.threshold:
                flip = metric.flip.threshold / SCALE
                kept, turned = (generator.binomial(bits, flip) for bits in (ones, reports - ones))
                ones = ones - kept + turned
            drawn[metric.name] = Tallies(metric, reports, ones)
        return drawn


def _threads() -> int:
    return min(_THREADS, os.cpu_count() or 1)


def in_range(plan: Plan, values: Table) -> dict[str, NDArray[Any]]:
    """
    Values by metric as a device takes them: cut to the range (-1 stands for none), and scaled to joint limits.

    Those of a split have one more axis, the first, of its parts.
    """
    missing = [name for name in plan.recorded if name not in values]
    if missing:
        raise ParameterError("values", f"values for {', '.join(missing)}", "none")
    inside = {}
    for name, metric in plan.recorded.items():
        column = values[name]
        if column.dtype.kind not in "iub":
            raise ParameterError(f"values of {name}", "whole numbers", column.dtype)
        low = -1 if metric.absent and not metric.parts else 0
        inside[name] = np.clip(column.astype(np.float64), low, float(metric.max_value))
    for names, limit in plan.limits:
        total = np.sum([inside[name] for name in names], axis=0)
        factor = float(limit) / np.maximum(total, float(limit))
        for name in names:
            inside[name] *= factor
    return {
        name: np.stack([inside[part] for part in metric.recorded]) if metric.parts else inside[name]
        for name, metric in plan.by_name.items()
    }


# The law of one metric


def law_of(metric: Metric) -> GridLaw | BucketLaw | SubsetLaw | SplitLaw:
    """
    What a metric's answers depend on; values are [individuals, rounds], as a device takes them; of a split
    [individuals, rounds, parts].

        histories(inside, copies)(generator)        reports and ones before flips, of remembered answers
        fresh(inside, answering, generator)         the same when devices answer once: int64[2, rounds, rows]
        classes(inside, generator)                  the remembered answers of one device per individual
        truth(inside, copies)                       what estimates aim at, times the devices: [rounds, intervals]
    """
    if metric.mechanism.grid is not None:
        return GridLaw(metric)
    return SplitLaw(metric) if metric.parts else _law_of_buckets(metric)


def _law_of_buckets(metric: Metric) -> BucketLaw | SubsetLaw:
    mechanism = metric.mechanism
    return SubsetLaw(metric, mechanism) if isinstance(mechanism, SubsetSelection) else BucketLaw(metric)


def _merged(histories: NDArray[Any], copies: Numbers) -> tuple[NDArray[Any], Numbers]:
    """
    The same devices with fewer individuals: those that keep one and the same value count as one.

    >>> _merged(np.array([[0, 0], [0, 5], [0, 0]]), np.array([3, 1, 4]))[1].tolist()
    [1, 7]
    """
    steady = (histories == histories[:, :1]).all(axis=1)
    values, places = np.unique(histories[steady, 0], return_inverse=True)
    together = np.zeros(len(values), dtype=np.int64)
    np.add.at(together, places, copies[steady])
    rows = np.repeat(values[:, None], histories.shape[1], axis=1)
    return np.concatenate([histories[~steady], rows]), np.concatenate([copies[~steady], together])


class GridLaw:
    """A mean: the value is rounded to a cell of a grid by the device's alpha, and each cell has a memo."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        mechanism = metric.mechanism
        if mechanism.uses_cohort or mechanism.bits != 1:
            raise ParameterError(
                f"metrics.{metric.name}",
                "one answer bit and no cohort for a mechanism on a grid",
                mechanism.title,
            )
        self.points = np.array([float(point) for point in mechanism.points])
        self.chances = np.array(
            [mechanism.thresholds(cell, 0)[0] / SCALE for cell in range(mechanism.classes)]
        )

    def places(self, inside: Floats) -> tuple[NDArray[np.intp], Floats]:
        """The cell below each value, and the share of alphas that round it up to the next one."""
        if len(self.points) == 2:
            return np.zeros(inside.shape, dtype=np.intp), inside / self.points[1]
        below = np.clip(np.searchsorted(self.points, inside, side="right") - 1, 0, len(self.points) - 2)
        return below, (inside - self.points[below]) / np.diff(self.points)[below]

    def histories(self, inside: Floats, copies: Numbers) -> Histories:
        """
        Individuals with remembered answers, whose devices are split by alpha.

        Let V = 1 - alpha/2⁶⁴, which is uniform. A value with a share u above its cell goes up when V ≤ u, so with
        sorted shares u₁ ≤ … ≤ u_T all devices with V in (u_j, u_{j+1}] have one history of cells: the round of
        rank r is up for j < r.
        """
        merged, devices = _merged(inside, copies)
        below, share = self.places(merged)
        order = np.argsort(share, axis=1)
        ordered = np.take_along_axis(share, order, axis=1)
        shares = np.diff(ordered, axis=1, prepend=0.0, append=1.0)
        if len(self.chances) == 2:
            return partial(self._of_step, devices, shares, order)
        below = np.take_along_axis(below, order, axis=1)
        visits: list[
            tuple[int, Any, Any, Any]
        ] = []  # cell, individuals there, whether a round is down or up there
        for cell in range(len(self.chances)):
            down = below == cell
            up = below == cell - 1
            who = np.flatnonzero((down | up).any(axis=1))
            if len(who):
                visits.append((cell, who, down[who], up[who]))

        def draw(generator: np.random.Generator) -> Numbers:
            parts = generator.multinomial(devices, shares)
            ones = np.zeros(order.shape, dtype=np.int64)
            for cell, who, down, up in visits:
                here = parts[who]
                memo = np.zeros_like(here)
                some = here > 0
                memo[some] = generator.binomial(here[some], self.chances[cell])
                until = np.cumsum(memo, axis=1)
                first = until[:, :-1]
                ones[who] += up * first + down * (until[:, -1:] - first)
            size = order.shape[1]
            heard = _summed(order.ravel(), ones.ravel(), size)
            return np.stack([np.full(size, devices.sum()), heard])[:, :, None]

        return draw

    def _of_step(
        self, devices: Numbers, shares: Floats, order: NDArray[np.intp], generator: np.random.Generator
    ) -> Numbers:
        """
        The same with one step, which is most plans and takes less: every part knows two answers.

        The ones of a round are those of all parts when they are down, and what changes in each part that is up.
        """
        parts = generator.multinomial(devices, shares)
        some = np.flatnonzero(parts)
        here = parts.ravel()[some]
        down, up = (generator.binomial(here, chance) for chance in self.chances)
        change = np.zeros(parts.size, dtype=np.int64)
        change[some] = up - down
        until = np.cumsum(change.reshape(parts.shape)[:, :-1], axis=1)
        size = order.shape[1]
        heard = _summed(order.ravel(), until.ravel(), size) + down.sum()
        return np.stack([np.full(size, devices.sum()), heard])[:, :, None]

    def fresh(self, inside: Floats, answering: Numbers, generator: np.random.Generator) -> Numbers:
        """One answer per device: 1 with the probability of its value, over alpha and memo."""
        who, rounds = np.nonzero(inside)
        below, share = self.places(inside[who, rounds])
        chance = self.chances[below] + share * (self.chances[below + 1] - self.chances[below])
        some = answering[who, rounds]
        reports = answering.sum(axis=0)
        size = len(reports)
        # Devices at 0, which are most of them, are alike: one binomial per round.
        idle = reports - _summed(rounds, some, size)
        ones = generator.binomial(idle, self.chances[0])
        ones = ones + _summed(rounds, generator.binomial(some, chance), size)
        return np.stack([reports, ones])[:, :, None]

    def classes(self, inside: Floats, generator: np.random.Generator) -> NDArray[Any]:
        """The cell of each value, with one alpha per individual."""
        below, share = self.places(inside)
        return np.asarray(below + (generator.random((len(inside), 1)) < share))

    def truth(self, inside: Floats, copies: Numbers) -> Floats:
        """The sum of the values."""
        return np.asarray(copies @ inside)[:, None]


def _summed(places: NDArray[np.intp], numbers: Numbers, size: int) -> Numbers:
    """Per place, the sum of its numbers; exact, since the sums are below 2^53."""
    return np.bincount(places, numbers, size).astype(np.int64)


class _Bucketed:
    """Values that go to buckets."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.edges = np.array([float(edge) for edge in metric.mechanism.points])

    def buckets(self, inside: Floats) -> NDArray[np.intp]:
        """The bucket of each value."""
        buckets = np.searchsorted(self.edges[1:-1], inside, side="right")
        if self.metric.absent:
            buckets[inside < 0] = self.metric.mechanism.intervals - 1
        return buckets

    def devices(self, inside: Floats, answering: Numbers) -> Numbers:
        """How many of the devices that answer are in each bucket: int64[rounds, buckets]."""
        rounds = inside.shape[1]
        size = self.metric.mechanism.intervals
        places = self.buckets(inside) + size * np.arange(rounds)
        return _summed(places.ravel(), answering.ravel(), rounds * size).reshape(rounds, size)

    def truth(self, inside: Floats, copies: Numbers) -> Floats:
        """The number of devices per bucket."""
        rounds = inside.shape[1]
        size = self.metric.mechanism.intervals
        places = self.buckets(inside) + size * np.arange(rounds)
        weights = np.repeat(copies, rounds)
        devices = np.bincount(places.ravel(), weights, rounds * size)
        return devices.astype(np.float64).reshape(rounds, size)


class BucketLaw(_Bucketed):
    """A histogram: the cohort says what the bits are about, and each class of buckets has a memo."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(metric)
        self.cohorts = _cohorts(metric.mechanism)
        self.shares = np.array([kind.cohorts / COHORTS for kind in self.cohorts])  # of devices, in each kind

    def histories(self, inside: Floats, copies: Numbers) -> Histories:
        """Individuals with remembered answers, whose devices are split by cohort."""
        return self.of_buckets(*_merged(self.buckets(inside), copies))

    def of_buckets(self, buckets: NDArray[Any], devices: Numbers) -> Histories:
        """The same from histories of buckets: [individuals, rounds]."""

        def draw(generator: np.random.Generator) -> Numbers:
            split = generator.multinomial(devices, self.shares)
            tallies = np.zeros((2, buckets.shape[1], self.metric.mechanism.row_count), dtype=np.int64)
            for number, kind in enumerate(self.cohorts):
                who = np.flatnonzero(split[:, number])
                own = split[who, number]
                count = len(kind.chances)
                slots = kind.classes[buckets[who]] + count * np.arange(len(who))[:, None]
                visited = np.zeros(len(who) * count, dtype=bool)
                visited[slots] = True
                here = np.repeat(own, count)[visited]
                chances = np.tile(kind.chances, (len(who), 1))
                memo = np.zeros((len(visited), len(kind.rows)), dtype=np.int64)
                memo[visited] = generator.binomial(here[:, None], chances[visited])
                tallies[0][:, kind.rows] += own.sum()
                tallies[1][:, kind.rows] += memo[slots].sum(axis=0)
            return tallies

        return draw

    def fresh(self, inside: Floats, answering: Numbers, generator: np.random.Generator) -> Numbers:
        """One answer per device: cohort and memo are drawn for it alone, so devices of a bucket are alike."""
        return self.fresh_in(self.devices(inside, answering), generator)

    def fresh_in(self, devices: Numbers, generator: np.random.Generator) -> Numbers:
        """The same from the devices in each bucket: int64[rounds, buckets]."""
        rounds = len(devices)
        split = generator.multinomial(devices, self.shares)
        tallies = np.zeros((2, rounds, self.metric.mechanism.row_count), dtype=np.int64)
        for number, kind in enumerate(self.cohorts):
            here = split[:, :, number, None]
            ones = generator.binomial(here, kind.chances[kind.classes])
            tallies[0][:, kind.rows] += here.sum(axis=1)
            tallies[1][:, kind.rows] += ones.sum(axis=1)
        return tallies

    def classes(self, inside: Floats, generator: np.random.Generator) -> NDArray[Any]:
        """The class of each value's bucket, with one cohort per individual."""
        return self.classes_of(self.buckets(inside), generator)

    def classes_of(self, buckets: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
        """The class of each bucket."""
        table = np.stack([kind.classes for kind in self.cohorts])
        own = generator.choice(len(table), len(buckets), p=self.shares)
        return np.asarray(table[own[:, None], buckets])


class SubsetLaw(_Bucketed):
    """Subset selection: a set of buckets that has the device's own with one chance, and of the others any alike."""

    def __init__(self, metric: Metric, mechanism: SubsetSelection) -> None:
        super().__init__(metric)
        self.mechanism = mechanism

    def histories(self, inside: Floats, copies: Numbers) -> Histories:
        """Its answers are never remembered: raises `ParameterError`."""
        return self.of_buckets(self.buckets(inside), copies)

    def of_buckets(self, buckets: NDArray[Any], devices: Numbers) -> Histories:
        """Its answers are never remembered: raises `ParameterError`."""
        raise ParameterError("answers", "sampled answers", "remembered", self.mechanism.title)

    def classes(self, inside: Floats, generator: np.random.Generator) -> NDArray[Any]:
        """The bucket of each value."""
        return self.buckets(inside)

    def classes_of(self, buckets: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
        """A class is a bucket."""
        return buckets

    def fresh(self, inside: Floats, answering: Numbers, generator: np.random.Generator) -> Numbers:
        """
        One answer per device.

        A set has the own bucket with a chance of `high`. Of the others it is uniform: with r members left when s
        buckets are left, the next one is a member with probability r/s, so how many sets take it is a binomial for
        every r.
        """
        return self.fresh_in(self.devices(inside, answering), generator)

    def fresh_in(self, devices: Numbers, generator: np.random.Generator) -> Numbers:
        """The same from the devices in each bucket: int64[rounds, buckets]."""
        count, size = self.mechanism.bits, self.mechanism.size
        own = generator.binomial(devices, float(self.mechanism.channel(Flip(0)).high))
        left = np.zeros((size + 1, *devices.shape), dtype=np.int64)  # sets by the members that are left
        left[size - 1] += own
        left[size] += devices - own
        ones = own.copy()
        members = np.arange(size + 1)[:, None, None]
        for bucket in range(count):
            # Of the other buckets, so many come from here on: one less where the own one is still to come.
            others = count - bucket - (np.arange(count) >= bucket)
            chance = np.minimum(members / np.maximum(others, 1), 1.0)
            chance[:, :, bucket] = 0.0
            taking = generator.binomial(left, chance)
            ones[:, bucket] += taking.sum(axis=(0, 2))
            left -= taking
            left[:-1] += taking[1:]
        reports = np.repeat(devices.sum(axis=1)[:, None], count, axis=1)
        return np.stack([reports, ones])


class SplitLaw:
    """A split: each device is in the bucket of the part that it picks, with the chance of the part's share."""

    def __init__(self, metric: Metric) -> None:
        self.law = _law_of_buckets(metric)
        self.limit = float(metric.max_total)

    def histories(self, inside: Floats, copies: Numbers) -> Histories:
        """Devices with remembered answers, each with darts of its own."""
        devices = np.repeat(inside, copies, axis=0)

        def draw(generator: np.random.Generator) -> Numbers:
            thrown = self._thrown(devices, generator)
            return self.law.of_buckets(*_merged(thrown, np.ones(len(thrown), dtype=np.int64)))(generator)

        return draw

    def fresh(self, inside: Floats, answering: Numbers, generator: np.random.Generator) -> Numbers:
        """One answer per device, about the part at a moment of its own."""
        shares = np.clip(self._with_rest(inside) / self.limit, 0.0, 1.0)
        shares /= shares.sum(axis=2, keepdims=True)
        return self.law.fresh_in(generator.multinomial(answering, shares).sum(axis=0), generator)

    def classes(self, inside: Floats, generator: np.random.Generator) -> NDArray[Any]:
        """The class of the part that is picked, with one set of darts per individual."""
        return self.law.classes_of(self._thrown(inside, generator), generator)

    def truth(self, inside: Floats, copies: Numbers) -> Floats:
        """The sum of the amounts of each part, and of the unused rest."""
        return np.asarray(np.einsum("i,irp->rp", copies.astype(np.float64), self._with_rest(inside)))

    def _with_rest(self, inside: Floats) -> Floats:
        return np.concatenate([inside, self.limit - inside.sum(axis=2, keepdims=True)], axis=2)

    def _thrown(self, inside: Floats, generator: np.random.Generator) -> NDArray[np.intp]:
        """The bar that the first dart hits, in each round."""
        bars = self._with_rest(inside)
        hit = np.full(bars.shape[:2], bars.shape[2] - 1, dtype=np.intp)
        missed = np.ones(hit.shape, dtype=bool)
        throwing = np.arange(len(bars))
        while len(throwing):
            picked = generator.integers(0, bars.shape[2], len(throwing))
            height = generator.random(len(throwing)) * self.limit
            hits = missed[throwing] & (height[:, None] < bars[throwing, :, picked])
            hit[throwing] = np.where(hits, picked[:, None], hit[throwing])
            missed[throwing] &= ~hits
            throwing = throwing[missed[throwing].any(axis=1)]
        return hit


@dataclass(frozen=True, eq=False)
class _Cohort:
    cohorts: int  # How many of all there are
    rows: list[int]  # The row of each answer bit
    classes: NDArray[np.intp]  # Per bucket, its class
    chances: Floats  # [class, bit]: the probability of a 1


@lru_cache(maxsize=32)
def _cohorts(mechanism: Mechanism) -> tuple[_Cohort, ...]:
    kinds: dict[Any, int] = {}
    for cohort in range(COHORTS if mechanism.uses_cohort else 1):
        classes = tuple(int(mechanism.bucket_class(bucket, cohort)) for bucket in range(mechanism.intervals))
        thresholds = tuple(mechanism.thresholds(number, cohort) for number in range(mechanism.classes))
        kind = mechanism.rows_of(cohort), classes, thresholds
        kinds[kind] = kinds.get(kind, 0) + (1 if mechanism.uses_cohort else COHORTS)
    return tuple(
        _Cohort(
            number,
            list(rows),
            np.array(classes),
            np.array(thresholds, dtype=object).astype(float) / float(SCALE),
        )
        for (rows, classes, thresholds), number in kinds.items()
    )
