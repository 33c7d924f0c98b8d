"""Pool inference: 20 apps of two pools, and the collector guesses which pool a user prefers."""

import numpy as np
from drawing import curves, publish, ticks
from gallery import DAY, options, table
from numpy.typing import NDArray

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.plots import panels
from reticent_lab.fleet import VectorisedFleet

APPS, TOP, WINDOW = 20, 1440, 7
BIT = OneBitMean(epsilon=1, max_value=TOP)
SEEN = Flip(0).channel(BIT.response)
DAYS = np.array([1, 7, 31, 124])
OWN = np.repeat([0.09, 0.01], APPS // 2)
"""Each day a device is in one app: for the first type one of the first ten with probability 0.9."""
TYPES = np.stack([OWN, OWN[::-1]])


def daily_apps(types: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The app of each day: [days, devices]."""
    draw, edges = np.random.default_rng(seed), np.cumsum(TYPES, axis=1)
    chances = draw.random((DAYS[-1], len(types)))
    return np.stack([(row[:, None] > edges[types]).sum(axis=1) for row in chances])


def remembered(apps: NDArray[np.int64], flip: Flip, seed: int) -> NDArray[np.int64]:
    """How often each device has said 1 about each app by each of the days: [days, apps, devices]."""
    metrics = tuple(Metric(f"app_{app}", BIT, flip) for app in range(APPS))
    fleet = VectorisedFleet(Plan("pools", 1, DAY, DAY, metrics), apps.shape[1], seed)
    bits = np.array(
        [
            [fleet.bits(f"app_{app}", day, np.where(today == app, TOP, 0))[:, 0] for app in range(APPS)]
            for day, today in enumerate(apps)
        ],
        dtype=np.int64,
    )
    return np.cumsum(bits, axis=0)[DAYS - 1]


def evidence(ones: NDArray[np.int64], flip: Flip) -> NDArray[np.float64]:
    """
    The log-odds of the first type, app by app as if they were independent: [days, devices].

    The ones of an app are binomial given what the device remembers for 0 and for m, four cases.
    """
    gamma, days = float(flip.probability), DAYS[:, None]
    odds = []
    for app in range(APPS):
        of_type = []
        for share in TYPES[:, app]:
            cases = []
            for idle, busy in ((0, 0), (0, 1), (1, 0), (1, 1)):
                weight = (SEEN.low if idle else SEEN.high) * (SEEN.high if busy else SEEN.low)
                one = np.clip(gamma + (1 - 2 * gamma) * (idle * (1 - share) + busy * share), 1e-12, 1 - 1e-12)
                own = ones[:, app]
                cases.append(np.log(float(weight)) + own * np.log(one) + (days - own) * np.log(1 - one))
            of_type.append(np.logaddexp.reduce(cases, axis=0))
        odds.append(of_type[0] - of_type[1])
    return np.asarray(np.sum(odds, axis=0))


def sampled(apps: NDArray[np.int64], metrics: int, seed: int) -> NDArray[np.float64]:
    """The log-odds of the first type from one fresh report a week, about all apps or about one, by their law."""
    draw, devices = np.random.default_rng(seed), apps.shape[1]
    low, contrast, ratio = float(SEEN.low), float(SEEN.contrast), float(SEEN.high / SEEN.low)
    by_day = np.zeros((DAYS[-1], devices))
    for start in range(0, DAYS[-1], WINDOW):
        day = start + draw.integers(0, WINDOW, devices)
        inside = np.flatnonzero(day < DAYS[-1])
        app = apps[day[inside], inside]
        if metrics == APPS:
            busy = np.arange(APPS) == app[:, None]
            bits = draw.random(busy.shape) < low + contrast * busy
            first, second = (np.where(bits, ratio, 1 / ratio) @ TYPES.T).T
            by_day[day[inside], inside] = np.log(first / second)
        else:
            about = draw.integers(0, APPS, len(inside))
            bit = draw.random(len(inside)) < low + contrast * (about == app)
            one = low + contrast * TYPES[:, about]
            first, second = np.where(bit, one, 1 - one)
            by_day[day[inside], inside] = np.log(first / second)
    return np.cumsum(by_day, axis=0)[DAYS - 1]


def guessed(odds: NDArray[np.float64], types: NDArray[np.int64]) -> list[float]:
    """The share of devices whose type is the likelier one, by days; where both are, half."""
    right = np.where(np.abs(odds) < 1e-9, 0.5, (odds > 0) == (types == 0))
    return [float(share) for share in right.mean(axis=1)]


def main(arguments: list[str] | None = None) -> None:
    """Run the attack, print its figures and draw them."""
    asked = options(__doc__, arguments, devices=2000)
    types = np.random.default_rng(asked.seed).integers(0, 2, asked.devices)
    apps = daily_apps(types, asked.seed + 1)
    lines = {
        f"remembered, flip {float(flip.probability):g}": guessed(
            evidence(remembered(apps, flip, asked.seed), flip), types
        )
        for flip in (Flip(0), Flip(0.2))
    }
    lines["sampled, all apps"] = guessed(sampled(apps, APPS, asked.seed + 2), types)
    lines["sampled, one app"] = guessed(sampled(apps, 1, asked.seed + 3), types)
    table({"days": DAYS, **lines, "blind": [0.5] * len(DAYS)})
    figure, (axis,) = panels(width=5.0)
    curves(axis, DAYS, lines, shares_of=asked.devices, title="Users whose type is guessed", ylim=(0.4, 1.02))
    axis.axhline(0.5, color="k", linestyle=":", label="blindly")
    ticks(axis, DAYS.tolist(), xscale="log", xlabel="days", ylabel="share of devices")
    publish(figure, asked.out, "pool_inference")


if __name__ == "__main__":
    main()
