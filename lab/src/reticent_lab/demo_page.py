"""The demo's own page: the truth, which no collector ever sees, beside the estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.points import Point
from reticent_collector.dashboard.views import View, headline, mark, unit_of
from reticent_collector.estimates import Estimate, HistogramEstimate
from reticent_collector.figures import Unit
from reticent_collector.results import Result, Results, Selection


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth of a round: the mean, or the share of each bucket, of every metric."""

    round: int
    of: Mapping[str, Sequence[float]]


def demo_page(results: Results, truths: Sequence[Truth]) -> View:
    """Truth beside estimates, of the only plan there is; it reloads every second."""
    plan = next(iter(results.plans().values()))
    true_of = {truth.round: truth.of for truth in truths}
    rows: list[tuple[Result, Sequence[float], Sequence[Estimate]]] = []
    if true_of:
        for result in results.estimates(Selection(plan.name, rounds=list(true_of))):
            estimate = result.estimate
            numbers = estimate.buckets if isinstance(estimate, HistogramEstimate) else (estimate,)
            rows.append((result, true_of[result.round][result.metric.name], numbers))
    sealed = [
        _inside(number, truth)
        for result, truths_of, numbers in rows
        if result.state == "sealed"
        for number, truth in zip(numbers, truths_of, strict=True)
    ]
    means = [(result, truth[0]) for result, truth, _ in rows if result.metric.mechanism.kind == "mean"]
    shown: dict[str, Any] = {"plan": plan, "now": None, "inside": sum(sealed), "figures": len(sealed)}
    if means:
        latest, true_mean = means[0]
        shown |= {"now": _figure(latest, true_mean), "chart": _chart(means)}
    shown["histograms"] = [
        _histogram(result, truth, numbers)
        for result, truth, numbers in rows
        if isinstance(result.estimate, HistogramEstimate) and result.round == rows[0][0].round
    ]
    return View("demo.html", "Truth and estimate", shown, refresh=1, package="reticent_lab")


def _inside(number: Estimate, truth: float) -> bool:
    return number.lower <= truth <= number.upper


def _figure(result: Result, truth: float) -> dict[str, Any]:
    point = Point.of(result)
    estimate = result.estimate
    return {
        **headline(point),
        "name": result.metric.name,
        "truth": labels.rounded(truth / unit_of([point]).size, 4),
        "inside": isinstance(estimate, Estimate) and _inside(estimate, truth),
    }


def _chart(means: Sequence[tuple[Result, float]]) -> Any:
    """The estimate in its band, and the truth as a line of its own."""
    in_order = list(reversed(means))
    points = [Point.of(result) for result, _ in in_order]
    unit = unit_of(points)
    estimates = [mark(point, unit, "estimate") for point in points]
    truths = [
        replace(
            drawn, value=truth, lower=truth, upper=truth, tip=f"truth: {labels.rounded(truth, 4)} {unit.name}"
        )
        for drawn, truth in zip(estimates, (truth / unit.size for _, truth in in_order), strict=True)
    ]
    lines = [charts.Line(estimates, "estimate", 0), charts.Line(truths, "truth", 1)]
    return charts.series(lines, f"truth and estimate of {in_order[0][0].metric.name} per round", unit.name)


def _histogram(result: Result, truths: Sequence[float], numbers: Sequence[Estimate]) -> dict[str, Any]:
    rows = []
    for number, truth in zip(numbers, truths, strict=True):
        low, high = number.edges or (0.0, 0.0)
        rows.append(
            {
                "bucket": number.label or f"{labels.rounded(low, 6)} to {labels.rounded(high, 6)}",
                "truth": labels.percent(truth),
                "value": labels.percent(number.value, number.half_width),
                "interval": f"{' to '.join(Unit(0.01).ends(number.lower, number.upper))} %",
                "inside": _inside(number, truth),
            }
        )
    return {
        "name": result.metric.name,
        "unit": labels.plural(result.metric.unit),
        "description": result.metric.description,
        "rows": rows,
        "inside": sum(row["inside"] for row in rows),
    }
