"""
From a question to a plan.

    Figure     a metric: what is asked, and the half-width that is wanted
    QuantileGoal    a quantile, as a histogram with edges around it
    Question   figures, a fleet, and the promise to devices
    ValueSpread     values from a file or a sealed histogram
    suggest    Question -> Suggestion: the best plan, why, two others, and what to give up
    plan_text  Suggestion -> plan.toml

`search` says which plans there are, and finds the best of them.
"""

from reticent_lab.design.question import LENGTHS, Figure, QuantileGoal, Question
from reticent_lab.design.search import WINDOWS, PlanShape, Proposal, proposals
from reticent_lab.design.spread import ValueSpread
from reticent_lab.design.suggestion import (
    accuracy,
    check_command,
    described,
    plan_text,
    reasons,
    suggest,
)

__all__ = [
    "LENGTHS",
    "WINDOWS",
    "Figure",
    "PlanShape",
    "Proposal",
    "QuantileGoal",
    "Question",
    "ValueSpread",
    "accuracy",
    "check_command",
    "described",
    "plan_text",
    "proposals",
    "reasons",
    "suggest",
]
