"""
From a question to a plan.

    Figure     a metric: what is asked, and the half-width that is wanted
    Question   figures, a fleet, and the promise to devices
    Spread     values from a file or a sealed histogram
    answer     Question -> Answer: the best plan, why, two others, and what to give up
    plan_text  Answer -> plan.toml

`search` says which plans there are, and finds the best of them.
"""

from reticent_lab.design.answer import (
    Answer,
    accuracy,
    answer,
    check_command,
    described,
    losses,
    plan_text,
    reasons,
)
from reticent_lab.design.question import LENGTHS, Figure, Question
from reticent_lab.design.search import WINDOWS, Part, Proposal, Shape, proposals
from reticent_lab.design.spread import Spread, round_numbers

__all__ = [
    "LENGTHS",
    "WINDOWS",
    "Answer",
    "Figure",
    "Part",
    "Proposal",
    "Question",
    "Shape",
    "Spread",
    "accuracy",
    "answer",
    "check_command",
    "described",
    "losses",
    "plan_text",
    "proposals",
    "reasons",
    "round_numbers",
]
