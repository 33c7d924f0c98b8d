"""Estimates in a notebook: no number without its interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reticent.estimates.estimate import digits
from reticent.html import Safe, bar, note, page, table

if TYPE_CHECKING:
    from reticent.estimates.cumulative import CumulativeEstimate, Quantile
    from reticent.estimates.estimate import Estimate, HistogramEstimate

LIARS = 0.01
"""The share of dishonest reports whose effect is shown."""
INCONSISTENT = "No truth in the range explains these reports: some are dishonest or foreign, or luck was bad."


def estimate_html(estimate: Estimate) -> Safe:
    """The number as its text has it, where the truth is, what ± is made of, and what liars could do."""
    unit = f" {estimate.unit}" if estimate.unit else ""
    decimals = digits(estimate.half_width)

    def shown(number: float) -> str:
        return f"{number:,.{decimals}f}"

    rows = [
        [f"{_level(estimate.confidence)} interval{_company(estimate)}", f"{_ends(estimate)}{unit}"],
        ["price of privacy, in ±", f"{shown(estimate.noise_half_width)}{unit}"],
        ["drawing of devices, in ±", f"{shown(estimate.sampling_half_width)}{unit}"],
        ["the paper's bound", f"± {shown(estimate.paper_bound)}{unit}"],
        [
            f"{LIARS:.0%} dishonest reports move it by",
            f"{shown(estimate.manipulation_bound(LIARS))}{unit} at most",
        ],
    ]
    title = str(estimate) if estimate.edges is None else f"{bucket_name(*estimate.edges)}: {estimate}"
    return page(table(title, [], rows), *_doubts([estimate]))


def histogram_html(histogram: HistogramEstimate) -> Safe:
    """A row per bucket: its share, its interval, and both as a bar."""
    buckets, edges = histogram.buckets, histogram.edges
    scale = _scale(number for each in buckets for number in (each.value, each.lower, each.upper))
    uneven = len({each.reports for each in buckets}) > 1
    rows = (
        [
            bucket_name(left, right, closed=right == edges[-1]),
            _with_error(each),
            _ends(each),
            bar(each.value, each.lower, each.upper, scale),
            *([f"{each.reports:,}"] if uneven else []),
        ]
        for left, right, each in zip(edges, edges[1:], buckets, strict=False)
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
    scale = _scale([*band.values, *band.lower, *band.upper])
    rows = (
        [f"{edge:g}", f"{value:.3f}", f"{low:.3f} to {high:.3f}", bar(value, low, high, scale)]
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
    """One row: where the quantile is."""
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


def _with_error(estimate: Estimate) -> str:
    decimals = digits(estimate.half_width)
    return f"{estimate.value:,.{decimals}f} ± {estimate.half_width:,.{decimals}f}"


def _ends(estimate: Estimate) -> str:
    decimals = digits(estimate.half_width)
    return f"{estimate.lower:,.{decimals}f} to {estimate.upper:,.{decimals}f}"


def _company(estimate: Estimate) -> str:
    return f", with {estimate.together - 1} others at once" if estimate.together > 1 else ""


def _level(confidence: float) -> str:
    return f"{100 * confidence:.6g}%"


def _scale(numbers: Iterable[float]) -> tuple[float, float]:
    found = list(numbers)
    return min(found), max(found)


def _doubts(estimates: Iterable[Estimate]) -> list[Safe]:
    return [] if all(each.consistent for each in estimates) else [note(INCONSISTENT)]
