"""
From a wish to a plan: which mechanism, epsilon and flip are precise enough, and what they cost a device.

    Wish       range, fleet, wanted half-width, and what may be lost
    choose     Wish -> Choice: the design that meets it at the least same-pattern loss, or the nearest there is
    Design     one metric, its losses and its half-width: the figures of `reticent plan check`
    WayOut     what to give up when a wish cannot be met, and by how much

Every figure comes from `reticent.privacy.losses` and `reticent.estimates.expected_half_width`; here they are only
searched, among numbers of three significant digits.
"""

from reticent.lab.design.alternatives import Neighbour, WayOut, neighbours, ways_out
from reticent.lab.design.choice import Candidate, Choice, Design, candidates, choose
from reticent.lab.design.section import check_command, file_name, plan_text, section
from reticent.lab.design.wish import MOST_BUCKETS, Wish

__all__ = [
    "MOST_BUCKETS",
    "Candidate",
    "Choice",
    "Design",
    "Neighbour",
    "WayOut",
    "Wish",
    "candidates",
    "check_command",
    "choose",
    "file_name",
    "neighbours",
    "plan_text",
    "section",
    "ways_out",
]
