"""How much likelier an event is in one history than in another: what counts prove, and what they could notice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, xlog1py, xlogy

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-6  # How often an audit flags a client that keeps every claim, over all its events together
SURE = 2.0537489106318225  # The 98 % point of the normal distribution: what "would notice" means
TYPICAL_EVENTS = 200
"""How many events an audit has, about: what events are chosen for. The bounds use the true number."""

_FARTHEST = 60.0
_MOST_EXCESS = 16.0
_SHARES = 200


def ratio_bounds(
    hits: Any,
    devices: Any,
    other_hits: Any,
    other_devices: Any,
    together: int,
    false_alarm: float = FALSE_ALARM,
) -> tuple[Floats, Floats, Floats]:
    """
    Ln of the ratio of an event's chances under two histories: the estimate, and the ends between which it lies.

    The reports lose at least the lower end, if the event was chosen before these devices were looked at; numbers
    or arrays. With P and Q the chances of the event under the two histories, every claim of ε says P ≤ e^ε Q.
    A ratio e^λ is refuted when the best pair (P, e^-λ P) is less likely than the shares that were seen, by a
    factor of more than e^c:

        min over P of  n·KL(share ‖ P) + n'·KL(other share ‖ e^-λ P)  ≥  c,     (1 + c) e^-c = α/(2E),

    α = `false_alarm` and E = `together` events, each with two ends. Each of the two terms, at the true P and
    on its own side, is at least x with chance e^-x at most (Chernoff, for any number of devices, also for
    unlike ones with P their mean); the devices are independent, so their sum reaches c with chance
    (1 + c) e^-c at most. Hence all E bounds hold together with chance 1 - α (Bonferroni).

    >>> estimate, lower, upper = ratio_bounds(700, 1000, 300, 1000, together=1)
    >>> bool(lower < estimate < upper), round(float(estimate) - math.log(7 / 3), 9)
    (True, 0.0)
    """
    ones, others = np.asarray(hits, np.float64), np.asarray(other_hits, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.nan_to_num(
            np.log(ones * other_devices) - np.log(others * devices), posinf=np.inf, neginf=-np.inf
        )
    lower = np.maximum(_least(ones, devices, others, other_devices, together, false_alarm), 0.0)
    upper = -_least(others, other_devices, ones, devices, together, false_alarm)
    upper = np.where(upper >= _FARTHEST, np.inf, upper)
    nobody = np.logical_or(np.equal(devices, 0), np.equal(other_devices, 0))
    return np.where(nobody, 0.0, estimate), np.where(nobody, 0.0, lower), np.where(nobody, np.inf, upper)


def _least(
    ones: Floats, devices: Any, others: Floats, other_devices: Any, together: int, false_alarm: float
) -> Floats:
    limit = float(gammainccinv(2, false_alarm / (2 * together)))
    best = _likelihood(ones, devices, ones / np.maximum(devices, 1)) + _likelihood(
        others, other_devices, others / np.maximum(other_devices, 1)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.nan_to_num(
            np.log(ones * other_devices) - np.log(others * devices), nan=0.0, posinf=np.inf, neginf=-np.inf
        )
    below = np.full_like(estimate, -_FARTHEST)
    above = np.clip(estimate, -_FARTHEST, _FARTHEST)
    for _ in range(50):
        middle = (below + above) / 2
        ratio = np.exp(middle)
        # The likeliest P' under P = ratio·P' solves A·P'² - B·P' + C = 0; its smaller root, stably.
        square = ratio * (devices + other_devices)
        constant = ones + others
        linear = ratio * (devices + others) + ones + other_devices
        root = np.sqrt(np.maximum(linear**2 - 4 * square * constant, 0))
        other = 2 * constant / np.maximum(linear + root, 1e-300)
        seen = _likelihood(ones, devices, np.minimum(ratio * other, 1)) + _likelihood(
            others, other_devices, np.minimum(other, 1)
        )
        refuted = best - seen >= limit
        below, above = np.where(refuted, middle, below), np.where(refuted, above, middle)
    return np.asarray(below)


def _likelihood(ones: Floats, devices: Any, chance: Floats) -> Floats:
    return np.asarray(xlogy(ones, chance) + xlog1py(devices - ones, -chance))


def expected_lower(
    chance: Floats | float,
    devices: int,
    other: Floats | float,
    other_devices: int,
    together: int = TYPICAL_EVENTS,
    *,
    luck: float = 0.0,
) -> Floats:
    """
    The bound that so many devices would give, for events of these chances (numbers or arrays); may be < 0.

    `luck` 0 is the median; at `SURE` the bound is at least this with chance 0.98 (normal approximation).
    """
    first, second = np.asarray(chance, np.float64), np.asarray(other, np.float64)
    spread, other_spread = (
        np.sqrt(np.maximum(1 - share, 0) / np.maximum(share * count, 1e-300))
        for share, count in ((first, devices), (second, other_devices))
    )
    shift = luck / np.maximum(np.hypot(spread, other_spread), 1e-300)
    hits = np.clip(devices * first * (1 - shift * spread**2), 0, devices)
    other_hits = np.clip(other_devices * second * (1 + shift * other_spread**2), 0, other_devices)
    return _least(hits, devices, other_hits, other_devices, together, FALSE_ALARM)


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to break the law that is no larger ε, and the chances of an event if every device had it."""

    what: str  #: What such a device does: "redraws …", "flips …"
    chance: float = 1.0
    other: float = 0.0


