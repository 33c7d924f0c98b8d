"""What to give up when a wish cannot be met: each part of it alone, by as little as will do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isinf
from typing import Literal, TypeVar

from reticent.lab.design.candidates import EPSILONS, FLIPS, Candidate
from reticent.lab.design.choice import Choice, eligible, most_precise
from reticent.lab.design.designs import half_width, least_epsilon
from reticent.lab.design.ladder import first, ladder, last, rounded_up
from reticent.lab.design.wish import (
    LEAST_CHANGE,
    LEAST_EPSILON,
    MOST_CHANGE,
    MOST_DEVICES,
    MOST_LIFETIME,
    Wish,
)
from reticent.plan import Metric
from reticent.privacy import upward

FLEETS = tuple(int(rung) for rung in ladder(Fraction(1), Fraction(MOST_DEVICES)) if rung.denominator == 1)
LIFETIMES = ladder(2 * LEAST_EPSILON, MOST_LIFETIME)
CHANGES = ladder(LEAST_CHANGE, MOST_CHANGE)

Part = Literal["devices", "epsilon", "lifetime", "half_width", "flip", "change_time"]
Figure = TypeVar("Figure", int, Fraction)


@dataclass(frozen=True, slots=True)
class WayOut:
    """
    One part of a wish, and what it would have to be instead for the rest to be met.

    `instead` is the nearest number of three significant digits that will do; None when none will.
    """

    part: Part
    wished: Fraction | int
    instead: Fraction | int | None


def ways_out(choice: Choice) -> tuple[WayOut, ...]:
    """
    How a wish that cannot be met could be: by a larger fleet, a wider limit, a wider interval or fewer flips.

    >>> from reticent.lab.design import Wish, choose
    >>> wish = Wish(max_value=21_600, devices=100_000, half_width=240, epsilon=1)
    >>> [(way.part, float(way.instead)) for way in ways_out(choose(wish))]
    [('devices', 102000.0), ('epsilon', 1.01), ('half_width', 242.0), ('flip', 0.197)]
    """
    wish, wanted = choice.wish, choice.wish.half_width
    if choice.met or wanted is None:
        return ()
    wider = rounded_up(Fraction(choice.chosen.half_width))
    found = [
        WayOut("devices", wish.devices, _fleet(wish, wanted)),
        _limit(wish),
        WayOut("half_width", wanted, wider if wider < wish.top / 2 else None),
    ]
    if wish.change_time is not None:
        changes = (_change_time(wish, each, wanted) for each in eligible(wish))
        found.append(WayOut("change_time", wish.change_time, _least(changes)))
    elif wish.flip:
        flips = (_most_flip(wish, each, wanted) for each in eligible(wish))
        most = max((flip for flip in flips if flip is not None), default=None)
        found.append(WayOut("flip", wish.flip, most))
    return tuple(found)


def _fleet(wish: Wish, wanted: Fraction) -> int | None:
    def enough(metric: Metric, devices: int) -> bool:
        return devices >= wish.segments and half_width(replace(wish, devices=devices), metric) <= wanted

    def fleet(metric: Metric) -> int | None:
        return first(FLEETS, lambda devices: enough(metric, devices))

    return _least(fleet(design.metric) for design in most_precise(wish))


def _limit(wish: Wish) -> WayOut:
    if wish.lifetime is not None:
        return WayOut("lifetime", wish.lifetime, _least(_lifetime(wish, each) for each in eligible(wish)))
    return WayOut("epsilon", wish.limit / 2, _least(_epsilon(wish, each) for each in eligible(wish)))


def _lifetime(wish: Wish, candidate: Candidate) -> Fraction | None:
    needed = _needed(wish, candidate)
    return None if needed is None else first(LIFETIMES, lambda limit: needed <= upward(limit))


def _epsilon(wish: Wish, candidate: Candidate) -> Fraction | None:
    needed = _needed(wish, candidate)
    return None if needed is None else first(EPSILONS, lambda limit: needed <= upward(2 * limit))


def _needed(wish: Wish, candidate: Candidate) -> float | None:
    """The loss for life at which a candidate is precise enough."""
    flip = candidate.flip(wish)
    epsilon = None if flip is None else least_epsilon(wish, candidate, flip)
    return None if epsilon is None else candidate.lifetime(wish, epsilon)


def _most_flip(wish: Wish, candidate: Candidate, wanted: Fraction) -> Fraction | None:
    """The largest flip at which a candidate within the limit is precise enough."""
    most = candidate.most_epsilon(wish, wish.limit)
    if most is None:
        return None
    flips = (Fraction(0), *FLIPS)
    return last(flips, lambda flip: half_width(wish, candidate.metric(wish, most, flip)) <= wanted)


def _change_time(wish: Wish, candidate: Candidate, wanted: Fraction) -> Fraction | None:
    """The least loss of a moved change at which a candidate within the limit is precise enough."""
    flip = _most_flip(wish, candidate, wanted)
    if flip is None or isinf(loss := candidate.change_time(wish, flip)):
        return None
    return first(CHANGES, lambda limit: loss <= upward(limit))


def _least(figures: Iterable[Figure | None]) -> Figure | None:
    return min((figure for figure in figures if figure is not None), default=None)
