"""Ratios of whole numbers, their logarithms, and a loss beside its claim."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from reticent.privacy import upward

_DIGITS = Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)


@dataclass(frozen=True, slots=True)
class Ratio:
    """
    How much likelier something is: two whole numbers, not reduced; 0 below means without bound.

    >>> Ratio(3, 2) < Ratio(2, 1), Ratio(5, 0).logarithm
    (True, Decimal('Infinity'))
    """

    above: int
    below: int

    def __lt__(self, other: Ratio) -> bool:
        if self.below == 0 or other.below == 0:
            return self.below != 0 and other.below == 0
        return self.above * other.below < other.above * self.below

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(self.above * other.above, self.below * other.below)

    @property
    def logarithm(self) -> Decimal:
        """The natural logarithm, to 100 digits."""
        if self.below == 0:
            return Decimal("Infinity")
        return _DIGITS.subtract(_DIGITS.ln(Decimal(self.above)), _DIGITS.ln(Decimal(self.below)))


EVEN = Ratio(1, 1)


@dataclass(frozen=True, slots=True)
class Enumerated:
    """One loss, computed from all outputs, beside what is claimed of it."""

    subject: str
    """A metric, "group NAME", or "whole plan"."""
    what: str
    """Which pairs of histories."""
    claim: float
    loss: float
    """Never below the true value; the judgement is made with 100 digits, before rounding."""
    above: bool
    """Whether the loss is larger than the claim: no chance is involved."""
    over: str
    """What was gone through to find it."""

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self)


def enumerated(
    subject: str, what: str, claim: float | Fraction, loss: Ratio | Decimal, over: str
) -> Enumerated:
    """A loss judged against a claim, both exact."""
    found = loss.logarithm if isinstance(loss, Ratio) else loss
    if isinstance(claim, Fraction):
        limit = _DIGITS.divide(Decimal(claim.numerator), Decimal(claim.denominator))
    else:
        limit = Decimal(claim)
    figure = upward(claim) if isinstance(claim, Fraction) else claim
    loss_figure = math.inf if found.is_infinite() else max(0.0, upward(found))
    return Enumerated(subject, what, figure, loss_figure, found > limit, over)


def total(losses: list[Decimal]) -> Decimal:
    """Losses of independent answers, added with 100 digits."""
    result = Decimal(0)
    for each in losses:
        result = _DIGITS.add(result, each)
    return result
