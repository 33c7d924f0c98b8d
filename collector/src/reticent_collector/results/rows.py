"""
Sealed figures from the table of results: each was computed once, when its period was final.

Whether the rows of a period are shown depends on what the store says of its rounds now: they must be written, and be
made of as many rounds as the period has. Where a row is missing, cannot be read or does not fit, the period is not read
from here, and its figures are computed from the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isclose, isnan, nan
from typing import Any

from reticent.errors import ParameterError
from reticent.plan import Metric
from reticent_collector.columns import QUANTILES, segment_text
from reticent_collector.estimates import Estimate, HistogramEstimate
from reticent_collector.estimates.cohort_balance import ALARM, Balance, shares_of_rows
from reticent_collector.estimates.distribution import Quantile
from reticent_collector.estimates.from_rows import estimate_from_rows
from reticent_collector.results.periods import Period
from reticent_collector.results.result import Result, Withheld
from reticent_collector.results.selection import Selection
from reticent_collector.stores import FEW, PeriodKey, ResultsTable

CONFIDENCE = 0.95
"""Of every figure in the table."""
NUMBERS_AT_ONCE = 10_000

Asked = tuple[Period, Sequence[Metric]]
Rows = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]  # of one period, by metric and segment


def key_of(period: Period) -> PeriodKey:
    """What a period is called in the table."""
    return PeriodKey(period.plan.name, period.plan.version, period.every, period.start, period.end)


def tags_asked(period: Period, selection: Selection) -> dict[str, dict[str, str]]:
    """The devices of each figure that is asked for, by the tag of segment `by`; by "" without one."""
    tags = [""]
    if selection.by:
        segments = (segment for version in period.versions for segment in version.segments)
        declared = {tag: None for segment in segments if segment.name == selection.by for tag in segment.tags}
        picked = selection.segment.get(selection.by)
        tags = [tag for tag in (*declared, FEW) if picked in (None, tag)]
    return {tag: selection.tags(tag) for tag in tags}


def in_table(selection: Selection) -> bool:
    """Whether the table has such figures: of the whole fleet or of one tag, over versions, at its confidence."""
    tags = {*selection.segment, *([selection.by] if selection.by else [])}
    return selection.confidence == CONFIDENCE and len(tags) <= 1 and selection.version is None


def read_figures(
    table: ResultsTable, asked: Sequence[Asked], selection: Selection
) -> Iterator[tuple[PeriodKey, list[Result | Withheld]]]:
    """The figures of those of the periods that are sealed, written and whole; some periods at a time."""
    sealed = [(period, metrics) for period, metrics in asked if period.state == "sealed"]
    while sealed:
        period, metrics = sealed[0]
        numbers = sum(metric.mechanism.intervals for metric in metrics)
        numbers *= len(tags_asked(period, selection)) + 1
        at_once = max(1, NUMBERS_AT_ONCE // max(1, numbers))
        some, sealed = sealed[:at_once], sealed[at_once:]
        names = {metric.name: None for _, metrics in some for metric in metrics}
        tags = {segment_text(tags) for period, _ in some for tags in tags_asked(period, selection).values()}
        kept = table.written_rows([key_of(period) for period, _ in some], [*names], [*{"{}", *tags}])
        for period, metrics in some:
            rows = kept.get(key_of(period))
            figures = None if rows is None else _figures(period, metrics, selection, rows)
            if figures is not None:
                yield key_of(period), figures


def _figures(
    period: Period, metrics: Sequence[Metric], selection: Selection, rows: Sequence[Mapping[str, Any]]
) -> list[Result | Withheld] | None:
    """The figures of one period, in the order of the plan; None where its rows do not fit."""
    by_figure: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if not isinstance(row["versions"], str):
            return None  # of an older version, which had a row for each version of the plan
        by_figure.setdefault((row["metric"], row["versions"], row["segment"]), []).append(row)
    figures: list[Result | Withheld] = []
    for metric in metrics:
        versions = {version.version for version in period.versions_of(metric)}

        def rows_of(
            segment: str, name: str = metric.name, versions: set[int] = versions
        ) -> Sequence[Mapping[str, Any]]:
            """The rows of the metric: what another question has under its name is of other versions."""
            for (of_metric, added, of_segment), kept in by_figure.items():
                if (of_metric, of_segment) == (name, segment) and {*versions_in(added)} <= versions:
                    return kept
            return ()

        if not _is_of_these_rounds(period, metric, rows_of("{}")):
            return None
        for tag, tags in tags_asked(period, selection).items():
            kept = rows_of(segment_text(tags))
            if kept:
                figure = _figure(period, metric, tags, kept)
                if figure is None:
                    return None
                figures.append(figure)
            elif tag != FEW and period.plan.min_reports > 1:
                figures.append(Withheld(period, metric, tags))
    return figures


def versions_in(text: str) -> tuple[int, ...]:
    """The versions of the column `versions`."""
    return tuple(int(number) for number in text.split(","))


def _is_of_these_rounds(period: Period, metric: Metric, fleet: Sequence[Mapping[str, Any]]) -> bool:
    """
    Whether the figure of the whole fleet is made of the rounds and versions that the period has now.

    Each round with enough reports is in it, unless reports are about some of the metrics: then some rounds may be.
    """
    versions = {version.version for version in period.versions_of(metric)}
    shown = {info.key for info in period.rounds if info.reports and info.key.version in versions}
    rounds = fleet[0]["rounds"] if fleet else 0
    if period.plan.asked_bytes:
        return isinstance(rounds, int) and rounds <= len({key.round for key in shown})
    added = {*versions_in(fleet[0]["versions"])} if fleet else set()
    return bool(rounds == len({key.round for key in shown}) and added == {key.version for key in shown})


def _figure(
    period: Period, metric: Metric, tags: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> Result | None:
    """The figure of some rows; None where they are not all of it, do not fit each other, or say too little."""
    first = rows[0]
    try:
        estimate = estimate_from_rows(rows)
        if not _fits(metric, estimate, rows):
            return None
        quantiles: tuple[Quantile, ...] = ()
        if isinstance(estimate, HistogramEstimate) and metric.kind == "histogram":
            quantiles = tuple(_quantiles(first, estimate))
        balance = None
        if shares_of_rows(metric) and (first["rounds"] == 1 or period.plan.answers.sampled):
            balance = Balance(float(first["cohort_p_value"]))
            if balance.p_value < ALARM:  # which rows are uneven is known from the counts only
                return None
        versions = versions_in(first["versions"])
        return Result(
            period, metric, tags, estimate, int(first["rounds"]), quantiles, balance, added=versions
        )
    except (ParameterError, TypeError, ValueError):
        return None


def _quantiles(row: Mapping[str, Any], estimate: HistogramEstimate) -> Iterator[Quantile]:
    """The quantiles of a row; one of an older version has the median only."""
    for level, name in QUANTILES.items():
        if level != 0.5 and row[f"{name}_lower"] is None:
            continue
        ends = float(row[f"{name}_lower"]), float(row[f"{name}_upper"])
        yield Quantile(level, nan, *ends, estimate.confidence, estimate.reports, estimate.unit)


def _fits(metric: Metric, estimate: Estimate | HistogramEstimate, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the numbers of a figure are those of the metric, and agree with each other."""
    numbers = (estimate,) if isinstance(estimate, Estimate) else estimate.buckets
    return len(numbers) == len(metric.bucket_labels) and all(
        number.label == label and number.kind == metric.kind and _agrees(number, row)
        for number, label, row in zip(numbers, metric.bucket_labels, rows, strict=True)
    )


def _agrees(number: Estimate, row: Mapping[str, Any]) -> bool:
    """Whether a number has what follows from the rest of its row, and its value is in its interval."""
    low, high = number.uncut
    cut = [min(max(end, number.span[0]), number.span[1]) for end in (low, high)]
    return (
        number.confidence == CONFIDENCE
        and isclose(row["half_width"], number.half_width, rel_tol=1e-9)
        and isclose(row["noise_half_width"], number.noise_half_width, rel_tol=1e-9, abs_tol=1e-12)
        and isclose(row["sampling_half_width"], number.sampling_half_width, rel_tol=1e-9, abs_tol=1e-12)
        and [number.lower, number.upper] == cut
        and 0 <= number.reports <= number.devices
        and (number.reports == 0 if isnan(number.value) else _is_between(low, number.value, high))
    )


def _is_between(low: float, value: float, high: float) -> bool:
    """Whether a value is in an interval, up to the last digits."""
    return (
        low <= value <= high
        or isclose(low, value, rel_tol=1e-9, abs_tol=1e-9)
        or isclose(value, high, rel_tol=1e-9, abs_tol=1e-9)
    )
