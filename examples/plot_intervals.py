"""
The estimates of forty fleets with the same truth, each with its own noise, as a picture.

    python examples/plot_intervals.py docs/images/how-to-intervals.png
"""

import sys
from pathlib import Path

import numpy as np

from reticent import Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import estimate, plot_rounds

TRUTH, FLEETS, DEVICES = 1500, 40, 100_000


def main(path: str) -> None:
    """Draw the fleets, print how many intervals hold the truth, and save the picture."""
    metric = Plan.load(Path(__file__).with_name("plan.toml")).by_name["editor_seconds"]
    chance = 0.2 + 0.6 * metric.mechanism.probability_of_one(TRUTH)  # of a 1, when one bit in five is flipped
    ones = np.random.default_rng(1).binomial(DEVICES, chance, size=FLEETS)
    fleets = [estimate(metric, MeanCounts(DEVICES, int(count))) for count in ones]
    print(sum(fleet.lower <= TRUTH <= fleet.upper for fleet in fleets), "of", FLEETS)
    picture = plot_rounds(fleets, truth=[TRUTH] * FLEETS)
    picture.axes[0].set(xlabel="fleet", title="Forty fleets, one truth")
    picture.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
