"""What one round loses, what all rounds lose of a device that never changes, and what a moved change loses."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from reticent.errors import ParameterError
from reticent.mechanisms import Flip, Mechanism
from reticent.privacy.rounding import decimal, precise, upward


def loss_per_round(mechanism: Mechanism, flip: Flip) -> float:
    """
    ε' of one round, after the flip (Theorem 6, Eq. 16).

    Claim: for every pair of values, every cohort and every answer, the probabilities that a device gives this
    answer in one given round differ by a factor of at most e^ε'. With h the exponent of one answer bit and γ
    the flip probability, one bit loses

        h' = ln( (e^h (1-γ) + γ) / ((1-γ) + e^h γ) ),

    and two values change the law of one bit (mean, Hadamard, dBitFlip with d = 1) or of two (dBitFlip with
    d ≥ 2), hence ε' = h' or 2h'. Attained: by the values 0 and m of a mean, by two of the d buckets.

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
    epsilon, bits = mechanism.response.epsilon, mechanism.changed_bits(1)
    return min(upward(bits * epsilon), upward(bits * bit_loss(epsilon, flip.probability, rounds)))


@precise
def loss_of_moved_change(mechanism: Mechanism, flip: Flip, rounds: int = 1) -> float:
    """
    δ·Λ per answer bit, Λ = ln((1-γ)/γ): how well the time of a change is hidden (Theorem 5, tight).

    Claim: take two devices, or two histories of one, whose rounded sequences differ in δ of any number of
    rounds, and any memo. Every sequence of answers then has probabilities that differ by a factor of at most
    e^(δ·d·Λ), with d the answer bits per report: each round in question can show d bits the other way. In
    particular a change that came δ rounds earlier or later. The paper prints δ·ln(1/γ), which is larger.
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
