"""
The average over 1,000 rounds, in milliseconds and as a ratio to estimating each of the rounds by itself.

    python -m benchmarks estimates
"""

from __future__ import annotations

import time
from collections.abc import Callable

from reticent.counts import Counts, HistogramCounts, MeanCounts
from reticent.estimates import average, estimate
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric

ROUNDS, FLIP = 1_000, Flip("1/5")


def mean_round(number: int) -> MeanCounts:
    """A round of 100,000 devices."""
    return MeanCounts(100_000 + number, 45_000 + number % 7)


def hadamard_round(number: int) -> HistogramCounts:
    """A round of 160,000 devices."""
    return HistogramCounts((2_500 + number,) * 64, tuple(1_200 + number % 7 * row for row in range(64)))


def d_bit_round(number: int) -> HistogramCounts:
    """A round of 165,000 devices, of whom about an eighth was asked about each bucket."""
    reports = tuple(20_000 + 40 * row + 4 * number for row in range(32))
    return HistogramCounts(reports, tuple(9_200 + number % 7 * row for row in range(32)), 4)


def seconds(work: Callable[[], object]) -> float:
    """How long the processor is busy with it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print a line for each mechanism: the first average over so many devices, and the next."""
    thirty_two = Buckets.even(24, 32)
    cases: list[tuple[str, Metric, Callable[[int], Counts]]] = [
        ("mean", Metric("mean", OneBitMean(1, 24), FLIP), mean_round),
        ("Hadamard bit, k = 32", Metric("hadamard", HadamardBit(1, thirty_two), FLIP), hadamard_round),
        ("dBitFlip, k = 32, d = 4", Metric("d_bit", DBitFlip(1, thirty_two, 4), FLIP), d_bit_round),
    ]
    print("| mechanism | first | next | to 1,000 rounds estimated one by one |\n|---|---|---|---|")
    for name, metric, one_round in cases:
        rounds = [one_round(number) for number in range(ROUNDS)]
        estimate(metric, rounds[0])
        single = seconds(lambda: [estimate(metric, counts) for counts in rounds])  # noqa: B023
        first, after = (seconds(lambda: average(metric, rounds)) for _ in range(2))  # noqa: B023
        print(f"| {name} | {1e3 * first:.1f} ms | {1e3 * after:.1f} ms | {first / single:.2f} |")


if __name__ == "__main__":
    main()
