"""
Estimates as pictures: the interval is what is drawn, the value is a mark on it.

An unbiased value may lie outside its own interval, which is cut to the range; then the mark stands beside
the line. Without `axes` a figure is made, which a notebook shows; with them, the drawing goes there. `truth`,
where it is known, is drawn beside the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import ParameterError
from reticent.estimates.cumulative import CumulativeEstimate
from reticent.estimates.estimate import Estimate, HistogramEstimate
from reticent.estimates.html import bucket_name
from reticent.plots import COLOURS, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ESTIMATE, _TRUTH = COLOURS[0], COLOURS[1]
_MOST_LABELS = 8
_COMMAS = "{x:,.10g}"


@drawing
def plot_estimate(estimate: Estimate, axes: Axes | None = None, truth: float | None = None) -> Figure:
    """One number: its interval as a line, its value as a point on it, the truth as a line across."""
    drawn = axes or _axes(5.0, 1.6)
    middle, reach = _interval([estimate])
    drawn.errorbar(
        middle, [0], xerr=reach, fmt="none", color=_ESTIMATE, capsize=4, label=_level(estimate.confidence)
    )
    drawn.plot([estimate.value], [0], "o", color=_ESTIMATE, markersize=6, label="estimate")
    if truth is not None:
        drawn.axvline(truth, color=_TRUTH, linestyle="--", label="truth")
    what = estimate.unit or "value"
    if estimate.edges is not None:
        what = f"share of devices in {bucket_name(*estimate.edges)}"
    drawn.set(title=str(estimate), xlabel=what, ylim=(-1, 1), yticks=[])
    drawn.xaxis.set_major_formatter(_COMMAS)
    drawn.margins(x=0.15)
    return _finished(drawn)


@drawing
def plot_histogram(
    histogram: HistogramEstimate, axes: Axes | None = None, truth: Sequence[float] | None = None
) -> Figure:
    """A bar per bucket, whatever its width, with the interval that holds for all buckets at once."""
    buckets = histogram.buckets
    drawn = axes or _axes(7.2, 3.4)
    places = np.arange(len(buckets))
    middle, reach = _interval(buckets)
    drawn.bar(places, histogram.values, width=0.9, color=_ESTIMATE, alpha=0.35, label="estimate")
    level = f"{_level(histogram.confidence)},\nall buckets at once"
    drawn.errorbar(places, middle, yerr=reach, fmt="none", color=_ESTIMATE, label=level)
    if truth is not None:
        shares = _as_long("truth", truth, len(buckets), "buckets")
        drawn.hlines(shares, places - 0.45, places + 0.45, color=_TRUTH, linewidth=2, label="truth", zorder=3)
    drawn.axhline(0, color="#888888", linewidth=0.8)
    _label_edges(drawn, histogram.edges)
    drawn.set(
        title=f"Share of devices per bucket (n={histogram.reports:,})",
        xlabel=histogram.unit or "value",
        ylabel="share of devices",
    )
    return _finished(drawn)


@drawing
def plot_cumulative(
    band: CumulativeEstimate, axes: Axes | None = None, truth: Sequence[float] | None = None
) -> Figure:
    """
    The share of devices below each value, with its band.

    Between two edges nothing is asked, but the share cannot fall: it is at least the lower end at the edge
    before and at most the upper end at the edge after. So the band is drawn in steps, and holds between edges
    too. `truth` is the share below each edge; nothing is drawn of it in between.
    """
    drawn = axes or _axes(7.2, 3.4)
    edges = np.repeat(band.edges, 2)[1:-1]
    lower, upper = np.repeat(band.lower[:-1], 2), np.repeat(band.upper[1:], 2)
    level = f"{_level(band.confidence)} band,\neverywhere at once".replace(" interval", "")
    drawn.fill_between(edges, lower, upper, color=_ESTIMATE, alpha=0.25, linewidth=0, label=level)
    drawn.plot(band.edges, band.values, "o", color=_ESTIMATE, label="estimate")
    if truth is not None:
        shares = _as_long("truth", truth, len(band.edges), "edges")
        drawn.plot(band.edges, shares, "x", color=_TRUTH, markersize=5, label="truth")
    drawn.set(
        title=f"Share of devices below each value (n={band.reports:,})",
        xlabel=band.unit or "value",
        ylabel="share of devices",
        ylim=(-0.03, 1.03),
    )
    drawn.xaxis.set_major_formatter(_COMMAS)
    return _finished(drawn)


@drawing
def plot_rounds(
    estimates: Sequence[Estimate],
    rounds: Sequence[int] | None = None,
    truth: Sequence[float] | None = None,
    axes: Axes | None = None,
) -> Figure:
    """
    One metric over rounds, each estimate with its own interval.

    `rounds` are their numbers, 1, 2, … when left out. Errors of neighbouring rounds are alike, because bits
    are remembered: that a line of estimates looks smooth says nothing about its distance from the truth.
    """
    _check_alike(estimates)
    numbers = _as_long("rounds", range(1, len(estimates) + 1) if rounds is None else rounds, len(estimates))
    drawn = axes or _axes(7.2, 3.4)
    middle, reach = _interval(estimates)
    confidence, unit = estimates[0].confidence, estimates[0].unit
    drawn.errorbar(
        numbers, middle, yerr=reach, fmt="none", color=_ESTIMATE, alpha=0.7, label=_level(confidence)
    )
    drawn.plot(numbers, [each.value for each in estimates], "o", color=_ESTIMATE, label="estimate")
    if truth is not None:
        shares = _as_long("truth", truth, len(estimates))
        drawn.plot(numbers, shares, color=_TRUTH, linestyle="--", marker="_", label="truth", zorder=3)
    drawn.locator_params(axis="x", integer=True)
    drawn.yaxis.set_major_formatter(_COMMAS)
    drawn.set(title="Estimates over rounds", xlabel="round", ylabel=unit or "value")
    return _finished(drawn)


def _axes(width: float, height: float) -> Any:
    """Fresh axes, in a figure that a notebook shows."""
    from reticent.plots.picture import Picture

    return Picture(figsize=(width, height), layout="constrained").subplots()


def _finished(axes: Any) -> Figure:
    """The figure, after its legend was put beside the data."""
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure: Figure = axes.figure.figure
    return figure


def _interval(estimates: Sequence[Estimate]) -> tuple[Any, Any]:
    """Middles and half-widths of the intervals, as they were cut to the range."""
    lower, upper = (np.array([getattr(each, end) for each in estimates]) for end in ("lower", "upper"))
    return (lower + upper) / 2, (upper - lower) / 2


def _level(confidence: float) -> str:
    return f"{100 * confidence:g} % interval"


def _label_edges(axes: Any, edges: Sequence[float]) -> None:
    """The edges between the bars: all of them, or every so many."""
    step = max(1, -(-(len(edges) - 1) // _MOST_LABELS))
    shown = edges[::step]
    axes.set_xticks(np.arange(len(edges))[::step] - 0.5, [f"{edge:,g}" for edge in shown])


def _as_long(name: str, numbers: Sequence[float], count: int, of: str = "estimates") -> list[float]:
    """As many numbers as there are things to draw them beside."""
    if len(numbers) != count:
        raise ParameterError(name, f"{count} numbers, one for each of the {of}", len(numbers))
    return [float(number) for number in numbers]


def _check_alike(estimates: Sequence[Estimate]) -> None:
    if not estimates:
        raise ParameterError("estimates", "at least one estimate", 0)
    if not all(isinstance(each, Estimate) for each in estimates):
        raise ParameterError("estimates", "single numbers", "histograms", "draw one bucket of each")
    kinds = {(each.confidence, each.unit, each.span, each.edges) for each in estimates}
    if len(kinds) > 1:
        raise ParameterError("estimates", "estimates of one metric at one confidence", f"{len(kinds)} kinds")
