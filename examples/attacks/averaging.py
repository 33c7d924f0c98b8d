"""Averaging: what a collector learns of single devices whose value never changes, day after day."""

import numpy as np
from averaging_devices import BIT, DAYS, FLIP, SCHEMES, ones
from drawing import curves, publish, ticks
from gallery import options, table
from numpy.typing import NDArray

from reticent_collector.plots import COLOURS, panels
from reticent_collector.privacy import loss_of_constant_device


def beliefs(said: NDArray[np.int64]) -> NDArray[np.float64]:
    """The posterior of the value m against 0, even beforehand, from the counts that `ones` gives."""
    fresh, memo, flips = 2.0 * said - DAYS[:, None]  # how many more ones than zeros
    coin = BIT.response.high / BIT.response.low
    remembered = float((1 - FLIP.probability) / FLIP.probability) ** flips  # odds that the memo is 1
    odds: NDArray[np.float64] = np.stack(
        [coin**fresh, coin ** np.sign(memo), (coin * remembered + 1) / (remembered + coin)]
    )
    return odds / (1 + odds)


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    asked = options(__doc__, arguments, devices=3000)
    generator, shown = np.random.default_rng(asked.seed), np.array([1, 7, 30, 365])
    minutes = generator.integers(0, 1441, asked.devices)
    ends = 1440 * generator.integers(0, 2, asked.devices)
    shares = zip(SCHEMES.values(), ones(minutes, asked.seed) / DAYS[:, None], strict=True)
    guesses = np.array([1440 * flip.channel(BIT.response).truth(share) for flip, share in shares])
    errors = dict(zip(SCHEMES, np.sqrt(np.mean((guesses - minutes) ** 2, axis=2)), strict=True))
    belief = np.abs(beliefs(ones(ends, asked.seed + 1)) - (ends == 0))  # in what is true
    right = dict(zip(SCHEMES, np.mean((belief > 0.5) + 0.5 * (belief == 0.5), axis=2), strict=True))
    limit = np.array([1 / (1 + np.exp(-loss_of_constant_device(BIT, FLIP, day))) for day in DAYS.tolist()])
    print("error of the averaged answers, minutes; share of devices guessed right")
    for lines, digits in ((errors, 1), ({**right, "limit": limit}, 3)):
        table({"days": shown, **{name: line[shown - 1].tolist() for name, line in lines.items()}}, digits)
    figure, axes = panels(3, width=3.5)
    curves(axes[0], DAYS, errors, yscale="log", title="Error of averaged answers", ylabel="minutes")
    curves(axes[2], DAYS, right, shares_of=asked.devices, title="Devices guessed right", ylabel="share")
    axes[2].plot(DAYS, limit, "k:", label="limit: the loss of so many days")
    axes[1].set(title="Belief in the truth, six devices", ylabel="probability")
    for scheme in (0, 2):
        axes[1].plot(DAYS, belief[scheme, :, :6], color=COLOURS[scheme], linewidth=0.9)
    for axis in axes:
        ticks(axis, shown, xscale="log", xlabel="days")
    publish(figure, asked.out, "averaging", together=4)


if __name__ == "__main__":
    main()
