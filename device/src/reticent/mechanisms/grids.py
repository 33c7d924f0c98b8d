"""The grid a counter is rounded to, with α-point rounding onto it, and the buckets of a histogram."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise

from reticent.errors import ParameterError
from reticent.frozen import freeze, frozen
from reticent.mechanisms.response import SCALE, Number, exact, whole_if_possible


@frozen()
class Grid:
    """
    The points 0 = g₀ < g₁ < … < g_K = m that values are rounded to; a *cell* is the index of a point.

    >>> Grid.even(max_value=60, step=20).points
    (0, 20, 40, 60)
    """

    points: tuple[int | Fraction, ...]

    def __init__(self, points: Iterable[Number]) -> None:
        given = tuple(points)
        grid = tuple(whole_if_possible(exact(point, "grid")) for point in given)
        if len(grid) < 2 or grid[0] != 0 or any(a >= b for a, b in pairwise(grid)):
            raise ParameterError("grid", "points that start at 0 and increase", ", ".join(map(str, given)))
        freeze(self, points=grid)

    @classmethod
    def even(cls, max_value: Number, step: Number | None = None) -> Grid:
        """Points every `step` from 0 to `max_value`; one step (two points) when it is left out."""
        top = exact(max_value, "max_value")
        size = top if step is None else exact(step, "step")
        if top <= 0:
            raise ParameterError("max_value", "a number > 0", max_value)
        if not 0 < size <= top or (top / size).denominator != 1:
            raise ParameterError(
                "step",
                f"a number > 0 that divides max_value ({max_value})",
                step,
                "a top cell above max_value would break the privacy bound; "
                "give grid = [0, …, max_value] for uneven steps",
            )
        return cls(size * cell for cell in range(int(top / size) + 1))

    @property
    def max_value(self) -> int | Fraction:
        """The last point, m."""
        return self.points[-1]

    @property
    def steps(self) -> int:
        """K, the number of steps between points."""
        return len(self.points) - 1

    def cell(self, value: int | Fraction, alpha: int) -> int:
        """
        The cell that `value` rounds to for a device whose rounding draw is `alpha` (§3.1).

        With L ≤ value < R the neighbouring points, the value goes up exactly when

            alpha · (R - L)  ≥  (R - value) · 2⁶⁴,

        which happens for ⌊(value - L)/(R - L) · 2⁶⁴⌋ of the 2⁶⁴ alphas: the mean of the rounded value is at most
        the value, and less than (R - L)/2⁶⁴ below it (theorem `rounding_is_nearly_unbiased`). The same
        alpha serves every pair of neighbours, so a device that drifts by little keeps its cell.

        >>> Grid.even(100).cell(30, alpha=0), Grid.even(100).cell(30, alpha=2**64 - 1)
        (0, 1)
        """
        points = self.points
        above = place_among(points, value)
        below = above - 1
        if above == len(points):
            return below
        left, right = points[below], points[above]
        if type(value) is int:
            return below + (alpha * (right - left) >= (right - value) * SCALE)
        parts, whole = value.numerator, value.denominator
        return below + (alpha * (right - left) * whole >= (right * whole - parts) * SCALE)


@frozen()
class Buckets:
    """
    [e₀, e₁), [e₁, e₂), …, [e_{k-1}, e_k]: the last one holds the top of the range too.

    With `absent`, one more bucket follows, for devices that have no value.

    >>> hours = Buckets.even(max_value=24, count=3, absent=True)
    >>> [hours.index(value) for value in (0, 7, 8, 24, None)]
    [0, 0, 1, 2, 3]
    """

    edges: tuple[int | Fraction, ...]
    absent: bool

    def __init__(self, edges: Iterable[Number], absent: bool = False) -> None:
        given = tuple(edges)
        exact_edges = tuple(whole_if_possible(exact(edge, "edges")) for edge in given)
        increasing = all(a < b for a, b in pairwise(exact_edges))
        if len(exact_edges) < 3 or exact_edges[0] != 0 or not increasing:
            expected = "at least three numbers that start at 0 and increase"
            raise ParameterError("edges", expected, ", ".join(map(str, given)))
        freeze(self, edges=exact_edges, absent=absent)

    @classmethod
    def even(cls, max_value: Number, count: int, absent: bool = False) -> Buckets:
        """`count` buckets of one width."""
        top = exact(max_value, "max_value")
        if top <= 0:
            raise ParameterError("max_value", "a number > 0", max_value)
        if not isinstance(count, int) or count < 2:
            raise ParameterError("buckets", "a whole number >= 2", count)
        return cls(
            (Fraction(top.numerator * edge, top.denominator * count) for edge in range(count + 1)), absent
        )

    def __len__(self) -> int:
        return len(self.edges) - 1 + self.absent

    @property
    def max_value(self) -> int | Fraction:
        """The last edge."""
        return self.edges[-1]

    def index(self, value: int | Fraction | None) -> int:
        """The bucket that holds `value`, which must lie in the range; None is for no value."""
        if value is None:
            return len(self.edges) - 1 if self.absent else 0
        return min(place_among(self.edges, value), len(self.edges) - 1) - 1

    def value_in(self, bucket: int) -> int | Fraction | None:
        """A value that lies in a bucket: its lower edge, and None in the bucket for no value."""
        return self.edges[bucket] if bucket < len(self.edges) - 1 else None


def place_among(points: tuple[int | Fraction, ...], value: int | Fraction) -> int:
    """How many of the sorted `points` are not above `value`; by its whole part first: integers compare faster."""
    if type(value) is int:
        return bisect_right(points, value)
    place = bisect_right(points, value.numerator // value.denominator)
    while place < len(points) and type(points[place]) is not int and points[place] <= value:
        place += 1
    return place
