"""
One round simulated the plain way, device by device: what the simulation of counts is held against.

Chances are computed here from ε and γ with `math.exp`, bits are drawn per device, and nothing is shared with
`reticent.lab.fleet_counts` but the mechanisms' definitions.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from paper.histogram_methods import (
    BUCKETS,
    Accepted,
    Answers,
    BitFlip,
    EveryBucket,
    Hadamard,
    Method,
    OneName,
)
from reticent.errors import ParameterError
from reticent.mechanisms.hadamard_bit import hadamard_sign

Numbers = NDArray[np.int64]


def estimated_mean(
    values: Numbers, max_value: int, epsilon: float, gamma: float | None, source: np.random.Generator
) -> float:
    """One round of 1BitRRPM with a flip probability, or of Laplace where that is None."""
    if gamma is None:
        return float((values + source.laplace(0.0, max_value / epsilon, len(values))).mean())
    up = source.integers(0, max_value, len(values)) < values
    remembered = source.random(len(values)) < _chance(epsilon, up)
    sent = remembered ^ (source.random(len(values)) < gamma)
    low, contrast = 1 / (exp(epsilon) + 1), (exp(epsilon) - 1) / (exp(epsilon) + 1)
    return float(max_value * ((sent.mean() - gamma) / (1 - 2 * gamma) - low) / contrast)


def answers(method: Method, epsilon: float, buckets: Numbers, source: np.random.Generator) -> Answers:
    """One round of a histogram method for devices in these buckets."""
    match method:
        case BitFlip():
            return _some_buckets(method, epsilon, buckets, source)
        case EveryBucket():
            bits = source.random((len(buckets), BUCKETS)) < _chance(epsilon / 2, _own(buckets))
            return _counted(np.full(BUCKETS, len(buckets)), bits.sum(axis=0))
        case OneName():
            true = source.random(len(buckets)) < exp(epsilon) / (exp(epsilon) + BUCKETS - 1)
            lie = (buckets + source.integers(1, BUCKETS, len(buckets))) % BUCKETS
            names = np.bincount(np.where(true, buckets, lie), minlength=BUCKETS)
            return _counted(np.full(BUCKETS, len(buckets)), names)
        case Accepted():
            public = source.random((len(buckets), BUCKETS)) < 1 / (exp(epsilon / 2) + 1)
            own = public[np.arange(len(buckets)), buckets]
            kept = public[source.random(len(buckets)) < _chance(epsilon, own)]
            return _counted(np.full(BUCKETS, len(kept)), kept.sum(axis=0))
        case Hadamard():
            size = 2 * BUCKETS
            rows = source.integers(0, size, len(buckets))
            bits = source.random(len(buckets)) < _chance(epsilon, hadamard_sign(rows, buckets + 1) > 0)
            return _counted(np.bincount(rows, minlength=size), np.bincount(rows[bits], minlength=size))
        case _:
            raise ParameterError("method", "a method of the figures", method.name)


def _some_buckets(method: BitFlip, epsilon: float, buckets: Numbers, source: np.random.Generator) -> Answers:
    """Each device draws its d buckets: those with the d smallest of k random numbers."""
    order = np.argpartition(source.random((len(buckets), BUCKETS)), method.width - 1, axis=1)
    picks = order[:, : method.width]
    exponent = epsilon if method.tight and method.width == 1 else epsilon / 2
    bits = source.random(picks.shape) < _chance(exponent, picks == buckets[:, None])
    reports = np.bincount(picks.ravel(), minlength=BUCKETS)
    return _counted(reports, np.bincount(picks[bits], minlength=BUCKETS))


def _own(buckets: Numbers) -> NDArray[np.bool_]:
    return np.asarray(buckets[:, None] == np.arange(BUCKETS))


def _chance(exponent: float, truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The chance of a 1 by randomized response: e^h/(e^h + 1) where the truth is yes."""
    return np.where(truth, exp(exponent), 1.0) / (exp(exponent) + 1)


def _counted(reports: Numbers, ones: Numbers) -> Answers:
    return Answers(reports[None, :], ones[None, :])
