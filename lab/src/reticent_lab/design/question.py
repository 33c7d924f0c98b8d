"""What a person wants to know: figures of a fleet, how precisely, and what devices are promised."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log10
from typing import Literal, NoReturn

from reticent.errors import ParameterError
from reticent_collector.estimates import check_confidence
from reticent_lab.design.spread import ValueSpread, round_numbers

Promise = Literal["constant", "window", "year"]

DAY = 86_400
LENGTHS = {"day": 1, "week": 7, "month": 28}
"""Lengths of rounds and periods, days."""

MOST_DEVICES = 10**12
KINDS = ("mean", "histogram", "choice", "flag", "split")
AMOUNTS = ("mean", "split")
"""Kinds that add up over days: their rounds may have any length, and their half-widths are per day."""


@dataclass(frozen=True)
class QuantileGoal:
    """
    A quantile that is to be known within a half-width, where it is about `value`.

    It is asked by a histogram with two inner edges, `value` less and plus the half-width. The interval of a quantile
    ends on edges. If the shares below both are known to half of their distances to `level`, then it lies between them
    whenever the intervals of the shares hold.
    """

    level: Fraction  #: The share of devices that it is not exceeded by
    half_width: Fraction  #: In the unit of the values
    value: Fraction  #: What it is in the values that the design was given

    @classmethod
    def figure(
        cls, name: str, unit: str, level: Fraction, half_width: Fraction, spread: ValueSpread
    ) -> Figure:
        """The histogram that answers it, for rounds of a day."""

        def refuse(part: str, expected: str, given: object) -> NoReturn:
            raise ParameterError(f"{name}: {part}", expected, given)

        if not 0 < level < 1:
            refuse("level", "a share between 0 and 1, both excluded", str(level))
        if half_width <= 0:
            refuse("goal", "a half-width above 0", str(half_width))
        if not spread.has(1):
            refuse("values", "values of a day, since a quantile is asked in rounds of a day", "longer rounds")
        goal = cls(level, half_width, spread.quantile(1, level))
        step = Fraction(10) ** (floor(log10(half_width)) - 1)
        low = ceil((goal.value - half_width) / step) * step
        high = floor((goal.value + half_width) / step) * step
        top = max(high + step, round_numbers(spread.largest(1), unit)[-1])
        edges = (Fraction(0), low, high, top) if low > 0 else (Fraction(0), high, top)
        shares = [spread.share_below(1, edge) for edge in edges[1:-1]]
        margin = min(abs(level - share) for share in shares)
        if margin < Fraction(1, 10_000):
            refuse(
                "goal",
                f"a half-width that some values are within: the quantile is {goal.value}",
                str(half_width),
            )
        return Figure(name, "histogram", unit, margin / 2, edges=edges, quantile=goal)


@dataclass(frozen=True)
class Figure:
    """
    One metric: what is asked, and the half-width that is wanted.

    A mean has a range from 0 to `max_value` of a day, or a `spread` of values that it is chosen from, or both. A
    split has an amount for each of its `labels`, which add up to at most `max_value` in a day. Half-widths of both
    are those of means per day, in their unit, and those of all others are shares. A split, a histogram and a choice
    have one for all labels or buckets at once. None is as narrow as can be. A quantile is a histogram with edges
    around it (`QuantileGoal.figure`).
    """

    name: str
    kind: str = "mean"
    unit: str = ""
    half_width: Fraction | None = None
    max_value: Fraction | None = None
    buckets: int | None = None
    edges: tuple[Fraction, ...] = ()
    labels: tuple[str, ...] = ()
    spread: ValueSpread | None = None
    quantile: QuantileGoal | None = None

    def __post_init__(self) -> None:
        def refuse(part: str, expected: str, given: object) -> None:
            raise ParameterError(f"{self.name}: {part}", expected, given)

        if self.kind not in KINDS:
            refuse("kind", " or ".join(KINDS), self.kind)
        if self.half_width is not None and self.half_width <= 0:
            refuse("goal", "a half-width above 0", str(self.half_width))
        if not self.is_amount and self.half_width is not None and self.half_width >= Fraction(1, 2):
            refuse("goal", "a share below 1/2, such as 0.01 or 1%", str(self.half_width))
        if self.kind == "mean" and self.max_value is None and self.spread is None:
            refuse("range", "the top of its range, or a file of values", "neither")
        if self.kind == "histogram" and not self.edges and self.buckets is None:
            refuse("buckets", "a number of buckets, or edges", "neither")
        if self.kind == "histogram" and not self.edges and self.max_value is None and self.spread is None:
            refuse("range", "the top of its range, edges, or a file of values", "none of them")
        if (self.kind in ("choice", "split")) != bool(self.labels):
            refuse(
                "labels",
                "labels of a choice or a split, and of nothing else",
                ", ".join(self.labels) or "none",
            )
        if self.kind == "split" and self.spread is not None:
            refuse("values", "a range for all labels together: a split takes no file", "a file")
        if self.kind == "split" and self.max_value is None:
            refuse("range", "what its amounts add up to at most in a day", "none")

    @property
    def is_amount(self) -> bool:
        """Whether it adds up over days."""
        return self.kind in AMOUNTS


@dataclass(frozen=True)
class Question:
    """
    Figures of a fleet, each for a period of `per` days, and the promise to devices.

        "constant"  a device that keeps its values loses at most `limit` for ever; remembered answers
        "window"    any two histories lose at most `limit` in one window; sampled answers
        "year"      any two histories lose at most `limit` in a year; sampled answers

    Each of `segments` equal parts of the fleet is to be that precise. `round_days` is the length of a round; chosen
    if left out, and a day where something else than amounts is asked, since it is part of their question.
    """

    figures: tuple[Figure, ...]
    devices: int
    promise: Promise = "year"
    limit: Fraction = Fraction(54)
    per: int = 7
    round_days: int | None = None
    segments: int = 1
    confidence: float = 0.95
    name: str = "plan"

    def __post_init__(self) -> None:
        if not 1 <= self.devices <= MOST_DEVICES:
            raise ParameterError("devices", f"1 to {MOST_DEVICES:,}", self.devices)
        check_confidence(self.confidence)
        if not self.figures:
            raise ParameterError("metrics", "at least one", "none")
        if not 1 <= self.segments <= self.devices:
            raise ParameterError("segments", f"1 to {self.devices}", self.segments)
        if self.limit <= 0:
            raise ParameterError(self.promise, "a loss above 0", str(self.limit))
        if self.per not in (1, *(7 * weeks for weeks in range(1, 53))):
            raise ParameterError("per", "a day, or 1 to 52 whole weeks", f"{self.per} days")
        if not self.rounds:
            raise ParameterError(
                "values",
                f"values of enough days for a round that divides {self.per} days",
                "too few days",
                "another round or period, or a longer recording",
            )

    @property
    def rounds(self) -> tuple[int, ...]:
        """The lengths of rounds that answer it, in days."""
        lengths = tuple(LENGTHS.values()) if self.round_days is None else (self.round_days,)
        if self.round_days is None and not all(figure.is_amount for figure in self.figures):
            lengths = (1,)
        spreads = [figure.spread for figure in self.figures if figure.spread is not None]
        return tuple(
            length
            for length in lengths
            if self.per % length == 0 and all(spread.has(length) for spread in spreads)
        )

    @property
    def reports(self) -> int:
        """Devices behind one figure."""
        return self.devices // self.segments
