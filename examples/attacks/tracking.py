"""Tracking: remembered answers are a pseudonym; reports of two nights are matched by their bits alone."""

from math import log

import numpy as np
from drawing import curves, publish
from gallery import DAY, options, table
from numpy.typing import NDArray

from reticent.lab.fleet import VectorisedFleet
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan, plan_tracking
from reticent.plots import panels

BIT = OneBitMean(epsilon=1, max_value=1440)
METRICS, FLIPS = (5, 10, 20, 40), (0, 0.05, 0.2)
CASES = [(metrics, flip) for flip in FLIPS for metrics in METRICS]
TARGETS = 1000
"""So many of the devices are looked for, each among all of them."""


def asking(metrics: int, flip: float) -> Plan:
    """A plan with so many counters."""
    counters = (Metric(f"counter_{number}", BIT, Flip(flip)) for number in range(metrics))
    return Plan("tracked", 1, DAY, DAY, tuple(counters))


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
    right, targets = 0.0, min(TARGETS, len(second))
    for start in range(0, targets, 500):
        x, y = first[start : min(start + 500, targets)].astype(np.float32), second.T.astype(np.float32)
        score = weights[1, 1] * x @ y + weights[1, 0] * x @ (1 - y)
        score += weights[0, 1] * (1 - x) @ y + weights[0, 0] * (1 - x) @ (1 - y)
        best = score.max(axis=1, keepdims=True) - 1e-3
        own = score[np.arange(len(x)), start + np.arange(len(x))]
        right += float(np.sum((own >= best[:, 0]) / np.sum(score >= best, axis=1)))
    return right / targets


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    asked = options(__doc__, arguments, devices=20_000)
    seen = Flip(0).channel(BIT.response)
    populations = {"at 0": (0, float(seen.low)), "at half": (720, 0.5)}
    found: dict[str, list[float]] = {name: [] for name in populations}
    bounds = [plan_tracking(asking(*case), asked.devices) for case in CASES]
    for metrics, flip in CASES:
        fleet = VectorisedFleet(asking(metrics, flip), asked.devices, asked.seed)
        for name, (value, share) in populations.items():
            values = np.full(asked.devices, value)
            nights = [
                np.hstack([fleet.bits(each, night, values) for each in fleet.plan.by_name])
                for night in (1, 2)
            ]
            found[name].append(matched(*nights, share, flip))
    formula = {
        "two nights": [bound.two_rounds for bound in bounds],
        "many nights": [bound.many_rounds for bound in bounds],
    }
    table({"metrics": [m for m, _ in CASES], "flip": [f"{f:g}" for _, f in CASES], **found, **formula}, 4)
    figure, axes = panels(2)
    for axis, (name, shares) in zip(axes, found.items(), strict=True):
        lines = {
            f"flip {flip:g}": shares[len(METRICS) * row :][: len(METRICS)] for row, flip in enumerate(FLIPS)
        }
        curves(axis, METRICS, lines, shares_of=TARGETS, title=f"All values {name}, {asked.devices:,} devices")
        axis.set(xlabel="metrics", ylabel="devices matched", ylim=(0, 1.02))
    publish(figure, asked.out, "tracking")


if __name__ == "__main__":
    main()
