"""
P(bit | value): what a device answers, as frozen values with integer thresholds. Standard library only.

Three mechanisms can stand in a plan, each a `Mechanism`: `OneBitMean`, `DBitFlip` and `HadamardBit`.
`baselines` holds those of other authors, for comparison only.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from reticent.mechanisms.buckets import Buckets
from reticent.mechanisms.d_bit_flip import DBitFlip
from reticent.mechanisms.exact import SCALE, Number, exact
from reticent.mechanisms.hadamard_bit import HadamardBit
from reticent.mechanisms.one_bit_mean import OneBitMean
from reticent.mechanisms.response import Channel, Flip, RandomizedResponse
from reticent.mechanisms.rounding import Grid


class Mechanism(Protocol):
    """What the device, the losses and the estimates need to know of a mechanism."""

    @property
    def epsilon(self) -> Fraction:
        """ε of one remembered answer."""

    @property
    def response(self) -> RandomizedResponse:
        """The coin behind each answer bit."""

    @property
    def max_value(self) -> int | Fraction:
        """The top of the range."""

    @property
    def bits(self) -> int:
        """Answer bits per report."""

    @property
    def classes(self) -> int:
        """How many answers a device may ever have to remember."""

    @property
    def uses_cohort(self) -> bool:
        """Whether the answer's meaning depends on the device's cohort."""

    def memo_class(self, value: int | Fraction, alpha: int, cohort: int) -> int:
        """Which remembered answer a value in range calls for."""

    def thresholds(self, memo_class: int, cohort: int) -> tuple[int, ...]:
        """What each answer bit's draw is compared with: the bit is 1 when the draw is smaller."""


__all__ = [
    "SCALE",
    "Buckets",
    "Channel",
    "DBitFlip",
    "Flip",
    "Grid",
    "HadamardBit",
    "Mechanism",
    "Number",
    "OneBitMean",
    "RandomizedResponse",
    "exact",
]
