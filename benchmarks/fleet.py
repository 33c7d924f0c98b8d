"""
What simulated devices cost, as ratios to plain NumPy in the same run, and in device-rounds a second.

    python -m benchmarks fleet
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import exp

import numpy as np
from numpy.typing import NDArray

from benchmarks.load import best
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, Mechanism, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_lab.crowd import Crowd, CrowdDraws
from reticent_lab.fleet import GRAN_TURISMO_SPORT, SdkFleet, VectorisedFleet

DAY = 86_400
DEVICES = 1_000_000
BUCKETS = Buckets.even(DAY, 32)
MECHANISMS: dict[str, Mechanism] = {
    "mean": OneBitMean(1, DAY),
    "mean, three steps": OneBitMean(1, DAY, DAY // 3),
    "Hadamard bit, k = 32": HadamardBit(1, BUCKETS),
    "dBitFlip, d = 4, k = 32": DBitFlip(1, BUCKETS, 4),
    "dBitFlip of the paper": DBitFlip(1, BUCKETS, 4, "paper"),
}


def plan_of(mechanism: Mechanism) -> Plan:
    """A plan of one metric, with the flips of the paper's deployment."""
    return Plan("bench", 1, DAY, 0, (Metric("seconds", mechanism, Flip("0.2")),))


def plain(values: NDArray[np.int32], generator: np.random.Generator) -> int:
    """1BitMean as one writes it in NumPy: no rounding, no memo, no flip, floating point, one thread."""
    probability = 1 / (exp(1) + 1) + values / DAY * (exp(1) - 1) / (exp(1) + 1)
    return int(np.count_nonzero(generator.random(len(values)) < probability))


def main() -> None:
    """Print the table."""
    start = time.perf_counter()
    values = GRAN_TURISMO_SPORT.values(DEVICES, 8, np.random.default_rng(1))
    drawn = DEVICES * 8 / (time.perf_counter() - start)
    generator = np.random.default_rng(2)
    rate = DEVICES / best(lambda number: plain(values[number % 8], generator), 10)
    print(f"{DEVICES:,} devices, values of {GRAN_TURISMO_SPORT.name}; million device-rounds a second\n")
    print(f"{'':32}{'counts':>10}{'packed':>10}{'counts / plain NumPy':>24}{'to build, s':>14}")
    print(f"{'plain NumPy 1BitMean':32}{rate / 1e6:10.1f}{'':10}{1:24.2f}")
    for name, mechanism in MECHANISMS.items():
        begin = time.perf_counter()
        fleet = VectorisedFleet(plan_of(mechanism), DEVICES, seed=1)
        built = time.perf_counter() - begin

        def row(number: int) -> dict[str, NDArray[np.int32]]:
            return {"seconds": values[number % 8]}

        counts = DEVICES / best(lambda number: fleet.counts(number, row(number)), 20)  # noqa: B023
        packed = DEVICES / best(lambda number: fleet.packed(number, row(number)), 5)  # noqa: B023
        print(f"{name:32}{counts / 1e6:10.1f}{packed / 1e6:10.1f}{counts / rate:24.2f}{built:14.2f}")
    metric = Metric("seconds", MECHANISMS["mean"])
    sampled = replace(plan_of(MECHANISMS["mean"]), metrics=(metric,), answers=Answers(window=7))
    window = sampled.window_of(sampled.round_at(1_700_438_400))
    first = window.first if window else 0
    fleet = VectorisedFleet(sampled, DEVICES, seed=1)
    fleet.counts(first, row(0))  # draws the chance of the window
    counts = DEVICES / best(lambda number: fleet.counts(first + number % 7, row(number)), 14)
    print(f"{'mean, sampled, window of 7':32}{counts / 1e6:10.1f}{'':10}{counts / rate:24.2f}")
    table = {"seconds": values}
    for devices in (DEVICES, 1_500 * DEVICES):
        crowd = Crowd.of(table, devices)
        plan = plan_of(MECHANISMS["mean"])
        drawn_counts = values.size / best(lambda _: CrowdDraws(plan, crowd, 1).draw(1), 3)  # noqa: B023
        print(f"{f'mean, counts of {devices:,}':32}{drawn_counts / 1e6:10.1f}  million individual-rounds")
    few = {"seconds": values[0, :2000].tolist()}
    fleet_of_sdk = SdkFleet(plan_of(MECHANISMS["mean"]), 2000, seed=1)
    real = 2000 / best(lambda number: list(fleet_of_sdk.reports(number, few)), 3)
    print(f"{'mean, by the SDK (SdkFleet)':32}{'':10}{real / 1e6:10.3f}")
    print(f"{'drawing app usage':32}{drawn / 1e6:10.1f}")


if __name__ == "__main__":
    main()
