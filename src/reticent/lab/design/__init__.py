"""
From a wish to a plan: which mechanism, epsilon and flip are precise enough, and what they cost a device.

    Wish       range, fleet, wanted half-width, and what may be lost
    choose     Wish -> Choice: the design that meets it at the least loss for life, or the nearest there is
    Design     one metric, its losses and its half-width: the figures of `reticent plan check`
    WayOut     what to give up when a wish cannot be met, and by how much

Every figure comes from `reticent.privacy.losses` and `reticent.estimates.expected_half_width`; here they are only
searched, among numbers of three significant digits.
"""

from reticent.lab.design.candidates import Candidate, candidates
from reticent.lab.design.choice import Choice, choose
from reticent.lab.design.designs import Design
from reticent.lab.design.neighbours import Neighbour, neighbours
from reticent.lab.design.section import plan_text, section
from reticent.lab.design.ways_out import WayOut, ways_out
from reticent.lab.design.wish import Wish

__all__ = [
    "Candidate",
    "Choice",
    "Design",
    "Neighbour",
    "WayOut",
    "Wish",
    "candidates",
    "choose",
    "neighbours",
    "plan_text",
    "section",
    "ways_out",
]
