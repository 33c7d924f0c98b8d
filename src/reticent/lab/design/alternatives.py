"""
Beside a design: what the other way of answering would give, what a little more or less of everything gives,
and what to give up where a goal is too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isinf
from typing import Any, Literal, TypeVar

from reticent.estimates import expected_average_half_width
from reticent.lab.design.choice import (
    EPSILONS,
    FLIPS,
    Candidate,
    Choice,
    Design,
    candidates,
    choose,
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
from reticent.lab.design.goal import (
    LEAST_CHANGE,
    LEAST_EPSILON,
    MOST_CHANGE,
    MOST_DEVICES,
    MOST_EPSILON,
    MOST_LIFETIME,
    MOST_YEAR,
    USUAL_FLIP,
    WEEK,
    Goal,
    Promise,
)
from reticent.plan import Metric, Plan, PrivacyCard
from reticent.privacy import CLAIMS, printed, upward

OTHER_FLIPS = tuple(Fraction(flip) for flip in ("0", "0.05", "0.1", "0.2", "0.3", "0.4"))
"""The flips that a design's own is compared with."""

MOST_BITS = 4
"""Bits of the dBitFlips that are shown beside a chosen one of another kind."""


@dataclass(frozen=True)
class Way:
    """One way to answer: what it loses, and how precise it is."""

    plan: Plan
    card: PrivacyCard
    half_widths: Mapping[str, float]
    """At worst, of one round ("round"), and of all rounds of a week and of a year together."""


