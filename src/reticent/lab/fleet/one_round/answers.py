"""What those who are asked say."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.lab.baselines import KFlip
from reticent.lab.fleet.one_round.asked import Asked
from reticent.mechanisms import Channel


def ones_of(asked: Asked, channel: Channel, generator: np.random.Generator) -> NDArray[np.int64]:
    """
    Draw how many of those asked are heard to say 1, per repetition and row.

    `channel` is what the collector sees of one answer, flips included: 1 with probability `high` if the
    truth is yes and `low` if it is no.
    """
    right = generator.binomial(asked.yes, float(channel.high))
    wrong = generator.binomial(asked.reports - asked.yes, float(channel.low))
    return np.asarray(right + wrong, dtype=np.int64)


def named(
    mechanism: KFlip, devices: ArrayLike, repetitions: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """
    Draw how often KFlip names each bucket, per repetition.

    KFlip names the true bucket with probability p - q and any bucket, all alike, otherwise: those who keep to
    the truth are a binomial per bucket, the others one multinomial.
    """
    counts = np.broadcast_to(np.asarray(devices, np.int64), (repetitions, mechanism.buckets))
    truthful = generator.binomial(counts, float(mechanism.channel.contrast))
    others = counts.sum(axis=1) - truthful.sum(axis=1)
    anywhere = generator.multinomial(others, np.full(mechanism.buckets, 1 / mechanism.buckets))
    return np.asarray(truthful + anywhere, dtype=np.int64)
