"""
What is lost: ε spent per round, over rounds and over metrics, as functions whose docstrings are the claims.

    one round, any two values                              loss_per_round
    all rounds, two values that never change               loss_of_constant_device
    all rounds, two devices of one behaviour pattern       loss_by_width, width_bound
    the time of a change                                   loss_of_moved_change
    whether there was a change                             loss_of_switch
    any two histories                                      loss_of_any_histories
    several counters that share a limit                    joint_limit_loss, paper_joint_limit_loss
    several metrics or epochs                              compose
    the card of a metric                                   losses -> Losses

Each says for which pairs of histories, which observer and how many rounds it holds, and what it does not
cover. Each figure is a float that is never below the true value, neither that of the formula nor that of the
integers a device compares its draws with. All of them need the standard library alone.

Two modules need NumPy and are imported by name: `reticent.lab.central` (what published counts lose) and the
arrays of `reticent.privacy.patterns` (how many devices share a behaviour pattern).
"""

from reticent.privacy.behaviour import pattern, width
from reticent.privacy.card import Losses, losses
from reticent.privacy.figures import compose, upward
from reticent.privacy.histories import SwitchLoss, loss_of_any_histories, loss_of_moved_change, loss_of_switch
from reticent.privacy.joint import joint_limit_loss, paper_joint_limit_loss
from reticent.privacy.rounds import loss_of_constant_device, loss_per_round
from reticent.privacy.widths import loss_by_width, width_bound

__all__ = [
    "Losses",
    "SwitchLoss",
    "compose",
    "joint_limit_loss",
    "loss_by_width",
    "loss_of_any_histories",
    "loss_of_constant_device",
    "loss_of_moved_change",
    "loss_of_switch",
    "loss_per_round",
    "losses",
    "paper_joint_limit_loss",
    "pattern",
    "upward",
    "width",
    "width_bound",
]
