"""The design that meets a wish, or comes nearest to it."""

from __future__ import annotations

from dataclasses import dataclass

from reticent.lab.design.candidates import Candidate, candidates
from reticent.lab.design.designs import Design, least_epsilon, make
from reticent.lab.design.wish import Wish


@dataclass(frozen=True)
class Choice:
    """What was wished for, what comes of it, and whether that is enough."""

    wish: Wish
    chosen: Design
    met: bool


def choose(wish: Wish) -> Choice:
    """
    The design that is precise enough at the least loss for life, or else the most precise within the limit.

    Each candidate gets the flip that the wish asks for and the smallest epsilon of three significant digits
    that reaches the half-width. Of those within the limit of privacy the one that loses least for life is
    chosen, the more precise of two that lose the same. The limit is never exceeded: when nothing within it is
    precise enough, the narrowest interval within it is the answer, and `met` is False. Mechanisms are thus
    compared at equal loss for life, not at equal epsilon: ε of dBitFlip with d bits costs d·ε for life.

    >>> found = choose(Wish(max_value=21_600, devices=100_000, half_width=300, epsilon=1))
    >>> found.met, float(found.chosen.epsilon), round(found.chosen.half_width, 1)
    (True, 0.783, 299.9)
    """
    precise = [design for each in eligible(wish) if (design := _precise_enough(wish, each))]
    if precise:
        least = min(precise, key=lambda design: (design.losses.lifetime, design.half_width))
        return Choice(wish, least, met=True)
    nearest = min(most_precise(wish), key=lambda design: (design.half_width, design.losses.lifetime))
    return Choice(wish, nearest, met=wish.half_width is None)


def eligible(wish: Wish) -> list[Candidate]:
    """The candidates that may be chosen."""
    return [each for each in candidates(wish) if not each.for_comparison]


def most_precise(wish: Wish) -> list[Design]:
    """Each eligible candidate with the largest epsilon that is private enough; one bit always has one."""
    settings = [(each, each.most_epsilon(wish, wish.limit), each.flip(wish)) for each in eligible(wish)]
    return [
        make(wish, each, most, flip) for each, most, flip in settings if most is not None and flip is not None
    ]


def _precise_enough(wish: Wish, candidate: Candidate) -> Design | None:
    """A candidate with the least epsilon that is precise enough, if it is private enough."""
    flip, most = candidate.flip(wish), candidate.most_epsilon(wish, wish.limit)
    if flip is None or most is None:
        return None
    epsilon = least_epsilon(wish, candidate, flip)
    return make(wish, candidate, epsilon, flip) if epsilon is not None and epsilon <= most else None
