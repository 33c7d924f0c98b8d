"""Fleets of simulated devices: as arrays, for millions at once, and one by one with the code of the SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.device import SecretDraws, answer
from reticent.errors import ParameterError
from reticent.mechanisms import SubsetSelection
from reticent.plan import Metric, Plan, Window
from reticent.reports import MAX_ROUND, Report, from_packed, record_width, to_packed
from reticent_collector.counts import Counts, Slice, count_arrays
from reticent_lab.fleet.draws import FleetDraws, Places, blocks, each_block
from reticent_lab.fleet.memo import (
    BucketClasses,
    Cells,
    Limit,
    Memo,
    Part,
    PartClasses,
    Ratios,
    Subsets,
    Whole,
    high_word,
)

_BLOCK = 1 << 15  # Devices at a time: their words fit the second-level cache
_REPORTS = 1 << 14
Values = Mapping[str, NDArray[Any]]
"""Per metric, a whole number for each device; a metric that is left out is 0 everywhere, as on a device."""

Tags = NDArray[np.uint8]
"""Per device and segment of the plan, the place of its tag among `Segment.tags`: uint8[devices, segments]."""


class SdkFleet:
    """Devices without files or network: secrets from a seed, and the law by which a device answers."""

    def __init__(
        self, plan: Plan, devices: int, seed: int, segments: Sequence[Mapping[str, str]] | None = None
    ) -> None:
        self.plan = plan
        self._segments = segments or [{}] * devices
        self._secrets = [
            blake2b(f"{seed}/{device}".encode(), digest_size=32).digest() for device in range(devices)
        ]
        self._window: Window | None = None
        self._draws = [SecretDraws(secret, plan.name, epoch=0) for secret in self._secrets]

    def __len__(self) -> int:
        return len(self._secrets)

    def reports(self, round_number: int, values: Mapping[str, Sequence[object]]) -> Iterator[Report]:
        """What every device answers in a round (if sampled, those that pick it); a list of values per metric."""
        window = window_of(self.plan, round_number)
        if window != self._window:
            start = None if window is None else window.start
            self._draws = [SecretDraws(secret, self.plan.name, 0, start) for secret in self._secrets]
            self._window = window
        for device, draws in enumerate(self._draws):
            if window is None or draws.picked_round(window) == round_number:
                own = {name: column[device] for name, column in values.items()}
                yield answer(draws, self.plan, round_number, own, self._segments[device]).report


def window_of(plan: Plan, round_number: int) -> Window | None:
    """The window whose draws a round's answers have; None where answers are remembered."""
    window = plan.window_of(round_number)
    if plan.answers.sampled and window is None:
        raise ParameterError("round", "one of a window: the first starts in January 1970", round_number)
    return window


class _Chance:
    """All that a fleet draws: for ever where answers are remembered, for one window where they are sampled."""

    def __init__(self, plan: Plan, devices: int, seed: int, first: int, window: Window | None) -> None:
        self.window = window
        self._picked: NDArray[Any] | None = None
        self.draws = FleetDraws(Places(seed, plan.name, window.start if window else None), devices, first)
        self.cohorts = np.zeros(devices, dtype=np.uint8)
        self.classes: dict[str, Cells | BucketClasses] = {}
        self.parts: dict[str, PartClasses] = {}
        if plan.uses_cohort:
            for part in blocks(devices):
                self.cohorts[part] = self.draws.words(self.draws.places.cohort(), part) >> np.uint64(56)
        for metric in plan.metrics:
            if metric.parts:
                self.parts[metric.name] = PartClasses(
                    metric, self.draws, self.cohorts, sampled=window is not None
                )
                continue
            by_grid = metric.mechanism.grid is not None
            of_metric = Cells(metric, self.draws) if by_grid else BucketClasses(metric, self.cohorts)
            self.classes[metric.name] = of_metric
        self.memos: dict[str, Memo | Subsets] = {}
        for metric in plan.metrics:
            if isinstance(metric.mechanism, SubsetSelection):
                self.memos[metric.name] = Subsets(metric, self.draws, metric.mechanism)
            else:
                self.memos[metric.name] = Memo(metric, self.draws, self.cohorts, keep=window is None)

    def picked(self, window: Window) -> NDArray[Any]:
        """The round of the window that each device picks, counted from the window's first: drawn once, and kept."""
        if self._picked is None:
            picked = np.empty(len(self.cohorts), dtype=np.min_scalar_type(window.rounds - 1))
            place = self.draws.places.picked_round()

            def work(part: slice) -> None:
                picked[part] = high_word(self.draws.words(place, part), np.uint64(window.rounds))

            each_block(work, len(picked))
            self._picked = picked
        return self._picked

    def asked(self, plan: Plan, part: Part) -> NDArray[np.bool_]:
        """Which metrics are asked of some devices: bool[metrics, devices]."""
        by_name = sorted(range(len(plan.metrics)), key=lambda place: plan.metrics[place].name)
        places = [self.draws.places.asked(plan.metrics[place]) for place in by_name]
        words = np.stack([self.draws.words(place, part) for place in places])
        # Stable: of two equal draws, that of the earlier name is the smaller.
        smallest = np.argsort(words, axis=0, kind="stable")[: plan.asked]
        asked = np.zeros(words.shape, dtype=bool)
        np.put_along_axis(asked, np.array(by_name)[smallest], True, axis=0)
        return asked


