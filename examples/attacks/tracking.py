"""Tracking: remembered answers are a pseudonym, sampled ones are not; two nights are matched by bits alone."""

from collections.abc import Sequence
from math import log

import numpy as np
from drawing import curves, publish
from gallery import DAY, options, table
from numpy.typing import NDArray

from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.plans import plan_tracking
from reticent_collector.plots import panels
from reticent_lab.fleet import VectorisedFleet

BIT = OneBitMean(epsilon=1, max_value=1440)
SIDE = HadamardBit(epsilon=1, buckets=Buckets.even(1440, 32))
WAYS: dict[str, tuple[float, Answers]] = {
    "flip 0": (0, Answers()),
    "flip 0.05": (0.05, Answers()),
    "flip 0.2": (0.2, Answers()),
    "sampled": (0, Answers(window=1)),
}
"""How devices answer every night: from memory, with flips, or afresh in a window of one night."""
METRICS = (5, 10, 20, 40)
CASES = [(metrics, way) for way in WAYS for metrics in METRICS]
NIGHTS = (11, 12)
HOPED = 0.2
"""The flip that one who matches sampled answers pretends there is: no other guess is better, or worse."""
TARGETS = 1000
"""So many of the devices are looked for, each among all of them."""


def asking(metrics: int, way: str) -> Plan:
    """A plan with so many counters, or with a histogram and therefore a cohort where there are none."""
    flip, answers = WAYS[way]
    counters = tuple(Metric(f"counter_{number}", BIT, Flip(flip)) for number in range(metrics))
    return Plan("tracked", 1, DAY, DAY, counters or (Metric("hours", SIDE, Flip(flip)),), answers=answers)


def matched(first: NDArray[np.uint8], second: NDArray[np.uint8], share: float, flip: float) -> float:
    """
    How often the likeliest report of the second night is the right one; among equals any is taken.

    `share` is that of remembered bits that are 1, which the matcher knows, as it knows the flip.
    """
    kept, turned = 1 - flip, flip
    both = {
        (x, y): share * (kept if x else turned) * (kept if y else turned)
        + (1 - share) * (turned if x else kept) * (turned if y else kept)
        for x in (0, 1)
        for y in (0, 1)
    }
    weights = {(x, y): log(max(chance, 1e-30) / (both[0, y] + both[1, y])) for (x, y), chance in both.items()}
    # Σ weight(x, y) over metrics is linear in x, y and x·y; what depends on x alone ranks nothing.
    cross = weights[1, 1] - weights[1, 0] - weights[0, 1] + weights[0, 0]
    own_ones = (weights[0, 1] - weights[0, 0]) * second.sum(axis=1, dtype=np.float32)
    bits = cross * second.T.astype(np.float32)
    right, targets = 0.0, min(TARGETS, len(second))
    for start in range(0, targets, 500):
        x = first[start : min(start + 500, targets)].astype(np.float32)
        score = x @ bits + own_ones
        best = score.max(axis=1, keepdims=True) - 1e-3
        own = score[np.arange(len(x)), start + np.arange(len(x))]
        right += float(np.sum((own >= best[:, 0]) / np.sum(score >= best, axis=1)))
    return right / targets


def matched_by_cohort(way: str, devices: int, seed: int) -> float:
    """How often a report of the second night with the same cohort, any of them, is the right one."""
    fleet = VectorisedFleet(asking(0, way), devices, seed)
    first, second = (np.array([report.cohort for report in fleet.reports(night, {})]) for night in NIGHTS)
    alike = np.bincount(second, minlength=256)
    return float(np.mean((first == second) / np.maximum(alike[first], 1)))


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    asked = options(__doc__, arguments, devices=20_000)
    seen = Flip(0).channel(BIT.response)
    populations = {"at 0": (0, float(seen.low)), "at half": (720, 0.5)}
    shares: dict[str, list[float]] = {name: [] for name in populations}
    bounds = [plan_tracking(asking(*case), asked.devices) for case in CASES]
    for metrics, way in CASES:
        fleet = VectorisedFleet(asking(metrics, way), asked.devices, asked.seed)
        flip = HOPED if way == "sampled" else WAYS[way][0]
        for name, (value, share) in populations.items():
            values = np.full(asked.devices, value)
            first, second = (
                np.hstack([fleet.bits(metric, night, values) for metric in fleet.plan.by_name])
                for night in NIGHTS
            )
            shares[name].append(matched(first, second, share, flip))
    formula = {
        "two nights": [bound.two_rounds for bound in bounds],
        "many nights": [bound.many_rounds for bound in bounds],
    }
    columns: dict[str, Sequence[object]] = {
        "metrics": [m for m, _ in CASES],
        "answers": [way for _, way in CASES],
    }
    columns |= {**shares, **formula}
    rows = [row for row, (metrics, way) in enumerate(CASES) if metrics > 5 and way != "flip 0.05"]
    table({name: [column[row] for row in rows] for name, column in columns.items()}, 4)
    cohorts = [matched_by_cohort(way, asked.devices, asked.seed) for way in ("flip 0", "sampled")]
    luck = [1 / asked.devices] * 2
    table({"by the cohort alone": ["remembered", "sampled"], "matched": cohorts, "by luck": luck}, 4)
    figure, axes = panels(2)
    for axis, (name, of_population) in zip(axes, shares.items(), strict=True):
        lines = {way: of_population[len(METRICS) * row :][: len(METRICS)] for row, way in enumerate(WAYS)}
        curves(axis, METRICS, lines, shares_of=TARGETS, title=f"All values {name}, {asked.devices:,} devices")
        axis.set(xlabel="metrics", ylabel="devices matched", ylim=(0, 1.02))
    publish(figure, asked.out, "tracking")


if __name__ == "__main__":
    main()
