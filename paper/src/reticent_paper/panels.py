"""Errors of mechanisms against ε, as in Figures 4 to 7: measured, tabled, drawn in panels and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from reticent.plan import Metric
from reticent_collector.estimates import paper_bound
from reticent_collector.plots import COLOURS, MARKERS, drawing, panels
from reticent_paper.claims import DAY, Measured, NumberTable, PaperClaim, Setting, judge_points
from reticent_paper.values import SYNTHETIC, Days, stand_in_days, stand_ins, synthetic_days

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIE = 1.02
"""A mean error up to 2 % larger still counts as "no worse": more than the Monte Carlo error of a ratio."""

BETTER = f"better: at most {TIE:g} times the other's error"

COMPARABLE = 1.5
"""Two mechanisms are "comparable" when neither has more than 1.5 times the mean error of the other."""

ALMOST_THE_SAME = 1.25
"""Two data sets give "almost the same" error when neither has more than 1.25 times that of the other."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The errors of one mechanism at one ε: their mean and one standard deviation."""

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
    truth: float = 0.0  #: The quantity estimated, averaged over days, where it is one number

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


Errors = TypeVar("Errors")
Measure = Callable[[str, Days, int, Setting, str], Errors]
"""From title, days, max_value, setting and the name of the random numbers to the errors of all mechanisms."""


def on_usage_data(
    measure: Measure[Errors], name: str, setting: Setting, counters: int = 1
) -> tuple[Errors, ...]:
    """The errors on the first counters that stand in for the paper's data, all their days together, by fleet."""
    chosen = stand_ins(setting)[:counters]
    measured = []
    for place, devices in enumerate(setting.fleets):
        per_counter = [stand_in_days(counter, setting)[place] for counter in chosen]  # type: ignore[arg-type]
        days = tuple(day for days_of_counter in per_counter for day in days_of_counter)
        title = f"n = {devices / 1e6:g} million" if devices >= 100_000 else f"n = {devices:,}"
        measured.append(measure(title, days, chosen[0].max_value, setting, f"{name} {title}"))
    return tuple(measured)


def on_synthetic_data(measure: Measure[Errors], name: str, setting: Setting) -> tuple[Errors, ...]:
    """The errors on each synthetic data set, of the smallest fleet."""
    return tuple(
        measure(title, days, DAY, setting, f"{name} {title}")
        for (title, _), days in zip(SYNTHETIC, synthetic_days(setting), strict=True)
    )


def error_table(
    name: str, title: str, measured: Sequence[Panel], unit: str, abscissa: str = "ε"
) -> NumberTable:
    """All numbers of some panels, one row per point."""
    errors = ("mean error", "standard deviation", "standard error of the mean")
    return NumberTable(
        name,
        title,
        ("panel", "devices", "mechanism", abscissa, *(f"{error} ({unit})" for error in errors)),
        tuple(
            (
                panel.title,
                panel.devices,
                mechanism,
                epsilon,
                spread.mean,
                spread.deviation,
                spread.uncertainty,
            )
            for panel in measured
            for mechanism, line in panel.lines.items()
            for epsilon, spread in line.items()
        ),
    )


@dataclass(frozen=True, slots=True)
class PanelLine:
    """How a mechanism is drawn: the same wherever it appears."""

    mechanism: str
    place: int  #: Its number among all mechanisms, which gives colour and marker
    dashed: bool = False


@drawing
def draw_panels(
    rows: Sequence[tuple[Sequence[Panel], str]], lines: Sequence[PanelLine], ordinate: str
) -> Figure:
    """A row of logarithmic panels for each of `rows`, with the label of its abscissa; bars are one deviation."""
    columns = len(rows[0][0])
    figure, axes = panels(columns, len(rows), width=3.5, height=3.1, sharey=True)
    for place, axis in enumerate(axes):
        row, column = divmod(place, columns)
        measured, abscissa = rows[row]
        panel = measured[column]
        axis.set_title(panel.title, fontsize="medium")
        axis.set(xscale="log", yscale="log")
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
        axis.set_xlabel(abscissa)
        if column == 0:
            axis.set_ylabel(ordinate)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def no_worse(ratio: float) -> bool:
    """Whether a ratio of mean errors makes the first no worse than the second."""
    return ratio <= TIE


def within(factor: float) -> Callable[[float], bool]:
    """Whether a ratio lies between 1/factor and factor."""
    return lambda ratio: 1 / factor <= ratio <= factor


def points(
    measured: Iterable[Panel],
    value: Callable[[Panel, float], float],
    passes: Callable[[float], bool],
    epsilons: Sequence[float] = (),
) -> list[Measured]:
    """A value at every point of some panels, or at some ε, and whether the claim is true there."""
    return [
        Measured(panel.title, epsilon, value(panel, epsilon), passes(value(panel, epsilon)))
        for panel in measured
        for epsilon in epsilons or panel.abscissae
    ]


def ratios(
    measured: Iterable[Panel],
    mechanism: str,
    other: str,
    passes: Callable[[float], bool],
    epsilons: Sequence[float] = (),
) -> list[Measured]:
    """The mean error of a mechanism over that of another, at every point or at some ε."""
    return points(measured, lambda panel, epsilon: panel.ratio(mechanism, other, epsilon), passes, epsilons)


def bounded(
    place: str,
    says: str,
    measured: Iterable[Panel],
    mechanisms: Iterable[str],
    metric: Callable[[str, float], Metric],
    erratum: str = "",
    ours: str = "",
    quote: str = "",
) -> PaperClaim:
    """The claim that errors stay within the paper's bound at 95 %, for the `metric` of a mechanism at ε."""
    over_bound = [
        Measured(f"{panel.title}, {mechanism}", epsilon, ratio, ratio <= 1)
        for panel in measured
        for mechanism in mechanisms
        for epsilon, spread in panel.lines[mechanism].items()
        for bound in [paper_bound(metric(mechanism, epsilon), panel.devices)]
        for ratio in [(spread.mean + spread.deviation) / bound]
    ]
    return judge_points(place, says, "error over the bound", over_bound, erratum, ours, quote)


def almost_the_same(
    place: str, measured: Iterable[Panel], reference: Panel, names: Sequence[str]
) -> PaperClaim:
    """The claim that mechanisms err on synthetic data as they do on the usage data of `reference`."""
    both_ways = within(ALMOST_THE_SAME)
    found = [
        Measured(f"{name}: {panel.title}", epsilon, ratio, both_ways(ratio))
        for name in names
        for panel in measured
        for epsilon in panel.abscissae
        for ratio in [panel.mean(name, epsilon) / reference.mean(name, epsilon)]
    ]
    failing = [point for point in found if not point.passes]
    off = sorted({point.where.partition(": ")[0] for point in failing}, key=list(names).index)
    answer = judge_points(
        place,
        "On synthetic data the errors are almost the same as on usage data.",
        "error over that on usage data",
        found,
        "E22",
        f"almost the same: within {ALMOST_THE_SAME:g} times",
        quote="are almost the same as those in",
    )
    if not failing:
        return answer
    least = min(point.epsilon for point in failing)
    return replace(answer, condition=f"not from ε = {least:g} on, for {', '.join(off)}")
