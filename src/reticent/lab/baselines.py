"""
Mechanisms of other authors, to compare with: what the paper's section 5 measures reticent's own against.

They are defined here by the same exact rationals, but they draw with floating point from whatever source they
are handed. That is good enough for a simulation and never for a device (Mironov 2012): nothing in a plan can
name them, and nothing in `device/` imports them.

Each has `loss` (ε of one round), `answer` (draws one answer), `estimate` (un-biases the mean answer) and
`variance` (n·Var of that estimate, given the data: divide by the number of devices). Those that estimate
frequencies also have `probability_of_one`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, e, log
from random import Random
from typing import Any

from reticent.errors import ParameterError
from reticent.mechanisms import (
    SCALE,
    Channel,
    Flip,
    Number,
    RandomizedResponse,
    exact,
    exponential,
    whole_if_possible,
)

__all__ = ["OUE", "BinFlip", "BinFlipPlus", "Frequencies", "KFlip", "Laplace", "NaiveMemo"]


def _epsilon(epsilon: Number) -> Fraction:
    """The ε of a baseline, checked once: the range in which `RandomizedResponse` is defined."""
    parameter = exact(epsilon, "epsilon")
    if not 0 < parameter <= 40:
        raise ParameterError("epsilon", "a number > 0 and <= 40", epsilon)
    return parameter


def _buckets(buckets: int) -> int:
    """The number of buckets of a baseline, checked once."""
    if not isinstance(buckets, int) or buckets < 2:
        raise ParameterError("buckets", "a whole number >= 2", buckets)
    return buckets


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """
    A counter plus Laplace noise (Dwork, McSherry, Nissim, Smith 2006; for means in the local model Duchi,
    Jordan, Wainwright 2013).

    A device holding a value *x* in [0, *max_value*] answers the real number *y* with density

        ε/(2m) · exp(-ε |y - x| / m),

    which is ε-LDP. n·Var = 2(m/ε)² at every value. `OneBitMean` has less at the ends of the range whatever
    ε is; in the middle of the range Laplace has less as soon as ε > 2.32.

    >>> day = Laplace(epsilon=1, max_value=24)
    >>> day.loss, day.scale, day.variance()
    (1.0, 24.0, 1152.0)
    """

    epsilon: Fraction
    max_value: int | Fraction

    def __init__(self, epsilon: Number, max_value: Number) -> None:
        top = exact(max_value, "max_value")
        if top <= 0:
            raise ParameterError("max_value", "a number > 0", max_value)
        object.__setattr__(self, "epsilon", _epsilon(epsilon))
        object.__setattr__(self, "max_value", whole_if_possible(top))

    @property
    def scale(self) -> float:
        """m/ε, the mean size of the noise."""
        return float(self.max_value / self.epsilon)

    @property
    def loss(self) -> float:
        """ε of one round: the largest distance between two values, in units of the scale."""
        return float(self.epsilon)

    def density(self, value: Any, answer: Any) -> Any:
        """The density of `answer` when the device holds `value` (numbers or arrays)."""
        return e ** (-abs(answer - value) / self.scale) / (2 * self.scale)

    def estimate(self, mean_answer: Any) -> Any:
        """The mean that explains the mean answer: itself, as the noise has mean 0."""
        return mean_answer

    def variance(self, value: Any = 0.0) -> Any:
        """n·Var of the estimated mean: the same at every value (a number or an array)."""
        return 2 * self.scale**2 + 0.0 * value

    def answer(self, value: float, random: Random) -> float:
        """Draw the answer of a device that holds `value`: the difference of two exponentials is Laplace."""
        return float(value + self.scale * (random.expovariate(1.0) - random.expovariate(1.0)))


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
        parameter = _epsilon(epsilon)
        odds = Fraction(exponential(parameter))
        lie = 1 / (odds + _buckets(buckets) - 1)
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


@dataclass(frozen=True, slots=True, init=False)
class _Unary(Frequencies):
    """*k* noisy bits, one about each bucket, each drawn on its own."""

    epsilon: Fraction
    buckets: int
    response: RandomizedResponse = field(init=False, repr=False)
    channel: Channel = field(init=False, repr=False)

    def answer(self, bucket: int, random: Random) -> tuple[int, ...]:
        """Draw the k bits of a device whose value is in `bucket`."""
        low, high = float(self.channel.low), float(self.channel.high)
        chances = [high if asked == bucket else low for asked in range(self.buckets)]
        return tuple(int(random.random() < chance) for chance in chances)


@dataclass(frozen=True, slots=True, init=False)
class BinFlip(_Unary):
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

    def __init__(self, epsilon: Number, buckets: int) -> None:
        parameter = _epsilon(epsilon)
        object.__setattr__(self, "epsilon", parameter)
        object.__setattr__(self, "buckets", _buckets(buckets))
        object.__setattr__(self, "response", RandomizedResponse(parameter / 2))
        object.__setattr__(self, "channel", Flip(0).channel(self.response))

    @property
    def loss(self) -> float:
        """ε of one round: 2 ln(p/q), both differing bits together."""
        return 2 * log(self.response.high / self.response.low)


@dataclass(frozen=True, slots=True, init=False)
class OUE(_Unary):
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

    def __init__(self, epsilon: Number, buckets: int) -> None:
        parameter = _epsilon(epsilon)
        object.__setattr__(self, "epsilon", parameter)
        object.__setattr__(self, "buckets", _buckets(buckets))
        object.__setattr__(self, "response", RandomizedResponse(parameter))
        object.__setattr__(self, "channel", Channel(Fraction(self.response.low, SCALE), Fraction(1, 2)))

    @property
    def loss(self) -> float:
        """ε of one round: ln( p(1 - q) / (q(1 - p)) ) = ln((1 - q)/q), as p = 1/2."""
        return log(self.response.high / self.response.low)


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

    def answer(self, bucket: int, random: Random) -> tuple[int, ...] | None:
        """Draw a public string and return it if a device whose value is in `bucket` accepts it."""
        low = float(self.channel.low)
        public = tuple(int(random.random() < low) for _ in range(self.buckets))
        return public if random.random() < self.probability_of_acceptance(public[bucket]) else None


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