@dataclass(frozen=True, slots=True)
class _Answering:
    round: int
    chance: _Chance
    devices: range | NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.devices)

    def part(self, block: slice) -> Part:
        """A block of those who answer, as a part of the fleet."""
        return block if isinstance(self.devices, range) else self.devices[block]


class VectorisedFleet:
    """
    Simulated devices, numbered from `first`, that answer exactly as the SDK does.

    Device *i*'s report is, bit for bit, that of `reticent.device.answer` with `HashDraws(seed, i, plan.name)`,
    and with sampled answers that of `HashDraws(seed, i, plan.name, window.start)` in the round that it picks. Any
    round can be asked for at any time. This is for simulation: a real device's chance comes from a secret of its
    own.

    Values are whole numbers, clamped and scaled to joint limits as on a device. The value of a choice is the
    place of its label; a negative number stands for no value.

    >>> from reticent.mechanisms import OneBitMean
    >>> plan = Plan("demo", 1, 3600, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> fleet = VectorisedFleet(plan, devices=1000, seed=1)
    >>> fleet.counts(7, {"minutes": np.full(1000, 60)})[7, ()]["minutes"].reports
    1000
    """

    def __init__(self, plan: Plan, devices: int, seed: int, first: int = 0) -> None:
        if devices < 1 or first < 0 or first + devices > 2**63:
            raise ParameterError("devices", "a whole number >= 1, numbered from 0 to below 2^63", devices)
        self.plan = plan
        self.devices = devices
        self.seed = seed
        self.first = first
        members = [name for group in plan.groups for name in group.metrics]
        if len(set(members)) != len(members):
            raise ParameterError("groups", "each metric in at most one group", members)
        self._limits = [Limit(plan, group) for group in plan.groups]
        self._chance: _Chance | None = None
        if not plan.answers.sampled:
            self._chance = _Chance(plan, devices, seed, first, None)

    def __len__(self) -> int:
        return self.devices

    def packed(self, round_number: int, values: Values, tags: Tags | None = None) -> bytes:
        """What the devices answer in a round, as a packed batch; without `tags` every tag is "other"."""
        given = self._checked(round_number, values)
        codes = self._codes(tags)
        answering = self._answering(round_number)
        records = np.empty((len(answering), record_width(self.plan)), dtype=np.uint8)
        records[:, :8] = np.frombuffer(round_number.to_bytes(8, "big"), dtype=np.uint8)
        draws = answering.chance.draws
        halves = draws.places.report_id(self.plan.version, round_number)

        def work(block: slice) -> None:
            part = answering.part(block)
            words = np.stack([draws.words(where, part) for where in halves], axis=1)
            columns = [words.astype(">u8").view(np.uint8)]
            columns += [answering.chance.cohorts[part, None]] if self.plan.uses_cohort else []
            asked, bits = self._sent(answering, given, block)
            records[block, 8:] = np.concatenate([*columns, asked, codes[part], bits], axis=1)

        each_block(work, len(answering), _BLOCK)
        return to_packed([], self.plan) + records.tobytes()

    def reports(self, round_number: int, values: Values, tags: Tags | None = None) -> Iterator[Report]:
        """What the devices answer in a round, in order."""
        head = to_packed([], self.plan)
        batch = self.packed(round_number, values, tags)
        step = _REPORTS * record_width(self.plan)
        for place in range(len(head), len(batch), step):
            yield from from_packed(head + batch[place : place + step], self.plan)

    def counts(
        self, round_number: int, values: Values, tags: Tags | None = None
    ) -> dict[Slice, dict[str, Counts]]:
        """The counts of all reports of a round, as `count_reports` gives them; no report is written."""
        given = self._checked(round_number, values)
        codes = self._codes(tags)
        answering = self._answering(round_number)
        asked = np.empty((len(answering), self.plan.asked_bytes), dtype=np.uint8)
        bits = np.empty((len(answering), self.plan.report_bytes), dtype=np.uint8)

        def work(block: slice) -> None:
            asked[block], bits[block] = self._sent(answering, given, block)

        each_block(work, len(answering), _BLOCK)
        everyone = answering.part(slice(0, len(answering)))
        cohorts = answering.chance.cohorts[everyone]
        codes = codes[everyone]
        counts = {}
        for cell in product(*(enumerate(segment.tags) for segment in self.plan.segments)):
            here: Any = slice(None)
            if cell:
                here = np.flatnonzero(
                    np.all([codes[:, n] == code for n, (code, _) in enumerate(cell)], axis=0)
                )
            if len(bits[here]):
                found = count_arrays(self.plan, cohorts[here], bits[here], asked[here])
                counts[round_number, tuple(tag for _, tag in cell)] = found
        return counts

    def cells(self, metric: str, values: Values | NDArray[Any]) -> NDArray[Any]:
        """
        The class of remembered answer that each device's value calls for: the cell that a mean rounds to.

        `values` as for a round, or those of this metric alone. Sampled answers have none.
        """
        if self.plan.answers.sampled:
            raise ParameterError(
                "answers", "remembered answers, which alone have classes that last", "sampled"
            )
        given = self._checked(0, values if isinstance(values, Mapping) else {metric: values})
        asked = self._metric(metric)
        answering = self._answering(0)
        classes = np.empty(self.devices, dtype=np.min_scalar_type(asked.mechanism.classes - 1))

        def work(block: slice) -> None:
            classes[block] = self._classified(answering, given, block, [asked])[0]

        each_block(work, self.devices, _BLOCK)
        return classes

    def bits(self, metric: str, round_number: int, values: Values | NDArray[Any]) -> NDArray[np.uint8]:
        """The bits sent about one metric in a round: uint8[reports, bits] of 0 and 1; 0 if it is not asked."""
        given = self._checked(round_number, values if isinstance(values, Mapping) else {metric: values})
        of_metric, answering = self._metric(metric), self._answering(round_number)
        bits = np.empty((len(answering), of_metric.bits), dtype=np.uint8)

        def work(block: slice) -> None:
            asked = self._asked(answering, answering.part(block))
            for place, bit in enumerate(self._answers(answering, given, block, [of_metric], asked)):
                bits[block, place] = bit

        each_block(work, len(answering), _BLOCK)
        return bits

    # Who answers a round, and with which draws

    def _answering(self, round_number: int) -> _Answering:
        window = window_of(self.plan, round_number)
        chance = self._chance
        if chance is None or chance.window != window:
            # Threads may draw the same chance twice, which is as good as once.
            chance = self._chance = _Chance(self.plan, self.devices, self.seed, self.first, window)
        if window is None:
            return _Answering(round_number, chance, range(self.devices))
        picked = np.flatnonzero(chance.picked(window) == round_number - window.first)
        return _Answering(round_number, chance, picked)

    def _asked(self, answering: _Answering, part: Part) -> NDArray[np.bool_] | None:
        return answering.chance.asked(self.plan, part) if self.plan.asked_bytes else None

    # One block of those who answer

    def _answers(
        self,
        answering: _Answering,
        values: Values,
        block: slice,
        metrics: list[Metric],
        asked: NDArray[np.bool_] | None,
    ) -> list[NDArray[Any]]:
        """The bits that a block sends, one array per answer bit of the metrics; 0 where one is not asked."""
        part = answering.part(block)
        chance = answering.chance
        scratch = np.empty((2, block.stop - block.start), np.uint64)
        sent: list[NDArray[Any]] = []
        for metric, classes in zip(metrics, self._classified(answering, values, block, metrics), strict=True):
            bits = chance.memos[metric.name].answers(classes, part, scratch)
            sent += bits
            for place, bit in enumerate(bits):
                if metric.flip.threshold:
                    where = chance.draws.places.flip(metric, answering.round, place)
                    flips = chance.draws.words(where, part, scratch) < np.uint64(metric.flip.threshold)
                    np.bitwise_xor(bit, flips.view(bit.dtype), out=bit)
                if asked is not None:
                    np.bitwise_and(bit, asked[self.plan.metrics.index(metric)].view(bit.dtype), out=bit)
        return sent

    def _classified(
        self, answering: _Answering, values: Values, block: slice, metrics: list[Metric]
    ) -> list[NDArray[Any]]:
        part = answering.part(block)
        of_block = {name: column[part] for name, column in values.items()}
        ratios: dict[str, Ratios] = {}
        for limit in self._limits:
            if any(metric.name in limit.group.metrics for metric in metrics):
                ratios |= limit.scaled(of_block)
        result = []
        for metric in metrics:
            if metric.parts:
                result.append(answering.chance.parts[metric.name].of(of_block, part))
                continue
            of_metric = answering.chance.classes[metric.name]
            classes = of_metric.of(of_block[metric.name], part)
            if metric.name in ratios:
                scaled = ratios[metric.name]
                devices = scaled.places + part.start if isinstance(part, slice) else part[scaled.places]
                classes[scaled.places] = of_metric.of_ratios(scaled, devices)
            result.append(classes)
        return result

    def _sent(
        self, answering: _Answering, values: Values, block: slice
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The bytes that say which metrics a block answers (none where all are), and the bytes of its bits."""
        asked = self._asked(answering, answering.part(block))
        bits = self._answers(answering, values, block, list(self.plan.metrics), asked)
        return _packed([] if asked is None else asked, len(bits[0])), _packed(bits, len(bits[0]))

    # What was handed in

    def _metric(self, name: str) -> Metric:
        if name not in self.plan.by_name:
            raise ParameterError("metric", f"one of {', '.join(self.plan.by_name)}", repr(name))
        return self.plan.by_name[name]

    def _checked(self, round_number: int, values: Values) -> dict[str, Whole]:
        if not 0 <= round_number < MAX_ROUND:
            raise ParameterError("round", "a whole number from 0 to below 2^53", round_number)
        for name in values:
            if name not in self.plan.recorded:
                raise ParameterError("metric", f"one of {', '.join(self.plan.recorded)}", repr(name))
        columns = {}
        for name, metric in self.plan.recorded.items():
            nothing = np.int32(-(metric.absent and not metric.parts))
            column = np.asarray(values.get(name, np.broadcast_to(nothing, self.devices)))
            if column.dtype.kind == "b":
                column = column.astype(np.uint8)
            if column.dtype.kind not in "iu" or column.shape != (self.devices,):
                raise ParameterError(
                    f"values of {name}",
                    f"{self.devices} whole numbers",
                    f"{column.dtype}{list(column.shape)}",
                    "choose a unit in which values are whole; SdkFleet takes fractions",
                )
            if metric.labels and column.max() > metric.max_value:
                expected = f"places of its {len(metric.labels)} labels, from 0, or -1 for none"
                raise ParameterError(f"values of {name}", expected, "a larger number")
            columns[name] = column
        return columns

    def _codes(self, tags: Tags | None) -> Tags:
        last = np.array([len(segment.tags) - 1 for segment in self.plan.segments], dtype=np.uint8)
        if tags is None:
            return np.broadcast_to(last, (self.devices, len(last)))
        if tags.dtype != np.uint8 or tags.shape != (self.devices, len(last)) or np.any(tags > last):
            raise ParameterError(
                "tags",
                f"uint8[{self.devices}, {len(last)}], each the place of a tag in its segment",
                f"{tags.dtype}{list(tags.shape)}",
            )
        return tags


def _packed(bits: Sequence[NDArray[Any]] | NDArray[np.bool_], devices: int) -> NDArray[np.uint8]:
    """One array of 0 and 1 per place as bytes of each device: what `numpy.packbits` does, but faster for few."""
    packed = np.zeros((devices, -(-len(bits) // 8)), dtype=np.uint8)
    for place, bit in enumerate(bits):
        packed[:, place // 8] |= bit.view(np.uint8) << np.uint8(7 - place % 8)
    return packed
