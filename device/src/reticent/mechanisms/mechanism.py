"""
What a mechanism is: everything in which one differs from another, as members of one frozen value.

The other layers use these members and never ask which mechanism it is. A new one is added with `add_mechanism`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar

from reticent.errors import ParameterError
from reticent.mechanisms.grids import Buckets, Grid
from reticent.mechanisms.response import SCALE, Channel, Flip, RandomizedResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

COHORTS = 256
"""
A device's cohort is one public byte, which says what its histogram bits are about.

It is drawn from the device's secret, never from a value, and is the same for every histogram of the plan and
in every round: it reveals 8 bits about the device's identity to the collector, forever, and no more.
"""

MechanismKind = Literal["mean", "histogram"]
Measured = int | Fraction | None  # what a device has measured, exactly; None: nothing


class MetricTable(Protocol):
    """What `Mechanism.from_table` reads its own keys of a plan with; each notes a problem and gives None."""

    def __contains__(self, key: str) -> bool: ...
    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number within bounds."""

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str | None:
        """One of a few words."""


class Mechanism(ABC):
    """
    P(bit | value), and what follows from it.

    A value becomes a *class*, by a grid and the device's alpha (`grid`, a mean) or by buckets and the cohort
    (`buckets`, a histogram); exactly one of the two is set. A class has a threshold per answer bit, and the
    remembered bit is 1 when its draw is smaller (`SubsetSelection` draws its bits together). Each answer bit is
    about a *row* of the counts. *Hits* among the reports of a row estimate a truth between 0 and 1: the mean as a
    part of the range, or the share of a bucket.

    Defaults here are those of randomized response whose row is a bucket, or the mean.
    """

    __slots__ = ()

    name: ClassVar[str]  #: As plans call it
    kind: ClassVar[MechanismKind]  #: What is asked about the counter
    keys: ClassVar[tuple[str, ...]] = ()  #: The keys of a plan's table that this mechanism alone understands
    sampled_only: ClassVar[bool] = False  #: Whether its answers must not be remembered, nor flipped

    response: RandomizedResponse  #: The coin behind each answer bit
    grid: Grid | None
    buckets: Buckets | None

    # What a plan says

    @classmethod
    @abstractmethod
    def from_table(
        cls, table: MetricTable, epsilon: Fraction | None, scale: Grid | Buckets | None, label: str
    ) -> Self | None:
        """
        The mechanism that a plan's table asks for; None after a problem was noted.

        `epsilon` and `scale` are None where they have a problem: then only `keys` are read. `label` is unique
        to plan and metric.
        """

    @property
    def settings(self) -> Mapping[str, str | int]:
        """The keys of a plan's table, beside range, epsilon and flip, that ask for this mechanism."""
        return {"mechanism": self.name}

    @property
    @abstractmethod
    def parameters(self) -> list[object]:
        """All that a remembered answer depends on, exact and in a fixed order; the name first, so none is shared."""

    @property
    def exported(self) -> Mapping[str, object] | None:
        """What a device in another language needs, ready for JSON; None: not supported there."""
        return None

    def warnings(self) -> Iterator[tuple[str, str, str, str]]:
        """What is unwise about it: the key of the plan's table, the rule, the message and a hint."""
        yield from ()

    @property
    def alternative(self) -> Mechanism | None:
        """Another mechanism for the same question, to compare with."""
        return None

    @property
    def for_remembered(self) -> Mechanism:
        """The mechanism for the same question where answers are remembered."""
        return self

    # In words

    @property
    def title(self) -> str:
        """The name and what goes with it, for the privacy card."""
        return self.name

    def row_name(self, row: int) -> str:
        """The name of a row of the counts that is no bucket."""
        return f"row {row}"

    # What a device does

    @property
    def epsilon(self) -> Fraction:
        """ε of one remembered answer."""
        return self.response.epsilon

    @property
    def points(self) -> tuple[int | Fraction, ...]:
        """The points of the grid, or the edges of the buckets: from 0 to `max_value`."""
        if self.grid is not None:
            return self.grid.points
        return self.buckets.edges if self.buckets is not None else ()

    @property
    def max_value(self) -> int | Fraction:
        """The top of the range."""
        return self.points[-1]

    @property
    def bits(self) -> int:
        """Answer bits per report."""
        return 1

    @property
    @abstractmethod
    def classes(self) -> int:
        """How many answers a device may ever have to remember."""

    @property
    def uses_cohort(self) -> bool:
        """Whether the answer's meaning depends on the device's cohort."""
        return False

    def memo_class(self, value: Measured, alpha: int, cohort: int = 0) -> int:
        """The remembered answer for a value in range."""
        if self.grid is not None:
            return self.grid.cell(value or 0, alpha)
        return int(self.bucket_class(self.buckets.index(value), cohort)) if self.buckets is not None else 0

    def bucket_class(self, bucket: Any, cohort: Any) -> Any:
        """The remembered answer for a value in this bucket (numbers, or arrays of uint8)."""
        return bucket

    @abstractmethod
    def thresholds(self, memo_class: int, cohort: int) -> tuple[int, ...]:
        """What each answer bit's draw is compared with: the bit is 1 when the draw is smaller."""

    @property
    def memo_draws(self) -> int:
        """How many draws an answer takes."""
        return self.bits

    @property
    def base_draws(self) -> int:
        """How many draws it takes besides, which are the same for every class."""
        return 0

    @property
    def ones(self) -> int | None:
        """How many bits of every answer are 1; None where any number may be."""
        return None

    def answer(
        self, memo_class: int, cohort: int, memo: Sequence[int], base: Sequence[int]
    ) -> Sequence[bool]:
        """The answer bits before flips, from the draws of the class and those that all classes share."""
        limits = self.thresholds(memo_class, cohort)
        return [draw < limit for draw, limit in zip(memo, limits, strict=True)]

    def chances(self, memo_class: int, cohort: int) -> tuple[Fraction, ...]:
        """P(1) of each answer bit before flips, from the integers."""
        return tuple(Fraction(limit, SCALE) for limit in self.thresholds(memo_class, cohort))

    def cuts(self, memo_class: int, cohort: int) -> tuple[int, ...]:
        """The draws from which on an answer of this class may be another one."""
        return self.thresholds(memo_class, cohort)

    @property
    def thresholds_vary(self) -> bool:
        """Whether the thresholds of a class depend on the cohort."""
        return False

    # What it loses

    @property
    def odds(self) -> tuple[int, int]:
        """How likely a remembered bit, or an answer of bits drawn together, is at most and at least: integers."""
        return self.response.high, self.response.low

    def shares(self, memo_class: int, cohort: int = 0) -> tuple[Decimal, ...]:
        """P(1) of each answer bit as the formula has it, in the caller's decimal context."""
        low = 1 / ((Decimal(self.response.epsilon.numerator) / self.response.epsilon.denominator).exp() + 1)
        return tuple(
            1 - low if one == self.response.high else low for one in self.thresholds(memo_class, cohort)
        )

    def changed_bits(self, width: int) -> int:
        """
        How many remembered bits can differ in law between two devices of one pattern of `width`, at most.

        Each differs by a factor of e^h at most, with h the exponent of `response`. Where bits are drawn together,
        an answer counts as one.
        """
        return self.bits * width

    def extremes(self, cohort: int) -> tuple[Measured, Measured] | None:
        """
        Two values whose answers differ most for a device of this cohort; None where all values answer alike.

        The first makes a 1 likelier in the first bit, and less likely in the second bit, if there is one.
        """
        return (self.max_value, 0) if self.grid is not None else _farthest(self, cohort)

    # What counts say

    @property
    def row_count(self) -> int:
        """How many rows the counts have: one for a mean, one per bucket for a histogram."""
        return self.intervals

    def rows_of(self, cohort: int) -> tuple[int, ...]:
        """The row that each answer bit of a device of this cohort is about."""
        return tuple(range(self.bits))

    @property
    def rows_are_buckets(self) -> bool:
        """Whether a row is about one bucket (or the mean); otherwise every report is about every bucket."""
        return True

    @property
    def coverage(self) -> tuple[float, ...]:
        """Per row, the expected share of devices that answer about it."""
        return _coverage(self)

    @property
    def top(self) -> float:
        """The largest truth there can be: m for a mean, 1 for the share of a bucket."""
        return 1.0 if self.grid is None else float(self.max_value)

    @property
    def intervals(self) -> int:
        """How many intervals hold at once: one for a mean, one per bucket for a histogram."""
        return 1 if self.buckets is None else len(self.buckets)

    def hits(self, reports: ArrayLike, ones: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Per interval: the hits, and the reports they are among, from the counts of all rows (numbers or arrays)."""
        import numpy as np

        return np.array(ones, dtype=np.int64), np.array(reports, dtype=np.int64)

    def channel(self, flip: Flip) -> Channel:
        """What the collector sees: a truth t in [0, 1] shows as a share low + t · (high - low) of hits."""
        return flip.channel(self.response)

    def variances(self, flip: Flip, truth: Any) -> tuple[Any, Any]:
        """
        n·Var of one answer about a truth t in [0, 1] (a number or an array), in two parts: noise, and sampling.

        With P the share of hits and 1/C the channel's contrast, n·Var = C² · P(1 - P). *Sampling*, t(1 - t), is
        what remains without any privacy: which devices were drawn, and, for a mean, the rounding to the ends of
        the range. *Noise* is the rest, the price of privacy. Where a hit is a 1, with c = 1/(high - low) of the
        device's bit,

            n·Var = (c² - 1)/4 + t(1 - t).
        """
        contrast = float(flip.channel(self.response).contrast)
        return (contrast**-2 - 1) / 4 + 0 * truth, truth * (1 - truth)

    def row_chances(self, flip: Flip) -> NDArray[np.float64]:
        """[row, bucket]: the chance that a bit of the row is 1 from a device in the bucket."""
        import numpy as np

        return np.asarray(flip.channel(self.response).share(self.yes()))

    @property
    def least_share(self) -> float:
        """The smallest share of devices that answer about an interval."""
        return min(self.coverage) if self.rows_are_buckets else 1.0

    def yes(self) -> NDArray[np.float64]:
        """[row, bucket]: 1 where the truth behind a bit of the row is yes for a device in the bucket, or 0."""
        import numpy as np

        return np.eye(self.row_count)

    @property
    def paper_response(self) -> RandomizedResponse:
        """The coin of the paper's own mechanism with as many bits, for the paper's bound."""
        return self.response


@lru_cache(maxsize=256)
def _coverage(mechanism: Mechanism) -> tuple[float, ...]:
    counts = [0] * mechanism.row_count
    for cohort in range(COHORTS):
        for row in mechanism.rows_of(cohort):
            counts[row] += 1
    return tuple(count / COHORTS for count in counts)


@lru_cache(maxsize=4096)
def _farthest(mechanism: Mechanism, cohort: int) -> tuple[Measured, Measured] | None:
    """The bucket likeliest to answer 1 in the first bit, and the one whose answers differ most from its."""
    buckets = mechanism.buckets or ()
    laws = [
        mechanism.thresholds(mechanism.bucket_class(place, cohort), cohort) for place in range(len(buckets))
    ]
    first = max(range(len(laws)), key=lambda bucket: laws[bucket][0])

    def distance(bucket: int) -> int:
        return sum(abs(one - other) for one, other in zip(laws[first], laws[bucket], strict=True))

    second = max(range(len(laws)), key=distance)
    if mechanism.buckets is None or not distance(second):
        return None
    return mechanism.buckets.value_in(first), mechanism.buckets.value_in(second)


MECHANISMS: dict[str, type[Mechanism]] = {}
"""The mechanisms that a plan can name, in the order in which messages list them."""

AMechanism = TypeVar("AMechanism", bound=type[Mechanism])


def add_mechanism(mechanism: AMechanism) -> AMechanism:
    """Let plans name a mechanism; its name must be free."""
    if MECHANISMS.setdefault(mechanism.name, mechanism) is not mechanism:
        raise ParameterError("mechanism", "a name that is free", mechanism.name)
    return mechanism
