"""Beside a design: the other way of answering, its neighbours, and what to change in a goal that is too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeVar

from reticent.plan import Plan
from reticent.plan.card import PrivacyCard
from reticent.privacy import CLAIMS, printed
from reticent_collector.estimates import expected_average_half_width
from reticent_lab.design.choice import (
    EPSILONS,
    FLIPS,
    Choice,
    Design,
    can_be_met,
    candidates,
    choose,
    first,
    ladder,
    last,
    make,
    rounded_up,
)
from reticent_lab.design.goal import (
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

OTHER_FLIPS = tuple(Fraction(flip) for flip in ("0", "0.05", "0.1", "0.2", "0.3", "0.4"))
"""The flips that a design's own is compared with."""

MOST_BITS = 4  # Bits of the dBitFlips that are shown beside a chosen one of another kind


@dataclass(frozen=True)
class Way:
    """One way to answer: what it loses, and how precise it is."""

    plan: Plan
    card: PrivacyCard
    half_widths: Mapping[str, float]
    """At worst, of one round ("round"), and of all rounds of a week and of a year together."""


def spent(choice: Choice) -> Fraction:
    """The epsilon of all answers of a report together, which the other way of answering gets as its limit."""
    return min(choice.chosen.epsilon * (choice.goal.answers.metrics or choice.goal.metrics), MOST_EPSILON)


