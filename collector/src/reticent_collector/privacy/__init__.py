"""
What is lost, exactly: ε spent per round, over rounds and over metrics, as functions whose docstrings are the claims.

    one round, any two values                              loss_per_round
    all rounds, two values that never change               loss_of_constant_device
    all rounds, devices of one pattern of rounded values   loss_by_width
    the time of a change                                   loss_of_moved_change
    whether there was a change                             loss_of_switch
    any two histories                                      loss_of_any_histories
    several counters that share a limit                    joint_limit_loss, paper_joint_limit_loss
    some of the metrics of a plan                          loss_of_asked
    one window of sampled answers                          loss_of_window
    the five figures of a metric                           losses -> Losses
    all that a plan costs                                  privacy_card -> PrivacyCard
    the promises in words                                  CLAIMS

Each says for which pairs of histories, which observer and how many rounds it holds, and what it does not
cover. Each figure is a float that is never below the true value, neither that of the formula nor that of the
integers a device compares its draws with. A device counts with simpler bounds, those of `reticent.losses`.
"""

from reticent_collector.privacy.card import PrivacyCard, privacy_card
from reticent_collector.privacy.claims import CLAIMS, MEANING
from reticent_collector.privacy.joint import (
    joint_limit_loss,
    joint_limit_prices,
    loss_of_asked,
    loss_of_window,
    paper_joint_limit_loss,
)
from reticent_collector.privacy.loss import (
    Losses,
    change_odds,
    loss_of_any_histories,
    loss_of_constant_device,
    loss_of_moved_change,
    loss_of_switch,
    loss_per_round,
    losses,
)
from reticent_collector.privacy.patterns import loss_by_width, pattern
from reticent_collector.privacy.rounding import upward

__all__ = [
    "CLAIMS",
    "MEANING",
    "Losses",
    "PrivacyCard",
    "change_odds",
    "joint_limit_loss",
    "joint_limit_prices",
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
    "privacy_card",
    "upward",
]
