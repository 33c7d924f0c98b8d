"""
Mechanisms of other authors, to compare with: what the paper's section 5 measures reticent's own against.

They are defined here by the same exact rationals, but they draw with floating point from whatever source they
are handed. That is good enough for a simulation and never for a device (Mironov 2012): nothing in a plan can
name them, and nothing in `device/` imports them.

Each has `loss` (ε of one round), `answer` (draws one answer), `estimate` (un-biases the mean answer) and
`variance` (n·Var of that estimate, given the data: divide by the number of devices). Those that estimate
frequencies also have `probability_of_one`.
"""

from __future__ import annotations

from reticent.lab.baselines.bin_flip import BinFlip
from reticent.lab.baselines.bin_flip_plus import BinFlipPlus
from reticent.lab.baselines.frequencies import Frequencies
from reticent.lab.baselines.k_flip import KFlip
from reticent.lab.baselines.laplace import Laplace
from reticent.lab.baselines.naive_memo import NaiveMemo
from reticent.lab.baselines.oue import OUE

__all__ = ["OUE", "BinFlip", "BinFlipPlus", "Frequencies", "KFlip", "Laplace", "NaiveMemo"]
