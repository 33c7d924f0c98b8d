"""The buckets of a histogram."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from reticent.errors import ParameterError
from reticent.mechanisms.exact import Number, exact, whole_if_possible
from reticent.mechanisms.rounding import place_among


@dataclass(frozen=True, slots=True, init=False)
class Buckets:
    """
    [e₀, e₁), [e₁, e₂), …, [e_{k-1}, e_k]: the last one holds the top of the range too.

    >>> hours = Buckets.even(max_value=24, count=3)
    >>> [hours.index(value) for value in (0, 7, 8, 24)]
    [0, 0, 1, 2]
    """

    edges: tuple[int | Fraction, ...]

    def __init__(self, edges: Iterable[Number]) -> None:
        given = tuple(edges)
        exact_edges = tuple(whole_if_possible(exact(edge, "edges")) for edge in given)
        increasing = all(a < b for a, b in pairwise(exact_edges))
        if len(exact_edges) < 3 or exact_edges[0] != 0 or not increasing:
            raise ParameterError(
                "edges",
                "at least three numbers that start at 0 and increase",
                [str(edge) for edge in given],
            )
        object.__setattr__(self, "edges", exact_edges)

    @classmethod
    def even(cls, max_value: Number, count: int) -> Buckets:
        """`count` buckets of one width."""
        top = exact(max_value, "max_value")
        if top <= 0:
            raise ParameterError("max_value", "a number > 0", max_value)
        if not isinstance(count, int) or count < 2:
            raise ParameterError("buckets", "a whole number >= 2", count)
        return cls(top * edge / count for edge in range(count + 1))

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def max_value(self) -> int | Fraction:
        """The last edge."""
        return self.edges[-1]

    def index(self, value: int | Fraction) -> int:
        """The bucket that holds `value`, which must lie in the range."""
        return min(place_among(self.edges, value), len(self)) - 1