@dataclass(frozen=True, slots=True)
class HistoryComparison:
    """How often an event came up in two histories, beside the most that a claim allows."""

    subject: str
    what: str
    claim: float
    exact: float | None  #: What enumeration says; None where it has no figure
    hits: int
    devices: int
    other_hits: int
    other_devices: int
    notices: Callable[[float, int], bool] | None = None
    """Whether an ε larger by a share would be found out with chance 0.98, among so many events."""
    fault: Fault | None = None  #: What else this event is there to notice


def compare(
    subject: str,
    what: str,
    claim: float,
    exact: float | None,
    shown: NDArray[np.bool_],
    other: NDArray[np.bool_],
    notices: Callable[[float, int], bool] | None = None,
    fault: Fault | None = None,
) -> HistoryComparison:
    """An event by who showed it in one history and in the other."""
    counts = int(shown.sum()), len(shown), int(other.sum()), len(other)
    return HistoryComparison(subject, what, claim, exact, *counts, notices, fault)


@dataclass(frozen=True, slots=True)
class Attacked:
    """What an attack found: a loss of at least `lower`, at the audit's confidence."""

    subject: str
    what: str
    claim: float
    exact: float | None  #: What enumeration says; None for what must not depend on values at all
    estimate: float
    lower: float
    upper: float
    devices: int  #: Per history
    above: bool
    notice: float | None = None
    """The smallest excess of ε that so many devices show with chance 0.98, as a share of ε; None: none."""


def judge(comparisons: Iterable[HistoryComparison]) -> list[Attacked]:
    """Every comparison as a bound, all valid together; of those with one name, the one that found most."""
    every = list(comparisons)
    counts = [(seen.hits, seen.devices, seen.other_hits, seen.other_devices) for seen in every]
    hits, devices, other_hits, other_devices = np.array(counts, np.float64).T
    bounds = np.stack(ratio_bounds(hits, devices, other_hits, other_devices, len(every)), axis=1)
    best: dict[tuple[str, str], tuple[float, float, float, HistoryComparison]] = {}
    for seen, (estimate, lower, upper) in zip(every, bounds.tolist(), strict=True):
        known = best.get((seen.subject, seen.what))
        if known is None or (lower, estimate) > known[:2]:
            best[seen.subject, seen.what] = lower, estimate, upper, seen
    return [
        Attacked(
            seen.subject, seen.what, seen.claim, seen.exact, estimate, lower, upper,
            min(seen.devices, seen.other_devices), lower > seen.claim,
            None if seen.notices is None else smallest_excess(seen.notices, len(every)),
        )
        for lower, estimate, upper, seen in best.values()
    ]  # fmt: skip


def noticed_faults(comparisons: Iterable[HistoryComparison]) -> dict[str, float | None]:
    """
    In how large a share of devices each fault is found with chance 0.98; None: there are too few devices.

    Devices without the fault show the event as often as those that were seen.
    """
    every = list(comparisons)
    largest: dict[tuple[str, str], HistoryComparison] = {}
    for seen in every:
        if seen.fault is not None and math.isfinite(seen.claim):
            known = largest.setdefault((seen.fault.what, seen.subject), seen)
            if min(seen.devices, seen.other_devices) > min(known.devices, known.other_devices):
                largest[seen.fault.what, seen.subject] = seen
    shares = np.arange(1, _SHARES + 1) / _SHARES
    result: dict[str, float | None] = {}
    for (what, _), seen in largest.items():
        fault = seen.fault or Fault("")
        devices = max(seen.devices, 1)
        other_devices = max(seen.other_devices, 1)
        chance = (1 - shares) * seen.hits / devices + shares * fault.chance
        other = (1 - shares) * seen.other_hits / other_devices + shares * fault.other
        other = np.maximum(other, 1 / other_devices)  # the normal approximation knows no luck at 0
        lower = expected_lower(chance, devices, other, other_devices, len(every), luck=SURE)
        share = float(shares[np.argmax(lower > seen.claim)]) if lower.max() > seen.claim else None
        worst = result.setdefault(what, share)
        result[what] = None if share is None or worst is None else max(share, worst)
    return result


def at_least(lower: float) -> str:
    """
    A lower bound for people, rounded down.

    >>> at_least(0.56949), at_least(12345.6)
    ('0.5694', '12,345.6000')
    """
    return f"{Decimal(lower).quantize(Decimal('0.0001'), ROUND_FLOOR):,f}"


def smallest_excess(notices: Callable[[float, int], bool], together: int) -> float | None:
    """By which share ε must be larger to be noticed, by bisection; None beyond sixteen times."""
    if not notices(_MOST_EXCESS, together):
        return None
    below = 0.0
    above = _MOST_EXCESS
    while above - below > 1e-3:
        middle = (below + above) / 2
        below, above = (below, middle) if notices(middle, together) else (middle, above)
    return above
