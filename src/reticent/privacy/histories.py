"""What rounds lose between devices that change at different times, which only flips can hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Flip, Mechanism
from reticent.privacy.loss import change_odds, loss_of_constant_device
from reticent.privacy.rounding import decimal, precise, upward

_Row = tuple[Decimal, ...]
"""P(1) of each remembered answer bit of one class."""


@dataclass(frozen=True, slots=True)
class SwitchLoss:
    """Both directions of `loss_of_switch`; a pure loss is the larger one."""

    switched_over_constant: float
    """How much likelier any sequence of answers can be for the device that switched: shows that it did."""
    constant_over_switched: float
    """How much likelier any sequence of answers can be for the device that stayed: shows it did not."""

    @property
    def worst(self) -> float:
        """The larger direction."""
        return max(self.switched_over_constant, self.constant_over_switched)


@precise
def loss_of_switch(mechanism: Mechanism, flip: Flip, before: int, after: int) -> SwitchLoss:
    """
    A device that never changes against one that changes at most once, after a known number of rounds.

    Claim: for every value held through t₁ + t₂ rounds, every pair of values held through the first t₁ =
    `before` and the last t₂ = `after` rounds, every cohort and every sequence of answers. With P_a, P_b the
    chances of a remembered 1 in the two classes of the switching device, P_c that of the constant one, and
    ρ = γ/(1-γ), one answer bit can show the ratio

        (P_a + (1-P_a) x) (P_b + (1-P_b) y) / (P_c + (1-P_c) x y),     x = ρ^(±t₁), y = ρ^(±t₂),

    (a sequence of answers enters through its ones in each part alone, and the ratio is monotone in each, so
    the extremes are at these corners), and bits of one report are independent. The figure is the worst over
    all classes a ≠ b and c, and over `loss_of_constant_device`, which is what remains when alpha rounds both
    values to one cell. Exact: attained by values on the grid. One direction grows like min(t₁, t₂)·Λ, the
    other stays below ε + ln(e^ε + 1) per bit.

    Observer: sees all rounds, linked. Not covered: two or more changes (`loss_of_any_histories`). Without
    flips the first direction is infinite.

    >>> from reticent.mechanisms import OneBitMean
    >>> loss = loss_of_switch(OneBitMean(1, 24), Flip(0.2), before=2, after=2)
    >>> round(loss.switched_over_constant, 2), round(loss.constant_over_switched, 2)
    (2.19, 1.14)
    """
    if before < 1 or after < 1:
        raise ParameterError("before, after", "whole numbers >= 1", (before, after))
    still = loss_of_constant_device(mechanism, flip, before + after)
    gammas = flip.probability, Fraction(flip.threshold, SCALE)
    if mechanism.kind == "mean":
        classes = sorted({0, 1, mechanism.classes - 2, mechanism.classes - 1})
    else:
        # Classes of a histogram up to symmetry: three that some bit asks about and two that none does.
        high, all_classes = mechanism.response.high, range(mechanism.classes)
        asked = [number for number in all_classes if high in mechanism.thresholds(number, 0)]
        classes = asked[:3] + [number for number in all_classes if number not in asked][:2]
    laws = (
        [mechanism.shares(number) for number in classes],
        [
            tuple(decimal(Fraction(one, SCALE)) for one in mechanism.thresholds(number, 0))
            for number in classes
        ],
    )
    ratios = [_switch(rows, gamma, before, after) for rows, gamma in zip(laws, gammas, strict=True)]
    return SwitchLoss(
        max(still, *(upward(up) for up, _ in ratios)),
        max(still, *(upward(down) for _, down in ratios)),
    )


@precise
def loss_of_any_histories(mechanism: Mechanism, flip: Flip, rounds: int) -> float:
    """
    A bound for any two histories of R = `rounds` rounds, whatever the devices do in them.

    Claim: for every pair of histories of R values each, every cohort and every sequence of answers,
    probabilities differ by a factor of at most e^loss. With h the exponent of one answer bit, d the answer
    bits, c the classes a device may use and Λ = ln((1-γ)/γ),

        loss = d · min( min(c, R) · ln(e^h + 1) + ⌊R/2⌋ · Λ,   R · Λ ),

    and for R = 1 it is `loss_per_round`.

    Proof, for a device U against a device V and one answer bit; bits are independent given the classes.
    Whatever U remembers, each answer shows the remembered bit with probability 1-γ or its opposite with γ,
    so no sequence of R answers is likelier than (1-γ)^R. For V, take any alpha, and let it use its classes
    T_1, …, T_w times, w ≤ min(c, R). With probability at least 1/(e^h + 1) each, independently, every class
    remembers the bit that most of its answers show, and then at most ⌊T_a/2⌋ of them are flips: the
    sequence has probability at least (e^h + 1)^-w · (1-γ)^R · e^(-Λ Σ⌊T_a/2⌋), and Σ⌊T_a/2⌋ ≤ ⌊R/2⌋. This
    holds for every alpha of V, hence on average. The second bound takes γ^R as the least there can be.

    An upper bound, not attained in general; on a grid of one step its rate of Λ/2 per round is the right one.
    Several metrics add up, with a joint limit or without: the bound holds for whatever values are left after
    clamping.

    Observer: sees all rounds, linked. Not covered: a new memo within these rounds (a `forget`, other privacy
    parameters), whose loss adds. Infinite without flips from two rounds on: a device that stays can never
    send two different answers.

    >>> from reticent.mechanisms import OneBitMean
    >>> [round(loss_of_any_histories(OneBitMean(1, 24), Flip(0.2), rounds), 2) for rounds in (1, 10, 1460)]
    [0.57, 9.56, 1014.62]
    """
    if rounds < 1:
        raise ParameterError("rounds", "a whole number >= 1", rounds)
    if rounds == 1:
        return loss_of_constant_device(mechanism, flip, 1)
    change = change_odds(flip.probability)
    memo = min(mechanism.classes, rounds) * (decimal(mechanism.response.epsilon).exp() + 1).ln()
    return upward(mechanism.bits * min(memo + rounds // 2 * change, rounds * change))


@precise
def _switch(rows: Sequence[_Row], gamma: Fraction, before: int, after: int) -> tuple[Decimal, Decimal]:
    """The worst over classes a ≠ b and c, each direction by itself."""
    odds = decimal(gamma / (1 - gamma))
    faded = odds**before, odds**after
    known: dict[tuple[Decimal, Decimal, Decimal], tuple[Decimal, Decimal]] = {}
    worst = Decimal(0), Decimal(0)
    for (i, first), (j, second), still in product(enumerate(rows), enumerate(rows), rows):
        if i == j:
            continue
        total = Decimal(0), Decimal(0)
        for shares in zip(first, second, still, strict=True):
            if shares not in known:
                known[shares] = _bit_switch(shares, faded)
            total = total[0] + known[shares][0], total[1] + known[shares][1]
        worst = max(worst[0], total[0]), max(worst[1], total[1])
    return worst


def _bit_switch(
    shares: tuple[Decimal, Decimal, Decimal], faded: tuple[Decimal, Decimal]
) -> tuple[Decimal, Decimal]:
    """Both directions of one answer bit, at the worst of the four corners: answers that agree in each part."""
    first, second, still = shares
    up, down = Decimal(0), Decimal(0)
    one_or_faded = [((Decimal(1), fade), (fade, Decimal(1))) for fade in faded]
    for (one, zero), (later_one, later_zero) in product(*one_or_faded):
        switched = (first * one + (1 - first) * zero) * (second * later_one + (1 - second) * later_zero)
        constant = still * one * later_one + (1 - still) * zero * later_zero
        up = max(up, switched / constant if constant else Decimal("Infinity"))
        down = max(down, constant / switched)
    return up.ln(), down.ln()
