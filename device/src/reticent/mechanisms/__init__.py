"""
P(bit | value): what a device answers, as frozen values with integer thresholds. Standard library only.

Four mechanisms can stand in a plan, each a `Mechanism`: `OneBitMean`, `DBitFlip`, `HadamardBit` and
`SubsetSelection`. More are added with `add_mechanism`. Those of other authors, for comparison only, are in
`reticent_paper.baselines`.
"""

from reticent.mechanisms.d_bit_flip import DBitFlip
from reticent.mechanisms.grids import Buckets, Grid
from reticent.mechanisms.hadamard_bit import HadamardBit, hadamard_sign
from reticent.mechanisms.mechanism import COHORTS, MECHANISMS, Mechanism, MetricTable, add_mechanism
from reticent.mechanisms.one_bit_mean import OneBitMean
from reticent.mechanisms.response import (
    SCALE,
    Channel,
    Flip,
    Number,
    RandomizedResponse,
    exact,
    exponential,
    whole_if_possible,
)
from reticent.mechanisms.subset_selection import SubsetSelection

for _mechanism in (OneBitMean, DBitFlip, HadamardBit, SubsetSelection):
    add_mechanism(_mechanism)

__all__ = [
    "COHORTS",
    "MECHANISMS",
    "SCALE",
    "Buckets",
    "Channel",
    "DBitFlip",
    "Flip",
    "Grid",
    "HadamardBit",
    "Mechanism",
    "MetricTable",
    "Number",
    "OneBitMean",
    "RandomizedResponse",
    "SubsetSelection",
    "add_mechanism",
    "exact",
    "exponential",
    "hadamard_sign",
    "whole_if_possible",
]
