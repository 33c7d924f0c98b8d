"""Who is asked about which bucket: the part of a histogram mechanism's randomness that no noise touches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.lab.baselines import BinFlipPlus
from reticent.mechanisms import DBitFlip, HadamardBit
from reticent.mechanisms.cohort import COHORTS
from reticent.mechanisms.hadamard_bit import hadamard_sign

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """
    Per repetition and row, how many devices answer, and for how many of them the truth is yes.

    A row is a bucket, or a row of the Hadamard matrix. Given these numbers the answers are independent coins:
    see `ones_of`. They do not depend on ε (but for `accepted`), so several ε can share them.
    """

    reports: Numbers
    """int64[repetitions, rows]."""
    yes: Numbers
    """int64[repetitions, rows]: devices in the bucket asked about, or on the side of +1."""


def _per_repetition(devices: ArrayLike, repetitions: int) -> Numbers:
    """int64[repetitions, buckets], from the devices per bucket: the same each time, or one row each."""
    counts = np.asarray(devices, dtype=np.int64)
    return np.broadcast_to(counts, (repetitions, counts.shape[-1]))


def everyone(devices: ArrayLike, repetitions: int) -> Asked:
    """
    BinFlip, and dBitFlip with d = k: every device answers about every bucket. Nothing is drawn.

    >>> everyone([3, 1], repetitions=1).reports.tolist()
    [[4, 4]]
    """
    counts = _per_repetition(devices, repetitions)
    return Asked(np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape), counts)


def subsets(devices: ArrayLike, width: int, repetitions: int, generator: np.random.Generator) -> Asked:
    """
    The paper's dBitFlip: each device draws `width` of the buckets, without replacement (§2.2).

    Buckets are dealt out in turn. A device with r picks left when s buckets are left takes the next
    one with probability r/s, so how many take it is a binomial for every (own bucket, r). Devices whose own
    bucket has passed are alike from then on and are counted together.

    >>> subsets([2, 1], width=1, repetitions=1, generator=np.random.default_rng(1)).reports.sum()
    np.int64(3)
    """
    counts = _per_repetition(devices, repetitions)
    buckets = counts.shape[1]
    if width == buckets:
        return everyone(counts, repetitions)
    reports, yes = np.zeros(counts.shape, np.int64), np.zeros(counts.shape, np.int64)
    waiting = np.zeros((width + 1, repetitions, buckets + 1), np.int64)
    waiting[width, :, :buckets] = counts
    for bucket in range(buckets):
        for picks in range(1, width + 1):
            here = waiting[picks, :, bucket:]
            taking = generator.binomial(here, min(1.0, picks / (buckets - bucket)))
            reports[:, bucket] += taking.sum(axis=1)
            yes[:, bucket] += taking[:, 0]
            waiting[picks, :, bucket:] -= taking
            waiting[picks - 1, :, bucket:] += taking
        waiting[:, :, buckets] += waiting[:, :, bucket]
    return Asked(reports, yes)


def windows(
    mechanism: DBitFlip, devices: ArrayLike, repetitions: int, generator: np.random.Generator
) -> Asked:
    """
    The dBitFlip of reticent: each device draws a cohort, which names a window of a public shuffle of buckets.

    A bucket is asked about as often as in the paper (exactly so where the buckets divide 256), hence the
    same law of each bucket by itself; but two buckets go together only if they are neighbours in the
    shuffle. One byte tells the window, where the paper's needs a public coin per device.
    """
    counts = _per_repetition(devices, repetitions)
    cohorts = [mechanism.window(cohort) for cohort in range(COHORTS)]
    distinct = sorted(set(cohorts))
    shares = [cohorts.count(window) / COHORTS for window in distinct]
    covers = np.array([[bucket in window for bucket in range(counts.shape[1])] for window in distinct])
    reports, yes = np.zeros(counts.shape, np.int64), np.zeros(counts.shape, np.int64)
    for bucket in range(counts.shape[1]):
        in_window = generator.multinomial(counts[:, bucket], shares)
        reports += in_window @ covers
        yes[:, bucket] = in_window @ covers[:, bucket]
    return Asked(reports, yes)


def rows(
    mechanism: HadamardBit, devices: ArrayLike, repetitions: int, generator: np.random.Generator
) -> Asked:
    """The Hadamard bit: each device draws a row of the matrix, whose sign at its bucket is the truth."""
    counts = _per_repetition(devices, repetitions)
    shares = np.full(mechanism.size, 1 / mechanism.size)
    positive = hadamard_sign(np.arange(mechanism.size)[:, None], np.arange(counts.shape[1]) + 1) > 0
    reports = np.zeros((repetitions, mechanism.size), np.int64)
    yes = np.zeros_like(reports)
    for bucket in range(counts.shape[1]):
        in_row = generator.multinomial(counts[:, bucket], shares)
        reports += in_row
        yes += in_row * positive[:, bucket]
    return Asked(reports, yes)


def accepted(
    mechanism: BinFlipPlus, devices: ArrayLike, repetitions: int, generator: np.random.Generator
) -> Asked:
    """BinFlip+: the devices that accept their public string, which then answers about every bucket."""
    accepting = generator.binomial(_per_repetition(devices, repetitions), mechanism.acceptance)
    return everyone(accepting, repetitions)