def both_ways(choice: Choice) -> tuple[Way, Way]:
    """
    The best designs of the chosen epsilon with remembered and with sampled answers, one of which was chosen.

    The other has the usual flip of 0.2, or a window of a week.

    >>> from reticent.lab.design import Goal, choose
    >>> remembered, sampled = both_ways(choose(Goal(max_value=1, devices=10**6, epsilon=1, round_seconds=21_600)))
    >>> remembered.card.constant, round(remembered.card.any_history), sampled.card.window, sampled.card.any_history
    (1.0, 1015, 1.0, 54.0)
    """
    goal, chosen = choice.goal, choice.chosen
    shared: dict[str, Any] = {
        name: getattr(goal, name)
        for name in (
            "max_value",
            "devices",
            "round_seconds",
            "buckets",
            "confidence",
            "segments",
            "name",
            "unit",
        )
    }
    promise: Promise = "constant" if goal.sampled else "any-history"
    other = choose(Goal(**shared, promise=promise, epsilon=chosen.epsilon)).chosen
    rounds = {"round": 1, "week": max(1, WEEK // goal.round_seconds), "year": goal.rounds}

    def way(design: Design) -> Way:
        half_widths = {
            period: expected_average_half_width(
                design.metric, goal.reports, number, goal.confidence, design.plan.answers
            )
            for period, number in rounds.items()
        }
        return Way(design.plan, design.card, half_widths)

    return (way(other), way(chosen)) if goal.sampled else (way(chosen), way(other))


def reason(choice: Choice) -> str:
    """
    Why devices are to answer in the way that was chosen: the promise it keeps, which the other does not.

    >>> from reticent.lab.design import Goal, choose
    >>> print(reason(choose(Goal(max_value=1, devices=1000, epsilon=1))))
    Remembered answers, for devices that keep their value. All answers ever sent are at most e^1.0 times as likely from a device that keeps one value as from a device that keeps any other. Sampled answers lose 1.0 in each window, without end.
    """  # noqa: E501
    remembered, sampled = both_ways(choice)
    window, time = sampled.card.window or 0.0, sampled.card.time
    if not choice.goal.sampled:
        promise = CLAIMS["constant"].says(remembered.card.constant)
        return (
            f"Remembered answers, for devices that keep their value. {promise} "
            f"Sampled answers lose {printed(window)} in each window, without end."
        )
    promise = f"{CLAIMS['window'].says(window)} {CLAIMS['any_history'].says(sampled.card.any_history, time)}"
    return (
        f"Sampled answers, for any two histories. {promise} "
        f"Remembered answers with flip {float(USUAL_FLIP):g} may lose {printed(remembered.card.any_history)} in {time}."
    )


@dataclass(frozen=True)
class Neighbour:
    """A design beside the chosen one, and in what it differs."""

    label: str
    design: Design


def neighbours(choice: Choice) -> tuple[Neighbour, ...]:
    """
    The chosen design, then half and twice its epsilon, other flips or windows, other mechanisms, other fleets.

    Other mechanisms have the epsilon at which they lose as much as the chosen one, or a little less.

    >>> from reticent.lab.design import Goal, choose
    >>> around = neighbours(choose(Goal(max_value=24, devices=10_000, epsilon=1)))
    >>> print(", ".join(neighbour.label for neighbour in around))
    chosen, epsilon / 2, epsilon × 2, fewer flips, more flips, 10 steps, devices / 2, devices × 2
    """
    return tuple(_neighbours(choice.goal, choice.chosen))


def _neighbours(goal: Goal, chosen: Design) -> Iterator[Neighbour]:
    yield Neighbour("chosen", chosen)
    yield from _other_parameters(goal, chosen)
    limit = Fraction(chosen.loss)
    for other in candidates(goal):
        if other == chosen.candidate or other.bits > MOST_BITS:
            continue
        own_flip, most = other.flip(goal), other.most_epsilon(goal, limit)
        if own_flip is not None and most is not None:
            label = f"{other.steps} steps" if other.steps > 1 else "instead"
            yield Neighbour(label, make(goal, other, most, own_flip))
    for label, devices in (("devices / 2", goal.devices // 2), ("devices × 2", goal.devices * 2)):
        if goal.segments <= devices <= MOST_DEVICES:
            fleet = replace(goal, devices=devices)
            yield Neighbour(label, make(fleet, chosen.candidate, chosen.epsilon, chosen.flip))


def _other_parameters(goal: Goal, chosen: Design) -> Iterator[Neighbour]:
    """The chosen mechanism with another epsilon, and another flip or window."""
    for label, epsilon in (("epsilon / 2", chosen.epsilon / 2), ("epsilon × 2", chosen.epsilon * 2)):
        if LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            yield Neighbour(label, make(goal, chosen.candidate, epsilon, chosen.flip))
    if goal.sampled:
        window = goal.answers.window
        for label, rounds in (("window / 2", window // 2), ("window × 2", window * 2)):
            if 1 <= rounds <= goal.rounds:
                other = goal.in_windows(rounds, chosen.epsilon)
                yield Neighbour(label, make(other, chosen.candidate, chosen.epsilon, chosen.flip))
    else:
        fewer = [flip for flip in OTHER_FLIPS if flip < chosen.flip][-1:]
        more = [flip for flip in OTHER_FLIPS if flip > chosen.flip][:1]
        for label, flips in (("fewer flips", fewer), ("more flips", more)):
            for flip in flips:
                yield Neighbour(label, make(goal, chosen.candidate, chosen.epsilon, flip))


FLEETS = tuple(int(rung) for rung in ladder(Fraction(1), Fraction(MOST_DEVICES)) if rung.denominator == 1)
LIFETIMES = ladder(2 * LEAST_EPSILON, MOST_LIFETIME)
YEARS = ladder(LEAST_EPSILON, MOST_YEAR)
CHANGES = ladder(LEAST_CHANGE, MOST_CHANGE)

Part = Literal["devices", "epsilon", "lifetime", "year", "half_width", "flip", "change_time", "window"]
Number = TypeVar("Number", int, float, Fraction)


@dataclass(frozen=True, slots=True)
class WayOut:
    """
    One part of a goal, and what it would have to be instead for the rest to be met.

    `instead` is the nearest number of three significant digits that will do (of rounds, for a window); None
    when none will.
    """

    part: Part
    wanted: Fraction | int
    instead: Fraction | int | None


def ways_out(choice: Choice) -> tuple[WayOut, ...]:
    """
    How a goal that cannot be met could be: by a larger fleet, a wider limit, a wider interval, fewer flips or a
    longer window.

    >>> from reticent.lab.design import Goal, choose
    >>> goal = Goal(max_value=21_600, devices=100_000, half_width=240, epsilon=1)
    >>> [(way.part, float(way.instead)) for way in ways_out(choose(goal))]
    [('devices', 102000.0), ('epsilon', 1.01), ('half_width', 242.0), ('flip', 0.197)]
    """
    goal, wanted = choice.goal, choice.goal.half_width
    if choice.met or wanted is None:
        return ()

    def fleet(metric: Metric) -> int | None:
        """The smallest fleet, of at least a device per segment, in which a metric is precise enough."""
        return first(
            FLEETS,
            lambda devices: (
                devices >= goal.segments and half_width(replace(goal, devices=devices), metric) <= wanted
            ),
        )

    needed = _least(_needed(goal, candidate) for candidate in eligible(goal))
    wider = rounded_up(Fraction(choice.chosen.half_width))
    ways = [WayOut("devices", goal.devices, _least(fleet(design.metric) for design in most_precise(goal)))]
    if goal.lifetime is not None:
        lifetime = None if needed is None else first(LIFETIMES, lambda limit: needed <= upward(limit))
        ways.append(WayOut("lifetime", goal.lifetime, lifetime))
    elif goal.year is not None:
        windows = goal.answers.windows_touched(goal.rounds)
        year = None if needed is None else first(YEARS, lambda limit: needed <= upward(limit / windows))
        ways.append(WayOut("year", goal.year, year))
    else:
        answers = goal.answers_of_a_device
        epsilon = None if needed is None else first(EPSILONS, lambda limit: needed <= upward(answers * limit))
        ways.append(WayOut("epsilon", goal.limit / answers, epsilon))
    ways.append(WayOut("half_width", wanted, wider if wider < goal.top / 2 else None))
    if goal.change_time is not None:
        changes = (_change_time(goal, candidate, wanted) for candidate in eligible(goal))
        ways.append(WayOut("change_time", goal.change_time, _least(changes)))
    elif goal.flip:
        flips = (_most_flip(goal, candidate, wanted) for candidate in eligible(goal))
        most = max((flip for flip in flips if flip is not None), default=None)
        ways.append(WayOut("flip", goal.flip, most))
    if goal.year is not None:
        longer = range(goal.answers.window, goal.rounds + 1)
        enough = first(
            longer, lambda window: needed is not None and needed <= upward(_of_window(goal, window))
        )
        ways.append(WayOut("window", goal.answers.window, enough))
    return tuple(ways)


def _needed(goal: Goal, candidate: Candidate) -> float | None:
    """The loss behind the promise at which a candidate is precise enough."""
    flip = candidate.flip(goal)
    epsilon = None if flip is None else least_epsilon(goal, candidate, flip)
    return None if epsilon is None else candidate.loss(goal, epsilon)


def _of_window(goal: Goal, window: int) -> Fraction:
    """What a window of so many rounds may lose within the limit of a year."""
    return replace(goal, window=window).limit


def _most_flip(goal: Goal, candidate: Candidate, wanted: Fraction) -> Fraction | None:
    """The largest flip at which a candidate within the limit is precise enough."""
    most = candidate.most_epsilon(goal, goal.limit)
    if most is None:
        return None
    flips = (Fraction(0), *FLIPS)
    return last(flips, lambda flip: half_width(goal, candidate.metric(goal, most, flip)) <= wanted)


def _change_time(goal: Goal, candidate: Candidate, wanted: Fraction) -> Fraction | None:
    """The least loss of a moved change at which a candidate within the limit is precise enough."""
    flip = _most_flip(goal, candidate, wanted)
    if flip is None or isinf(loss := candidate.change_time(goal, flip)):
        return None
    return first(CHANGES, lambda limit: loss <= upward(limit))


def _least(numbers: Iterable[Number | None]) -> Number | None:
    return min((number for number in numbers if number is not None), default=None)