def both_ways(choice: Choice) -> tuple[Way, Way]:
    """
    The best designs of the chosen epsilon with remembered (flip 0.2) and with sampled answers (a week).

    >>> from reticent_lab.design import Goal, choose
    >>> remembered, sampled = both_ways(choose(Goal(max_value=1, devices=10**6, epsilon=1, round_seconds=21_600)))
    >>> remembered.card.constant, round(remembered.card.any_history), sampled.card.window, sampled.card.any_history
    (1.0, 1015, 1.0, 54.0)
    """
    goal = choice.goal
    promise: Promise = "constant" if goal.sampled else "any-history"
    parts = ("half_width", "lifetime", "year", "flip", "change_time", "window", "asked", "period", "expected")
    left_out: dict[str, Any] = dict.fromkeys(parts)
    other = choose(replace(goal, promise=promise, epsilon=spent(choice), bias=Fraction(0), **left_out))
    rounds = {"round": 1, "week": max(1, WEEK // goal.round_seconds), "year": goal.rounds}

    def way(choice: Choice) -> Way:
        design = choice.chosen
        half_widths = {
            period: expected_average_half_width(
                design.metric, choice.goal.answering, number, goal.confidence, design.plan.answers
            )
            for period, number in rounds.items()
        }
        return Way(design.plan, design.card, half_widths)

    return (way(other), way(choice)) if goal.sampled else (way(choice), way(other))


def reason(choice: Choice) -> str:
    """
    Why devices are to answer in the way that was chosen: the promise it keeps, which the other does not.

    >>> from reticent_lab.design import Goal, choose
    >>> print(reason(choose(Goal(max_value=1, devices=1000, epsilon=1))))
    Remembered answers, for devices that keep their value. All answers ever sent are at most e^1.0 times as likely from a device that keeps one value as from a device that keeps any other. Sampled answers lose 1.0 in each window, without end.
    """  # noqa: E501
    remembered, sampled = both_ways(choice)
    window = sampled.card.window or 0.0
    time = sampled.card.time
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
    The chosen design, then other epsilons, flips or windows, mechanisms at an equal loss, and fleets.

    >>> from reticent_lab.design import Goal, choose
    >>> around = neighbours(choose(Goal(max_value=24, devices=10_000, epsilon=1)))
    >>> print(", ".join(neighbour.label for neighbour in around))
    chosen, epsilon / 2, epsilon × 2, fewer flips, more flips, devices / 2, devices × 2
    """
    goal, chosen = choice.goal, choice.chosen
    around = [Neighbour("chosen", chosen), *_other_parameters(goal, chosen)]
    limit = Fraction(chosen.loss)
    for other in candidates(goal):
        if other == chosen.candidate or other.bits > MOST_BITS:
            continue
        own_flip = other.flip(goal)
        most = other.most_epsilon(goal, limit)
        if own_flip is not None and most is not None:
            around.append(Neighbour("instead", make(goal, other, most, own_flip)))
    for label, devices in (("devices / 2", goal.devices // 2), ("devices × 2", goal.devices * 2)):
        if goal.segments <= devices <= MOST_DEVICES:
            fleet = replace(goal, devices=devices)
            around.append(Neighbour(label, make(fleet, chosen.candidate, chosen.epsilon, chosen.flip)))
    return tuple(around)


def _other_parameters(goal: Goal, chosen: Design) -> Iterator[Neighbour]:
    for label, epsilon in (("epsilon / 2", chosen.epsilon / 2), ("epsilon × 2", chosen.epsilon * 2)):
        if LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            yield Neighbour(label, make(goal, chosen.candidate, epsilon, chosen.flip))
    if goal.sampled:
        window = goal.answers.window
        for label, rounds in (("window / 2", window // 2), ("window × 2", window * 2)):
            if 1 <= rounds <= goal.rounds:
                other = goal.in_windows(rounds, chosen.epsilon)
                yield Neighbour(label, make(other, chosen.candidate, chosen.epsilon, chosen.flip))
        for asked in sorted({1, goal.metrics} - {goal.answers.metrics} if goal.metrics > 1 else ()):
            other = replace(goal, asked=asked)
            most = chosen.candidate.most_epsilon(other, Fraction(chosen.loss))
            if most is not None:
                yield Neighbour(f"{asked} per report", make(other, chosen.candidate, most, chosen.flip))
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
Number = TypeVar("Number", int, Fraction)


@dataclass(frozen=True, slots=True)
class WayOut:
    """One part of a goal, and the nearest number of three digits that meets the rest; None when none does."""

    part: Part
    wanted: Fraction | int
    instead: Fraction | int | None


def ways_out(choice: Choice) -> tuple[WayOut, ...]:
    """
    How a goal that cannot be met could be met.

    >>> from reticent_lab.design import Goal, choose
    >>> goal = Goal(max_value=21_600, devices=100_000, half_width=240, epsilon=1)
    >>> [(way.part, float(way.instead)) for way in ways_out(choose(goal))]
    [('devices', 102000.0), ('epsilon', 1.01), ('half_width', 242.0), ('flip', 0.197)]
    """
    goal = choice.goal
    wanted = choice.goal.half_width
    if choice.met or wanted is None:
        return ()

    def least(part: Part, numbers: Sequence[Number]) -> Number | None:
        def will_do(number: Number) -> bool:
            changed: dict[str, Any] = {part: number}
            return can_be_met(replace(goal, **changed))

        return first(numbers, will_do)

    wider = rounded_up(Fraction(choice.chosen.half_width))
    fleets = [fleet for fleet in FLEETS if fleet >= goal.devices]
    ways = [WayOut("devices", goal.devices, least("devices", fleets))]
    part: Part = "epsilon"
    limit = goal.limit / goal.answers_of_a_device
    rungs = EPSILONS
    if goal.lifetime is not None:
        part = "lifetime"
        limit = goal.lifetime
        rungs = LIFETIMES
    elif goal.year is not None:
        part = "year"
        limit = goal.year
        rungs = YEARS
    ways.append(WayOut(part, limit, least(part, [rung for rung in rungs if rung >= limit])))
    ways.append(WayOut("half_width", wanted, wider if wider < goal.top / 2 else None))
    if goal.change_time is not None:
        ways.append(WayOut("change_time", goal.change_time, least("change_time", CHANGES)))
    elif goal.flip:
        most = last((Fraction(0), *FLIPS), lambda flip: can_be_met(replace(goal, flip=flip)))
        ways.append(WayOut("flip", goal.flip, most))
    if goal.year is not None:
        windows = range(goal.answers.window, goal.rounds + 1)
        ways.append(WayOut("window", goal.answers.window, least("window", windows)))
    return tuple(ways)
