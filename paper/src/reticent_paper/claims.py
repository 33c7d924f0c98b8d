"""What an experiment is given and hands back: tables, pictures, and claims of the paper with a verdict each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from inspect import getdoc
from typing import TYPE_CHECKING, ParamSpec

from reticent_collector.plots import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reticent_lab.fleet import Population

DAY = 86_400  # Seconds in a day: the range *m* of the paper's experiments
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # The abscissae of Figures 4 to 7
Given = ParamSpec("Given")
Rows = Iterator[dict[str, object]]  # The rows of a table, by the names of the columns, all in the same order


@dataclass(frozen=True, slots=True)
class Setting:
    """
    The size of a run; the defaults are the paper's.

    `populations` are the counters in place of the unpublished data set; by default three fitted generators.
    """

    seed: int = 2017
    repetitions: int = 3_000
    fleets: tuple[int, ...] = (300_000, 1_000_000, 3_000_000)
    days: int = 31
    populations: tuple[Population, ...] = ()


class ClaimVerdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    CONDITION = "holds with a condition"
    CORRECTED = "needed correcting"
    OPEN = "not checkable on public data"


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A sentence of the paper, what was found, and the verdict, which follows from the finding."""

    place: str  #: Where it stands, such as "§5, Figure 4"
    says: str  #: The claim, in our words
    measured: str  #: The numbers that decide it
    verdict: ClaimVerdict
    condition: str = ""  #: The condition or the correction; empty if it simply holds
    erratum: str = ""
    """The row of docs/explanation/errata.md, such as "E22"; several are separated by commas."""
    check: str = "exact"
    """How it was checked: "exact" (computed over all outcomes) or "measured" (simulated)."""
    ours: str = ""
    """The threshold that we set for a word such as "comparable", which the paper does not define."""
    quote: str = ""
    """Words of the paper that the claim is about; empty for a claim of reticent's own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about a claim, and whether it holds, or holds under a condition."""

    measured: str
    holds: bool
    otherwise: str = ""  #: The condition, or the correction
    partly: bool = False  #: It holds under the condition
    public: bool = True  #: Whether what it speaks of is published; else our stand-in decides nothing

    @property
    def verdict(self) -> ClaimVerdict:
        """One of four."""
        if not self.public:
            return ClaimVerdict.OPEN
        if self.holds:
            return ClaimVerdict.HOLDS
        return ClaimVerdict.CONDITION if self.partly else ClaimVerdict.CORRECTED


def claim(
    place: str, quote: str, erratum: str = "", check: str = "measured", ours: str = ""
) -> Callable[[Callable[Given, Finding]], Callable[Given, PaperClaim]]:
    """A claim of the paper, quoted: a function that judges it, whose docstring begins with the claim in our words."""

    def decorate(judge: Callable[Given, Finding]) -> Callable[Given, PaperClaim]:
        @wraps(judge)
        def judged(*args: Given.args, **kwargs: Given.kwargs) -> PaperClaim:
            finding = judge(*args, **kwargs)
            condition = "" if finding.holds else finding.otherwise
            return PaperClaim(
                place,
                _words(judge),
                finding.measured,
                finding.verdict,
                condition,
                erratum,
                check,
                ours,
                quote,
            )

        return judged

    return decorate


def _words(function: Callable[..., object]) -> str:
    """The first paragraph of a function's docstring."""
    return " ".join((getdoc(function) or "").partition("\n\n")[0].split())


@dataclass(frozen=True, slots=True)
class Measured:
    """A number that a claim is judged by: where it was measured, and whether the claim is true there."""

    where: str
    epsilon: float
    value: float
    passes: bool


def judge_points(
    place: str,
    says: str,
    what: str,
    points: Sequence[Measured],
    erratum: str = "",
    ours: str = "",
    quote: str = "",
    *,
    public: bool = True,
) -> PaperClaim:
    """A claim that is judged by all its points: it holds, holds under the condition of some, or at none."""
    failing = [point for point in points if not point.passes]
    measured = f"{what}: {_range(points)}"
    verdict = Finding(measured, not failing, partly=len(failing) < len(points), public=public).verdict
    condition = f"not {_places(points, failing)}" if failing else ""
    return PaperClaim(place, says, measured, verdict, condition, erratum, "measured", ours, quote)


