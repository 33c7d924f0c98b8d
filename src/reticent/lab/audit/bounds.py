"""Lower bounds on a loss from counts, and what so many devices would notice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.estimates.interval import clopper_pearson

FALSE_ALARM = 1e-6
"""How often an audit flags a client that keeps every claim, over all its events together."""

SURE = 2.3263478740408408
"""The 99 % point of the normal distribution: what "would notice" means."""


@dataclass(frozen=True, slots=True)
class Bound:
    """ln of the ratio of an event's chances under two histories: an estimate, and where it must lie."""

    estimate: float
    lower: float
    """Never below 0: so much is lost at least, at the declared confidence."""
    upper: float


def ratio_bound(
    hits: int,
    devices: int,
    other_hits: int,
    other_devices: int,
    together: int,
    false_alarm: float = FALSE_ALARM,
) -> Bound:
    """
    A loss of at least `lower`, from an event that was chosen before these devices were looked at.

    With P and Q the chances of the event under the two histories, every claim of ε says P ≤ e^ε Q. From
    `hits` of `devices` and `other_hits` of `other_devices`, Clopper-Pearson gives P ≥ P_lo and Q ≤ Q_hi, each
    wrong with chance α/(2E), α = `false_alarm` and E = `together` events. So ln(P_lo/Q_hi) exceeds the true
    loss in any of the E events with chance α at most (Bonferroni; the events need not be independent).

    >>> ratio_bound(700, 1000, 300, 1000, together=1).lower < math.log(7 / 3)
    True
    """
    if not devices or not other_devices:
        return Bound(0.0, 0.0, math.inf)
    confidence = 1 - false_alarm
    low, high = (float(end) for end in clopper_pearson(hits, devices, confidence, together))
    other_low, other_high = (
        float(end) for end in clopper_pearson(other_hits, other_devices, confidence, together)
    )
    estimate = _log(hits * other_devices, other_hits * devices)
    return Bound(estimate, max(0.0, _log(low, other_high)), _log(high, other_low))


def _log(above: float, below: float) -> float:
    if below <= 0:
        return math.inf if above > 0 else 0.0
    return math.log(above / below) if above > 0 else -math.inf


def expected_lower(
    chance: NDArray[np.float64] | float,
    devices: int,
    other: NDArray[np.float64] | float,
    other_devices: int,
    together: int,
    *,
    luck: float = 0.0,
) -> NDArray[np.float64]:
    """
    The bound that so many devices would give, for events of these chances (numbers or arrays); may be < 0.

    `luck` 0 is the middle of what may come; at `SURE` the bound is at least this with chance 0.98 (both
    counts within their 99 % points, normal approximation).
    """
    first = _typical(chance, devices, -luck)
    second = _typical(other, other_devices, luck)
    low, _ = clopper_pearson(first, devices, 1 - FALSE_ALARM, together)
    _, high = clopper_pearson(second, other_devices, 1 - FALSE_ALARM, together)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low) - np.log(high))


def _typical(chance: Any, devices: int, luck: float) -> NDArray[np.float64]:
    share = np.asarray(chance, dtype=np.float64)
    count = devices * share + luck * np.sqrt(devices * share * (1 - share))
    return np.asarray(np.clip(count, 0, devices))
