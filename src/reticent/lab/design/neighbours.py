"""What would come of a little more or less of everything: the neighbours of a design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from reticent.lab.design.candidates import candidates
from reticent.lab.design.choice import Choice
from reticent.lab.design.designs import Design, make
from reticent.lab.design.wish import LEAST_EPSILON, MOST_DEVICES, MOST_EPSILON

FLIPS = tuple(Fraction(flip) for flip in ("0", "0.05", "0.1", "0.2", "0.3", "0.4"))
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

    Other mechanisms have the epsilon at which they lose as much for life as the chosen one, or a little less.

    >>> from reticent.lab.design import Wish, choose
    >>> around = neighbours(choose(Wish(max_value=24, devices=10_000, epsilon=1)))
    >>> print(", ".join(neighbour.label for neighbour in around))
    chosen, epsilon / 2, epsilon × 2, fewer flips, more flips, 10 steps, devices / 2, devices × 2
    """
    return (
        Neighbour("chosen", choice.chosen),
        *_epsilons(choice),
        *_flips(choice),
        *_mechanisms(choice),
        *_fleets(choice),
    )


def _epsilons(choice: Choice) -> Iterator[Neighbour]:
    chosen = choice.chosen
    for label, epsilon in (("epsilon / 2", chosen.epsilon / 2), ("epsilon × 2", chosen.epsilon * 2)):
        if LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            yield Neighbour(label, make(choice.wish, chosen.candidate, epsilon, chosen.flip))


def _flips(choice: Choice) -> Iterator[Neighbour]:
    chosen = choice.chosen
    fewer = [flip for flip in FLIPS if flip < chosen.flip][-1:]
    more = [flip for flip in FLIPS if flip > chosen.flip][:1]
    for label, flips in (("fewer flips", fewer), ("more flips", more)):
        for flip in flips:
            yield Neighbour(label, make(choice.wish, chosen.candidate, chosen.epsilon, flip))


def _mechanisms(choice: Choice) -> Iterator[Neighbour]:
    wish, chosen = choice.wish, choice.chosen
    limit = Fraction(chosen.losses.lifetime)
    for each in candidates(wish):
        if each == chosen.candidate or each.bits > MOST_BITS:
            continue
        flip, epsilon = each.flip(wish), each.most_epsilon(wish, limit)
        if flip is not None and epsilon is not None:
            label = f"{each.steps} steps" if each.steps > 1 else "instead"
            yield Neighbour(label, make(wish, each, epsilon, flip))


def _fleets(choice: Choice) -> Iterator[Neighbour]:
    wish, chosen = choice.wish, choice.chosen
    for label, devices in (("devices / 2", wish.devices // 2), ("devices × 2", wish.devices * 2)):
        if wish.segments <= devices <= MOST_DEVICES:
            other = replace(wish, devices=devices)
            yield Neighbour(label, make(other, chosen.candidate, chosen.epsilon, chosen.flip))
