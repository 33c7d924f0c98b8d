"""KFlip: the bucket itself, with a lie now and then."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import log
from random import Random

from reticent.lab.baselines.frequencies import Frequencies, at_least_two, epsilon_in_range
from reticent.mechanisms.exact import Number, exponential
from reticent.mechanisms.response import Channel


@dataclass(frozen=True, slots=True, init=False)
class KFlip(Frequencies):
    """
    Randomized response with *k* answers (Kairouz, Oh, Viswanath 2016), also known as GRR and as direct
    encoding.

    A device whose value is in bucket *v* names one bucket: *j* with probability

        e^ε / (e^ε + k - 1)   if v = j,          1 / (e^ε + k - 1)   otherwise,

    which is ε-LDP. The answer counts as a 1 at the bucket it names. On a light bucket
    n·Var = (e^ε + k - 2) / (e^ε - 1)²: poor while e^ε is below k, and close to the best possible above.

    >>> kairouz = KFlip(epsilon=5, buckets=32)
    >>> round(kairouz.loss, 12), round(kairouz.variance(0), 4)
    (5.0, 0.0082)
    """

    epsilon: Fraction
    buckets: int
    channel: Channel = field(init=False, repr=False)

    def __init__(self, epsilon: Number, buckets: int) -> None:
        parameter = epsilon_in_range(epsilon)
        odds = Fraction(exponential(parameter))
        lie = 1 / (odds + at_least_two(buckets) - 1)
        object.__setattr__(self, "epsilon", parameter)
        object.__setattr__(self, "buckets", buckets)
        object.__setattr__(self, "channel", Channel(lie, odds * lie))

    @property
    def loss(self) -> float:
        """ε of one round: ln(p/q)."""
        return log(self.channel.high / self.channel.low)

    def answer(self, bucket: int, random: Random) -> int:
        """Draw the bucket that a device whose value is in `bucket` names."""
        if random.random() < float(self.channel.contrast):
            return bucket
        return random.randrange(self.buckets)
