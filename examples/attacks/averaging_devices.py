"""The devices of averaging.py: a value that stays for a year, answered every day, in three ways."""

import numpy as np
from gallery import DAY
from numpy.typing import NDArray

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent_lab.fleet import VectorisedFleet

BIT, FLIP, DAYS = OneBitMean(epsilon=1, max_value=1440), Flip(0.2), np.arange(1, 366)
PLAN = Plan("averaging", 1, DAY, DAY, (Metric("memo", BIT), Metric("flips", BIT, FLIP)))
SCHEMES = {"fresh noise": Flip(0), "memo": Flip(0), "memo and flips": FLIP}


def ones(values: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """How often each device has said 1 by the end of each day: [scheme, days, devices]."""
    fleet = VectorisedFleet(PLAN, len(values), seed)
    memo, flips = (
        [fleet.bits(name, day, values)[:, 0] for day in DAYS.tolist()] for name in ("memo", "flips")
    )
    fresh = np.random.default_rng(seed).random((len(DAYS), len(values))) < BIT.probability_of_one(values)
    return np.cumsum([fresh, memo, flips], axis=1)
