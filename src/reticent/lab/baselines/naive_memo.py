"""NaiveMemo: BinFlip remembered per bucket, to show why that is not enough."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from random import Random
from typing import Any

from reticent.lab.baselines.bin_flip import BinFlip
from reticent.mechanisms.exact import Number


@dataclass(frozen=True, slots=True, init=False)
class NaiveMemo:
    """
    One remembered *k*-bit BinFlip response for each of the *k* buckets: the map f_k of §3.4, which the paper
    gives as what *not* to do.

    One round of it is BinFlip, with the same loss and the same variance. But k bits are a fingerprint:
    whoever learns once that the device was in bucket *v* when it sent *z* knows, each time it sends *z*
    again, that it is back in *v* - unless another bucket happens to have drawn the same *z*, which for two
    given buckets has probability

        (p² + q²)^(k-2) · (2pq)²,          p = e^(ε/2)/(e^(ε/2) + 1),  q = 1 - p.

    >>> naive = NaiveMemo(epsilon=1, buckets=32)
    >>> f"{naive.probability_of_betrayal:.8f}", f"{naive.expected_sharers:.1e}"
    ('0.99999996', '3.7e-08')
    """

    one_round: BinFlip

    def __init__(self, epsilon: Number, buckets: int) -> None:
        object.__setattr__(self, "one_round", BinFlip(epsilon, buckets))

    @property
    def epsilon(self) -> Fraction:
        """ε of one remembered response."""
        return self.one_round.epsilon

    @property
    def buckets(self) -> int:
        """The number of buckets, k, and of remembered responses."""
        return self.one_round.buckets

    @property
    def loss(self) -> float:
        """ε of one round only: over rounds it grows with each bucket visited, up to k·ε."""
        return self.one_round.loss

    @property
    def expected_sharers(self) -> float:
        """How many other buckets have the same response as a given one, on average."""
        high, low = float(self.one_round.channel.high), float(self.one_round.channel.low)
        return (self.buckets - 1) * (high**2 + low**2) ** (self.buckets - 2) * (2 * high * low) ** 2

    @property
    def probability_of_betrayal(self) -> float:
        """
        The chance that a response, once seen with its bucket known, betrays that bucket ever after.

        That is the chance that none of the k - 1 other buckets shares it. Given that the response has *r*
        ones and *k - r* zeros, another bucket draws the same with probability w·p/q if the response has a 1
        there, w·q/p if it has a 0, where w = q^r·p^(k-r). Summed over the bit at the own bucket and over the
        number of ones elsewhere.
        """
        high, low = self.one_round.channel.high, self.one_round.channel.low
        others, odds = self.buckets - 1, float(high / low)
        total = 0.0
        for own in (0, 1):
            for ones in range(others + 1):
                elsewhere = float(low**ones * high ** (others - ones))
                response = elsewhere * float(high if own else low)
                blank = elsewhere * float(low if own else high)
                alone = (1 - blank * odds) ** ones * (1 - blank / odds) ** (others - ones)
                total += comb(others, ones) * response * alone
        return total

    def variance(self, frequency: Any = 0.0) -> Any:
        """n·Var of one round's estimate: BinFlip's. Averaging over rounds does not lower it."""
        return self.one_round.variance(frequency)

    def estimate(self, share: Any) -> Any:
        """The frequency that explains the mean answer of a bucket: BinFlip's."""
        return self.one_round.estimate(share)

    def remember(self, random: Random) -> tuple[tuple[int, ...], ...]:
        """Draw what one device remembers: its response for each bucket."""
        return tuple(self.one_round.answer(bucket, random) for bucket in range(self.buckets))

    def answer(self, bucket: int, memo: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
        """What a device that remembers `memo` answers in `bucket`, each time: nothing is drawn here."""
        return memo[bucket]
