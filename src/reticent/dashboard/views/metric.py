"""A mean over rounds, or a histogram in one round, with intervals and what those are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reticent.dashboard import charts, labels
from reticent.dashboard.params import CONFIDENCES, PERIODS, NotHereError, Params
from reticent.dashboard.points import Point, PointReader, comparable, latest
from reticent.dashboard.views import TRENDS, View, headline, interval, mark, period_name
from reticent.estimates import Estimate, HistogramEstimate, cumulative, decimals, norm_sub
from reticent.plan import ABSENT, Metric, Plan
from reticent.results import Result

MOST_LINES = 8
"""As many lines as there are colours that all eyes can tell apart."""
SHOWN_LINES = 4
QUANTILES = (0.25, 0.5, 0.75, 0.9)
DISHONEST = 0.01
"""The share of dishonest reports that pages speak of."""


def metric_page(reader: PointReader, plan: Plan, metric: Metric, params: Params) -> View:
    """The page of a metric."""
    mean = metric.mechanism.kind == "mean"
    segment = dict([params.segment]) if params.segment and not mean else {}
    points = reader.points(
        plan, metric.name, params.rounds, params.confidence, segment=segment, per=params.period
    )
    chosen = latest(points)
    if params.round is not None and not mean:
        chosen = next((point for point in points if point.round <= params.round <= point.to), None)
        if chosen is None:
            raise NotHereError("round", str(params.round), f"/plans/{plan.name}/metrics/{metric.name}")
    same = comparable(points, chosen)
    shown = {
        "plan": plan,
        "metric": metric,
        "params": params,
        "confidences": [(level, f"{level} %") for level in CONFIDENCES],
        "headline": None,
        "trend": TRENDS[metric.kind],
        "omitted": len(points) - len(same),
        "period": period_name(plan, params.period),
        "periods": [(name, f"per {name}") for name in PERIODS],
    }
    twin = {
        "plan": plan.name,
        "version": plan.version,
        "metric": metric.name,
        "kind": metric.kind,
        "unit": metric.unit,
        "description": metric.description,
        "max_value": float(metric.max_value),
        "confidence": params.confidence / 100,
        "period": shown["period"],
        "rounds": params.rounds,
    }
    if mean:
        more_shown, more_twin = _mean(reader, plan, metric, params, same)
    else:
        more_shown, more_twin = _histogram(reader, plan, metric, params, chosen, same)
    return View(
        template="mean.html" if mean else "histogram.html",
        title=f"{metric.name} · {plan.name}",
        twin=twin | more_twin,
        shown=shown | more_shown,
        refresh=any(point.provisional for point in points),
    )


Parts = tuple[dict[str, Any], dict[str, Any]]
"""What is shown, and what is in the twin."""


def _mean(reader: PointReader, plan: Plan, metric: Metric, params: Params, points: Sequence[Point]) -> Parts:
    last = latest(points)
    by_tag = _by_tag(reader, plan, metric, params, last) if params.by else {}
    lines = by_tag or {"": list(points)}
    twin: dict[str, Any] = {
        "latest": last.to_dict() if last else None,
        "manipulation_bound": None,
        "by": params.by or None,
        "series": [
            {"segment": {params.by: tag} if tag else {}, "points": [point.to_dict() for point in same]}
            for tag, same in lines.items()
        ],
    }
    estimate = last.shown if last else None
    if last is None or not isinstance(estimate, Estimate) or not isinstance(last.estimate, Estimate):
        return {}, twin
    top, unit = estimate.span[1], labels.plural(estimate.unit)
    visible = [tag for tag in lines if tag in params.tags] or list(lines)[:SHOWN_LINES]
    drawn = [
        charts.Line([mark(point, tag) for point in reversed(same)], tag, shade, shown=tag in visible)
        for shade, (tag, same) in enumerate(lines.items())
    ]
    apart = f", apart by {params.by}" if params.by else ""
    per = f"per {period_name(plan, params.period)}{apart}"
    label = f"{TRENDS[metric.kind]} of {metric.name} {per}, with its {params.confidence} % interval"
    in_range = f"{interval(last)} out of 0 to {labels.rounded(top, 6)} {unit}"
    long = points[0].start - points[-1].start > 300 * 86_400  # dates need their year
    shown = {
        "headline": headline(last),
        "gauge": charts.gauge(estimate.value, estimate.lower, estimate.upper, top, in_range),
        "segments": [("", "nothing"), *((segment.name, segment.name) for segment in plan.segments)],
        "chart": charts.series(drawn, label, unit),
        "tags": [{"name": tag, "shade": shade, "shown": tag in visible} for shade, tag in enumerate(by_tag)],
        "comparison": [
            _mean_row(newest, tag) for tag, same in by_tag.items() if (newest := latest(same)) is not None
        ],
        "makeup": _makeup(estimate, estimate.unit),
        "top": labels.rounded(top, 6),
        "rows": [_mean_row(point, year=long) for point in points],
    }
    moves = {"share": DISHONEST, "moves": last.estimate.manipulation_bound(DISHONEST)}
    return shown, twin | {"manipulation_bound": moves}


def _by_tag(
    reader: PointReader, plan: Plan, metric: Metric, params: Params, last: Point | None
) -> dict[str, list[Point]]:
    """Points per tag: those asked for, then those with most reports, as many as can be told apart."""
    points = reader.points(plan, metric.name, params.rounds, params.confidence, params.by, per=params.period)
    by_tag: dict[str, list[Point]] = {}
    for point in comparable(points, last):
        by_tag.setdefault(point.segment[params.by], []).append(point)
    ordered = sorted(
        by_tag, key=lambda tag: (tag not in params.tags, -sum(point.reports for point in by_tag[tag]))
    )
    return {tag: by_tag[tag] for tag in ordered[:MOST_LINES]}


def _mean_row(point: Point, tag: str = "", year: bool = True) -> dict[str, str]:
    """A line of a table."""
    estimate, digits = point.shown, decimals(point.half_width)
    return {
        "tag": tag,
        "rounds": f"round {point.round}"
        if point.round == point.to
        else f"rounds {point.round} to {point.to}",
        "begins": labels.moment(point.start, year),
        "when": labels.span(point.start, point.end),
        "value": labels.number(estimate.value, digits),
        "half_width": labels.number(point.half_width, digits),
        "lower": labels.number(estimate.lower, digits),
        "upper": labels.number(estimate.upper, digits),
        "reports": f"{point.reports:,}",
        "state": point.state,
    }


def _makeup(estimate: Estimate, unit: str, scale: float = 1.0) -> dict[str, Any]:
    """What a half-width is made of, and what it compares with; `scale` is 100 for a share in percent."""
    moved = estimate.manipulation_bound(DISHONEST)
    reaches = [
        ("Privacy noise", "what devices add to hide their values", estimate.noise_half_width, "noise"),
        ("Sampling", "what would remain without privacy", estimate.sampling_half_width, "sampling"),
        ("Together", "this half-width; squares add up", estimate.half_width, "whole"),
        ("The paper's bound", "what its theorem would grant", estimate.paper_bound, "paper"),
        ("1 % dishonest", "if so many reports were made up", moved, "moved"),
    ]

    def with_unit(reach: float) -> str:
        return f"{labels.rounded(scale * reach)} {labels.plural(unit)}".rstrip()

    rows = [
        charts.Measure(name, about, reach, f"± {with_unit(reach)}", kind)
        for name, about, reach, kind in reaches
    ]
    return {
        "chart": charts.measures(rows, "how far the figure may be off, and why"),
        "noise_share": labels.percent(estimate.noise_share),
        "moved": with_unit(moved),
        "exceeds": moved > estimate.half_width,
    }


def _histogram(
    reader: PointReader,
    plan: Plan,
    metric: Metric,
    params: Params,
    chosen: Point | None,
    points: Sequence[Point],
) -> Parts:
    segment = dict([params.segment]) if params.segment else {}
    twin: dict[str, Any] = {
        "segment": segment,
        "round": chosen.round if chosen else None,
        "from": chosen.round if chosen else None,
        "to": chosen.to if chosen else None,
        "state": chosen.state if chosen else None,
        "histogram": None,
        "medians": [point.to_dict() for point in points],
    }
    result = chosen and reader.histogram(chosen, params.confidence)
    if not chosen or not result or not isinstance(result.estimate, HistogramEstimate):
        return {}, twin
    place = points.index(chosen)
    marks = [mark(point) for point in reversed(points)]
    per = f"per {period_name(plan, params.period)}"
    label = f"{TRENDS[metric.kind]} of {metric.name} {per}, with its {params.confidence} % interval"
    balance = result.balance
    pictures, shares = _shares(result, result.estimate, params)
    shown = {
        "headline": headline(chosen),
        "tags": [
            ("", "all"),
            *(
                (f"{group.name}:{tag}", f"{group.name} {tag}")
                for group in plan.segments
                for tag in group.tags
            ),
        ],
        "rounds": [
            (point.round, labels.span(point.start, point.end) + (" (open)" if point.provisional else ""))
            for point in points
        ],
        "chosen": chosen,
        "later": params.query(round=points[place - 1].round) if place else "",
        "earlier": params.query(round=points[place + 1].round) if place + 1 < len(points) else "",
        "medians": charts.series([charts.Line(marks)], label, labels.plural(chosen.shown.unit)),
        "uneven": labels.uneven(result.metric, balance) if balance and not balance.even else "",
        "uneven_means": labels.UNEVEN_MEANS,
    }
    return shown | pictures, twin | {"histogram": result.to_dict()} | shares


def _shares(result: Result, histogram: HistogramEstimate, params: Params) -> Parts:
    """Charts and tables of one histogram, and the numbers behind them."""
    metric, buckets, projected = result.metric, histogram.buckets, norm_sub(histogram)
    unit = labels.plural(metric.unit)
    below = None if metric.labels else cumulative(metric, result.counts, histogram.confidence)
    quantiles = [below.quantile(level) for level in QUANTILES] if below else []
    widest = max(bucket.half_width for bucket in buckets)
    asked = [bucket for bucket in buckets if bucket.reports]
    heaviest = max(asked, key=lambda bucket: bucket.value)
    per_bucket = (
        f"share of devices per {'label' if metric.labels else 'bucket'} of {metric.name}, "
        f"with simultaneous {params.confidence} % intervals"
    )
    among = "devices with a value" if metric.absent else "devices"
    at_or_below = (
        f"share of {among} at or below each value of {metric.name}, with a {params.confidence} % band"
    )
    rows = []
    for bucket, share in zip(buckets, projected, strict=True):
        digits = decimals(100 * bucket.half_width)
        rows.append(
            {
                "bucket": _bucket_name(bucket),
                "raw": labels.number(100 * bucket.value, digits) if bucket.reports else "unknown",
                "half_width": labels.number(100 * bucket.half_width, digits),
                "lower": labels.number(100 * bucket.lower, digits),
                "upper": labels.number(100 * bucket.upper, digits),
                "norm_sub": labels.number(100 * share, digits),
                "reports": f"{bucket.reports:,}",
            }
        )
    shown = {
        "chart": charts.histogram(histogram.edges, bars(histogram), per_bucket, unit),
        "absent": rows[-1] if metric.absent else None,
        "below": charts.cumulative(below, quantiles, at_or_below, unit) if below else "",
        "quantiles": [
            {
                "name": "median" if quantile.level == 0.5 else f"{100 * quantile.level:g} %",
                "value": labels.rounded(quantile.value),
                "lower": labels.rounded(quantile.lower, 6),
                "upper": labels.rounded(quantile.upper, 6),
            }
            for quantile in quantiles
        ],
        "rows": rows,
        "makeup": _makeup(heaviest, "%", scale=100),
        "heaviest": _bucket_name(heaviest),
        "widest": labels.percent(widest, widest / 10),
        "negative": sum(bucket.value < 0 for bucket in buckets),
        "total": labels.percent(sum(bucket.value for bucket in asked), 0.01),
        "inconsistent": [_bucket_name(bucket) for bucket in buckets if not bucket.consistent],
    }
    twin = {
        "norm_sub": list(projected),
        "quantiles": [quantile.to_dict() for quantile in quantiles],
        "cumulative": below.to_dict() if below else None,
    }
    return shown, twin


def bars(histogram: HistogramEstimate) -> list[charts.Bar]:
    """The buckets as they are drawn; that of devices without a value is not."""
    drawn = []
    for bucket, share in zip(histogram.buckets, norm_sub(histogram), strict=True):
        if bucket.label == ABSENT:
            continue
        ends = labels.between(100 * bucket.lower, 100 * bucket.upper)
        value = bucket.value if bucket.reports else 0.0
        raw = labels.percent(value, bucket.half_width) if bucket.reports else "unknown"
        projected = labels.percent(share, bucket.half_width)
        tip = (
            f"{_bucket_name(bucket)} {'' if bucket.label else labels.plural(histogram.unit)}\n"
            f"{raw} ({ends} %), Norm-Sub {projected}, {bucket.reports:,} reports"
        )
        drawn.append(charts.Bar(value, bucket.lower, bucket.upper, share, tip, bucket.label))
    return drawn


def _bucket_name(bucket: Estimate) -> str:
    left, right = bucket.edges or (0.0, 0.0)
    return bucket.label or f"{labels.rounded(left, 6)} to {labels.rounded(right, 6)}"
