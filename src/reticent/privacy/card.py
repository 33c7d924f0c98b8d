"""Losses: the four figures of one metric, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from reticent.mechanisms import Flip, Mechanism
from reticent.privacy.figures import upward
from reticent.privacy.histories import loss_of_moved_change
from reticent.privacy.rounds import loss_per_round
from reticent.privacy.widths import lifetime_loss


@dataclass(frozen=True, slots=True)
class Losses:
    """
    What one metric may tell of a device, four ways; each is ε in e^ε, never below the true value.

    They answer different questions. None of them bounds what a device loses that changes often, over many
    rounds, against any other history: no figure does, see `loss_of_any_histories`.
    """

    round: float
    """ε', one round, every pair of values (`loss_per_round`)."""
    constant: float
    """All rounds together, a device that never changes against another that never changes."""
    lifetime: float
    """All rounds together, two devices that share a behaviour pattern, of any width (`loss_by_width`)."""
    change_per_round: float
    """What is lost per round that a change is moved in time (`loss_of_moved_change`)."""


def losses(mechanism: Mechanism, flip: Flip) -> Losses:
    """
    The four figures of a metric.

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
    )
