"""A histogram in one round: shares with simultaneous intervals, quantiles, and the median over rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from reticent.dashboard import charts, words
from reticent.dashboard.asking import Asked, NotHereError
from reticent.dashboard.cohorts import MEANING, UNSEEN, uneven_words
from reticent.dashboard.figures import Figures, Point
from reticent.dashboard.views.metric import about, choices, makeup
from reticent.dashboard.views.view import View, comparable, headline, latest, mark
from reticent.estimates import CumulativeEstimate, Estimate, HistogramEstimate, Quantile, cumulative
from reticent.estimates.postprocess import norm_sub
from reticent.plan import Metric, Plan

QUANTILES = (0.25, 0.5, 0.75, 0.9)


def histogram(figures: Figures, plan: Plan, metric: Metric, asked: Asked) -> View:
    """The page of a histogram."""
    segment = dict([asked.segment]) if asked.segment else {}
    found = figures.points(plan, metric.name, asked.rounds, asked.confidence, segment=segment)
    chosen = _chosen(found, plan, metric, asked)
    whole = figures.histogram(plan, metric.name, chosen, asked.confidence, segment) if chosen else None
    medians = comparable(found, chosen)
    shown: dict[str, Any] = {
        "plan": plan,
        "metric": metric,
        "asked": asked,
        "choices": choices(plan, asked),
        "rounds": [_choice(point) for point in medians],
        "headline": headline(chosen) if chosen else None,
        "medians": _medians(medians, metric, asked) if medians else "",
        "omitted": len(found) - len(medians),
        "uneven": "",
        "meaning": f"{MEANING} {UNSEEN}",
    }
    twin: dict[str, Any] = {
        **about(plan, metric, asked),
        "segment": segment,
        "round": chosen.round if chosen else None,
        "state": chosen.state if chosen else None,
        "histogram": None,
        "medians": [point.to_dict() for point in medians],
    }
    if chosen and whole and isinstance(whole.estimate, HistogramEstimate):
        drawn, figures_of = _parts(whole.estimate, metric, asked)
        shown |= drawn | _neighbours(medians, chosen, asked)
        twin |= {"histogram": whole.to_dict(), **figures_of}
        if whole.balance is not None and not whole.balance.even:
            shown["uneven"] = uneven_words(whole.metric, whole.balance)
    return View(
        template="histogram.html",
        title=f"{metric.name} · {plan.name}",
        twin=twin,
        shown=shown,
        refresh=any(point.provisional for point in found),
    )


def _chosen(points: Sequence[Point], plan: Plan, metric: Metric, asked: Asked) -> Point | None:
    if asked.round is None:
        return latest(points)
    for point in points:
        if point.round == asked.round:
            return point
    raise NotHereError("round", str(asked.round), f"/plans/{plan.name}/metrics/{metric.name}")


def _neighbours(points: Sequence[Point], chosen: Point, asked: Asked) -> dict[str, Any]:
    place = next(number for number, point in enumerate(points) if point is chosen)
    later = points[place - 1] if place else None
    earlier = points[place + 1] if place + 1 < len(points) else None
    return {
        "later": asked.query(round=later.round) if later else "",
        "earlier": asked.query(round=earlier.round) if earlier else "",
        "chosen": chosen,
    }


def _choice(point: Point) -> tuple[int, str]:
    return point.round, words.span(point.start, point.end) + (" (open)" if point.provisional else "")


def _parts(found: HistogramEstimate, metric: Metric, asked: Asked) -> tuple[dict[str, Any], dict[str, Any]]:
    """Charts and tables of one histogram, and the figures behind them."""
    unit = words.plural(metric.unit)
    below = cumulative(found)
    quantiles = [below.quantile(level) for level in QUANTILES]
    projected = norm_sub(found)
    widest = max(found.buckets, key=lambda bucket: bucket.half_width)
    heaviest = max(found.buckets, key=lambda bucket: bucket.value)
    label = f"share of devices per bucket of {metric.name}, with simultaneous {asked.confidence} % intervals"
    shown = {
        "chart": charts.histogram(found.edges, bars(found), label, unit),
        "below": _below(below, quantiles, metric, asked),
        "quantiles": [_quantile(each) for each in quantiles],
        "rows": [_row(*pair) for pair in zip(found.buckets, projected, strict=True)],
        "makeup": makeup(heaviest, "%", scale=100),
        "heaviest": bucket_name(heaviest),
        "widest": words.percent(widest.half_width, widest.half_width / 10),
        "negative": sum(bucket.value < 0 for bucket in found.buckets),
        "total": words.percent(sum(found.values), 0.01),
        "inconsistent": [bucket_name(each) for each in found.buckets if not each.consistent],
    }
    return shown, {
        "norm_sub": list(projected),
        "quantiles": [each.to_dict() for each in quantiles],
        "cumulative": below.to_dict(),
    }


def bars(found: HistogramEstimate) -> list[charts.Bar]:
    """The buckets as they are drawn."""
    return [
        charts.Bar(
            value=bucket.value,
            lower=bucket.lower,
            upper=bucket.upper,
            projected=share,
            tip=f"{bucket_name(bucket)} {words.plural(found.unit)}\n{_said(bucket, share)}",
        )
        for bucket, share in zip(found.buckets, norm_sub(found), strict=True)
    ]


def bucket_name(bucket: Estimate) -> str:
    """The edges of a bucket."""
    left, right = bucket.edges or (0.0, 0.0)
    return f"{words.rounded(left, 6)} to {words.rounded(right, 6)}"


def _said(bucket: Estimate, projected: float) -> str:
    ends = words.between(100 * bucket.lower, 100 * bucket.upper)
    raw, after = words.percent(bucket.value, bucket.half_width), words.percent(projected, bucket.half_width)
    return f"{raw} ({ends} %), Norm-Sub {after}, {bucket.reports:,} reports"


def _below(below: CumulativeEstimate, quantiles: Sequence[Quantile], metric: Metric, asked: Asked) -> Markup:
    levels = [charts.Level(each.level, each.value, each.lower, each.upper) for each in quantiles]
    label = f"share of devices at or below each value of {metric.name}, with a {asked.confidence} % band"
    unit = words.plural(metric.unit)
    return charts.cumulative(below.edges, below.values, below.lower, below.upper, levels, label, unit)


def _quantile(found: Quantile) -> dict[str, str]:
    name = "median" if found.level == 0.5 else f"{100 * found.level:g} %"
    return {
        "name": name,
        "value": words.rounded(found.value),
        "lower": words.rounded(found.lower, 6),
        "upper": words.rounded(found.upper, 6),
    }


def _row(bucket: Estimate, projected: float) -> dict[str, str]:
    digits = words.decimals(100 * bucket.half_width)
    return {
        "bucket": bucket_name(bucket),
        "raw": words.number(100 * bucket.value, digits),
        "half_width": words.number(100 * bucket.half_width, digits),
        "lower": words.number(100 * bucket.lower, digits),
        "upper": words.number(100 * bucket.upper, digits),
        "norm_sub": words.number(100 * projected, digits),
        "reports": f"{bucket.reports:,}",
    }


def _medians(points: Sequence[Point], metric: Metric, asked: Asked) -> Markup:
    marks = [mark(point) for point in reversed(points)]
    label = f"median of {metric.name} per round, with its {asked.confidence} % interval"
    return charts.series([charts.Line(marks)], label, words.plural(metric.unit))
