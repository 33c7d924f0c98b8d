"""
A histogram or choice in one period: the share of each bucket or label, by tag, and quantiles.

Numbers of labels may be amounts as well: all is in the unit of `amounts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from reticent.plan import ABSENT
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.points import Point, with_more_devices
from reticent_collector.dashboard.views import Picture, bucket_name, edge_unit, shade_of, size_of, unit_for
from reticent_collector.dashboard.views.makeup import makeup
from reticent_collector.dashboard.views.over_time import visible_tags
from reticent_collector.dashboard.views.request import PageRequest, Parts
from reticent_collector.estimates import Estimate, HistogramEstimate, norm_sub
from reticent_collector.estimates.distribution import Quantile
from reticent_collector.figures import Unit
from reticent_collector.results import Difference, Result, is_clear

MOST_TIMES = 100  # periods to choose from
QUANTILES = (0.25, 0.5, 0.75, 0.9)


def shares(
    asked: PageRequest,
    chosen: Point,
    points: Sequence[Point],
    tagged: Mapping[str, Point],
    change: Difference | None,
) -> Parts:
    """All that is said of one period, of the whole fleet and of some tags."""
    result, histogram = chosen.result, chosen.result.estimate
    if not isinstance(histogram, HistogramEstimate):
        return {"headline": None}, {}
    unit = _unit(result)
    groups = _groups(asked, tagged)
    shown, pictures = _bars(asked, chosen, groups)
    rows = _share_rows(
        result,
        [one.estimate.buckets for one in groups.values() if isinstance(one.estimate, HistogramEstimate)],
        change,
    )
    shown |= {"rows": rows, "absent": rows[-1] if chosen.metric.absent else None}
    balance = result.balance
    shown |= _times(asked, points, chosen)
    shown |= _error(result, histogram, unit)
    shown["uneven"] = labels.uneven(result.metric, balance) if balance and not balance.even else ""
    shown["uneven_means"] = labels.UNEVEN_MEANS
    below, more = _below(asked, result)
    return shown | below, pictures | more


def _unit(result: Result) -> Unit:
    """The unit of bucket edges; labels have none."""
    return Unit() if result.metric.is_named else edge_unit(result.metric)


def amounts(result: Result) -> Unit:
    """The unit of the numbers of buckets or labels: percent of devices, or that of the amounts."""
    estimate = result.estimate
    numbers = estimate.buckets if isinstance(estimate, HistogramEstimate) else (estimate,)
    return unit_for(numbers[0], max(number.upper for number in numbers))


def _groups(asked: PageRequest, tagged: Mapping[str, Point]) -> dict[str, Result]:
    """The result of each visible tag."""
    return {tag: tagged[tag].result for tag in visible_tags(asked.plan, asked.params, tagged)}


def _bars(asked: PageRequest, chosen: Point, groups: Mapping[str, Result]) -> Parts:
    """The chart of shares, of the whole fleet or of some tags below each other."""
    params, metric, result = asked.params, chosen.metric, chosen.result
    unit, amount = _unit(result), amounts(result)
    per = "label" if metric.is_named else "bucket"
    of_devices = f"{amount.name} of devices" if amount.name == "%" else amount.name
    what = (
        f"{'share of devices' if amount.name == '%' else 'mean'} per {per} of {metric.name}, "
        f"{_when(asked, chosen)}, with simultaneous {params.confidence} % intervals"
    )
    keys = [(tag, shade_of(asked.plan, params.by, tag)) for tag in groups]
    of_tags = [charts.Bars(bars(groups[tag], params.view, amount), tag, shade) for tag, shade in keys]
    edges = [float(edge) / unit.size for edge in metric.mechanism.points] if not metric.is_named else []
    chart = charts.histogram(
        edges,
        of_tags or [charts.Bars(bars(result, params.view, amount))],
        f"{what}, by {params.by}" if groups else what,
        unit.name,
        of_devices,
    )
    shown = {"chart": chart, "compared": list(groups), "bucket_unit": unit.name, "amount": amount.name}
    return shown, {"shares": Picture(chart, what, keys)}


def _when(asked: PageRequest, chosen: Point) -> str:
    return labels.period(chosen.start, chosen.end, chosen.every) + asked.among


def _error(result: Result, histogram: HistogramEstimate, unit: Unit) -> dict[str, Any]:
    """What the ± of the largest bucket is made of, and which buckets no honest devices explain."""
    buckets = histogram.buckets
    answered = [bucket for bucket in buckets if bucket.reports]
    # No bucket was asked about in every one of several rounds with few reports: then any is as good.
    heaviest = max(answered or buckets, key=lambda bucket: bucket.value)
    expected = with_more_devices(result.metric, heaviest, result.rounds, result.period.plan)
    widest = max(bucket.half_width for bucket in buckets)
    amount = amounts(result)
    return {
        "makeup": makeup(heaviest, amount),
        "more_devices": amount.figure(0, expected).partition("± ")[2],
        "heaviest": bucket_name(heaviest, unit),
        "widest": amount.figure(0, widest).partition("± ")[2],
        "negative": sum(bucket.value < 0 for bucket in buckets),
        "total": f"{labels.number(sum(bucket.value for bucket in answered) / amount.size, 1)} {amount.name}".rstrip(),
        "inconsistent": [bucket_name(bucket, unit) for bucket in buckets if not bucket.consistent],
    }


def _below(asked: PageRequest, result: Result) -> Parts:
    """The share of devices at or below each value, and quantiles; labels have no order."""
    metric, params = result.metric, asked.params
    if metric.is_named:
        return {"below": Markup(), "quantiles": []}, {}
    unit = _unit(result)
    when = labels.period(result.start, result.end, result.every) + asked.among
    among = "devices with a value" if metric.absent else "devices"
    title = (
        f"share of {among} at or below each value of {metric.name}, {when}, with a {params.confidence} % band"
    )
    below = asked.reader.results.with_counts(result).cumulative
    below = replace(below, edges=tuple(edge / unit.size for edge in below.edges))
    quantiles = [below.quantile(level) for level in QUANTILES]
    chart = charts.cumulative_chart(below, quantiles, title, unit.name)
    shown = {"below": chart, "quantiles": [_quantile_row(quantile) for quantile in quantiles]}
    return shown, {"below": Picture(chart, title)}


def _quantile_row(quantile: Quantile) -> dict[str, str]:
    return {
        "name": "median" if quantile.level == 0.5 else f"{100 * quantile.level:g} %",
        "lower": labels.rounded(quantile.lower, 6),
        "upper": labels.rounded(quantile.upper, 6),
    }


def _times(asked: PageRequest, points: Sequence[Point], chosen: Point) -> dict[str, Any]:
    """The periods to choose from, around the chosen one, and links to the ones beside it."""

    def link(point: Point) -> str:
        return asked.params.query(at=labels.address(point.start, point.every), every=point.every)

    place = next(place for place, point in enumerate(points) if point is chosen)
    first = max(0, place - MOST_TIMES // 2)
    times = []
    for point in points[first : first + MOST_TIMES]:
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


def _share_rows(
    result: Result, groups: Sequence[Sequence[Estimate]], change: Difference | None
) -> list[dict[str, Any]]:
    """A row per bucket, with its change and its number in each group; the unit is that of the column."""
    histogram, unit, amount = result.estimate, _unit(result), amounts(result)
    plain = Unit(amount.size)
    rows: list[dict[str, Any]] = []
    if not isinstance(histogram, HistogramEstimate):
        return rows
    for place, (bucket, share) in enumerate(zip(histogram.buckets, norm_sub(histogram), strict=True)):
        value, _, half_width = plain.figure(bucket.value, bucket.half_width).partition(" ± ")
        ends = plain.ends(bucket.lower, bucket.upper)
        changed = change.numbers[place] if change else None
        rows.append(
            {
                "bucket": bucket_name(bucket, unit),
                "raw": value,
                "half_width": half_width,
                "shown": f"at most {ends[1]}" if bucket.value < bucket.lower else value,
                "interval": " to ".join(ends),
                "norm_sub": labels.number(
                    share / amount.size, labels.places(bucket.half_width / amount.size)
                ),
                "reports": f"{bucket.reports:,}",
                "change": size_of(changed, plain) if changed else "",
                "is_clear": changed is not None and is_clear(changed),
                "tags": [plain.figure(group[place].value, group[place].half_width) for group in groups],
            }
        )
    return rows


def bars(result: Result, view: str = "cut", amount: Unit | None = None) -> list[charts.Bar]:
    """
    The buckets as they are drawn; that of devices without a value is not.

    Unbiased numbers may be below 0: they are drawn there in the view "raw" only.
    """
    histogram = result.estimate
    if not isinstance(histogram, HistogramEstimate):
        return []
    drawn = []
    edges, amount = _unit(result), amount or amounts(result)
    for bucket, share in zip(histogram.buckets, norm_sub(histogram), strict=True):
        if (
            result.metric.is_named and bucket.label not in result.metric.bucket_labels[:-1]
        ) or bucket.label == ABSENT:
            continue
        value = bucket.value if bucket.reports else 0.0
        tip = (
            f"{bucket_name(bucket, edges)} {'' if bucket.label else edges.name}\n"
            f"{amount.figure(bucket.value, bucket.half_width)} "
            f"({' to '.join(Unit(amount.size).ends(bucket.lower, bucket.upper))} {amount.name}), "
            f"Norm-Sub {labels.number(share / amount.size, labels.places(bucket.half_width / amount.size))} "
            f"{amount.name}, {bucket.reports:,} reports"
        )
        shown = {"raw": value, "norm-sub": share}.get(view, max(value, 0.0))
        ends = bucket.lower / amount.size, bucket.upper / amount.size
        drawn.append(charts.Bar(shown / amount.size, *ends, tip, bucket.label))
    return drawn
