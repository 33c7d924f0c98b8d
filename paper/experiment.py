"""What an experiment of the paper is given, and what it hands back: tables, pictures and judged claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reticent.lab.fleet import Population

DAY = 86_400
"""Seconds in a day: the range *m* of the paper's experiments."""

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The abscissae of Figures 4 to 7."""


@dataclass(frozen=True, slots=True)
class Setting:
    """
    The size of a run; the defaults are the paper's.

    `population` stands in for the data set that the paper does not publish; None takes the default stand-in.
    Every random number of an experiment comes from `seed` and the experiment's own name.
    """

    seed: int = 2017
    repetitions: int = 3_000
    fleets: tuple[int, ...] = (300_000, 1_000_000, 3_000_000)
    days: int = 31
    population: Population | None = None


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    CONDITION = "holds under a condition"
    FAILS = "does not hold"


@dataclass(frozen=True, slots=True)
class Claim:
    """Something the paper says, what was measured, and the verdict, which follows from the figures."""

    place: str
    """Where it stands, such as "§5, Figure 4"."""
    says: str
    """The claim, in our words."""
    measured: str
    """The figures that decide it."""
    verdict: Verdict
    condition: str = ""
    """When it holds, or why it does not; empty if it simply holds."""
    erratum: str = ""
    """The row of docs/explanation/errata.md, such as "E22"."""


@dataclass(frozen=True, slots=True)
class Table:
    """Figures with names: a CSV file, and a table in the report."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def figures(self, column: str) -> tuple[float, ...]:
        """
        A column of numbers, for what is computed from them.

        >>> Table("t", "T", ("word", "figure"), (("a", 1), ("b", 2.5))).figures("figure")
        (1.0, 2.5)
        """
        place = self.columns.index(column)
        return tuple(float(str(row[place])) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot that is drawn when it is saved; the caption says in words what it shows."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True, slots=True)
class Result:
    """What one experiment found."""

    name: str
    """The word on the command line: "fig4"."""
    title: str
    summary: str
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    claims: tuple[Claim, ...] = ()


class Progress(Protocol):
    """Told how far a run is."""

    def __call__(self, done: float, total: float) -> None:
        """So much of so much."""


def quiet(done: float, total: float) -> None:
    """Tell nobody."""
