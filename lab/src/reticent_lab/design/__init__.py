"""
From a goal to a plan: which mechanism, epsilon and way of answering are precise enough, and what they cost a
device.

    Goal       range, fleet, wanted half-width, the promise to devices and the loss that is allowed
    choose     Goal -> Choice: the Design that meets it at the least loss, or the nearest
    weigh      a goal and recorded values -> a Range each; `best` of them
    both_ways  the design with remembered and with sampled answers
    ways_out   what to change in a goal that cannot be met
"""

from reticent_lab.design.alternatives import (
    Neighbour,
    Way,
    WayOut,
    both_ways,
    neighbours,
    reason,
    spent,
    ways_out,
)
from reticent_lab.design.choice import Candidate, Choice, Design, candidates, choose
from reticent_lab.design.goal import MOST_BUCKETS, MOST_EPSILON, Goal
from reticent_lab.design.picture import curves, draw
from reticent_lab.design.ranges import Range, best, edges_of, weigh
from reticent_lab.design.section import check_command, plan_text, section

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
