"""The ways to estimate a histogram that Figures 5 and 7 compare: what is drawn, and how it is un-biased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from paper.fleet_days import in_parallel
from paper.population_cache import generator
from reticent.lab.baselines import BinFlipPlus, KFlip
from reticent.lab.fleet_counts import Asked, accepted, by_cohort, named, ones_of, subsets
from reticent.mechanisms import Buckets, Channel, DBitFlip, Flip, HadamardBit, RandomizedResponse
from reticent.mechanisms.d_bit_flip import Variant
from reticent.mechanisms.exact import Number, exact
from reticent.mechanisms.hadamard_bit import hadamard_sign

BUCKETS = 32
"""k of the paper's experiments."""

WIDTHS = (1, 2, 4)
"""d of the paper's experiments."""

A_ROW = 0
"""In place of a number of buckets: the device is asked about a row of the Hadamard matrix."""

_EDGES = Buckets.even(BUCKETS, BUCKETS)
"""Any edges will do: only the number of buckets matters once devices are counted per bucket."""

Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]


def ask(way: int, devices: Numbers, source: np.random.Generator) -> Asked:
    """Draw who is asked about so many buckets, or about a row; `devices` per repetition and bucket."""
    if way == A_ROW:
        return by_cohort(HadamardBit(1, _EDGES), devices, len(devices), source)
    return subsets(devices, way, len(devices), source)


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """
    Devices per bucket in each repetition, and who of them is asked what, which is the same for every ε.

    A repetition draws its devices' buckets and rows once and asks at every ε: errors at two ε go up and down
    together a little, while each by itself has the right law.
    """

    devices: Numbers
    """int64[repetitions, buckets]."""
    asked: Mapping[int, Asked]
    """By the number of buckets that a device is asked about, or `A_ROW`."""

    @classmethod
    def draw(cls, devices: Numbers, seed: int, name: str) -> Fleet:
        """Draw who is asked what, for all methods."""
        ways = (A_ROW, *reversed(WIDTHS), BUCKETS)
        asked = in_parallel(lambda way: ask(way, devices, generator(seed, name, f"asked {way}")), ways)
        return cls(devices, dict(zip(ways, asked, strict=True)))

    @property
    def total(self) -> int:
        """The number of devices, n."""
        return int(self.devices[0].sum())

    @property
    def truth(self) -> Shares:
        """The shares to be estimated, float64[repetitions, buckets]."""
        return np.asarray(self.devices / self.total)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Per repetition and row, how many answered and how many of them said 1."""

    reports: Numbers
    ones: Numbers


class Method(Protocol):
    """A mechanism with its estimator."""

    @property
    def name(self) -> str:
        """As in the legend."""

    @property
    def lifetime(self) -> float:
        """
        The loss in units of ε when a device remembers its answers and visits every bucket, in the sense of
        Theorem 4: devices of the same behaviour pattern, no flips. Infinite if nothing is remembered.
        """

    @property
    def asks(self) -> int:
        """About how many buckets, or `A_ROW`."""

    def answers(self, epsilon: Number, fleet: Fleet, source: np.random.Generator) -> Answers:
        """Draw what the collector counts."""

    def estimate(self, epsilon: Number, devices: int, answers: Answers) -> Shares:
        """The estimated shares, float64[repetitions, buckets]."""


def _ratio(answers: Answers, channel: Channel) -> Shares:
    """Share of ones among those who answered, un-biased; 1/2 where nobody did."""
    share = channel.truth(answers.ones / np.maximum(answers.reports, 1))
    return np.asarray(np.where(answers.reports > 0, share, 0.5))


@dataclass(frozen=True, slots=True)
class BitFlip:
    """
    dBitFlipPM. With `ratio` the ones of a bucket are divided by the answers about it, as reticent does; without,
    by the nd/k expected, as the paper prints (§2.2). `tight` is h = ε for d = 1 in place of h = ε/2.
    """

    width: int
    tight: bool = False
    ratio: bool = False

    @property
    def name(self) -> str:
        """As in the legend."""
        how = ", tight" if self.tight else ", ratio" if self.ratio else ""
        return f"{self.width}BitFlipPM{how}"

    @property
    def lifetime(self) -> float:
        """d·ε; for d = 1, both classes: 2h."""
        return 2.0 if self.tight and self.width == 1 else float(self.width)

    @property
    def asks(self) -> int:
        """About d buckets."""
        return self.width

    def _channel(self, epsilon: Number) -> Channel:
        variant: Variant = "tight" if self.tight else "paper"
        return Flip(0).channel(DBitFlip(epsilon, _EDGES, self.width, variant).response)

    def answers(self, epsilon: Number, fleet: Fleet, source: np.random.Generator) -> Answers:
        """Ones about each bucket, of those asked about it."""
        asked = fleet.asked[self.width]
        return Answers(asked.reports, ones_of(asked, self._channel(epsilon), source))

    def estimate(self, epsilon: Number, devices: int, answers: Answers) -> Shares:
        """The paper's estimator, or the ratio estimator."""
        channel = self._channel(epsilon)
        if self.ratio:
            return _ratio(answers, channel)
        surplus = answers.ones - float(channel.low) * answers.reports
        return np.asarray(BUCKETS / (devices * self.width) * surplus / float(channel.contrast))


