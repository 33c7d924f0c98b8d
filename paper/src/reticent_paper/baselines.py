"""
Mechanisms of other authors, to compare with (section 5 of the paper); no plan can name them.

Each has `loss` (ε of one round) and `variance` (n·Var of the estimate). `reticent_paper.fleet_counts` draws whole
fleets.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, log
from typing import Any

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Channel, Flip, Number, RandomizedResponse, exact, exponential

__all__ = ["BinFlip", "BinFlipPlus", "Frequencies", "KFlip", "Laplace", "NaiveMemo"]


def _epsilon(epsilon: Number) -> Fraction:
    parameter = exact(epsilon, "epsilon")
    if not 0 < parameter <= 40:
        raise ParameterError("epsilon", "a number > 0 and <= 40", epsilon)
    return parameter


class Laplace:
    """
    A counter plus Laplace noise (Dwork, McSherry, Nissim, Smith 2006).

    A device holding a value *x* in [0, m] answers *y* with density ε/(2m) · exp(-ε |y - x| / m), which is ε-LDP.
    n·Var = 2(m/ε)²: more than `OneBitMean` at the ends of the range, less in its middle as soon as ε > 2.32.

    >>> day = Laplace(epsilon=1, max_value=24)
    >>> day.loss, day.scale, day.variance()
    (1.0, 24.0, 1152.0)
    """

    def __init__(self, epsilon: Number, max_value: Number) -> None:
        top = exact(max_value, "max_value")
        if top <= 0:
            raise ParameterError("max_value", "a number > 0", max_value)
        self.epsilon = _epsilon(epsilon)
        self.loss = float(self.epsilon)
        self.scale = float(top / self.epsilon)
        """m/ε, the mean size of the noise."""

    def variance(self) -> float:
        """n·Var of the estimated mean, the same at every value."""
        return 2 * self.scale**2


class Frequencies:
    """
    A mechanism whose answers add ones to the buckets they speak for (a pure protocol: Wang, Blocki, Li, Jha 2017).

    A device in bucket *v* adds 1 to bucket *j* with probability p = channel.high if v = j, q = channel.low
    otherwise. The mean of the answers at *j*, q + h·(p - q), is inverted to an unbiased estimate of the share h.
    """

    channel: Channel
    loss: float  #: ε of one round

    def __init__(self, epsilon: Number, buckets: int) -> None:
        self.epsilon = _epsilon(epsilon)
        if not isinstance(buckets, int) or buckets < 2:
            raise ParameterError("buckets", "a whole number >= 2", buckets)
        self.buckets = buckets

    def estimate(self, share: Any) -> Any:
        """The frequency that explains the mean answer of a bucket (a number or an array); may be negative."""
        return self.channel.truth(share)

    def variance(self, frequency: Any = 0.0) -> Any:
        """n·Var for a bucket with a share h, given the data: [(1 - h)·q(1 - q) + h·p(1 - p)] / (p - q)²."""
        low, high = float(self.channel.low), float(self.channel.high)
        noise = (1 - frequency) * low * (1 - low) + frequency * high * (1 - high)
        return noise / float(self.channel.contrast) ** 2


class KFlip(Frequencies):
    """
    Randomized response with *k* answers (Kairouz, Oh, Viswanath 2016), also known as GRR.

    A device in bucket *v* names *j* with probability e^ε / (e^ε + k - 1) if v = j, 1 / (e^ε + k - 1) otherwise,
    which is ε-LDP. On a light bucket n·Var = (e^ε + k - 2) / (e^ε - 1)².

    >>> kairouz = KFlip(epsilon=5, buckets=32)
    >>> round(kairouz.loss, 12), round(kairouz.variance(0), 4)
    (5.0, 0.0082)
    """

    def __init__(self, epsilon: Number, buckets: int) -> None:
        super().__init__(epsilon, buckets)
        odds = Fraction(exponential(self.epsilon))
        lie = 1 / (odds + self.buckets - 1)
        self.channel = Channel(lie, odds * lie)
        self.loss = log(self.channel.high / self.channel.low)


class BinFlip(Frequencies):
    """
    *k* noisy bits, one about each bucket (Duchi, Wainwright, Jordan 2013), also known as symmetric unary encoding.

    A device in bucket *v* answers, for each bucket *j*, 1 with probability e^(ε/2) / (e^(ε/2) + 1) if v = j, and
    1 / (e^(ε/2) + 1) otherwise. Two values differ in two bits, each worth ε/2, so the k bits together are ε-LDP.
    This is dBitFlip with d = k. On a light bucket n·Var = e^(ε/2) / (e^(ε/2) - 1)².

    >>> duchi = BinFlip(epsilon=1, buckets=32)
    >>> round(duchi.loss, 12), round(duchi.variance(0), 2)
    (1.0, 3.92)
    """

    def __init__(self, epsilon: Number, buckets: int) -> None:
        super().__init__(epsilon, buckets)
        self.response = RandomizedResponse(self.epsilon / 2)
        self.channel = Flip(0).channel(self.response)
        self.loss = 2 * log(self.response.high / self.response.low)


class BinFlipPlus(Frequencies):
    """
    The generic one-bit protocol of Bassily and Smith (2015, section 4), applied to BinFlip.

    A public coin draws for each device a string *y* of k bits, each 1 with probability 1/(e^(ε/2) + 1). A device
    in bucket *v* accepts it with probability c₀·P(y | v)/P(y), where the ratio is e^(ε/2) if y_v = 1 and e^(-ε/2)
    if y_v = 0. Accepted strings follow BinFlip's law exactly; the others are dropped. With c₀ = 1/(2 cosh(ε/2))
    that is randomized response with the whole ε about the bit of the public string, so it is ε-LDP for *every* ε,
    not only for ε ≤ 2 as the paper's footnote says. A constant c₀ = 1/2 is not: at ε = 1 a refusal then reveals
    1.38.

    >>> smith = BinFlipPlus(epsilon=1, buckets=32)
    >>> round(smith.loss, 12), round(smith.acceptance, 4), round(smith.variance(0), 2)
    (1.0, 0.4434, 8.84)
    """

    def __init__(self, epsilon: Number, buckets: int) -> None:
        super().__init__(epsilon, buckets)
        self.channel = BinFlip(epsilon, buckets).channel
        self.response = RandomizedResponse(self.epsilon)
        self.loss = log(self.response.high / self.response.low)
        low = float(self.channel.low)
        self.acceptance: float = low * self.probability_of_acceptance(1) + (
            1 - low
        ) * self.probability_of_acceptance(0)
        """c₀ = 1/(2 cosh(ε/2)): the share of devices that accept, whatever their values."""

    def probability_of_acceptance(self, public_bit: int) -> float:
        """The chance that a device accepts a string with this bit at its own bucket."""
        low = self.response.low / SCALE
        return low + public_bit * (1 - 2 * low)

    def variance(self, frequency: Any = 0.0) -> Any:
        """
        n·Var of the estimate from the *accepted* strings, n all devices: [B + (1 - c₀)·h(1 - h)] / c₀, to first
        order.
        """
        return (
            super().variance(frequency) + (1 - self.acceptance) * frequency * (1 - frequency)
        ) / self.acceptance


class NaiveMemo(BinFlip):
    """
    One remembered *k*-bit BinFlip response per bucket: the map f_k of §3.4, the paper's example of what *not* to
    do.

    k bits are a fingerprint: an observer who once learned that the device was in bucket *v* when it sent *z*
    knows, each time it sends *z* again, that it is back in *v*, unless another bucket drew the same *z*, which
    for two given buckets has probability (p² + q²)^(k-2) · (2pq)² with p = e^(ε/2)/(e^(ε/2) + 1), q = 1 - p.

    >>> naive = NaiveMemo(epsilon=1, buckets=32)
    >>> f"{naive.probability_of_betrayal:.8f}", f"{naive.expected_sharers:.1e}"
    ('0.99999996', '3.7e-08')
    """

    @property
    def expected_sharers(self) -> float:
        """How many other buckets have the same response as a given one, on average."""
        high, low = float(self.channel.high), float(self.channel.low)
        return (self.buckets - 1) * (high**2 + low**2) ** (self.buckets - 2) * (2 * high * low) ** 2

    @property
    def probability_of_betrayal(self) -> float:
        """
        The chance that a response, once seen with its bucket known, betrays that bucket ever after.

        None of the k - 1 other buckets shares it: given *r* ones, another bucket draws it with probability w·p/q
        if it has a 1 there, w·q/p if it has a 0, where w = q^r·p^(k-r).
        """
        high, low = self.channel.high, self.channel.low
        others = self.buckets - 1
        odds = float(high / low)
        total = 0.0
        for own in (0, 1):
            for ones in range(others + 1):
                elsewhere = float(low**ones * high ** (others - ones))
                response = elsewhere * float(high if own else low)
                blank = elsewhere * float(low if own else high)
                alone = (1 - blank * odds) ** ones * (1 - blank / odds) ** (others - ones)
                total += comb(others, ones) * response * alone
        return total
