"""What every baseline for histograms has in common: ones per bucket, seen through a channel."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

from reticent.errors import ParameterError
from reticent.mechanisms.exact import Number, exact
from reticent.mechanisms.response import Channel


class Frequencies:
    """
    A mechanism whose answers add ones to the buckets they speak for.

    A device in bucket *v* adds 1 to bucket *j* with probability

        p = channel.high   if v = j,          q = channel.low   otherwise,

    so the mean of the answers at *j* is q + h·(p - q), where *h* is the share of devices in *j*, and its
    inverse is an unbiased estimate of h. (Wang, Blocki, Li, Jha 2017 call this a pure protocol.)
    """

    __slots__ = ()

    channel: Channel

    def probability_of_one(self, bucket: Any, asked: Any) -> Any:
        """The chance of a 1 at bucket `asked` when the value is in `bucket` (numbers or arrays)."""
        return self.channel.share(1 * (bucket == asked))

    def estimate(self, share: Any) -> Any:
        """The frequency that explains the mean answer of a bucket (a number or an array); may be negative."""
        return self.channel.truth(share)

    def variance(self, frequency: Any = 0.0) -> Any:
        """
        n·Var of the estimate for a bucket that holds a share h of the devices (a number or an array),

            [ (1 - h)·q(1 - q) + h·p(1 - p) ] / (p - q)²,

        given the data: the answers are random, the devices are not.
        """
        low, high = float(self.channel.low), float(self.channel.high)
        noise = (1 - frequency) * low * (1 - low) + frequency * high * (1 - high)
        return noise / float(self.channel.contrast) ** 2

    def _bits(self, bucket: int, buckets: int, random: Random) -> tuple[int, ...]:
        """Draw one bit per bucket, each on its own."""
        low, high = float(self.channel.low), float(self.channel.high)
        return tuple(int(random.random() < (high if asked == bucket else low)) for asked in range(buckets))


def epsilon_in_range(epsilon: Number) -> Fraction:
    """The ε of a baseline, checked once: the range in which `RandomizedResponse` is defined."""
    parameter = exact(epsilon, "epsilon")
    if not 0 < parameter <= 40:
        raise ParameterError("epsilon", "a number > 0 and <= 40", epsilon)
    return parameter


def at_least_two(buckets: int) -> int:
    """The number of buckets of a baseline, checked once."""
    if not isinstance(buckets, int) or buckets < 2:
        raise ParameterError("buckets", "a whole number >= 2", buckets)
    return buckets
