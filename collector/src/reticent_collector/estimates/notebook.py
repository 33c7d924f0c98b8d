"""
Estimates in a notebook: HTML tables and plots.

No number is shown without its interval. A plot draws the interval and marks the value on it: an unbiased value
may be outside its own interval, which is cut to the range. Without `axes` a figure is made; with them, the
drawing goes there. `truth`, where known, is drawn beside the estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import ParameterError
from reticent.html import Safe, note, page, table
from reticent_collector.estimates.interval import decimals
from reticent_collector.plots import COLOURS, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from reticent_collector.estimates.distribution import CumulativeEstimate, Quantile
    from reticent_collector.estimates.estimator import Estimate, HistogramEstimate

LIARS = 0.01  # the share of dishonest reports whose effect is shown
INCONSISTENT = "No truth in the range explains these reports: some are dishonest or foreign, or it is chance."

_ESTIMATE, _TRUTH = COLOURS[0], COLOURS[1]
_MOST_LABELS = 8
_BAR_WIDTH, _BAR_HEIGHT = 160, 12
_COMMAS = "{x:,.10g}"


def bar(value: float, lower: float, upper: float, scale: tuple[float, float]) -> Safe:
    """
    A value as a bar from 0, with its interval as a line across it; bars of one `scale` compare.

    It is hidden from screen readers: the figures stand in the same row.
    """
    low, high = min(scale[0], 0.0), max(scale[1], 0.0)
    unit = (_BAR_WIDTH - 2) / ((high - low) or 1.0)

    def place(number: float) -> float:
        return 1 + (min(max(number, low), high) - low) * unit

    left, right = sorted((place(0.0), place(0.0 if isnan(value) else value)))
    middle = _BAR_HEIGHT / 2
    ends = (place(lower), place(upper))
    path = f"M{ends[0]:.1f} {middle:g}H{ends[1]:.1f}" + "".join(f"M{end:.1f} 2V10" for end in ends)
    return Safe(
        f'<svg width="{_BAR_WIDTH}" height="{_BAR_HEIGHT}" aria-hidden="true"'
        ' style="display:block;max-width:none">'
        f'<rect x="{left:.1f}" y="3" width="{right - left:.1f}" height="6" fill="currentColor"'
        ' fill-opacity=".35"/>'
        f'<path d="{path}" stroke="currentColor" stroke-width="1.5" fill="none"/></svg>'
    )


def estimate_html(estimate: Estimate) -> Safe:
    """The number, its interval, what ± consists of, and the effect of dishonest reports."""
    unit = f" {estimate.unit}" if estimate.unit else ""
    places = decimals(estimate.half_width)

    def shown(number: float) -> str:
        return f"{number:,.{places}f}"

    company = f", with {estimate.together - 1} others at once" if estimate.together > 1 else ""
    rows = [
        [f"{_level(estimate.confidence)} interval{company}", f"{_ends(estimate)}{unit}"],
        ["price of privacy, in ±", f"{shown(estimate.noise_half_width)}{unit}"],
        ["drawing of devices, in ±", f"{shown(estimate.sampling_half_width)}{unit}"],
        ["the paper's bound", f"± {shown(estimate.paper_bound)}{unit}"],
        [
            f"{LIARS:.0%} dishonest reports move it by",
            f"{shown(estimate.manipulation_bound(LIARS))}{unit} at most",
        ],
    ]
    name = estimate.label or (bucket_name(*estimate.edges) if estimate.edges else "")
    title = f"{name}: {estimate}" if name else str(estimate)
    return page(table(title, [], rows), *_doubts([estimate]))


def histogram_html(histogram: HistogramEstimate) -> Safe:
    """A row per bucket: its share, its interval, and both as a bar."""
    buckets = histogram.buckets
    numbers = [number for bucket in buckets for number in (bucket.value, bucket.lower, bucket.upper)]
    scale = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    uneven = len({bucket.reports for bucket in buckets}) > 1
    rows = (
        [
            name.removesuffix(f" {histogram.unit}"),
            f"{bucket.value:,.{decimals(bucket.half_width)}f} ± {bucket.half_width:,.{decimals(bucket.half_width)}f}"
            if bucket.reports
            else "unknown",
            _ends(bucket),
            bar(bucket.value, bucket.lower, bucket.upper, scale),
            *([f"{bucket.reports:,}"] if uneven else []),
        ]
        for name, bucket in zip(histogram.names, buckets, strict=True)
    )
    interval = f"{_level(histogram.confidence)} interval"
    return page(
        table(
            f"Share of devices in each of {len(buckets)} buckets, n={histogram.reports:,}",
            [histogram.unit or "bucket", "share", interval, "bar", *(["reports"] if uneven else [])],
            rows,
        ),
        note("Intervals hold for all buckets at once. Shares are unbiased, so they may be negative."),
        *_doubts(buckets),
    )


def cumulative_html(band: CumulativeEstimate) -> Safe:
    """A row per edge: the share of devices below it, and the band there."""
    columns = zip(band.edges, band.values, band.lower, band.upper, strict=True)
    numbers = [*band.values, *band.lower, *band.upper]
    scale = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    rows = (
        [
            f"{edge:g}",
            "unknown" if isnan(value) else f"{value:.3f}",
            f"{low:.3f} to {high:.3f}",
            bar(value, low, high, scale),
        ]
        for edge, value, low, high in columns
    )
    unit = f"below, {band.unit}" if band.unit else "below"
    return page(
        table(
            f"Share of devices below each edge, n={band.reports:,}",
            [unit, "share", f"{_level(band.confidence)} band", "bar"],
            rows,
        ),
        note("The band holds everywhere at once."),
    )


def quantile_html(quantile: Quantile) -> Safe:
    """One row: the quantile and its interval."""
    unit = f" {quantile.unit}" if quantile.unit else ""
    return table(
        f"{quantile.level:g} quantile: {quantile}",
        [],
        [
            [f"{_level(quantile.confidence)} interval", f"{quantile.lower:g} to {quantile.upper:g}{unit}"],
            ["reports", f"{quantile.reports:,}"],
        ],
    )


def bucket_name(left: float, right: float, closed: bool = False) -> str:
    """
    A bucket as mathematics writes it.

    >>> bucket_name(0, 675), bucket_name(20925, 21600, closed=True)
    ('[0, 675)', '[20925, 21600]')
    """
    return f"[{left:g}, {right:g}{']' if closed else ')'}"


def _ends(estimate: Estimate) -> str:
    places = decimals(estimate.half_width)
    return f"{estimate.lower:,.{places}f} to {estimate.upper:,.{places}f}"


def _level(confidence: float) -> str:
    return f"{100 * confidence:.6g}%"


def _doubts(estimates: Iterable[Estimate]) -> list[Safe]:
    return [] if all(estimate.consistent for estimate in estimates) else [note(INCONSISTENT)]


@drawing
def plot_estimate(estimate: Estimate, axes: Axes | None = None, truth: float | None = None) -> Figure:
    """One number: its interval as a line, its value as a point on it, the truth as a line across."""
    drawn: Any = axes or new_figure(5.0, 1.6).subplots()
    middle, reach = _interval([estimate])
    drawn.errorbar(
        middle,
        [0],
        xerr=reach,
        fmt="none",
        color=_ESTIMATE,
        capsize=4,
        label=_interval_label(estimate.confidence),
    )
    drawn.plot([estimate.value], [0], "o", color=_ESTIMATE, markersize=6, label="estimate")
    if truth is not None:
        drawn.axvline(truth, color=_TRUTH, linestyle="--", label="truth")
    what = estimate.unit or "value"
    if estimate.label or estimate.edges:
        what = f"share of devices in {estimate.label or bucket_name(*(estimate.edges or (0, 0)))}"
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
    drawn: Any = axes or new_figure(7.2, 3.4).subplots()
    places = np.arange(len(buckets))
    middle, reach = _interval(buckets)
    drawn.bar(places, histogram.values, width=0.9, color=_ESTIMATE, alpha=0.35, label="estimate")
    level = f"{_interval_label(histogram.confidence)},\nall buckets at once"
    drawn.errorbar(places, middle, yerr=reach, fmt="none", color=_ESTIMATE, label=level)
    if truth is not None:
        shares = _as_long("truth", truth, len(buckets), "buckets")
        drawn.hlines(shares, places - 0.45, places + 0.45, color=_TRUTH, linewidth=2, label="truth", zorder=3)
    drawn.axhline(0, color="#888888", linewidth=0.8)
    edges = histogram.edges
    named = [place for place, bucket in enumerate(buckets) if bucket.label]
    step = max(1, -(-(len(edges) - 1) // _MOST_LABELS))  # all edges between the bars, or every so many
    drawn.set_xticks(
        [*(np.arange(len(edges))[::step] - 0.5), *named],
        [*(f"{edge:,g}" for edge in edges[::step]), *(buckets[place].label for place in named)],
    )
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
    too. `truth` is the share below each edge.
    """
    drawn: Any = axes or new_figure(7.2, 3.4).subplots()
    edges = np.repeat(band.edges, 2)[1:-1]
    lower = np.repeat(band.lower[:-1], 2)
    upper = np.repeat(band.upper[1:], 2)
    level = f"{_interval_label(band.confidence)} band,\neverywhere at once".replace(" interval", "")
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

    `rounds` are their numbers, by default 1, 2, …. Errors of neighbouring rounds are alike, because bits are
    remembered: a smooth line of estimates says nothing about its distance from the truth.
    """
    if not estimates:
        raise ParameterError("estimates", "at least one estimate", 0)
    if any(hasattr(estimate, "buckets") for estimate in estimates):
        raise ParameterError("estimates", "single numbers", "histograms", "draw one bucket of each")
    kinds = {(estimate.confidence, estimate.unit, estimate.span, estimate.edges) for estimate in estimates}
    if len(kinds) > 1:
        raise ParameterError("estimates", "estimates of one metric at one confidence", f"{len(kinds)} kinds")
    numbers = _as_long("rounds", range(1, len(estimates) + 1) if rounds is None else rounds, len(estimates))
    drawn: Any = axes or new_figure(7.2, 3.4).subplots()
    middle, reach = _interval(estimates)
    confidence, unit = estimates[0].confidence, estimates[0].unit
    drawn.errorbar(
        numbers, middle, yerr=reach, fmt="none", color=_ESTIMATE, alpha=0.7, label=_interval_label(confidence)
    )
    drawn.plot(numbers, [estimate.value for estimate in estimates], "o", color=_ESTIMATE, label="estimate")
    if truth is not None:
        shares = _as_long("truth", truth, len(estimates))
        drawn.plot(numbers, shares, color=_TRUTH, linestyle="--", marker="_", label="truth", zorder=3)
    drawn.locator_params(axis="x", integer=True)
    drawn.yaxis.set_major_formatter(_COMMAS)
    drawn.set(title="Estimates over rounds", xlabel="round", ylabel=unit or "value")
    return _finished(drawn)


def _finished(axes: Any) -> Figure:
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure: Figure = axes.figure.figure
    return figure


def _interval(estimates: Sequence[Estimate]) -> tuple[Any, Any]:
    lower, upper = (
        np.array([getattr(estimate, end) for estimate in estimates]) for end in ("lower", "upper")
    )
    return (lower + upper) / 2, (upper - lower) / 2


def _interval_label(confidence: float) -> str:
    return f"{100 * confidence:g} % interval"


def _as_long(name: str, numbers: Sequence[float], count: int, of: str = "estimates") -> list[float]:
    if len(numbers) != count:
        raise ParameterError(name, f"{count} numbers, one for each of the {of}", len(numbers))
    return [float(number) for number in numbers]
