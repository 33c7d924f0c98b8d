"""A design: one metric with the figures that `reticent plan check` would print for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from reticent.estimates.expected import expected_half_width
from reticent.lab.design.candidates import EPSILONS, Candidate
from reticent.lab.design.ladder import first
from reticent.lab.design.wish import Wish
from reticent.plan import Metric
from reticent.privacy import Losses, losses


@dataclass(frozen=True)
class Design:
    """
    A metric for a fleet, what it loses and how precise it is.

    `half_width` is at the truth the wish expects, `worst_half_width` at the worst there can be; they are the
    same when it expects none.
    """

    candidate: Candidate
    metric: Metric
    devices: int
    """How many there are; an estimate has its segment's share of them."""
    losses: Losses
    half_width: float
    worst_half_width: float

    @property
    def epsilon(self) -> Fraction:
        """ε of the remembered answer."""
        return self.metric.mechanism.epsilon

    @property
    def flip(self) -> Fraction:
        """γ, the flip probability."""
        return self.metric.flip.probability


def half_width(wish: Wish, metric: Metric) -> float:
    """The half-width that a wish is about: of one segment, at the truth it expects."""
    at = None if wish.expected is None else float(wish.expected)
    return expected_half_width(metric, wish.reports, wish.confidence, at)


def make(wish: Wish, candidate: Candidate, epsilon: Fraction, flip: Fraction) -> Design:
    """A candidate with all its parameters, and its figures."""
    metric = candidate.metric(wish, epsilon, flip)
    return Design(
        candidate=candidate,
        metric=metric,
        devices=wish.devices,
        losses=losses(metric.mechanism, metric.flip),
        half_width=half_width(wish, metric),
        worst_half_width=half_width(replace(wish, expected=None), metric),
    )


def least_epsilon(wish: Wish, candidate: Candidate, flip: Fraction) -> Fraction | None:
    """The smallest epsilon that is precise enough; None when no epsilon of a plan is."""
    wanted = wish.half_width
    if wanted is None:
        return None
    return first(EPSILONS, lambda epsilon: half_width(wish, candidate.metric(wish, epsilon, flip)) <= wanted)
