"""A mean over time, or a histogram in one period, with intervals and what those are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from reticent.plan import ABSENT, Metric, Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.params import CONFIDENCES, Params
from reticent_collector.dashboard.points import Point, PointReader, comparable, latest, with_more_devices
from reticent_collector.dashboard.views import (
    TRENDS,
    Picture,
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
from reticent_collector.estimates import Estimate, HistogramEstimate, norm_sub
from reticent_collector.estimates.distribution import Quantile
from reticent_collector.figures import Unit
from reticent_collector.results import (
    Difference,
    Result,
    Selection,
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """The metric that a page is about, and the choices in its address."""

    reader: PointReader
    plan: Plan
    metric: Metric
    params: Params

    @property
    def is_mean(self) -> bool:
        """Whether it is one number per period."""
        return self.metric.mechanism.kind == "mean"

    @property
    def period(self) -> str:
        """What a point is about: a round, a day and so on."""
        return self.params.every or usual_every(self.plan)

    @property
    def at(self) -> int | None:
        """The time that a histogram is wanted of; None: the latest."""
        return unix_seconds("at", self.params.at) if self.params.at and not self.is_mean else None

    @property
    def selection(self) -> Selection:
        """The figures that are shown, by tag where tags are compared."""
        return self.params.selection(self.plan.name, self.metric.name)

    def read(self, **changes: Any) -> list[Point]:
        """The points of the whole fleet, or of the one tag that is chosen, latest first; some choices changed."""
        return self.reader.points(self.plan, replace(self.selection, **{"by": None, **changes}))


def metric_page(reader: PointReader, plan: Plan, metric: Metric, params: Params) -> View:
    """The page of a metric."""
    asked = _Asked(reader, plan, metric, params)
    points, chosen = _points(asked)
    same = comparable(points, chosen or latest(points))
    change: Difference | None = None
    if chosen:
        changes = reader.changes(chosen.period, asked.selection)
        change = changes.get(metric.name)
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
        "change": change_shown(change),
        "lost": labels.moment(asked.at) + " UTC" if asked.at is not None and not chosen else "",
        "trend": TRENDS[metric.kind],
        "omitted": len(points) - len(same),
        "period": asked.period,
        "everies": everies(plan),
        "tags": [],
        "more_rows": 0,
        "files": {name: params.query(chart=name) for name in ("series", "shares", "below")},
    }
    if asked.is_mean:
        more, pictures = _mean(asked, chosen, same)
    else:
        more, pictures = _histogram(asked, chosen, same, change)
    return View(
        template="mean.html" if asked.is_mean else "histogram.html",
        title=f"{metric.name} · {plan.name}",
        shown=shown | more,
        data=params.estimates_address(plan.name, metric.name),
        refresh=30 if any(point.provisional for point in points) else 120,
        pictures=pictures,
    )


Parts = tuple[dict[str, Any], dict[str, Picture]]  # what is shown, and the charts


def _points(asked: _Asked) -> tuple[list[Point], Point | None]:
    """The points that are shown, latest first, and the one that the headline is about."""
    last = asked.selection.last
    if asked.is_mean and asked.params.by:
        # Lines are drawn of tags; the whole fleet is in the headline and the table.
        last = min(MOST_ROWS, last or MOST_ROWS)
    points = asked.read(last=last)
    at = asked.at
    if at is None:
        return points, latest(points)
    chosen = _holding(points, at)
    if chosen is None:
        # It left the range that is shown: then that range ends with it.
        longest = asked.plan.round_seconds * max(1, asked.plan.answers.window) + 31 * 86_400
        earlier = _holding(asked.read(last=None, since=at - longest, until=at + 1), at)
        if earlier:
            points = asked.read(last=asked.params.rounds, since=None, until=earlier.start + 1)
            chosen = _holding(points, at)
    return points, chosen


def _holding(points: Sequence[Point], at: int) -> Point | None:
    """The point whose period contains a time."""
    return next((point for point in points if point.start <= at < point.end), None)


def _chosen(segment: Mapping[str, str]) -> str:
    """The devices that a chart is about, for its title; nothing for all."""
    return "".join(f", {name} {tag}" for name, tag in segment.items())


# A mean over time


def _mean(asked: _Asked, last: Point | None, points: Sequence[Point]) -> Parts:
    plan, params = asked.plan, asked.params
    by_tag = _points_by_tag(asked, last)
    offered = _in_order(plan, params.by, by_tag)
    visible = _visible(plan, params, by_tag)
    by_tag = {tag: by_tag[tag] for tag in offered if tag in visible or len(offered) <= MOST_LINES}
    if last is None or not isinstance(last.estimate, Estimate):
        return {"headline": None}, {}
    estimate = last.estimate
    of_lines = by_tag or {"": list(points)}
    unit = unit_of([point for same in of_lines.values() for point in same])
    lines = _lines(asked, of_lines, unit, visible)
    whole = unit_for(estimate, estimate.span[1])
    top = f"{labels.rounded(estimate.span[1] / whole.size, 6)} {whole.name}".rstrip()
    in_range = f"{interval(last, unit_of([last]))} {unit_of([last]).name}, out of 0 to {top}"
    expected = with_more_devices(last.metric, estimate, last.rounds, last.period.plan)
    reach = unit_for(estimate, max(abs(estimate.value), expected))
    label = _series_label(asked, asked.period, by=params.by)
    chart = charts.series(lines, label, unit.name)
    newest_by_tag = {tag: latest(same) for tag, same in by_tag.items()}
    shown = {
        "more_devices": reach.figure(0, expected).partition("± ")[2],
        "gauge": charts.gauge(estimate.value, estimate.lower, estimate.upper, estimate.span[1], in_range),
        "chart": chart,
        "zoomable": zoomable(lines),
        "unit": unit.name,
        "tags": _boxes(plan, params, offered, visible),
        "comparison": [_mean_row(newest, unit, tag) for tag, newest in newest_by_tag.items() if newest],
        "makeup": _makeup(estimate),
        "top": top,
        "rows": [_mean_row(point, unit) for point in points[:MOST_ROWS]],
        "more_rows": max(0, max(map(len, of_lines.values())) - MOST_ROWS),
    }
    keys = [(line.name, line.shade) for line in lines if line.name and line.shown]
    return shown, {"series": _series_picture(chart, label, unit, keys)}


def _points_by_tag(asked: _Asked, like: Point | None) -> dict[str, list[Point]]:
    """The points of each tag of the segment that is compared."""
    by_tag: dict[str, list[Point]] = {}
    by = asked.params.by
    if by:
        for point in comparable(asked.read(by=by), like):
            by_tag.setdefault(point.segment[by], []).append(point)
    return by_tag


def _lines(
    asked: _Asked, by_tag: Mapping[str, Sequence[Point]], unit: Unit, visible: Sequence[str]
) -> list[charts.Line]:
    """A line per tag; of long ones those that are hidden are left out, and so are the tooltips."""
    many = max(map(len, by_tag.values())) > charts.MANY
    lines = []
    for tag, points in by_tag.items():
        shown = not tag or tag in visible
        if shown or not many:
            marks = [mark(point, unit, tag, not many) for point in reversed(points)]
            shade = shade_of(asked.plan, asked.params.by, tag) if tag else 0
            lines.append(charts.Line(marks, tag, shade, shown=shown))
    return lines


def _series_label(asked: _Asked, every: str, by: str = "") -> str:
    """What a chart over time shows."""
    trend = TRENDS[asked.metric.kind]
    compared = f", by {by}" if by else ""
    title = f"{trend} of {asked.metric.name} per {every}{_chosen(asked.params.tags_picked)}{compared}"
    return f"{title}, with its {asked.params.confidence} % interval"


def _series_picture(chart: Markup, label: str, unit: Unit, keys: Sequence[tuple[str, int]] = ()) -> Picture:
    return Picture(chart, f"{label}, in {unit.name}" if unit.name else label, keys)


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


# A histogram in one period


def _histogram(
    asked: _Asked, chosen: Point | None, points: Sequence[Point], change: Difference | None
) -> Parts:
    plan, params = asked.plan, asked.params
    result = asked.reader.histogram(chosen, params.confidence) if chosen else None
    by_tag = _results_by_tag(asked, chosen)
    if not chosen or not result or not isinstance(result.estimate, HistogramEstimate):
        return {"headline": None}, {}
    visible = _visible(plan, params, by_tag)
    unit = unit_of(points)
    line = charts.Line([mark(point, unit, tip=len(points) <= charts.MANY) for point in reversed(points)])
    label = _series_label(asked, chosen.every)
    chart = charts.series([line], label, unit.name)
    histograms = {tag: by_tag[tag].estimate for tag in visible}
    groups = {tag: one for tag, one in histograms.items() if isinstance(one, HistogramEstimate)}
    shares, pictures = _shares(asked, result, result.estimate, groups, change)
    balance = result.balance
    shown = {
        "tags": _boxes(plan, params, _in_order(plan, params.by, by_tag), visible),
        **_times(params, points, chosen),
        "medians": chart,
        "zoomable": zoomable([line]),
        "unit": unit.name,
        "uneven": labels.uneven(result.metric, balance) if balance and not balance.even else "",
        "uneven_means": labels.UNEVEN_MEANS,
    }
    return shown | shares, {**pictures, "series": _series_picture(chart, label, unit)}


def _results_by_tag(asked: _Asked, chosen: Point | None) -> dict[str, Result]:
    """The histogram of each tag of the segment that is compared; none if the version of the plan has no such."""
    by = asked.params.by
    if not by:
        return {}
    asked.selection.check(asked.plan)
    if not chosen or by not in {declared.name for declared in chosen.period.plan.segments}:
        return {}
    apart = asked.reader.histograms(chosen, asked.params.confidence, by)
    return {one.segment[by]: one for one in apart}


def _times(params: Params, points: Sequence[Point], chosen: Point) -> dict[str, Any]:
    """The periods to choose from, around the chosen one, and links to the ones beside it."""

    def link(point: Point) -> str:
        return params.query(at=labels.address(point.start, point.every), every=point.every)

    place = points.index(chosen)
    first = max(0, place - MOST_ROWS // 2)
    times = []
    for point in points[first : first + MOST_ROWS]:
        name = labels.period(point.start, point.end, point.every)
        still_open = " (open)" if point.provisional else ""
        times.append((labels.address(point.start, point.every), name + still_open))
    return {
        "times": times,
        "chosen_at": labels.address(chosen.start, chosen.every),
        "lasting": link(chosen),
        "later": link(points[place - 1]) if place else "",
        "earlier": link(points[place + 1]) if place + 1 < len(points) else "",
    }


Groups = Mapping[str, HistogramEstimate]  # by tag


def _shares(
    asked: _Asked, result: Result, histogram: HistogramEstimate, groups: Groups, change: Difference | None
) -> Parts:
    """Charts and tables of one histogram, and of those of some tags."""
    params, metric, buckets = asked.params, result.metric, histogram.buckets
    unit = Unit() if metric.labels else edge_unit(metric)
    when = labels.period(result.start, result.end, result.every) + _chosen(result.segment)
    per_bucket = (
        f"share of devices per {'label' if metric.labels else 'bucket'} of {metric.name}, {when}, "
        f"with simultaneous {params.confidence} % intervals"
    )
    keys = [(tag, shade_of(asked.plan, params.by, tag)) for tag in groups]
    of_tags = [charts.Bars(bars(groups[tag], unit), tag, shade) for tag, shade in keys]
    chart = charts.histogram(
        [edge / unit.size for edge in histogram.edges],
        of_tags or [charts.Bars(bars(histogram, unit))],
        f"{per_bucket}, by {params.by}" if groups else per_bucket,
        unit.name,
    )
    rows = _share_rows(histogram, unit, groups.values(), change)
    widest = max(bucket.half_width for bucket in buckets)
    answered = [bucket for bucket in buckets if bucket.reports]
    # No bucket was asked about in every one of several rounds with few reports: then any is as good.
    heaviest = max(answered or buckets, key=lambda bucket: bucket.value)
    expected = 100 * with_more_devices(metric, heaviest, result.rounds, result.period.plan)
    shown: dict[str, Any] = {
        "chart": chart,
        "absent": rows[-1] if metric.absent else None,
        "below": Markup(),
        "quantiles": [],
        "rows": rows,
        "compared": list(groups),
        "makeup": _makeup(heaviest),
        "more_devices": f"{labels.rounded(expected, 2)} %",
        "heaviest": _bucket_name(heaviest, unit),
        "bucket_unit": unit.name,
        "widest": labels.percent(widest, widest),
        "negative": sum(bucket.value < 0 for bucket in buckets),
        "total": labels.percent(sum(bucket.value for bucket in answered), 0.01),
        "inconsistent": [_bucket_name(bucket, unit) for bucket in buckets if not bucket.consistent],
    }
    pictures = {"shares": Picture(chart, per_bucket, keys)}
    if not metric.labels:
        among = "devices with a value" if metric.absent else "devices"
        title = f"share of {among} at or below each value of {metric.name}, {when}, with a {params.confidence} % band"
        below = asked.reader.results.with_counts(result).cumulative
        below = replace(below, edges=tuple(edge / unit.size for edge in below.edges))
        quantiles = [below.quantile(level) for level in QUANTILES]
        at_or_below = charts.cumulative_chart(below, quantiles, title, unit.name)
        shown["below"] = at_or_below
        shown["quantiles"] = [_quantile_row(quantile) for quantile in quantiles]
        pictures["below"] = Picture(at_or_below, title)
    return shown, pictures


def _quantile_row(quantile: Quantile) -> dict[str, str]:
    return {
        "name": "median" if quantile.level == 0.5 else f"{100 * quantile.level:g} %",
        "lower": labels.rounded(quantile.lower, 6),
        "upper": labels.rounded(quantile.upper, 6),
    }


def _share_rows(
    histogram: HistogramEstimate, unit: Unit, groups: Iterable[HistogramEstimate], change: Difference | None
) -> list[dict[str, Any]]:
    """A row per bucket, with its change and its share in each group."""
    percent = Unit(0.01)
    rows = []
    for place, (bucket, share) in enumerate(zip(histogram.buckets, norm_sub(histogram), strict=True)):
        value, _, half_width = percent.figure(bucket.value, bucket.half_width).partition(" ± ")
        changed = change.numbers[place] if change else None
        in_groups = [group.buckets[place] for group in groups]
        rows.append(
            {
                "bucket": _bucket_name(bucket, unit),
                "raw": value,
                "half_width": half_width,
                "interval": " to ".join(percent.ends(bucket.lower, bucket.upper)),
                "norm_sub": labels.number(100 * share, labels.places(100 * bucket.half_width)),
                "reports": f"{bucket.reports:,}",
                "change": change_in_words(changed).partition(" percentage")[0] if changed else "",
                "is_clear": changed is not None and is_clear(changed),
                "tags": [percent.figure(one.value, one.half_width) for one in in_groups],
            }
        )
    return rows


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
