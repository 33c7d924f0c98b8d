"""Randomized response: the one noisy coin under every mechanism, and what the collector sees of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from reticent.errors import ParameterError
from reticent.mechanisms.thresholds import SCALE, Number, ceil_scaled, exact, low_threshold


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """
    A yes/no question answered with a lie now and then.

    A draw *u*, uniform in {0, …, 2⁶⁴ - 1}, answers 1 when u < `high` (the truth is yes) or u < `low`
    (the truth is no), where

        low = ⌈2⁶⁴ / (e^ε + 1)⌉,      high = 2⁶⁴ - low,

    so high/low ≤ e^ε exactly and the answer is ε-LDP with no floating point anywhere.

    >>> coin = RandomizedResponse(1)
    >>> coin.low, coin.high
    (4961093570831980854, 13485650502877570762)
    """

    epsilon: Fraction
    low: int = field(init=False)
    high: int = field(init=False)

    def __init__(self, epsilon: Number) -> None:
        parameter = exact(epsilon, "epsilon")
        if not 0 < parameter <= 40:
            raise ParameterError("epsilon", "a number > 0 and <= 40", epsilon)
        low = low_threshold(parameter)
        if low >= SCALE - low:
            raise ParameterError("epsilon", "a number above 2^-62", epsilon)
        object.__setattr__(self, "epsilon", parameter)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", SCALE - low)


@dataclass(frozen=True, slots=True, init=False)
class Flip:
    """
    Output perturbation: the remembered bit is turned over with probability γ, anew each round (Eq. 14).

    γ is rounded up to a multiple of 2⁻⁶⁴. γ = 0 is allowed and does nothing; γ must stay below 1/2,
    where nothing would be left to estimate from.

    >>> Flip("1/3").threshold == -(-(2**64) // 3)
    True
    """

    probability: Fraction
    threshold: int = field(init=False)

    def __init__(self, probability: Number = 0) -> None:
        gamma = exact(probability, "flip")
        threshold = ceil_scaled(gamma)
        if gamma < 0 or 2 * threshold >= SCALE:
            raise ParameterError(
                "flip",
                "a probability in [0, 1/2)",
                probability,
                "at 1/2 the answer is pure noise; 0.2 is what Windows used",
            )
        object.__setattr__(self, "probability", gamma)
        object.__setattr__(self, "threshold", threshold)

    def chance_of_one(self, threshold: int) -> Fraction:
        """The exact probability that the collector sees 1, given the threshold of the remembered bit."""
        turned = self.threshold
        return Fraction(threshold * (SCALE - turned) + (SCALE - threshold) * turned, SCALE * SCALE)

    def channel(self, response: RandomizedResponse) -> Channel:
        """What the collector sees of `response` after this flip."""
        return Channel(self.chance_of_one(response.low), self.chance_of_one(response.high))


@dataclass(frozen=True, slots=True)
class Channel:
    """
    From a truth between 0 and 1 to the share of ones the collector sees, and back.

    A fleet whose mean truth is *x* shows a share low + x · (high - low) of ones. The estimator inverts
    the same two rationals the devices used, so it is unbiased to the last bit.

    >>> seen = Flip(0).channel(RandomizedResponse(1))
    >>> round(seen.truth(seen.share(0.25)), 12)
    0.25
    """

    low: Fraction
    high: Fraction

    @property
    def contrast(self) -> Fraction:
        """How much of the truth gets through: high - low."""
        return self.high - self.low

    def share(self, truth: Any) -> Any:
        """Expected share of ones for a mean truth (a number or an array)."""
        return float(self.low) + truth * float(self.contrast)

    def truth(self, share: Any) -> Any:
        """The truth that explains a share of ones (a number or an array); may leave [0, 1]."""
        return (share - float(self.low)) / float(self.contrast)
