"""The day of a change: a device goes from 0 to m on one day of a month, and the collector guesses which."""

import numpy as np
from drawing import curves, publish
from gallery import DAY, options, table
from numpy.typing import NDArray

from reticent.losses import printed
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.plots import panels
from reticent_collector.privacy import loss_of_moved_change
from reticent_lab.fleet import VectorisedFleet

BIT, DAYS = OneBitMean(epsilon=1, max_value=1440), 30
FLIPS = {f"{gamma:g}": Flip(gamma) for gamma in (0, 0.05, 0.1, 0.2, 0.3, 0.4)}
PLAN = Plan("change", 1, DAY, DAY, tuple(Metric(name, BIT, flip) for name, flip in FLIPS.items()))


def likelihoods(bits: NDArray[np.uint8], flip: Flip) -> NDArray[np.float64]:
    """P(bits | the last day at 0 is t) for t = 1, ..., T - 1, whatever the memo: [devices, T - 1]."""
    before, after = np.cumsum(bits, axis=1)[:, :-1], np.cumsum(bits[:, ::-1], axis=1)[:, -2::-1]
    days, seen, gamma = np.arange(1, bits.shape[1]), Flip(0).channel(BIT.response), float(flip.probability)
    result = np.ones(before.shape)
    for ones, length, chance in ((before, days, float(seen.low)), (after, days[::-1], float(seen.high))):
        of_one = (1 - gamma) ** ones * gamma ** (length - ones)  # P(these answers | the memo is 1)
        of_zero = (1 - gamma) ** (length - ones) * gamma**ones
        result *= chance * of_one + (1 - chance) * of_zero
    return result


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    asked = options(__doc__, arguments, devices=20_000)
    generator, fleet = np.random.default_rng(asked.seed), VectorisedFleet(PLAN, asked.devices, asked.seed)
    last = generator.integers(1, DAYS, asked.devices)  # the last day at 0
    values = [np.where(day <= last, 0, 1440) for day in range(1, DAYS + 1)]
    ties = 1 + 1e-9 * generator.random((asked.devices, DAYS - 1))  # among equally likely days, any
    errors = {}
    for name, flip in FLIPS.items():
        bits = np.hstack([fleet.bits(name, day, today) for day, today in enumerate(values)])
        errors[name] = (likelihoods(bits, flip) * ties).argmax(axis=1) + 1 - last
    near = {off: [float(np.mean(np.abs(each) <= off)) for each in errors.values()] for off in (0, 1, 3)}
    guessed = {"exact day": near[0], "within 1 day": near[1], "within 3 days": near[3]}
    losses = [printed(loss_of_moved_change(BIT, flip)) for flip in FLIPS.values()]
    table({"flip": FLIPS, **guessed, "Lambda": losses})
    figure, (left, right) = panels(2)
    offsets, many = np.arange(-7, 8), asked.devices
    spread = {name: [np.mean(errors[name] == each) for each in offsets] for name in ("0", "0.2", "0.4")}
    found = {f"flip {name}": line for name, line in spread.items()}
    curves(left, offsets, found, shares_of=many, title="Guessed day less true day")
    curves(right, [float(name) for name in FLIPS], guessed, shares_of=many, title="Day guessed")
    left.set(xlabel="days", ylabel="share of devices", yscale="log")
    right.set(xlabel="flip probability", ylabel="share of devices", ylim=(0, 1))
    right.axhline(1 / (DAYS - 1), color="k", linestyle=":", label="exact day, blindly")
    publish(figure, asked.out, "change_day")


if __name__ == "__main__":
    main()
