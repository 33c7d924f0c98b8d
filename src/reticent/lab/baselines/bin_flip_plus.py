"""BinFlip+: BinFlip in one bit per device, by saying yes or no to a public draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import log
from random import Random
from typing import Any

from reticent.lab.baselines.bin_flip import BinFlip
from reticent.lab.baselines.frequencies import Frequencies
from reticent.mechanisms.exact import SCALE, Number
from reticent.mechanisms.response import Channel, RandomizedResponse


@dataclass(frozen=True, slots=True, init=False)
class BinFlipPlus(Frequencies):
    """
    The generic one-bit protocol of Bassily and Smith (2015, section 4), applied to BinFlip.

    A public coin draws for each device a string *y* of k bits, each 1 with probability 1/(e^(ε/2) + 1):
    what BinFlip would answer for a value in no bucket at all. A device whose value is in bucket *v* accepts
    it with probability c₀·P(y | v)/P(y), where the ratio is e^(ε/2) if y_v = 1 and e^(-ε/2) if y_v = 0. The
    strings that are accepted follow BinFlip's law exactly; the others are thrown away.

    With c₀ = 1/(2 cosh(ε/2)) the two chances of acceptance are e^ε/(e^ε + 1) and 1/(e^ε + 1): the device
    answers its bit of the public string by randomized response with the whole ε. So the protocol is exactly
    ε-LDP for *every* ε, not only for ε ≤ 2 as the paper's footnote has it. A constant c₀ = 1/2 is not:
    at ε = 1 a refusal then reveals 1.38.

    >>> smith = BinFlipPlus(epsilon=1, buckets=32)
    >>> round(smith.loss, 12), round(smith.acceptance, 4), round(smith.variance(0), 2)
    (1.0, 0.4434, 8.84)
    """

    accepted: BinFlip
    response: RandomizedResponse = field(init=False, repr=False)
    channel: Channel = field(init=False, repr=False)

    def __init__(self, epsilon: Number, buckets: int) -> None:
        accepted = BinFlip(epsilon, buckets)
        object.__setattr__(self, "accepted", accepted)
        object.__setattr__(self, "response", RandomizedResponse(accepted.epsilon))
        object.__setattr__(self, "channel", accepted.channel)

    @property
    def epsilon(self) -> Fraction:
        """ε of the one bit."""
        return self.accepted.epsilon

    @property
    def buckets(self) -> int:
        """The number of buckets, k."""
        return self.accepted.buckets

    @property
    def acceptance(self) -> float:
        """c₀ = 1/(2 cosh(ε/2)): the share of devices that accept, whatever their values."""
        low = float(self.channel.low)
        return float(low * self.probability_of_acceptance(1) + (1 - low) * self.probability_of_acceptance(0))

    @property
    def loss(self) -> float:
        """ε of one round: that of randomized response."""
        return log(self.response.high / self.response.low)

    def probability_of_acceptance(self, public_bit: Any) -> Any:
        """The chance that a device accepts a string with this bit at its own bucket (number or array)."""
        low = self.response.low / SCALE
        return low + public_bit * (1 - 2 * low)

    def variance(self, frequency: Any = 0.0) -> Any:
        """
        n·Var of the estimate from the *accepted* strings (their ones divided by their number),

            [ B + (1 - c₀)·h(1 - h) ] / c₀,

        where B is BinFlip's own and n counts all devices, also those that refuse. To first order in 1/n.
        """
        kept = self.acceptance
        return (self.accepted.variance(frequency) + (1 - kept) * frequency * (1 - frequency)) / kept

    def publish(self, random: Random) -> tuple[int, ...]:
        """Draw the public string of one device."""
        low = float(self.channel.low)
        return tuple(int(random.random() < low) for _ in range(self.buckets))

    def accept(self, bucket: int, public: tuple[int, ...], random: Random) -> bool:
        """Draw the one bit that a device whose value is in `bucket` sends about its public string."""
        return bool(random.random() < self.probability_of_acceptance(public[bucket]))

    def answer(self, bucket: int, random: Random) -> tuple[int, ...] | None:
        """Draw a public string and return it if a device whose value is in `bucket` accepts it."""
        public = self.publish(random)
        return public if self.accept(bucket, public, random) else None
