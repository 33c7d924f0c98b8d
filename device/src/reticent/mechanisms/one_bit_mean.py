"""1BitMean, on a grid: with a memo per cell it is the paper's 1BitRRPM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from reticent.errors import ParameterError
from reticent.frozen import freeze, frozen
from reticent.mechanisms.grids import Buckets, Grid
from reticent.mechanisms.mechanism import Mechanism, MetricTable
from reticent.mechanisms.response import SCALE, Number, RandomizedResponse

MANY_STEPS = 20


@frozen("cell_thresholds")
class OneBitMean(Mechanism):
    """
    One noisy bit about one counter.

    A device holding a value *x* in [0, *max_value*] answers 1 with probability

        1 / (e^ε + 1)  +  (x / m) · (e^ε - 1) / (e^ε + 1)          (Eq. 1)

    which is ε-LDP (Lemma 1). The value is first rounded to a point of `grid` by the device's own alpha
    (Theorem 3); the bit is then drawn once per point and kept. Over alphas the chance of a 1 is never above
    Eq. 1 with the integer thresholds at 0 and m, and less than 2/2⁶⁴ below it (theorem
    `one_bit_mean_over_alphas`).

    It is never above because alphas that round up are counted down (`Grid.cell`) and the thresholds of inner
    points are rounded down. The proof of `joint_limit_loss` needs this: rounded to the nearest or up, a value
    could weigh more than its part of the limit.

    >>> day = OneBitMean(epsilon=1.0, max_value=86_400)
    >>> [round(day.probability_of_one(x), 4) for x in (0, 43_200, 86_400)]
    [0.2689, 0.5, 0.7311]
    """

    response: RandomizedResponse
    grid: Grid
    cell_thresholds: tuple[int, ...]

    def __init__(
        self,
        epsilon: Number,
        max_value: Number | None = None,
        step: Number | None = None,
        grid: Grid | None = None,
    ) -> None:
        response = RandomizedResponse(epsilon)
        if grid is None and max_value is not None:
            points = Grid.even(max_value, step)
        elif grid is not None and max_value is None and step is None:
            points = grid
        else:
            raise ParameterError("grid", "either max_value (and step) or grid", "both" if grid else "neither")
        spread = response.high - response.low
        top = points.max_value
        thresholds = tuple(response.low + point * spread // top for point in points.points)
        freeze(self, response=response, grid=points, cell_thresholds=thresholds)

    name = "one-bit-mean"
    kind = "mean"
    buckets = None

    @classmethod
    def from_table(
        cls, table: MetricTable, epsilon: Fraction | None, scale: Grid | Buckets | None, label: str
    ) -> OneBitMean | None:
        """On the grid of the plan's table."""
        return cls(epsilon, grid=scale) if epsilon and isinstance(scale, Grid) else None

    @property
    def settings(self) -> Mapping[str, str | int]:
        """None: it is the one mechanism for a mean."""
        return {}

    @property
    def parameters(self) -> list[object]:
        """The coin and the grid."""
        return [self.name, str(self.response.low), [str(point) for point in self.grid.points]]

    @property
    def exported(self) -> Mapping[str, object]:
        """The coin, the points of the grid, and the threshold at each."""
        return {
            "low": str(self.response.low),
            "points": [str(point) for point in self.grid.points],
            "thresholds": [str(threshold) for threshold in self.cell_thresholds],
        }

    def warnings(self) -> Iterator[tuple[str, str, str, str]]:
        """A fine grid is paid for with privacy and buys nothing."""
        if self.grid.steps > MANY_STEPS:
            yield (
                "step",
                "many-steps",
                f"makes {self.grid.steps} steps: each point a device visits adds to its same-pattern loss.",
                "accuracy does not depend on step; max_value (one step) is the most private",
            )

    @property
    def classes(self) -> int:
        """How many answers a device may ever have to remember: one per grid point."""
        return len(self.grid.points)

    def probability_of_one(self, value: Any) -> Any:
        """Eq. 1, for a number or an array."""
        low = self.response.low / SCALE
        return low + value / float(self.max_value) * (1 - 2 * low)

    def thresholds(self, memo_class: int, cohort: int = 0) -> tuple[int, ...]:
        """What each answer bit's draw is compared with."""
        return (self.cell_thresholds[memo_class],)

    def shares(self, memo_class: int, cohort: int = 0) -> tuple[Decimal, ...]:
        """Eq. 1 at a grid point, in the caller's decimal context."""
        epsilon = self.epsilon
        part = Fraction(self.grid.points[memo_class]) / self.max_value
        low = 1 / ((Decimal(epsilon.numerator) / epsilon.denominator).exp() + 1)
        return (low + Decimal(part.numerator) / part.denominator * (1 - 2 * low),)
