"""A mean over time, or a histogram in one period, with intervals and what those are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from markupsafe import Markup

from reticent.plan import ABSENT, Metric, Plan
from reticent_collector.columns import time_text
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.params import CONFIDENCES, Params
from reticent_collector.dashboard.points import Point, PointReader, comparable, latest, with_more_devices
from reticent_collector.dashboard.views import (
    TRENDS,
    Picture,
    Twin,
    View,
    change_shown,
    edge_unit,
    headline,
    interval,
    mark,
    shade_of,
    unit_for,
    unit_of,
    zoomable,
)
from reticent_collector.estimates import Estimate, HistogramEstimate, Unit, norm_sub
from reticent_collector.results import (
    Change,
    Result,
    change_in_words,
    everies,
    is_clear,
    unix_seconds,
    usual_every,
)
from reticent_collector.stores import FEW

MOST_LINES = 8  # as many as there are colours that all eyes can distinguish
SHOWN_LINES = 4
MOST_ROWS = 100  # of a table; the file has all of them
QUANTILES = (0.25, 0.5, 0.75, 0.9)
DISHONEST = 0.01  # the share of dishonest reports that pages mention


def metric_page(reader: PointReader, plan: Plan, metric: Metric, params: Params) -> View:
    """The page of a metric."""
    mean = metric.mechanism.kind == "mean"
    segment = dict([params.segment]) if params.segment else {}
    every = params.every
    read = partial(
        reader.points, plan, metric.name, confidence=params.confidence, segment=segment, every=every
    )
    between = params.range
    if mean and params.by:  # lines are drawn of tags; the whole fleet is in the headline and the table
        between["last"] = min(MOST_ROWS, between["last"] or MOST_ROWS)
    points = read(**between)
    chosen, at = latest(points), None
    if not mean and params.at:
        at = unix_seconds("at", params.at)
        chosen = _holding(points, at)
        if chosen is None:
            # It left the range that is shown: then that range ends with it.
            longest = plan.round_seconds * max(1, plan.answers.window) + 31 * 86_400
            found = _holding(read(last=None, since=at - longest, until=at + 1), at)
            if found:
                points = read(last=params.rounds, until=found.start + 1)
                chosen = _holding(points, at)
    same = comparable(points, chosen or latest(points))
    change = reader.changes(chosen.period, metric.name, params.confidence, segment) if chosen else {}
    period = every or usual_every(plan)
    shown = {
        "plan": plan,
        "metric": metric,
        "params": params,
        "confidences": [(level, f"{level} %") for level in CONFIDENCES],
        "segments": [("", "nothing"), *((group.name, group.name) for group in plan.segments)],
        "devices": [
            ("", "all"),
            *(
                (f"{group.name}:{tag}", f"{group.name} {tag}")
                for group in plan.segments
                for tag in group.tags
            ),
        ],
        "headline": headline(chosen) if chosen else None,
        "change": change_shown(change.get(metric.name)),
        "lost": labels.moment(at) + " UTC" if at is not None and not chosen else "",
        "trend": TRENDS[metric.kind],
        "omitted": len(points) - len(same),
        "period": period,
        "everies": everies(plan),
        "tags": [],
        "more_rows": 0,
        "files": {name: params.query(chart=name) for name in ("series", "shares", "below")},
    }
    if mean:
        more, twin, pictures = _mean(read, plan, metric, params, segment, chosen, same)
    else:
        more, twin, pictures = _histogram(reader, plan, metric, params, segment, chosen, same, change)

    def whole_twin() -> Twin:
        return {
            "plan": plan.name,
            "version": plan.version,
            "metric": metric.name,
            **{name: getattr(metric, name) for name in ("kind", "unit", "description")},
            "max_value": float(metric.max_value),
            "confidence": params.confidence / 100,
            "every": period,
            "rounds": params.rounds,
            "since": params.since or None,
            "until": params.until or None,
            "segment": segment,
            "by": params.by or None,
            "change": change[metric.name].to_dict() if metric.name in change else None,
            **twin(),
        }

    return View(
        template="mean.html" if mean else "histogram.html",
        title=f"{metric.name} · {plan.name}",
        twin=whole_twin,
        shown=shown | more,
        refresh=30 if any(point.provisional for point in points) else 120,
        pictures=pictures,
    )


Parts = tuple[dict[str, Any], Any, dict[str, Picture]]  # what is shown, the rest of the twin, and the charts


def _chosen(segment: Mapping[str, str]) -> str:
    """The devices that a chart is about, for its title; nothing for all."""
    return "".join(f", {name} {tag}" for name, tag in segment.items())


def _holding(points: Sequence[Point], at: int) -> Point | None:
    """The point whose period contains a time."""
    return next((point for point in points if point.start <= at < point.end), None)


def _mean(
    read: Callable[..., list[Point]],
    plan: Plan,
    metric: Metric,
    params: Params,
    segment: dict[str, str],
    last: Point | None,
    points: Sequence[Point],
) -> Parts:
    by_tag: dict[str, list[Point]] = {}
    if params.by:
        for point in comparable(read(by=params.by, **params.range), last):
            by_tag.setdefault(point.segment[params.by], []).append(point)
    offered, visible = _in_order(plan, params.by, by_tag), _visible(plan, params, by_tag)
    by_tag = {tag: by_tag[tag] for tag in offered if tag in visible or len(offered) <= MOST_LINES}
    lines = by_tag or {"": list(points)}
    estimate = last.estimate if last else None

    def twin() -> Twin:
        moves = estimate.manipulation_bound(DISHONEST) if isinstance(estimate, Estimate) else None
        return {
            "latest": last.to_dict() if last else None,
            "manipulation_bound": None if moves is None else {"share": DISHONEST, "moves": moves},
            "series": [
                {
                    "segment": segment | ({params.by: tag} if tag else {}),
                    "points": [point.to_dict() for point in same],
                }
                for tag, same in lines.items()
            ],
        }

    if last is None or not isinstance(estimate, Estimate):
        return {"headline": None}, twin, {}
    unit = unit_of([point for same in lines.values() for point in same])
    longest = max(map(len, lines.values()))
    many = longest > charts.MANY
    drawn = [
        charts.Line(
            [mark(point, unit, tag, not many) for point in reversed(same)],
            tag,
            shade_of(plan, params.by, tag) if tag else 0,
            shown=not tag or tag in visible,
        )
        for tag, same in lines.items()
        if not many or not tag or tag in visible
    ]
    whole = unit_for(estimate, estimate.span[1])
    top = f"{labels.rounded(estimate.span[1] / whole.size, 6)} {whole.name}".rstrip()
    compared = f", by {params.by}" if params.by else ""
    per = params.every or usual_every(plan)
    title = f"{TRENDS[metric.kind]} of {metric.name} per {per}{_chosen(segment)}{compared}"
    label = f"{title}, with its {params.confidence} % interval"
    in_range = f"{interval(last, unit_of([last]))} {unit_of([last]).name}, out of 0 to {top}"
    chart = charts.series(drawn, label, unit.name)
    keys = [(line.name, line.shade) for line in drawn if line.name and line.shown]
    expected = with_more_devices(last.metric, estimate, last.rounds, last.period.plan)
    shown = {
        "more_devices": unit_for(estimate, max(abs(estimate.value), expected))
        .figure(0, expected)
        .partition("± ")[2],
        "gauge": charts.gauge(estimate.value, estimate.lower, estimate.upper, estimate.span[1], in_range),
        "chart": chart,
        "zoomable": zoomable(drawn),
        "unit": unit.name,
        "tags": _boxes(plan, params, offered, visible),
        "comparison": [
            _mean_row(newest, unit, tag)
            for tag, same in by_tag.items()
            if (newest := latest(same)) is not None
        ],
        "makeup": _makeup(estimate),
        "top": top,
        "rows": [_mean_row(point, unit) for point in points[:MOST_ROWS]],
        "more_rows": max(0, longest - MOST_ROWS),
    }
    return shown, twin, {"series": Picture(chart, f"{label}, in {unit.name}" if unit.name else label, keys)}


def _boxes(
    plan: Plan, params: Params, offered: Sequence[str], visible: Sequence[str]
) -> list[dict[str, Any]]:
    """The tags to choose from."""
    return [
        {"name": tag, "key": charts.key(shade_of(plan, params.by, tag)), "shown": tag in visible}
        for tag in offered
    ]


def _in_order(plan: Plan, segment: str, tags: Any) -> list[str]:
    """Tags in the order of the plan, whatever their reports; the rare ones together come last."""
    declared = next((one.tags for one in plan.segments if one.name == segment), ())
    return [tag for tag in (*declared, FEW) if tag in tags]


def _visible(plan: Plan, params: Params, tags: Any) -> list[str]:
    """The tags that are drawn: those asked for, else the first ones of the plan."""
    ordered = _in_order(plan, params.by, tags)
    return [tag for tag in ordered if tag in params.tags][:MOST_LINES] or ordered[:SHOWN_LINES]


def _mean_row(point: Point, unit: Unit, tag: str = "") -> dict[str, Any]:
    value, _, half_width = Unit(unit.size).figure(point.estimate.value, point.half_width).partition(" ± ")
    return {
        "tag": tag,
        "clock": labels.clock(point.start, point.end, point.every),
        "value": value,
        "half_width": half_width,
        "interval": interval(point, unit),
        "reports": f"{point.reports:,}",
        "state": point.state,
    }


def _makeup(estimate: Estimate) -> dict[str, Any]:
    """What a half-width is made of, and what it compares with."""
    moved = estimate.manipulation_bound(DISHONEST)
    reaches = [
        ("Privacy noise", "added by devices to hide their values", estimate.noise_half_width, "noise"),
        ("Sampling", "what remains without privacy noise", estimate.sampling_half_width, "sampling"),
        ("Total", "this half-width; the squares of both add up", estimate.half_width, "whole"),
        ("Bound of the paper", "the half-width by its theorem", estimate.paper_bound, "paper"),
        ("1 % dishonest", "the shift if 1 % of reports were false", moved, "moved"),
    ]
    unit = unit_for(estimate, max(reach for _, _, reach, _ in reaches))

    def text(reach: float) -> str:
        return f"{labels.rounded(reach / unit.size, 2)} {unit.name}".rstrip()

    rows = [
        charts.Measure(name, about, reach, f"± {text(reach)}", kind) for name, about, reach, kind in reaches
    ]
    return {
        "chart": charts.measures(rows, "sources of error of the figure"),
        "noise_share": labels.percent(estimate.noise_share),
        "moved": text(moved),
        "exceeds": moved > estimate.half_width,
    }


def _histogram(
    reader: PointReader,
    plan: Plan,
    metric: Metric,
    params: Params,
    segment: dict[str, str],
    chosen: Point | None,
    points: Sequence[Point],
    changes: dict[str, Change],
) -> Parts:
    result = reader.histogram(chosen, params.confidence) if chosen else None
    by_tag: dict[str, Result] = {}
    if params.by:
        reader.results.check(plan, metric.name, segment, params.by, params.confidence / 100)
    if params.by and chosen and params.by in {declared.name for declared in chosen.period.plan.segments}:
        apart = reader.histograms(chosen, params.confidence, params.by)
        by_tag = {one.segment[params.by]: one for one in apart}

    def twin() -> Twin:
        histogram = result.estimate if result else None
        below = result.cumulative if result and not metric.labels else None
        return {
            "start_time": time_text(chosen.start) if chosen else None,
            "end_time": time_text(chosen.end) if chosen else None,
            "state": chosen.state if chosen else None,
            "histogram": result.to_dict() if result else None,
            "by_tag": [by_tag[tag].to_dict() for tag in _in_order(plan, params.by, by_tag)],
            "norm_sub": list(norm_sub(histogram)) if isinstance(histogram, HistogramEstimate) else None,
            "quantiles": [
                {name: value for name, value in below.quantile(level).to_dict().items() if name != "value"}
                for level in QUANTILES
            ]
            if below
            else [],
            "cumulative": below.to_dict() if below else None,
            "medians": [point.to_dict() for point in points],
        }

    if not chosen or not result or not isinstance(result.estimate, HistogramEstimate):
        return {"headline": None}, twin, {}
    visible = _visible(plan, params, by_tag)
    place = points.index(chosen)
    first = max(0, place - MOST_ROWS // 2)  # of the list of choices
    unit = unit_of(points)
    line = charts.Line([mark(point, unit, tip=len(points) <= charts.MANY) for point in reversed(points)])
    label = (
        f"{TRENDS[metric.kind]} of {metric.name} per {chosen.every}{_chosen(segment)}, "
        f"with its {params.confidence} % interval"
    )
    chart, balance = charts.series([line], label, unit.name), result.balance
    pictures, drawn = _shares(
        plan, result, result.estimate, params, {tag: by_tag[tag] for tag in visible}, changes.get(metric.name)
    )
    drawn["series"] = Picture(chart, f"{label}, in {unit.name}" if unit.name else label)

    def link(point: Point) -> str:
        return params.query(at=labels.address(point.start, point.every), every=point.every)

    shown = {
        "tags": _boxes(plan, params, _in_order(plan, params.by, by_tag), visible),
        "times": [
            (
                labels.address(point.start, point.every),
                labels.period(point.start, point.end, point.every) + (" (open)" if point.provisional else ""),
            )
            for point in points[first : first + MOST_ROWS]
        ],
        "chosen_at": labels.address(chosen.start, chosen.every),
        "lasting": link(chosen),
        "later": link(points[place - 1]) if place else "",
        "earlier": link(points[place + 1]) if place + 1 < len(points) else "",
        "medians": chart,
        "zoomable": zoomable([line]),
        "unit": unit.name,
        "uneven": labels.uneven(result.metric, balance) if balance and not balance.even else "",
        "uneven_means": labels.UNEVEN_MEANS,
    }
    return shown | pictures, twin, drawn


def _shares(
    plan: Plan,
    result: Result,
    histogram: HistogramEstimate,
    params: Params,
    by_tag: dict[str, Result],
    change: Change | None,
) -> tuple[dict[str, Any], dict[str, Picture]]:
    """Charts and tables of one histogram, and of those of some tags."""
    metric, buckets, projected = result.metric, histogram.buckets, norm_sub(histogram)
    unit = edge_unit(metric) if not metric.labels else Unit()
    below = None if metric.labels else result.cumulative
    if below:
        below = replace(below, edges=tuple(edge / unit.size for edge in below.edges))
    quantiles = [below.quantile(level) for level in QUANTILES] if below else []
    widest = max(bucket.half_width for bucket in buckets)
    asked = [bucket for bucket in buckets if bucket.reports]
    # No bucket was asked about in every one of several rounds with few reports: then any is as good.
    heaviest = max(asked or buckets, key=lambda bucket: bucket.value)
    when = labels.period(result.start, result.end, result.every) + _chosen(result.segment)
    per_bucket = (
        f"share of devices per {'label' if metric.labels else 'bucket'} of {metric.name}, {when}, "
        f"with simultaneous {params.confidence} % intervals"
    )
    among = "devices with a value" if metric.absent else "devices"
    at_or_below = (
        f"share of {among} at or below each value of {metric.name}, {when}, with a {params.confidence} % band"
    )
    groups = {tag: one.estimate for tag, one in by_tag.items() if isinstance(one.estimate, HistogramEstimate)}
    chart = charts.histogram(
        [edge / unit.size for edge in histogram.edges],
        [charts.Bars(bars(one, unit), tag, shade_of(plan, params.by, tag)) for tag, one in groups.items()]
        or [charts.Bars(bars(histogram, unit))],
        f"{per_bucket}, by {params.by}" if groups else per_bucket,
        unit.name,
    )
    up_to = charts.cumulative(below, quantiles, at_or_below, unit.name) if below else Markup()
    rows = []
    percent = Unit(0.01)
    for place, (bucket, share) in enumerate(zip(buckets, projected, strict=True)):
        value, _, half_width = percent.figure(bucket.value, bucket.half_width).partition(" ± ")
        digits = labels.places(100 * bucket.half_width)
        number = change.numbers[place] if change else None
        rows.append(
            {
                "bucket": _bucket_name(bucket, unit),
                "raw": value,
                "half_width": half_width,
                "interval": " to ".join(percent.ends(bucket.lower, bucket.upper)),
                "norm_sub": labels.number(100 * share, digits),
                "reports": f"{bucket.reports:,}",
                "change": change_in_words(number).partition(" percentage")[0] if number else "",
                "is_clear": number is not None and is_clear(number),
                "tags": [
                    percent.figure(one.buckets[place].value, one.buckets[place].half_width)
                    for one in groups.values()
                ],
            }
        )
    expected = 100 * with_more_devices(metric, heaviest, len(result.by_round), result.period.plan)
    shown = {
        "chart": chart,
        "absent": rows[-1] if metric.absent else None,
        "below": up_to,
        "quantiles": [
            {
                "name": "median" if quantile.level == 0.5 else f"{100 * quantile.level:g} %",
                "lower": labels.rounded(quantile.lower, 6),
                "upper": labels.rounded(quantile.upper, 6),
            }
            for quantile in quantiles
        ],
        "rows": rows,
        "compared": list(groups),
        "makeup": _makeup(heaviest),
        "more_devices": f"{labels.rounded(expected, 2)} %",
        "heaviest": _bucket_name(heaviest, unit),
        "bucket_unit": unit.name,
        "widest": labels.percent(widest, widest),
        "negative": sum(bucket.value < 0 for bucket in buckets),
        "total": labels.percent(sum(bucket.value for bucket in asked), 0.01),
        "inconsistent": [_bucket_name(bucket, unit) for bucket in buckets if not bucket.consistent],
    }
    keys = [(tag, shade_of(plan, params.by, tag)) for tag in groups]
    pictures = {"shares": Picture(chart, per_bucket, keys)}
    if below:
        pictures["below"] = Picture(up_to, at_or_below)
    return shown, pictures


def bars(histogram: HistogramEstimate, unit: Unit | None = None) -> list[charts.Bar]:
    """The buckets as they are drawn; that of devices without a value is not."""
    drawn, percent = [], Unit(0.01, "%")
    edges = unit or Unit(1.0, labels.plural(histogram.unit))
    for bucket, share in zip(histogram.buckets, norm_sub(histogram), strict=True):
        if bucket.label == ABSENT:
            continue
        value = bucket.value if bucket.reports else 0.0
        tip = (
            f"{_bucket_name(bucket, edges)} {'' if bucket.label else edges.name}\n"
            f"{percent.figure(bucket.value, bucket.half_width)} "
            f"({' to '.join(percent.ends(bucket.lower, bucket.upper))} %), "
            f"Norm-Sub {labels.percent(share, bucket.half_width)}, {bucket.reports:,} reports"
        )
        drawn.append(charts.Bar(value, bucket.lower, bucket.upper, share, tip, bucket.label))
    return drawn


def _bucket_name(bucket: Estimate, unit: Unit) -> str:
    left, right = (edge / unit.size for edge in bucket.edges or (0.0, 0.0))
    return bucket.label or f"{labels.rounded(left, 6)} to {labels.rounded(right, 6)}"
