"""A fleet as arrays: the mechanisms of the SDK, for thousands of devices at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms import DBitFlip, HadamardBit, OneBitMean
from tacit.mechanisms.cohort import COHORTS
from tacit.mechanisms.hadamard_bit import hadamard_sign
from tacit.plan import Metric, Plan
from tacit.reports.codec import ID_BYTES, MAGIC, record_width

_TWO_64 = float(2**64)

Values = NDArray[np.int64] | NDArray[np.float64]
Draws = NDArray[np.uint64]


class VectorisedFleet:
    """
    Devices without secrets: what a secret would fix (alpha, memo, cohort) is drawn once, flips each round.

    The draws come from a seeded generator, so a simulation can be repeated; the thresholds they are compared
    with are those of the SDK. Reports come as a packed batch, ready for a collector.
    """

    def __init__(self, plan: Plan, devices: int, seed: int) -> None:
        self.plan = plan
        self.devices = devices
        self._generator = np.random.default_rng(seed)
        self._cohorts = self._generator.integers(0, COHORTS, devices, dtype=np.uint8)
        self._alphas = {metric.name: self._draw(devices) for metric in plan.metrics}
        self._memos = {
            metric.name: self._draw(devices, metric.mechanism.classes, metric.bits) for metric in plan.metrics
        }

    def packed(
        self, round_number: int, values: Mapping[str, Values], tags: NDArray[np.uint8] | None = None
    ) -> bytes:
        """
        What every device answers in a round, as a packed batch.

        `values` has one number per device and metric, in range and within joint limits; `tags` the code of
        each device's tag, per segment: uint8[devices, segments].
        """
        plan = self.plan
        columns = [
            np.full(self.devices, round_number, dtype=">u8").view(np.uint8).reshape(-1, 8),
            np.frombuffer(self._generator.bytes(ID_BYTES * self.devices), dtype=np.uint8).reshape(
                -1, ID_BYTES
            ),
        ]
        if plan.uses_cohort:
            columns.append(self._cohorts[:, None])
        if plan.segments:
            columns.append(np.zeros((self.devices, len(plan.segments)), np.uint8) if tags is None else tags)
        bits = [self._answers(metric, values[metric.name]) for metric in plan.metrics]
        columns.append(np.packbits(np.concatenate(bits, axis=1), axis=1))
        name = plan.name.encode()
        head = MAGIC + bytes([len(name)]) + name + plan.version.to_bytes(4, "big")
        return head + record_width(plan).to_bytes(2, "big") + np.concatenate(columns, axis=1).tobytes()

    def _answers(self, metric: Metric, values: Values) -> NDArray[np.bool_]:
        """The bits sent: [devices, bits]."""
        classes = self._classes(metric, values)
        everyone = np.arange(self.devices)
        remembered = self._memos[metric.name][everyone, classes] < self._thresholds(metric, classes)
        flipped = self._draw(self.devices, metric.bits) < np.uint64(metric.flip.threshold)
        return remembered ^ flipped

    def _classes(self, metric: Metric, values: Values) -> NDArray[np.intp]:
        mechanism = metric.mechanism
        if isinstance(mechanism, OneBitMean):
            points = np.array([float(point) for point in mechanism.grid.points])
            below = np.minimum(np.searchsorted(points, values, side="right") - 1, len(points) - 2)
            way_up = (values - points[below]) / (points[below + 1] - points[below])
            classes: NDArray[np.intp] = below + (self._alphas[metric.name] / _TWO_64 >= 1 - way_up)
            return classes
        edges = np.array([float(edge) for edge in mechanism.buckets.edges])
        buckets = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        if isinstance(mechanism, HadamardBit):
            rows = self._cohorts.astype(np.intp) % mechanism.size
            return np.asarray((1 - hadamard_sign(rows, buckets + 1)) // 2)
        return self._places(mechanism)[self._cohorts, buckets]

    def _places(self, mechanism: DBitFlip) -> NDArray[np.intp]:
        """[cohort, bucket] -> remembered class."""
        return np.array(
            [
                [mechanism.memo_class(edge, 0, cohort) for edge in mechanism.buckets.edges[:-1]]
                for cohort in range(COHORTS)
            ]
        )

    def _thresholds(self, metric: Metric, classes: NDArray[np.intp]) -> Draws:
        mechanism = metric.mechanism
        if isinstance(mechanism, DBitFlip) and mechanism.variant == "paper" and mechanism.uses_cohort:
            table = np.array(
                [
                    [mechanism.thresholds(each, cohort) for each in range(mechanism.classes)]
                    for cohort in range(COHORTS)
                ],
                dtype=np.uint64,
            )
            return np.asarray(table[self._cohorts, classes])
        table = np.array(
            [mechanism.thresholds(each, 0) for each in range(mechanism.classes)], dtype=np.uint64
        )
        return np.asarray(table[classes])

    def _draw(self, *shape: int) -> Draws:
        return self._generator.integers(0, 2**64, shape, dtype=np.uint64)