def _range(points: Sequence[Measured]) -> str:
    least, most = (f"{extreme(point.value for point in points):.3g}" for extreme in (min, max))
    return least if least == most else f"{least} to {most}"


def _places(points: Sequence[Measured], failing: Sequence[Measured]) -> str:
    """Where a claim is not true: the ε if they are the same in all panels, else also at how many points."""
    if len(failing) == len(points):
        return "at any point"
    epsilons = sorted({point.epsilon for point in failing})
    panels = len({point.where for point in points})
    number = "" if len(failing) == len(epsilons) * panels else f"{len(failing)} of {len(points)} points, "
    return f"at {number}ε = {', '.join(f'{epsilon:g}' for epsilon in epsilons)} ({_range(failing)})"


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Numbers with names: a CSV file, and a table in the report."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def numbers(self, column: str) -> tuple[float, ...]:
        """A column of numbers; empty cells are left out."""
        place = self.columns.index(column)
        return tuple(float(str(row[place])) for row in self.rows if row[place] != "")

    def is_number(self, place: int) -> bool:
        """Whether a column has numbers in it, and is aligned to the right."""
        cells = [row[place] for row in self.rows]
        return any(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot that is drawn when it is saved; the caption says in words what it shows."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def table(name: str) -> Callable[[Callable[Given, Rows]], Callable[Given, NumberTable]]:
    """A table: a function that yields its rows, which name their cells, and whose docstring is its title."""

    def decorate(work: Callable[Given, Rows]) -> Callable[Given, NumberTable]:
        @wraps(work)
        def made(*args: Given.args, **kwargs: Given.kwargs) -> NumberTable:
            rows = list(work(*args, **kwargs))
            return NumberTable(name, _words(work), tuple(rows[0]), tuple(tuple(row.values()) for row in rows))

        return made

    return decorate


def picture(name: str, title: str) -> Callable[[Callable[Given, Figure]], Callable[Given, Plot]]:
    """A picture: a function that draws it, in our look, and whose docstring is its caption."""

    def decorate(draw: Callable[Given, Figure]) -> Callable[Given, Plot]:
        @wraps(draw)
        def made(*args: Given.args, **kwargs: Given.kwargs) -> Plot:
            return Plot(name, title, _words(draw), lambda: drawing(draw)(*args, **kwargs))

        return made

    return decorate


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """What one experiment found."""

    name: str  #: The word on the command line: "fig4"
    title: str
    summary: str
    tables: tuple[NumberTable, ...] = ()
    pictures: tuple[Plot, ...] = ()
    claims: tuple[PaperClaim, ...] = ()

    def stem(self, part: NumberTable | Plot) -> str:
        """The file name of a table or picture, without its ending: that of its experiment comes first."""
        return part.name if part.name.startswith(self.name) else f"{self.name}-{part.name}"


@dataclass(frozen=True, slots=True)
class Run:
    """What experiments found, and what it took."""

    setting: Setting
    results: tuple[ExperimentResult, ...]
    seconds: tuple[float, ...]  #: Per result
    peak_bytes: int  #: The most memory that the process ever held; 0 where the system does not tell
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def of_the_paper(self) -> list[PaperClaim]:
        """Claims that stand in the paper, in the order of their places, which begin with a §."""

        def section(claim: PaperClaim) -> list[int]:
            return [int(number) for number in re.findall(r"\d+", claim.place.partition(",")[0])]

        claims = [claim for result in self.results for claim in result.claims]
        return sorted((claim for claim in claims if claim.place.startswith("§")), key=section)

    @property
    def of_reticent(self) -> list[PaperClaim]:
        """Claims of reticent's own, beside the paper's."""
        claims = [claim for result in self.results for claim in result.claims]
        return [claim for claim in claims if not claim.place.startswith("§")]
