"""
Fleets of simulated devices: as arrays, for millions at once, and one by one with the code of the SDK.

A whole fleet as counts alone, without devices, is in `reticent.lab.fleet_counts`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.counts import Counts, Slice, fold
from reticent.device import SecretDraws, answer
from reticent.errors import ParameterError
from reticent.lab.fleet.draws import FleetDraws, Places, blocks, each_block
from reticent.lab.fleet.memo import BucketClasses, Cells, Limit, Memo, Ratios, Whole
from reticent.mechanisms import COHORTS
from reticent.plan import Metric, Plan, Window
from reticent.reports import ID_BYTES, MAX_ROUND, Report, from_packed, record_width, to_packed

_BLOCK = 1 << 15
"""Devices at a time: their words fit the second-level cache."""
_REPORTS = 1 << 14
_TABLE = 1 << 14
"""Entries of a table that stays in the first-level cache, more or less."""

Values = Mapping[str, NDArray[Any]]
"""Per metric, a whole number for each device; a metric that is left out is 0 everywhere, as on a device."""

Tags = NDArray[np.uint8]
"""Per device and segment of the plan, the place of its tag among `Segment.tags`: uint8[devices, segments]."""


class SdkFleet:
    """
    Devices without files or network: secrets, and the law by which a device answers.

    Their secrets come from a seed, so that a simulation can be repeated; a real device's never do.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> fleet = SdkFleet(plan, devices=3, seed=1)
    >>> len(list(fleet.reports(7, {"minutes": [0, 30, 60]})))
    3
    """

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
        """
        What every device answers in a round; `values` has a list per metric, in the order of devices.

        Where answers are sampled, only the devices that pick the round in its window have a report.
        """
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


class VectorisedFleet:
    """
    Simulated devices, numbered from `first`, that answer exactly as the SDK does.

    Alphas, remembered answers, cohorts, flips and report ids are a hash of the seed (`HashDraws`), so any
    round can be asked for at any time, in any order, and gives the same reports each time. Device *i*'s
    report is, bit for bit, that of `reticent.device.answer` with `HashDraws(seed, i, plan.name)`. This is for
    simulation: a real device's chance comes from a secret of its own.

    Values are whole numbers; what is out of range is clamped, and groups are scaled to their limits, as on a
    device.

    >>> from reticent.mechanisms import OneBitMean
    >>> plan = Plan("demo", 1, 3600, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> fleet = VectorisedFleet(plan, devices=1000, seed=1)
    >>> values = {"minutes": np.full(1000, 60)}
    >>> next(fleet.reports(7, values)) == next(fleet.reports(7, values))
    True
    >>> fleet.counts(7, values)[7, ()]["minutes"].reports
    1000
    """

    def __init__(self, plan: Plan, devices: int, seed: int, first: int = 0) -> None:
        if devices < 1 or first < 0 or first + devices > 2**63:
            raise ParameterError("devices", "a whole number >= 1, numbered from 0 to below 2^63", devices)
        if plan.answers.sampled:
            expected = "remembered answers, since a VectorisedFleet does not sample yet"
            raise ParameterError("answers", expected, "sampled", "SdkFleet answers plans of both kinds")
        self.plan, self.devices, self.seed, self.first = plan, devices, seed, first
        self._draws = FleetDraws(Places(seed, plan.name), devices, first)
        self._cohorts = np.zeros(devices, dtype=np.uint8)
        if plan.uses_cohort:
            for part in blocks(devices):
                self._cohorts[part] = self._draws.words(self._draws.places.cohort(), part) >> np.uint64(56)
        members = [name for group in plan.groups for name in group.metrics]
        if len(set(members)) != len(members):
            raise ParameterError("groups", "each metric in at most one group", members)
        self._limits = [Limit(plan, group) for group in plan.groups]
        self._classes: dict[str, Cells | BucketClasses] = {}
        for metric in plan.metrics:
            by_grid = metric.mechanism.grid is not None
            of_metric = Cells(metric, self._draws) if by_grid else BucketClasses(metric, self._cohorts)
            self._classes[metric.name] = of_metric
        self._memos = {metric.name: Memo(metric, self._draws, self._cohorts) for metric in plan.metrics}

    def __len__(self) -> int:
        return self.devices

    def packed(self, round_number: int, values: Values, tags: Tags | None = None) -> bytes:
        """What every device answers in a round, as a packed batch; without `tags` every tag is "other"."""
        given, codes = self._checked(round_number, values), self._codes(tags)
        records = np.empty((self.devices, record_width(self.plan)), dtype=np.uint8)

        def work(part: slice) -> None:
            self._write(records[part], part, round_number, given, codes)

        each_block(work, self.devices, _BLOCK)
        return to_packed([], self.plan) + records.tobytes()

    def reports(self, round_number: int, values: Values, tags: Tags | None = None) -> Iterator[Report]:
        """What every device answers in a round, in order."""
        given, codes = self._checked(round_number, values), self._codes(tags)
        head = to_packed([], self.plan)
        for part in blocks(self.devices, _REPORTS):
            records = np.empty((part.stop - part.start, record_width(self.plan)), dtype=np.uint8)
            self._write(records, part, round_number, given, codes)
            yield from from_packed(head + records.tobytes(), self.plan)

    def counts(
        self, round_number: int, values: Values, tags: Tags | None = None
    ) -> dict[Slice, dict[str, Counts]]:
        """The counts of all reports of a round, as `count_reports` gives them; no report is written."""
        given, codes = self._checked(round_number, values), self._codes(tags)
        cells = list(product(*(segment.tags for segment in self.plan.segments)))
        groups = len(cells) * (COHORTS if self.plan.uses_cohort else 1)
        reports = np.zeros(groups, dtype=np.int64)
        ones = np.zeros((groups, self.plan.bits), dtype=np.int64)
        lock = threading.Lock()

        def work(part: slice) -> None:
            keys = self._keys(part, codes)
            some_reports, some_ones = tally(keys, self._answers(round_number, given, part), groups)
            with lock:
                np.add(reports, some_reports, out=reports)
                np.add(ones, some_ones, out=ones)

        each_block(work, self.devices, _BLOCK)
        counts = {}
        for cell, in_cell, ones_in_cell in zip(
            cells, np.split(reports, len(cells)), np.split(ones, len(cells)), strict=True
        ):
            if in_cell.any():
                per_cohort = {cohort: int(number) for cohort, number in enumerate(in_cell) if number}
                places = {cohort: ones_in_cell[cohort].tolist() for cohort in per_cohort}
                counts[round_number, cell] = fold(self.plan, per_cohort, places)
        return counts

    def cells(self, metric: str, values: Values | NDArray[Any]) -> NDArray[Any]:
        """
        The class of remembered answer that each device's value calls for: the cell that a mean rounds to.

        `values` as for a round, or those of this metric alone. Of several rounds, `patterns` and `widths` of
        `reticent.privacy` can be taken.
        """
        given = self._checked(0, values if isinstance(values, Mapping) else {metric: values})
        asked = self._metric(metric)
        classes = np.empty(self.devices, dtype=np.min_scalar_type(asked.mechanism.classes - 1))

        def work(part: slice) -> None:
            classes[part] = self._classified(given, part, [asked])[0]

        each_block(work, self.devices, _BLOCK)
        return classes

    def bits(self, metric: str, round_number: int, values: Values | NDArray[Any]) -> NDArray[np.uint8]:
        """The bits sent about one metric in a round: uint8[devices, bits] of 0 and 1."""
        given = self._checked(round_number, values if isinstance(values, Mapping) else {metric: values})
        asked = self._metric(metric)
        bits = np.empty((self.devices, asked.bits), dtype=np.uint8)

        def work(part: slice) -> None:
            for place, bit in enumerate(self._answers(round_number, given, part, [asked])):
                bits[part, place] = bit

        each_block(work, self.devices, _BLOCK)
        return bits

    # One block of devices

    def _answers(
        self, round_number: int, values: Values, part: slice, metrics: list[Metric] | None = None
    ) -> list[NDArray[Any]]:
        """The bits that a block sends, one array per answer bit of the metrics."""
        asked = list(self.plan.metrics) if metrics is None else metrics
        scratch = np.empty((2, part.stop - part.start), np.uint64)
        sent: list[NDArray[Any]] = []
        for metric, classes in zip(asked, self._classified(values, part, asked), strict=True):
            bits = self._memos[metric.name].answers(classes, part, scratch)
            sent += bits
            if metric.flip.threshold:
                for place, bit in enumerate(bits):
                    where = self._draws.places.flip(metric, round_number, place)
                    flips = self._draws.words(where, part, scratch) < np.uint64(metric.flip.threshold)
                    np.bitwise_xor(bit, flips.view(bit.dtype), out=bit)
        return sent

    def _classified(self, values: Values, part: slice, metrics: list[Metric]) -> list[NDArray[Any]]:
        """The remembered class of each device of a block, per metric."""
        block = {name: column[part] for name, column in values.items()}
        ratios: dict[str, Ratios] = {}
        for limit in self._limits:
            if any(metric.name in limit.group.metrics for metric in metrics):
                ratios |= limit.scaled(block)
        result = []
        for metric in metrics:
            of_metric = self._classes[metric.name]
            classes = of_metric.of(block[metric.name], part)
            if metric.name in ratios:
                scaled = ratios[metric.name]
                classes[scaled.places] = of_metric.of_ratios(scaled, scaled.places + part.start)
            result.append(classes)
        return result

    def _write(
        self, records: NDArray[np.uint8], part: slice, round_number: int, values: Values, tags: Tags
    ) -> None:
        """The records of a block, as `reticent.reports` defines them."""
        records[:, :8] = np.frombuffer(round_number.to_bytes(8, "big"), dtype=np.uint8)
        for half, place in enumerate(self._draws.places.report_id(self.plan.version, round_number)):
            words = self._draws.words(place, part).astype(">u8")
            records[:, 8 + 8 * half : 16 + 8 * half] = words.view(np.uint8).reshape(-1, 8)
        place = 8 + ID_BYTES
        if self.plan.uses_cohort:
            records[:, place] = self._cohorts[part]
            place += 1
        records[:, place : place + tags.shape[1]] = tags[part]
        bits = self._answers(round_number, values, part)
        records[:, place + tags.shape[1] :] = np.packbits(np.stack(bits, axis=1), axis=1)

    def _keys(self, part: slice, tags: Tags) -> NDArray[np.intp] | None:
        """The group of each device of a block (tags and cohort), or None where there is one only."""
        if not self.plan.segments and not self.plan.uses_cohort:
            return None
        keys = np.zeros(part.stop - part.start, dtype=np.intp)
        for place, segment in enumerate(self.plan.segments):
            keys *= len(segment.tags)
            keys += tags[part, place]
        if self.plan.uses_cohort:
            keys *= COHORTS
            keys += self._cohorts[part]
        return keys

    # What was handed in

    def _metric(self, name: str) -> Metric:
        if name not in self.plan.by_name:
            raise ParameterError("metric", f"one of {', '.join(self.plan.by_name)}", repr(name))
        return self.plan.by_name[name]

    def _checked(self, round_number: int, values: Values) -> dict[str, Whole]:
        """One array of whole numbers per metric of the plan."""
        if not 0 <= round_number < MAX_ROUND:
            raise ParameterError("round", "a whole number from 0 to below 2^53", round_number)
        for name in values:
            self._metric(name)
        columns = {}
        for name in self.plan.by_name:
            column = np.asarray(values.get(name, np.broadcast_to(np.int32(0), self.devices)))
            if column.dtype.kind == "b":
                column = column.astype(np.uint8)
            if column.dtype.kind not in "iu" or column.shape != (self.devices,):
                raise ParameterError(
                    f"values of {name}",
                    f"{self.devices} whole numbers",
                    f"{column.dtype}{list(column.shape)}",
                    "choose a unit in which values are whole; SdkFleet takes fractions",
                )
            columns[name] = column
        return columns

    def _codes(self, tags: Tags | None) -> Tags:
        """The tags' codes; all "other" where none are given."""
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


def tally(
    keys: NDArray[np.intp] | None, bits: list[NDArray[Any]], groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    How many devices each group has, and how many ones at each place: int64[groups] and int64[groups, places].

    `keys` is the group of each device (None if there is one group), `bits` one array of 0 and 1 per place. A
    few bits at a time are read as one number, and the pairs of group and number counted in one table.

    >>> tally(np.array([0, 1, 1]), [np.array([1, 0, 1], np.uint8)], groups=2)[1].tolist()
    [[1], [1]]
    """
    ones = np.zeros((groups, len(bits)), dtype=np.int64)
    if keys is None:
        ones[0] = [np.count_nonzero(bit) for bit in bits]
        return np.array([len(bits[0])], dtype=np.int64), ones
    width = max(1, min(8, (_TABLE // groups).bit_length() - 1))
    for start in range(0, len(bits), width):
        some = bits[start : start + width]
        number = np.zeros(len(keys), dtype=np.uint8)
        for bit in some:
            number <<= np.uint8(1)
            number |= bit.view(np.uint8)
        slots = keys << len(some)
        slots += number
        # [group, number] -> devices, where the first bit is the highest of the number
        table = np.bincount(slots, minlength=groups << len(some)).reshape(groups, -1)
        for place in range(len(some)):
            halves = table.reshape(groups, 1 << place, 2, -1)
            ones[:, start + place] = halves[:, :, 1].sum(axis=(1, 2))
    return np.asarray(table.sum(axis=1), dtype=np.int64), ones
