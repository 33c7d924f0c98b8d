"""
What is lost: ε spent per round, over rounds and over metrics, as functions whose docstrings are the claims.

    one round, any two values                              loss_per_round
    all rounds, two values that never change               loss_of_constant_device
    all rounds, devices of one pattern of rounded values   loss_by_width
    the time of a change                                   loss_of_moved_change
    whether there was a change                             loss_of_switch
    any two histories                                      loss_of_any_histories
    several counters that share a limit                    joint_limit_loss, paper_joint_limit_loss
    some of the metrics of a plan                          loss_of_asked
    one window of sampled answers                          loss_of_window
    several metrics or epochs                              compose
    the five figures of a metric                           losses -> Losses
    the promises in words                                  CLAIMS

Each says for which pairs of histories, which observer and how many rounds it holds, and what it does not
cover. Each figure is a float that is never below the true value, neither that of the formula nor that of the
integers a device compares its draws with. All of them need the standard library alone.

A module is loaded when one of its names is used: a device needs two of them.
"""

from typing import TYPE_CHECKING

from reticent import imported_when_used

if TYPE_CHECKING:
    from reticent.privacy.claims import CLAIMS, MEANING, NOT_COVERED
    from reticent.privacy.joint import (
        joint_limit_loss,
        joint_limit_prices,
        loss_of_asked,
        loss_of_window,
        paper_joint_limit_loss,
    )
    from reticent.privacy.loss import (
        Losses,
        change_odds,
        loss_of_any_histories,
        loss_of_constant_device,
        loss_of_moved_change,
        loss_of_switch,
        loss_per_round,
        losses,
    )
    from reticent.privacy.patterns import lifetime_loss, loss_by_width, pattern
    from reticent.privacy.rounding import compose, printed, upward

__all__ = [
    "CLAIMS",
    "MEANING",
    "NOT_COVERED",
    "Losses",
    "change_odds",
    "compose",
    "joint_limit_loss",
    "joint_limit_prices",
    "lifetime_loss",
    "loss_by_width",
    "loss_of_any_histories",
    "loss_of_asked",
    "loss_of_constant_device",
    "loss_of_moved_change",
    "loss_of_switch",
    "loss_of_window",
    "loss_per_round",
    "losses",
    "paper_joint_limit_loss",
    "pattern",
    "printed",
    "upward",
]

__getattr__ = imported_when_used("reticent.privacy", "rounding", "loss", "patterns", "joint", "claims")