@dataclass(frozen=True, slots=True)
class EveryBucket:
    """BinFlip: a bit about every bucket. To remember it for every bucket would cost k·ε."""

    name = "BinFlip"
    asks = BUCKETS
    lifetime = float(BUCKETS)

    def answers(self, epsilon: Number, fleet: Fleet, source: np.random.Generator) -> Answers:
        """Ones about each bucket."""
        asked = fleet.asked[BUCKETS]
        return Answers(asked.reports, ones_of(asked, _half(epsilon), source))

    def estimate(self, epsilon: Number, devices: int, answers: Answers) -> Shares:
        """The share of ones, un-biased."""
        return _ratio(answers, _half(epsilon))


def _half(epsilon: Number) -> Channel:
    return Flip(0).channel(RandomizedResponse(exact(epsilon) / 2))


@dataclass(frozen=True, slots=True)
class OneName:
    """KFlip: the name of a bucket, with a lie now and then."""

    name = "KFlip"
    asks = BUCKETS
    lifetime = float("inf")

    def answers(self, epsilon: Number, fleet: Fleet, source: np.random.Generator) -> Answers:
        """How often each bucket is named."""
        ones = named(KFlip(epsilon, BUCKETS), fleet.devices, len(fleet.devices), source)
        return Answers(np.full_like(ones, fleet.total), ones)

    def estimate(self, epsilon: Number, devices: int, answers: Answers) -> Shares:
        """The share of names, un-biased."""
        return _ratio(answers, KFlip(epsilon, BUCKETS).channel)


@dataclass(frozen=True, slots=True)
class Accepted:
    """BinFlip+: strings that devices accept, divided by their number; c₀ = 1/(2 cosh(ε/2)) for every ε."""

    name = "BinFlip+"
    asks = BUCKETS
    lifetime = float("inf")

    def answers(self, epsilon: Number, fleet: Fleet, source: np.random.Generator) -> Answers:
        """Ones about each bucket in the accepted strings."""
        mechanism = BinFlipPlus(epsilon, BUCKETS)
        asked = accepted(mechanism, fleet.devices, len(fleet.devices), source)
        return Answers(asked.reports, ones_of(asked, mechanism.channel, source))

    def estimate(self, epsilon: Number, devices: int, answers: Answers) -> Shares:
        """The share of ones in accepted strings, un-biased."""
        return _ratio(answers, BinFlipPlus(epsilon, BUCKETS).channel)


@dataclass(frozen=True, slots=True)
class Hadamard:
    """The Hadamard bit, un-biased as reticent's estimator does: agreements with the bucket's column."""

    name = "Hadamard bit"
    asks = A_ROW
    lifetime = 2.0

    def answers(self, epsilon: Number, fleet: Fleet, source: np.random.Generator) -> Answers:
        """Ones in each row."""
        channel = Flip(0).channel(RandomizedResponse(epsilon))
        asked = fleet.asked[A_ROW]
        return Answers(asked.reports, ones_of(asked, channel, source))

    def estimate(self, epsilon: Number, devices: int, answers: Answers) -> Shares:
        """Σ_r H[r, v+1]·(2·ones_r - reports_r) / (n·contrast)."""
        size = answers.ones.shape[-1]
        columns = hadamard_sign(np.arange(size)[:, None], np.arange(BUCKETS) + 1)
        contrast = float(Flip(0).channel(RandomizedResponse(epsilon)).contrast)
        return np.asarray((2 * answers.ones - answers.reports) @ columns / (devices * contrast))


PAPER: tuple[Method, ...] = (
    *(BitFlip(width) for width in WIDTHS),
    EveryBucket(),
    OneName(),
    Accepted(),
)
"""What the paper plots, with its calibration and its estimators."""

SAME_AS_BIN_FLIP: Method = BitFlip(BUCKETS)
"""d = k, which the paper says equals BinFlip."""

BETTER_ESTIMATOR: tuple[Method, ...] = tuple(BitFlip(width, ratio=True) for width in WIDTHS)
"""The paper's mechanisms with the ratio estimator."""

OURS: tuple[Method, ...] = (BitFlip(1, tight=True, ratio=True), Hadamard())
"""What reticent adds."""
