"""
The noisy coin of every mechanism, and what the collector sees of it: exact numbers throughout.

No floating point on a device. A parameter is a rational; e^ε is computed once with `decimal` at 60 digits, and
a coin is compared with an integer in units of 2⁻⁶⁴, rounded to the private side.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from reticent.errors import ParameterError
from reticent.frozen import freeze, frozen

SCALE = 1 << 64
"""One whole, in the unit of every threshold: a draw is uniform in {0, …, 2⁶⁴ - 1}."""

Number = int | float | str | Decimal | Fraction

_DIGITS = Context(prec=60)
_CEILING = Context(prec=60, rounding=ROUND_CEILING)
_FLOOR = Context(prec=60, rounding=ROUND_FLOOR)


def exact(number: Number, name: str = "number") -> Fraction:
    """
    The rational a person meant by `number`: 0.1 is one tenth, "1/3" is one third.

    >>> exact(0.1), exact("1/3"), exact(2)
    (Fraction(1, 10), Fraction(1, 3), Fraction(2, 1))
    """
    if type(number) is Fraction:
        return number
    try:
        if isinstance(number, float):
            return Fraction(repr(float(number)))
        if isinstance(number, str):
            if len(number) > 64:
                raise ValueError
            number = Fraction(number) if "/" in number else Decimal(number)
        if isinstance(number, Decimal) and not -400 < number.adjusted() < 400:
            raise ValueError
        return Fraction(number)
    except (ValueError, ArithmeticError, TypeError):
        text = repr(number)
        quoted = text if len(text) <= 40 else text[:37] + "..."
        raise ParameterError(name, "a finite number of sensible size", quoted) from None


def whole_if_possible(number: Fraction) -> int | Fraction:
    """An integer where the rational is one: integers compare ten times faster."""
    return number.numerator if number.denominator == 1 else number


@lru_cache(maxsize=1024)
def exponential(exponent: Fraction) -> Decimal:
    """e^exponent to 60 significant digits."""
    quotient = _DIGITS.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    return _DIGITS.exp(quotient)


def exponential_below(exponent: Fraction) -> Decimal:
    """A number that is not above e^exponent: `Context.exp` rounds to the nearest, whatever its rounding mode."""
    quotient = _FLOOR.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    return _FLOOR.next_minus(_FLOOR.exp(quotient))


@frozen()
class RandomizedResponse:
    """
    A yes/no question answered with a lie now and then.

    A draw *u*, uniform in {0, …, 2⁶⁴ - 1}, answers 1 when u < `high` (the truth is yes) or u < `low` (the truth
    is no), where

        low = ⌈2⁶⁴ / (e^ε + 1)⌉,      high = 2⁶⁴ - low,

    so high/low ≤ e^ε exactly and the answer is ε-LDP with no floating point anywhere. The chance of a lie is
    rounded up: every step of the arithmetic errs towards a larger `low`, so it is never too small, and at most
    one too large for an epsilon that is aimed at an integer with the last of its 64 characters.

    >>> coin = RandomizedResponse(1)
    >>> coin.low, coin.high
    (4961093570831980854, 13485650502877570762)
    """

    epsilon: Fraction
    low: int
    high: int

    def __init__(self, epsilon: Number) -> None:
        parameter = exact(epsilon, "epsilon")
        if not 0 < parameter <= 40:
            raise ParameterError("epsilon", "a number > 0 and <= 40", epsilon)
        odds = _FLOOR.add(exponential_below(parameter), Decimal(1))
        low = int(_CEILING.divide(Decimal(SCALE), odds).to_integral_value(rounding=ROUND_CEILING))
        if low >= SCALE - low:
            raise ParameterError("epsilon", "a number above 2^-62", epsilon)
        freeze(self, epsilon=parameter, low=low, high=SCALE - low)


@frozen()
class Flip:
    """
    Output perturbation: the remembered bit is flipped with probability γ, independently each round (Eq. 13).

    γ is rounded up to a multiple of 2⁻⁶⁴. γ = 0 is allowed and does nothing; γ must stay below 1/2, where
    nothing would be left to estimate from.

    >>> Flip("1/3").threshold == -(-(2**64) // 3)
    True
    """

    probability: Fraction
    threshold: int

    def __init__(self, probability: Number = 0) -> None:
        gamma = exact(probability, "flip")
        threshold = -((-gamma.numerator * SCALE) // gamma.denominator)
        if gamma < 0 or 2 * threshold >= SCALE:
            raise ParameterError(
                "flip",
                "a probability in [0, 1/2)",
                probability,
                "at 1/2 the answer is pure noise; 0.2 is what Windows used",
            )
        freeze(self, probability=gamma, threshold=threshold)

    def chance_of_one(self, threshold: int) -> Fraction:
        """The exact probability that the collector sees 1, given the threshold of the remembered bit."""
        turned = self.threshold
        return Fraction(threshold * (SCALE - turned) + (SCALE - threshold) * turned, SCALE * SCALE)

    def channel(self, response: RandomizedResponse) -> Channel:
        """What the collector sees of `response` after this flip."""
        return _channel(self, response.low, response.high)


@frozen()
class Channel:
    """
    From a truth between 0 and 1 to the share of ones the collector sees, and back.

    A fleet whose mean truth is *x* shows a share low + x · (high - low) of ones. The estimator inverts the same
    two rationals the devices used; it is unbiased up to the 2/2⁶⁴ by which whole alphas and thresholds fall short
    of Eq. 1, and the rounding of floats.

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
        low, contrast = _line(self.low, self.high)
        return low + truth * contrast

    def truth(self, share: Any) -> Any:
        """The truth that explains a share of ones (a number or an array); may leave [0, 1]."""
        low, contrast = _line(self.low, self.high)
        return (share - low) / contrast


@lru_cache(maxsize=1024)
def _channel(flip: Flip, low: int, high: int) -> Channel:
    return Channel(flip.chance_of_one(low), flip.chance_of_one(high))


@lru_cache(maxsize=1024)
def _line(low: Fraction, high: Fraction) -> tuple[float, float]:
    """A channel's low and contrast as floats: exact arithmetic would take half the time of an estimate."""
    return float(low), float(high - low)
