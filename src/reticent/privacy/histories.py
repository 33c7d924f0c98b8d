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
from reticent.privacy.upward import decimal, precise, upward

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
def loss_of_any_histories(mechanism: Mechanism, flip: Flip, uses: Sequence[int]) -> float:
    """
    A bound for devices that change as they like.

    Claim: let V be a device whose rounded sequence uses its w classes T_1, …, T_w times (`uses`), and U any
    device with as many rounds, whatever its values. Every sequence of answers is at most e^loss times
    likelier for U than for V, where with h the exponent of one bit, d the answer bits and Λ = ln((1-γ)/γ)

        loss = d · ( w ln(e^h + 1)  +  Λ Σ_a ⌊T_a / 2⌋ ).

    Proof: no memo makes a sequence of T answer bits likelier than (1-γ)^T. For V, each class remembers the
    bit that most of its answers show with probability at least 1/(e^h + 1), and then at most half of its
    answers are flips. An upper bound, not attained in general; for a grid of one step, where w ≤ 2, its rate
    of Λ/2 per round is the right one.

    Observer: sees all rounds, linked. The bound is one-sided: for both directions take the larger of the two
    devices' figures. It is given V's rounded sequence; for V's values, take the worst over its alphas. It
    grows with the rounds without end: flips and memo together protect devices that seldom change.

    >>> from reticent.mechanisms import OneBitMean
    >>> round(loss_of_any_histories(OneBitMean(1, 24), Flip(0.2), uses=(5, 5)), 3)
    8.172
    """
    if not uses or min(uses) < 1 or len(uses) > mechanism.classes:
        raise ParameterError("uses", f"1 to {mechanism.classes} whole numbers >= 1", list(uses))
    halves = sum(use // 2 for use in uses)
    memo = len(uses) * (decimal(mechanism.response.epsilon).exp() + 1).ln()
    flips = halves * change_odds(flip.probability) if halves else Decimal(0)
    return upward(mechanism.bits * (memo + flips))


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
