"""Losses over rounds: of a constant device, of a change, of any two histories; the five figures of a metric."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product

from reticent.errors import ParameterError
from reticent.frozen import frozen
from reticent.mechanisms import SCALE, Flip, Mechanism
from reticent_collector.privacy.patterns import lifetime_loss
from reticent_collector.privacy.rounding import decimal, precise, upward

YEAR = 365
"""Rounds in a year of one a day."""


def loss_per_round(mechanism: Mechanism, flip: Flip) -> float:
    """
    ε' of one round, after the flip (Theorem 6, Eq. 15).

    Claim: for every pair of values, every cohort and every answer, the probabilities that a device gives this
    answer in one given round differ by a factor of at most e^ε'. With h the exponent of one answer bit and γ
    the flip probability, one bit loses

        h' = ln( (e^h (1-γ) + γ) / ((1-γ) + e^h γ) ),

    and two values change the law of one bit (mean, Hadamard, dBitFlip with d = 1) or of two (dBitFlip with
    d ≥ 2), hence ε' = h' or 2h'. Attained: by the values 0 and m of a mean, by two of the d buckets.
    Theorem `one_round` of proofs/.

    Observer: sees this round only, and the cohort; not the device's alpha, memo or other rounds. Not covered:
    a second round. The memo is the same in both, so losses add up to `loss_of_constant_device` for a value
    that stays, and to more for one that changes; this figure is never one for a lifetime.

    >>> from reticent.mechanisms import OneBitMean
    >>> round(loss_per_round(OneBitMean(1, 24), Flip(0.2)), 5)
    0.56945
    """
    return loss_of_constant_device(mechanism, flip, rounds=1)


@precise
def loss_of_constant_device(mechanism: Mechanism, flip: Flip, rounds: int) -> float:
    """
    ε_T: what T rounds lose of a device whose value never changes.

    Claim: for every pair of values, each held through all T rounds, every cohort and every sequence of
    answers, probabilities differ by a factor of at most e^ε_T, where one answer bit contributes

        h_T = ln( (e^h (1-γ)^T + γ^T) / ((1-γ)^T + e^h γ^T) )

    and one or two independent bits differ, as in `loss_per_round`. It grows with T from ε' to h (or 2h) and
    never beyond: all rounds are noisy copies of one remembered answer. Attained, by the answer that is the
    same in every round. Without flips it is h (or 2h) from the first round on.
    Theorems `constant_device` and `constant_device_forever` of proofs/.

    Observer: sees all T rounds and knows they are one device's (the ids of a report do not say so, a network
    might). Not covered: a device that changes, compared with anybody: `loss_by_width`, `loss_of_switch`,
    `loss_of_any_histories`.

    >>> from reticent.mechanisms import OneBitMean
    >>> day = OneBitMean(1, 24)
    >>> [round(loss_of_constant_device(day, Flip(0.2), rounds), 3) for rounds in (1, 2, 3, 5, 10)]
    [0.569, 0.866, 0.964, 0.998, 1.0]
    """
    if rounds < 1:
        raise ParameterError("rounds", "a whole number >= 1", rounds)
    if mechanism.sampled_only and flip.probability:
        raise ParameterError("flip", "0, since answers are sampled", flip.probability)
    epsilon = mechanism.response.epsilon
    bits = mechanism.changed_bits(1)
    return min(upward(bits * epsilon), upward(bits * bit_loss(epsilon, flip.probability, rounds)))


@precise
def loss_of_moved_change(mechanism: Mechanism, flip: Flip, rounds: int = 1) -> float:
    """
    δ·Λ per answer bit, Λ = ln((1-γ)/γ): how well the time of a change is hidden (Theorem 5, tight).

    Claim: take two devices, or two histories of one, whose rounded sequences differ in δ of any number of
    rounds, and any memo. Every sequence of answers then has probabilities that differ by a factor of at most
    e^(δ·d·Λ), with d the answer bits per report: each round in question can show d bits the other way. In
    particular a change that came δ rounds earlier or later. The paper prints δ·ln(1/γ), which is larger.
    Theorem `moved_change` of proofs/.
    Attained exactly given a memo whose answers differ in all d bits; averaged over memos it is approached as
    the rounds before and after the change grow, so no smaller figure would do.

    Observer: sees all rounds, linked, and may know the memo. Not covered: whether there was a change at all
    (`loss_of_switch`). Infinite without flips: then the round of a change shows.

    >>> from reticent.mechanisms import OneBitMean
    >>> round(loss_of_moved_change(OneBitMean(1, 24), Flip(0.2), rounds=2), 4)
    2.7726
    """
    if rounds < 1:
        raise ParameterError("rounds", "a whole number >= 1", rounds)
    return upward(rounds * mechanism.bits * change_odds(flip.probability))


@precise
def bit_loss(epsilon: Fraction, gamma: Fraction, rounds: int = 1) -> Decimal:
    """h_T of one remembered bit of exponent h, seen through `rounds` flips of probability γ."""
    if gamma == 0:
        return decimal(epsilon)
    odds = decimal(epsilon).exp()
    turned = decimal(gamma / (1 - gamma)) ** rounds
    return ((odds + turned) / (1 + odds * turned)).ln()


@precise
def change_odds(gamma: Fraction) -> Decimal:
    """Λ = ln((1-γ)/γ): how much one answer bit tells about the remembered one; infinite without flips."""
    return decimal((1 - gamma) / gamma).ln() if gamma else Decimal("Infinity")


@frozen()
class SwitchLoss:
    """Both directions of `loss_of_switch`; a pure loss is the larger one."""

    switched_over_constant: float
    """How much likelier any sequence of answers can be for the device that switched: it shows a switch."""
    constant_over_switched: float
    """How much likelier any sequence of answers can be for the device that stayed: it shows none."""

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
        high = mechanism.response.high
        all_classes = range(mechanism.classes)
        asked = [number for number in all_classes if high in mechanism.thresholds(number, 0)]
        classes = asked[:3] + [number for number in all_classes if number not in asked][:2]
    laws = (
        [mechanism.shares(number) for number in classes],
        [
            tuple(decimal(Fraction(one, SCALE)) for one in mechanism.thresholds(number, 0))
            for number in classes
        ],
    )
    worst = [Decimal(0), Decimal(0)]
    for rows, gamma in zip(laws, gammas, strict=True):
        odds = decimal(gamma / (1 - gamma))
        faded = odds**before, odds**after
        for (first, second), constant in product(permutations(rows, 2), rows):
            shares = zip(first, second, constant, strict=True)
            bits = [_bit_switch(of_bit, faded) for of_bit in shares]
            worst = [
                max(old, sum(new, Decimal(0)))
                for old, new in zip(worst, zip(*bits, strict=True), strict=True)
            ]
    return SwitchLoss(*(max(still, upward(loss)) for loss in worst))


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
    so no sequence of R answers is likelier than (1-γ)^R. For V, take any alpha, and let it use w ≤ min(c, R)
    classes. With probability at least (e^h + 1)^-w all of them remember the same bit, the one that most of the
    R answers show, and then at most ⌊R/2⌋ answers are flips: the sequence has probability at least
    (e^h + 1)^-w · (1-γ)^R · e^(-Λ⌊R/2⌋). This holds for every alpha of V, hence on average. The second bound
    takes γ^R as the least there can be. Theorem `any_two_histories` of proofs/.

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


@lru_cache(maxsize=1024)
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


@frozen()
class Losses:
    """Five losses of one metric; each is ε in e^ε, never below the true value."""

    round: float  #: Any two values, in one round (`loss_per_round`)
    constant: float  #: Any two values that never change, all rounds together (`loss_of_constant_device`)
    lifetime: float  #: Devices of the same pattern, all rounds together (`loss_by_width`)
    change_per_round: float  #: Histories that differ in one round (`loss_of_moved_change`)
    any_history: float  #: Any two histories of a number of rounds (`loss_of_any_histories`)


def losses(mechanism: Mechanism, flip: Flip, rounds: int = YEAR) -> Losses:
    """
    The five figures of a metric; the last is for histories of `rounds` rounds.

    `constant` is the limit of `loss_of_constant_device` over rounds: ε, except for dBitFlip with one bit in
    the paper's variant, whose bits use h = ε/2 and therefore lose only ε/2, and this is what is reported.
    `lifetime` is `loss_by_width` at the largest width: at most 2ε for a mean on one step, 2ε for a Hadamard
    bit, d·ε for dBitFlip with d ≥ 2.

    >>> from reticent.mechanisms import OneBitMean
    >>> card = losses(OneBitMean(1, 86_400), Flip(0.2))
    >>> round(card.round, 4), card.constant, card.lifetime, round(card.change_per_round, 4)
    (0.5694, 1.0, 2.0, 1.3863)
    """
    return Losses(
        round=loss_per_round(mechanism, flip),
        constant=upward(mechanism.changed_bits(1) * mechanism.response.epsilon),
        lifetime=lifetime_loss(mechanism),
        change_per_round=loss_of_moved_change(mechanism, flip),
        any_history=loss_of_any_histories(mechanism, flip, rounds),
    )
