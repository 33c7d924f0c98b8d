"""Where simulated values come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def app_usage(
    devices: int,
    rounds: int,
    max_value: int,
    generator: np.random.Generator,
    rhythm: Sequence[float] = (1.0,),
) -> NDArray[np.int64]:
    """
    Whole seconds that each device spends in an app, per round: an array [rounds, devices].

    Some devices rarely use the app and some use it a lot: device *i* uses it in a round with probability
    qᵢ ~ Beta(1, 1.4), for a time ~ Gamma(1.1) around its own habit, which is log-normal over devices and
    about a sixth of the range. `rhythm` repeats over the rounds and scales the chance of use: four numbers
    make a day of 6-hour rounds. The shape, not the figures, is that of the usage data in the literature.
    """
    chance = generator.beta(1.0, 1.4, devices)
    habit = max_value / 6 * generator.lognormal(0.0, 0.7, devices)
    of_round = np.resize(np.asarray(rhythm, dtype=float), rounds)[:, None]
    used = generator.random((rounds, devices)) < chance * of_round
    seconds = generator.gamma(1.1, habit / 1.1, (rounds, devices))
    return np.where(used, np.minimum(seconds, max_value), 0).astype(np.int64)
