"""
From a goal to a plan: which mechanism, epsilon and way of answering are precise enough, and what they cost a device.

    Goal       range, fleet, wanted half-width, the promise to devices and what may be lost
    choose     Goal -> Choice: the design that meets it at the least loss, or the nearest there is
    Design     one metric, its losses and its half-width: the figures of `reticent plan check`
    weigh      a goal and recorded values -> a Range each: what clipping and noise cost; `best` of them
    both_ways  the design with remembered and with sampled answers
    WayOut     what to give up when a goal cannot be met, and by how much

Every figure comes from `privacy_card` and `reticent.estimates.expected_half_width`; here they are only searched,
among numbers of three significant digits.
"""

from reticent.lab.design.alternatives import (
    Neighbour,
    Way,
    WayOut,
    both_ways,
    neighbours,
    reason,
    spent,
    ways_out,
)
from reticent.lab.design.choice import Candidate, Choice, Design, candidates, choose
from reticent.lab.design.goal import MOST_BUCKETS, MOST_EPSILON, Goal
from reticent.lab.design.picture import curves, draw
from reticent.lab.design.ranges import Range, best, edges_of, weigh
from reticent.lab.design.section import check_command, plan_text, section

__all__ = [
    "MOST_BUCKETS",
    "MOST_EPSILON",
    "Candidate",
    "Choice",
    "Design",
    "Goal",
    "Neighbour",
    "Range",
    "Way",
    "WayOut",
    "best",
    "both_ways",
    "candidates",
    "check_command",
    "choose",
    "curves",
    "draw",
    "edges_of",
    "neighbours",
    "plan_text",
    "reason",
    "section",
    "spent",
    "ways_out",
    "weigh",
]
