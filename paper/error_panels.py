"""Errors of mechanisms against ε, as in Figures 4 to 7: measured, tabled and drawn in panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from paper.experiment import Table
from reticent.plots import COLOURS, MARKERS, drawing, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Spread:
    """
    The errors of one mechanism at one ε: their mean and one standard deviation.

    >>> Spread.of(np.array([1.0, 3.0]))
    Spread(mean=2.0, deviation=1.0, runs=2)
    """

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, errors: NDArray[np.float64]) -> Spread:
        """Of errors measured, in an array of any shape."""
        return cls(float(errors.mean()), float(errors.std()), errors.size)

    @property
    def uncertainty(self) -> float:
        """The standard error of the mean: what more repetitions would shrink."""
        return self.deviation / sqrt(self.runs)


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: for each mechanism a line of errors over ε (or whatever is the abscissa)."""

    title: str
    devices: int
    lines: Mapping[str, Mapping[float, Spread]]
    truth: float = 0.0
    """The quantity estimated, averaged over days, where it is one number."""

    @property
    def abscissae(self) -> tuple[float, ...]:
        """The ε of all lines."""
        return tuple(next(iter(self.lines.values())))

    def mean(self, mechanism: str, epsilon: float) -> float:
        """The mean error."""
        return self.lines[mechanism][epsilon].mean

    def ratio(self, mechanism: str, other: str, epsilon: float) -> float:
        """How many times the mean error of `other` that of `mechanism` is; below 1 is better."""
        return self.mean(mechanism, epsilon) / self.mean(other, epsilon)


def error_table(name: str, title: str, measured: Sequence[Panel], unit: str, abscissa: str = "ε") -> Table:
    """All figures of some panels, one row per point."""
    rows = [
        (panel.title, panel.devices, mechanism, epsilon, spread.mean, spread.deviation, spread.uncertainty)
        for panel in measured
        for mechanism, line in panel.lines.items()
        for epsilon, spread in line.items()
    ]
    columns = (
        "panel",
        "devices",
        "mechanism",
        abscissa,
        f"mean error ({unit})",
        f"standard deviation ({unit})",
        f"standard error of the mean ({unit})",
    )
    return Table(name, title, columns, tuple(rows))


@dataclass(frozen=True, slots=True)
class Line:
    """How a mechanism is drawn: the same wherever it appears."""

    mechanism: str
    place: int
    """Its number among all mechanisms, which gives colour and marker."""
    dashed: bool = False


@drawing
def draw_panels(
    rows: Sequence[tuple[Sequence[Panel], str]], lines: Sequence[Line], ordinate: str, height: float = 3.1
) -> Figure:
    """
    A figure with a row of panels for each of `rows`, given with the label of its abscissa.

    Both axes are logarithmic, bars show one standard deviation, and lines are moved apart a little so that
    their bars can be told from each other.
    """
    columns = len(rows[0][0])
    figure, axes = panels(columns, len(rows), width=3.5, height=height, sharey=True)
    for place, axis in enumerate(axes):
        row, column = divmod(place, columns)
        measured, abscissa = rows[row]
        _draw(axis, measured[column], lines)
        axis.set_xlabel(abscissa)
        if column == 0:
            axis.set_ylabel(ordinate)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _draw(axis: Axes, panel: Panel, lines: Sequence[Line]) -> None:
    axis.set_title(panel.title, fontsize="medium")
    axis.set_xscale("log")
    axis.set_yscale("log")
    drawn = [line for line in lines if line.mechanism in panel.lines]
    for offset, line in enumerate(drawn):
        points = panel.lines[line.mechanism]
        apart = 1.03 ** (offset - (len(drawn) - 1) / 2)
        axis.errorbar(
            [epsilon * apart for epsilon in points],
            [spread.mean for spread in points.values()],
            [spread.deviation for spread in points.values()],
            label=line.mechanism,
            color=COLOURS[line.place % len(COLOURS)],
            marker=MARKERS[line.place % len(MARKERS)],
            linestyle="--" if line.dashed else "-",
            elinewidth=0.8,
            capsize=2.0,
            linewidth=1.4,
            markersize=4.0,
        )
    axis.set_xticks(panel.abscissae, [f"{epsilon:g}" for epsilon in panel.abscissae])
    axis.minorticks_off()
