"""Beside a design: what a little more or less of everything gives, and what to give up where a wish is too much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isinf
from typing import Literal, TypeVar

from reticent.lab.design.choice import (
    EPSILONS,
    FLIPS,
    Candidate,
    Choice,
    Design,
    candidates,
    eligible,
    first,
    half_width,
    ladder,
    last,
    least_epsilon,
    make,
    most_precise,
    rounded_up,
)
from reticent.lab.design.wish import (
    LEAST_CHANGE,
    LEAST_EPSILON,
    MOST_CHANGE,
    MOST_DEVICES,
    MOST_EPSILON,
    MOST_LIFETIME,
    Wish,
)
from reticent.plan import Metric
from reticent.privacy import upward

OTHER_FLIPS = tuple(Fraction(flip) for flip in ("0", "0.05", "0.1", "0.2", "0.3", "0.4"))
"""The flips that a design's own is compared with."""

MOST_BITS = 4
"""Bits of the dBitFlips that are shown beside a chosen one of another kind."""


@dataclass(frozen=True)
class Neighbour:
    """A design beside the chosen one, and in what it differs."""

    label: str
    design: Design


def neighbours(choice: Choice) -> tuple[Neighbour, ...]:
    """
    The chosen design, then half and twice its epsilon, fewer and more flips, other mechanisms, other fleets.

    Other mechanisms have the epsilon at which they have the same-pattern loss of the chosen one, or a little less.

    >>> from reticent.lab.design import Wish, choose
    >>> around = neighbours(choose(Wish(max_value=24, devices=10_000, epsilon=1)))
    >>> print(", ".join(neighbour.label for neighbour in around))
    chosen, epsilon / 2, epsilon × 2, fewer flips, more flips, 10 steps, devices / 2, devices × 2
    """
    return tuple(_neighbours(choice.wish, choice.chosen))


def _neighbours(wish: Wish, chosen: Design) -> Iterator[Neighbour]:
    yield Neighbour("chosen", chosen)
    for label, epsilon in (("epsilon / 2", chosen.epsilon / 2), ("epsilon × 2", chosen.epsilon * 2)):
        if LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            yield Neighbour(label, make(wish, chosen.candidate, epsilon, chosen.flip))
    fewer = [flip for flip in OTHER_FLIPS if flip < chosen.flip][-1:]
    more = [flip for flip in OTHER_FLIPS if flip > chosen.flip][:1]
    for label, flips in (("fewer flips", fewer), ("more flips", more)):
        for flip in flips:
            yield Neighbour(label, make(wish, chosen.candidate, chosen.epsilon, flip))
    limit = Fraction(chosen.losses.lifetime)
    for other in candidates(wish):
        if other == chosen.candidate or other.bits > MOST_BITS:
            continue
        own_flip, most = other.flip(wish), other.most_epsilon(wish, limit)
        if own_flip is not None and most is not None:
            label = f"{other.steps} steps" if other.steps > 1 else "instead"
            yield Neighbour(label, make(wish, other, most, own_flip))
    for label, devices in (("devices / 2", wish.devices // 2), ("devices × 2", wish.devices * 2)):
        if wish.segments <= devices <= MOST_DEVICES:
            fleet = replace(wish, devices=devices)
            yield Neighbour(label, make(fleet, chosen.candidate, chosen.epsilon, chosen.flip))


FLEETS = tuple(int(rung) for rung in ladder(Fraction(1), Fraction(MOST_DEVICES)) if rung.denominator == 1)
LIFETIMES = ladder(2 * LEAST_EPSILON, MOST_LIFETIME)
CHANGES = ladder(LEAST_CHANGE, MOST_CHANGE)

Part = Literal["devices", "epsilon", "lifetime", "half_width", "flip", "change_time"]
Number = TypeVar("Number", int, float, Fraction)


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

    def fleet(metric: Metric) -> int | None:
        """The smallest fleet, of at least a device per segment, in which a metric is precise enough."""
        return first(
            FLEETS,
            lambda devices: (
                devices >= wish.segments and half_width(replace(wish, devices=devices), metric) <= wanted
            ),
        )

    needed = _least(_needed(wish, candidate) for candidate in eligible(wish))
    wider = rounded_up(Fraction(choice.chosen.half_width))
    ways = [WayOut("devices", wish.devices, _least(fleet(design.metric) for design in most_precise(wish)))]
    if wish.lifetime is not None:
        lifetime = None if needed is None else first(LIFETIMES, lambda limit: needed <= upward(limit))
        ways.append(WayOut("lifetime", wish.lifetime, lifetime))
    else:
        epsilon = None if needed is None else first(EPSILONS, lambda limit: needed <= upward(2 * limit))
        ways.append(WayOut("epsilon", wish.limit / 2, epsilon))
    ways.append(WayOut("half_width", wanted, wider if wider < wish.top / 2 else None))
    if wish.change_time is not None:
        changes = (_change_time(wish, candidate, wanted) for candidate in eligible(wish))
        ways.append(WayOut("change_time", wish.change_time, _least(changes)))
    elif wish.flip:
        flips = (_most_flip(wish, candidate, wanted) for candidate in eligible(wish))
        most = max((flip for flip in flips if flip is not None), default=None)
        ways.append(WayOut("flip", wish.flip, most))
    return tuple(ways)


def _needed(wish: Wish, candidate: Candidate) -> float | None:
    """The same-pattern loss at which a candidate is precise enough."""
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


def _least(numbers: Iterable[Number | None]) -> Number | None:
    return min((number for number in numbers if number is not None), default=None)
