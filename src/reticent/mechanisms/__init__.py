"""
P(bit | value): what a device answers, as frozen values with integer thresholds. Standard library only.

Three mechanisms can stand in a plan, each a `Mechanism`: `OneBitMean`, `DBitFlip` and `HadamardBit`; more are
added with `add_mechanism`.
`baselines` holds those of other authors, for comparison only.
"""

from __future__ import annotations

from reticent.mechanisms.buckets import Buckets
from reticent.mechanisms.d_bit_flip import DBitFlip
from reticent.mechanisms.exact import SCALE, Number, exact
from reticent.mechanisms.hadamard_bit import HadamardBit
from reticent.mechanisms.mechanism import MECHANISMS, Kind, Mechanism, Table, add_mechanism
from reticent.mechanisms.one_bit_mean import OneBitMean
from reticent.mechanisms.response import Channel, Flip, RandomizedResponse
from reticent.mechanisms.rounding import Grid

for _mechanism in (OneBitMean, DBitFlip, HadamardBit):
    add_mechanism(_mechanism)

__all__ = [
    "MECHANISMS",
    "SCALE",
    "Buckets",
    "Channel",
    "DBitFlip",
    "Flip",
    "Grid",
    "HadamardBit",
    "Kind",
    "Mechanism",
    "Number",
    "OneBitMean",
    "RandomizedResponse",
    "Table",
    "add_mechanism",
    "exact",
]
