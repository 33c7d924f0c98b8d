"""BinFlip: a noisy bit about each bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import log
from random import Random

from reticent.lab.baselines.frequencies import Frequencies, at_least_two, epsilon_in_range
from reticent.mechanisms.exact import Number
from reticent.mechanisms.response import Channel, Flip, RandomizedResponse


@dataclass(frozen=True, slots=True, init=False)
class BinFlip(Frequencies):
    """
    *k* noisy bits, one about each bucket (Duchi, Wainwright, Jordan 2013), also known as symmetric unary
    encoding and as one-time RAPPOR.

    A device whose value is in bucket *v* answers, for each bucket *j*, 1 with probability

        e^(ε/2) / (e^(ε/2) + 1)   if v = j,          1 / (e^(ε/2) + 1)   otherwise.

    Two values differ in two bits, each worth ε/2, so the k bits together are ε-LDP. This is dBitFlip with
    d = k. On a light bucket n·Var = e^(ε/2) / (e^(ε/2) - 1)².

    >>> duchi = BinFlip(epsilon=1, buckets=32)
    >>> round(duchi.loss, 12), round(duchi.variance(0), 2)
    (1.0, 3.92)
    """

    epsilon: Fraction
    buckets: int
    response: RandomizedResponse = field(init=False, repr=False)
    channel: Channel = field(init=False, repr=False)

    def __init__(self, epsilon: Number, buckets: int) -> None:
        parameter = epsilon_in_range(epsilon)
        object.__setattr__(self, "epsilon", parameter)
        object.__setattr__(self, "buckets", at_least_two(buckets))
        object.__setattr__(self, "response", RandomizedResponse(parameter / 2))
        object.__setattr__(self, "channel", Flip(0).channel(self.response))

    @property
    def loss(self) -> float:
        """ε of one round: 2 ln(p/q), both differing bits together."""
        return 2 * log(self.response.high / self.response.low)

    def answer(self, bucket: int, random: Random) -> tuple[int, ...]:
        """Draw the k bits of a device whose value is in `bucket`."""
        return self._bits(bucket, self.buckets, random)
