"""Subset selection: a random set of buckets that is likelier to hold the value's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reticent.errors import ParameterError
from reticent.frozen import freeze, frozen
from reticent.mechanisms.grids import Buckets, Grid
from reticent.mechanisms.mechanism import COHORTS, MECHANISMS, Measured, Mechanism, MetricTable
from reticent.mechanisms.response import SCALE, Channel, Flip, Number, RandomizedResponse, exponential_below

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@frozen("response")
class SubsetSelection(Mechanism):
    """
    A set of ω = *size* of the *k* buckets; a bit per bucket says whether it is in the set (Ye and Barg, 2018).

    The law: P(Z | v) is proportional to e^ε where v ∈ Z, and to 1 elsewhere. With ω = 1 it is k-ary randomized
    response. For sampled answers alone: remembered, it would lose ε per bucket that a device visits.

    In integers: b = ⌈2⁶⁴/(ω e^ε + k - ω)⌉, a = ⌊(2⁶⁴ - (k - ω) b)/ω⌋ and r = 2⁶⁴ - ωa - (k - ω) b, which is below ω.
    A device draws a *base set* B of ω buckets that does not depend on its value, and shifts it by s, so that v - s is
    each bucket of B with weight a and each other bucket with weight b; with the rest r, s is 0.

    **Theorem.** For every base set by itself, all v, v' and Z:  P(Z | v) ≤ e^ε P(Z | v'). *Proof.* Given B, the shift
    is s with weight a if v - s ∈ B and b if not, and r more for s = 0 whatever v is. a ≤ e^ε b, because
    2⁶⁴ ≤ b (ω e^ε + k - ω); adding r to both, or several shifts that give the same Z, keeps the ratio. ∎
    Theorems `subset_selection` and `subset_high` of proofs/.

    So a base set that is known, or drawn badly, costs precision and never privacy. A base set that is uniform gives

        high = P(v ∈ Z) = (ωa + rω/k)/2⁶⁴,     low = P(u ∈ Z) = (λa + (ω - λ)b + rω/k)/2⁶⁴,     λ = ω(ω - 1)/(k - 1).

    >>> hours = SubsetSelection(epsilon=1, buckets=Buckets.even(24, 10))
    >>> hours.size, hours.inside, hours.outside, hours.rest
    (2, 3731865564003923956, 1372876618212712963, 0)
    """

    epsilon: Fraction
    buckets: Buckets
    size: int
    inside: int  #: Weight of each bucket of the base set: a
    outside: int  #: Weight of each other bucket: b
    response: RandomizedResponse  #: A coin that loses as much as a whole answer

    def __init__(self, epsilon: Number, buckets: Buckets, size: int | None = None) -> None:
        count = len(buckets)
        if count > COHORTS:
            raise ParameterError("buckets", f"at most {COHORTS}", count)
        response = RandomizedResponse(epsilon)
        if response.epsilon * 2**40 < 1:  # rounding takes 2⁻⁴⁸ of a weight at most, so a stays above b
            raise ParameterError("epsilon", "a number of at least 2^-40", epsilon)
        best = best_size(response.epsilon, count) if size is None else size
        if not 1 <= best < count:
            raise ParameterError("size", f"a whole number from 1 to {count - 1}", size)
        inside, outside = weights(response.epsilon, count, best)
        freeze(
            self,
            epsilon=response.epsilon,
            buckets=buckets,
            size=best,
            inside=inside,
            outside=outside,
            response=response,
        )

    name = "subset"
    kind = "histogram"
    keys = ("size",)
    grid = None
    sampled_only = True
    memo_draws = 1

    @classmethod
    def from_table(
        cls, table: MetricTable, epsilon: Fraction | None, scale: Grid | Buckets | None, label: str
    ) -> SubsetSelection | None:
        """On the buckets of the plan's table, with its `size`, or the best one."""
        given = "size" in table
        size = table.integer("size", 1, COHORTS - 1) if given else None
        if epsilon and isinstance(scale, Buckets) and (size or not given):
            return cls(epsilon, scale, size)
        return None

    @property
    def settings(self) -> Mapping[str, str | int]:
        """The name and the size."""
        return {"mechanism": self.name, "size": self.size}

    @property
    def parameters(self) -> list[object]:
        """Both weights, the edges and the size."""
        edges = [str(edge) for edge in self.buckets.edges]
        return [self.name, str(self.inside), str(self.outside), edges, self.size]

    @property
    def exported(self) -> Mapping[str, object]:
        """The edges, the size and both weights."""
        return {
            "edges": [str(edge) for edge in self.buckets.edges],
            "size": self.size,
            "inside": str(self.inside),
            "outside": str(self.outside),
        }

    @property
    def for_remembered(self) -> Mechanism:
        """The Hadamard bit, where it has a row for every bucket, else one bit of dBitFlip."""
        hadamard_bit: Any = MECHANISMS["hadamard-bit"]
        d_bit_flip: Any = MECHANISMS["d-bit-flip"]
        few = len(self.buckets) < COHORTS
        other: Mechanism = (hadamard_bit if few else d_bit_flip)(
            self.epsilon, self.buckets, *([] if few else [1])
        )
        return other

    @property
    def title(self) -> str:
        """The name, and of how many."""
        return f"{self.name}, {self.size} of {len(self.buckets)}"

    @property
    def rest(self) -> int:
        """Weight of no shift, beside its own: r."""
        return SCALE - self.size * self.inside - (len(self.buckets) - self.size) * self.outside

    @property
    def bits(self) -> int:
        """One per bucket."""
        return len(self.buckets)

    @property
    def ones(self) -> int:
        """Every answer has `size` ones."""
        return self.size

    @property
    def base_draws(self) -> int:
        """One per bucket; the smallest make the base set."""
        return len(self.buckets)

    @property
    def classes(self) -> int:
        """A class is a bucket."""
        return len(self.buckets)

    def thresholds(self, memo_class: int, cohort: int = 0) -> tuple[int, ...]:
        """Its bits are no coins of their own: raises `ParameterError`."""
        raise ParameterError("mechanism", "one whose answer bits are drawn one by one", self.title)

    def chances(self, memo_class: int, cohort: int = 0) -> tuple[Fraction, ...]:
        """P(1) of each answer bit."""
        seen = self.channel(Flip(0))
        return tuple(seen.high if place == memo_class else seen.low for place in range(self.bits))

    def cuts(self, memo_class: int, cohort: int = 0) -> tuple[int, ...]:
        """Where another draw gives another shift."""
        middle = self.size * self.inside
        inner = [self.inside * place for place in range(1, self.size + 1)]
        return *inner, *(middle + self.outside * place for place in range(1, self.bits - self.size + 1))

    def answer(
        self, memo_class: int, cohort: int, memo: Sequence[int], base: Sequence[int]
    ) -> tuple[bool, ...]:
        """
        The base set, shifted by what the one draw of the class says.

        >>> hours = SubsetSelection(1, Buckets.even(24, 10))
        >>> base = [9, 9, 9, 1, 9, 9, 9, 1, 9, 9]  # the smallest draws are those of 3 and 7
        >>> [place for place, bit in enumerate(hours.answer(4, 0, [2**63], base)) if bit]
        [0, 6]
        """
        count = len(base)
        [draw] = memo
        order = sorted(range(count), key=lambda place: (base[place], place))
        members = sorted(order[: self.size])
        others = sorted(order[self.size :])
        middle = self.size * self.inside
        if draw < middle:
            shift = memo_class - members[draw // self.inside]
        elif draw < SCALE - self.rest:
            shift = memo_class - others[(draw - middle) // self.outside]
        else:
            shift = 0
        answered = {(member + shift) % count for member in members}
        return tuple(place in answered for place in range(count))

    @property
    def odds(self) -> tuple[int, int]:
        """Of a set with the value's bucket, and of one without it."""
        return self.inside, self.outside

    def changed_bits(self, width: int) -> int:
        """The whole answer of each class differs by as much as one coin."""
        return width

    def extremes(self, cohort: int) -> tuple[Measured, Measured] | None:
        """The first two buckets: all are alike."""
        return self.buckets.value_in(0), self.buckets.value_in(1)

    def channel(self, flip: Flip) -> Channel:
        """The exact shares of ones about a device's own bucket, and about another."""
        if flip.threshold:
            raise ParameterError("flip", "0, since answers are sampled", flip.probability)
        return _channel(self.inside, self.outside, len(self.buckets), self.size)

    def row_chances(self, flip: Flip) -> NDArray[np.float64]:
        """[row, bucket]: the chance of a 1."""
        import numpy as np

        return np.asarray(self.channel(flip).share(self.yes()))

    def variances(self, flip: Flip, truth: Any) -> tuple[Any, Any]:
        """n·Var of one answer about a share, in two parts: noise, and sampling."""
        seen = self.channel(flip)
        share = seen.share(truth)
        sampling = truth * (1 - truth)
        return share * (1 - share) / float(seen.contrast) ** 2 - sampling, sampling

    @property
    def paper_response(self) -> RandomizedResponse:
        """That of dBitFlip with a bit per bucket."""
        return RandomizedResponse(self.epsilon / 2)


@lru_cache(maxsize=1024)
def weights(epsilon: Fraction, count: int, size: int) -> tuple[int, int]:
    """
    The weights a and b, with e^ε rounded down: the loss is never above ε.

    >>> weights(Fraction(2), 10, 1)
    (8316771019665368497, 1125552561560464791)
    """
    ratio = Fraction(exponential_below(epsilon))
    outside = -(-SCALE // (size * ratio + count - size))
    return (SCALE - (count - size) * outside) // size, outside


@lru_cache(maxsize=1024)
def _channel(inside: int, outside: int, count: int, size: int) -> Channel:
    rest = Fraction((SCALE - size * inside - (count - size) * outside) * size, count)
    others = Fraction(size * (size - 1), count - 1)
    high = size * inside + rest
    low = others * inside + (size - others) * outside + rest
    return Channel(low / SCALE, high / SCALE)


@lru_cache(maxsize=1024)
def best_size(epsilon: Fraction, count: int) -> int:
    """
    The size under which the share of a bucket that few devices are in has the least variance; the smaller of two.

    In exact arithmetic, so that every reader of a plan without `size` finds the same.

    >>> [best_size(Fraction(1), count) for count in (4, 10, 32)]
    [1, 2, 8]
    """

    def variance(size: int) -> Fraction:
        seen = _channel(*weights(epsilon, count, size), count, size)
        return seen.low * (1 - seen.low) / seen.contrast**2

    return min(range(1, count), key=variance)
