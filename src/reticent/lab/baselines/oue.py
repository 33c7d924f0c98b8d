"""OUE: BinFlip with its noise moved to where it hurts less."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import log
from random import Random

from reticent.lab.baselines.frequencies import Frequencies, at_least_two, epsilon_in_range
from reticent.mechanisms.exact import SCALE, Number
from reticent.mechanisms.response import Channel, RandomizedResponse


@dataclass(frozen=True, slots=True, init=False)
class OUE(Frequencies):
    """
    Optimised unary encoding (Wang, Blocki, Li, Jha 2017): *k* noisy bits, one about each bucket.

    A device whose value is in bucket *v* answers, for each bucket *j*, 1 with probability

        1/2   if v = j,          1 / (e^ε + 1)   otherwise,

    so that the many zeros, which make up most of the noise, are the ones transmitted well. It is ε-LDP for
    k ≥ 2. On a light bucket n·Var = 4e^ε / (e^ε - 1)², less than BinFlip's by cosh²(ε/4); on a heavy bucket
    at large ε it loses, because the own bucket's bit is a fair coin.

    >>> wang = OUE(epsilon=1, buckets=32)
    >>> round(wang.loss, 12), round(wang.variance(0), 2)
    (1.0, 3.68)
    """

    epsilon: Fraction
    buckets: int
    response: RandomizedResponse = field(init=False, repr=False)
    channel: Channel = field(init=False, repr=False)

    def __init__(self, epsilon: Number, buckets: int) -> None:
        parameter = epsilon_in_range(epsilon)
        object.__setattr__(self, "epsilon", parameter)
        object.__setattr__(self, "buckets", at_least_two(buckets))
        object.__setattr__(self, "response", RandomizedResponse(parameter))
        object.__setattr__(self, "channel", Channel(Fraction(self.response.low, SCALE), Fraction(1, 2)))

    @property
    def loss(self) -> float:
        """ε of one round: ln( p(1 - q) / (q(1 - p)) ) = ln((1 - q)/q), as p = 1/2."""
        return log(self.response.high / self.response.low)

    def answer(self, bucket: int, random: Random) -> tuple[int, ...]:
        """Draw the k bits of a device whose value is in `bucket`."""
        return self._bits(bucket, self.buckets, random)
