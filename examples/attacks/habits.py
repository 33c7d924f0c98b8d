"""Habits: a device is used in the same quarter of every day, and the collector guesses which."""

import numpy as np
from drawing import curves, publish, ticks
from gallery import DAY, options, table
from numpy.typing import NDArray

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.plots import panels
from reticent_lab.fleet import VectorisedFleet

SLOTS, TOP, WINDOW = 4, 21_600, 28
BIT, FLIP = OneBitMean(epsilon=1, max_value=TOP), Flip(0.2)
SEEN = Flip(0).channel(BIT.response)
DAYS = np.array([1, 7, 31, 124, 365])


def remembered(used: NDArray[np.int64], per_slot: bool, seed: int) -> NDArray[np.int64]:
    """How many more ones than zeros each device has said in each slot: [days, slots, devices]."""
    names = [f"slot_{slot}" if per_slot else "all" for slot in range(SLOTS)]
    metrics = tuple(Metric(name, BIT, FLIP) for name in dict.fromkeys(names))
    fleet = VectorisedFleet(Plan("habits", 1, DAY // SLOTS, DAY, metrics), len(used), seed)
    values = [np.where(used == slot, TOP, 0) for slot in range(SLOTS)]
    bits = [
        [fleet.bits(names[slot], SLOTS * day + slot, values[slot])[:, 0] for slot in range(SLOTS)]
        for day in range(DAYS[-1])
    ]
    return np.cumsum(2 * np.array(bits, dtype=np.int64) - 1, axis=0)[DAYS - 1]


def sampled(used: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The same with one fresh answer a week, in a round of the week that is drawn with it, by their law."""
    draw, sums = np.random.default_rng(seed), np.zeros((DAYS[-1], SLOTS, len(used)), dtype=np.int64)
    for start in range(0, SLOTS * DAYS[-1], WINDOW):
        day, slot = np.divmod(start + draw.integers(0, WINDOW, len(used)), SLOTS)
        bits = draw.random(len(used)) < np.where(slot == used, float(SEEN.high), float(SEEN.low))
        inside = np.flatnonzero(day < DAYS[-1])
        sums[day[inside], slot[inside], inside] = 2 * bits[inside] - 1
    return np.cumsum(sums, axis=0)[DAYS - 1]


def likelihoods(more: NDArray[np.int64], memos: int) -> NDArray[np.float64]:
    """
    The log-likelihood of each slot, up to a constant: [..., slots, devices].

    `memos` is 0 for fresh answers, 1 where one memo serves all slots and 4 where each slot has its own. With R the
    odds of a kept answer, a remembered 1 makes d more ones than zeros R^d times as likely as a remembered 0 does.
    """
    low, high, odds = (
        np.log(float(SEEN.low)),
        np.log(float(SEEN.high)),
        np.log(float(1 / FLIP.probability - 1)),
    )
    if not memos:
        return np.asarray((high - low) * more)
    own = np.logaddexp(low, high + odds * more)
    if memos == 1:
        return np.asarray(own + np.logaddexp(high, low + odds * (more.sum(axis=-2, keepdims=True) - more)))
    idle = np.logaddexp(high, low + odds * more)
    return np.asarray(own + idle.sum(axis=-2, keepdims=True) - idle)


def guessed(scores: NDArray[np.float64], used: NDArray[np.int64]) -> list[float]:
    """The share of devices whose slot is the likeliest, by days; among equals any is taken."""
    best = scores >= scores.max(axis=1, keepdims=True) - 1e-9
    right = best[:, used, np.arange(len(used))] / best.sum(axis=1)
    return [float(share) for share in right.mean(axis=1)]


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    asked = options(__doc__, arguments, devices=4000)
    used = np.random.default_rng(asked.seed).integers(0, SLOTS, asked.devices)
    lines = {
        "one memo": guessed(likelihoods(remembered(used, False, asked.seed), 1), used),
        "memo per slot": guessed(likelihoods(remembered(used, True, asked.seed), SLOTS), used),
        "sampled": guessed(likelihoods(sampled(used, asked.seed), 0), used),
    }
    table({"days": DAYS, **lines, "blind": [1 / SLOTS] * len(DAYS)})
    figure, (axis,) = panels(width=5.0)
    curves(axis, DAYS, lines, shares_of=asked.devices, title="Devices whose habit is guessed", ylim=(0, 1.02))
    axis.axhline(1 / SLOTS, color="k", linestyle=":", label="blindly")
    ticks(axis, DAYS.tolist(), xscale="log", xlabel="days", ylabel="share of devices")
    publish(figure, asked.out, "habits")


if __name__ == "__main__":
    main()
