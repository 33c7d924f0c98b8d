"""
The average over 1,000 rounds, in milliseconds and as a ratio to estimating each of the rounds by itself. And what
reading one metric of these rounds takes, as a ratio to reading all metrics.

    python -m benchmarks estimates
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.counts import Counts, HistogramCounts, MeanCounts
from reticent_collector.estimates import average, estimate
from reticent_collector.stores import Layout, RoundKey, open_store

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


def read_one_metric() -> None:
    """Read one metric of 1,000 sealed rounds, each with ten metrics and four tags, by itself and with the others."""
    metrics = "".join(
        f'[metrics.m{place}]\nkind = "histogram"\nmax_value = 100\nbuckets = {buckets}\n'
        'mechanism = "hadamard-bit"\nepsilon = 1.0\n'
        for place, buckets in enumerate((4, 4, 8, 8, 16, 16, 32, 32, 64, 255))
    )
    head, segments = '[plan]\nname = "p"\nversion = 1\nround = "6h"\n', '[segments]\nos = ["a", "b", "c"]\n'
    plan, draws = Plan.from_toml(head + metrics + segments), np.random.default_rng(1)
    store, layout = open_store("memory:"), Layout(plan)
    store.register(plan)
    keys = [RoundKey("p", 1, number) for number in range(ROUNDS)]
    for key in keys:
        records = draws.integers(0, 256, (500, layout.width), dtype=np.uint8)
        records[:, -1] &= 0xFF << (-plan.bits % 8) & 0xFF
        store.append({key: records.tobytes()})
        store.seal(key)
    whole = seconds(lambda: [store.counts(key) for key in keys])
    for metric in ("m0", "m6", "m9"):
        alone = seconds(lambda metric=metric: store.metric_counts(keys, metric))  # type: ignore[misc]
        buckets = len(plan.by_name[metric].mechanism.points) - 1
        print(f"{buckets:4} buckets read alone: {1000 * alone:8.1f} ms, {alone / whole:6.3f} of all metrics")
    store.close()


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
    average(Metric("other", OneBitMean(2, 24), FLIP), [mean_round(0), mean_round(1)])  # imports what it needs
    print("| mechanism | first | next | to 1,000 rounds estimated one by one |\n|---|---|---|---|")
    for name, metric, one_round in cases:
        rounds = [one_round(number) for number in range(ROUNDS)]
        estimate(metric, rounds[0])
        single = seconds(lambda: [estimate(metric, counts) for counts in rounds])  # noqa: B023
        first, after = (seconds(lambda: average(metric, rounds)) for _ in range(2))  # noqa: B023
        print(f"| {name} | {1e3 * first:.1f} ms | {1e3 * after:.1f} ms | {first / single:.2f} |")

    read_one_metric()


if __name__ == "__main__":
    main()
