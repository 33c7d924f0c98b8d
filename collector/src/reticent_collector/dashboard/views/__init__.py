"""The content of each page: labels, numbers and charts for its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

from markupsafe import Markup

from reticent.plan import Metric, Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.charts import Mark
from reticent_collector.dashboard.pages import HOME
from reticent_collector.dashboard.points import Point, by_size
from reticent_collector.estimates import Estimate
from reticent_collector.estimates.distribution import Quantile
from reticent_collector.estimates.versions import question
from reticent_collector.figures import Unit
from reticent_collector.results import Difference, Trend, is_clear


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that can be downloaded: its title, and the names and shades of its lines."""

    chart: Markup
    title: str
    keys: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class View:
    """One page: its template with what is shown."""

    template: str
    title: str
    shown: Mapping[str, Any]
    data: str = ""  # where programs get what is shown, if they do
    refresh: int = 120  # seconds after which a page that stays open looks again
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # its charts, by their name in addresses
    package: str = HOME  # that has its template


TRENDS = {
    "mean": "mean",
    "histogram": "median",
    "choice": "share of labels",
    "flag": "share of devices",
    "split": "mean of parts",
}
"""What is followed from period to period, by kind."""
SHARES = ("histogram", "choice", "flag")
"""The kinds whose numbers are shares of devices; those of others are amounts in the unit of the metric."""


def plan_facts(plan: Plan) -> dict[str, Any]:
    """What is said of a public plan in JSON."""
    return {
        "name": plan.name,
        "version": plan.version,
        "owner": plan.owner,
        "expires": plan.expires.isoformat() if plan.expires else None,
        "round_seconds": plan.round_seconds,
        "window_rounds": plan.answers.window or None,
    }


def metric_facts(metric: Metric) -> dict[str, Any]:
    """What is said of a public metric in JSON."""
    names = ("name", "kind", "unit", "description")
    return {name: getattr(metric, name) for name in names}


def unit_of(points: Sequence[Point]) -> Unit:
    """The unit of all of these points; medians have that of the edges."""
    number = points[0].estimate
    if isinstance(number, Quantile):
        return edge_unit(points[0].metric)
    largest = (abs(end) for point in points for end in (point.estimate.lower, point.estimate.upper))
    return unit_for(number, max(largest))


def unit_for(number: Estimate, largest: float) -> Unit:
    """The unit of numbers like this one, up to `largest`: a share is shown in percent."""
    return Unit(0.01, "%") if number.kind in SHARES else Unit.of(number.unit, largest)


def edge_unit(metric: Metric) -> Unit:
    """The unit of bucket edges: a larger one than the plan's where all edges are short numbers in it."""
    edges = [float(edge) for edge in metric.mechanism.points]
    unit = Unit.of(metric.unit, edges[-1])
    short = all(float(f"{edge / unit.size:.4g}") == edge / unit.size for edge in edges)
    return unit if short else Unit.of(metric.unit, 0.0)


def bucket_name(bucket: Estimate, unit: Unit) -> str:
    """A label, or from where to where a bucket goes."""
    left, right = (edge / unit.size for edge in bucket.edges or (0.0, 0.0))
    return bucket.label or f"{labels.rounded(left, 6)} to {labels.rounded(right, 6)}"


def headline(point: Point, unit: Unit | None = None) -> dict[str, Any]:
    """A point as text; `outside`: the unbiased value, where that is outside of its interval, which is cut."""
    estimate, metric = point.estimate, point.metric
    unit = unit or unit_of([point])
    value, outside = _value(point, unit)
    return {
        "lead": _lead(point),
        "value": value,
        "unit": unit.name,
        "interval": f"{interval(point, unit)} {unit.name}".rstrip(),
        "median": isinstance(estimate, Quantile),
        "certainty": certainty_of(point),
        "others": other_labels(point, unit) if metric.is_named else "",
        "reports": f"{point.reports:,}",
        "when": labels.period(point.start, point.end, point.every),
        "clock": labels.clock(point.start, point.end, point.every),
        "provisional": point.provisional,
        "outside": outside,
        "part": rounds_of(point),
    }


def _lead(point: Point) -> str:
    """What the number of a headline is."""
    metric, estimate = point.metric, point.estimate
    if isinstance(estimate, Estimate) and metric.is_named:
        return f"{estimate.label}:"
    if metric.kind == "flag":
        return "devices where it happened:"
    if metric.kind == "histogram":
        return "median of devices with a value" if metric.absent else "median of devices"
    return ""


def _value(point: Point, unit: Unit) -> tuple[str, str]:
    """A number as text; an unbiased value outside of the possible range is told apart, for its interval is certain."""
    estimate = point.estimate
    if isinstance(estimate, Quantile):
        return f"between {interval(point, unit, ' and ')}", ""
    plain = Unit(unit.size).figure(estimate.value, point.half_width)
    low, high = unit.ends(estimate.lower, estimate.upper)
    if estimate.value < estimate.lower < estimate.upper:
        return f"at most {high}", plain
    if estimate.value > estimate.upper > estimate.lower:
        return f"at least {low}", plain
    outside = not estimate.lower <= estimate.value <= estimate.upper
    return plain, plain if outside else ""


def other_labels(point: Point, unit: Unit, most: int = 2) -> str:
    """The largest labels but for the first, in a few words."""
    places = by_size(point.result)[1 : 1 + most]
    rest = (Point.of(point.result, place) for place in places)
    return ", ".join(
        f"{_lead(other).removesuffix(':')} {_value(other, unit)[0]} {unit.name}".rstrip() for other in rest
    )


def certainty_of(point: Point) -> labels.Certainty:
    """How precise a point is."""
    estimate = point.estimate
    if isinstance(estimate, Estimate):
        return labels.certainty(estimate.value, estimate.lower, estimate.upper, point.half_width)
    edges = [float(edge) for edge in point.metric.mechanism.points]
    inside = sum(estimate.lower <= edge < estimate.upper for edge in edges)
    return labels.certainty_of_median(inside, len(edges) - 1)


def rounds_of(point: Point) -> str:
    """How many rounds of its period a point is made of; nothing for all."""
    if not point.rounds_missing:
        return ""
    return f"{point.result.rounds:,} of {point.period.possible_rounds:,} {round_name(point)}s"


def round_name(point: Point) -> str:
    """What a round of a plan is called."""
    return "day" if point.period.plan.round_seconds == 86_400 else "round"


def interval(point: Point, unit: Unit, between: str = " to ") -> str:
    """Both ends of a point's interval, without the unit; those of a median are edges of buckets, which are exact."""
    ends = point.estimate.lower, point.estimate.upper
    if isinstance(point.estimate, Quantile):
        return between.join(labels.rounded(end / unit.size, 6) for end in ends)
    return between.join(unit.ends(*ends))


def mark(point: Point, unit: Unit, name: str = "", tip: bool = True) -> Mark:
    """
    A point on a chart, in the chart's unit; its tooltip starts with the name of its line, if any.

    It stands in its interval: an unbiased value outside of the possible range is in the table.
    """
    estimate, size = point.estimate, unit.size
    ends = estimate.lower / size, estimate.upper / size
    value = nan if isinstance(estimate, Quantile) else min(max(estimate.value / size, ends[0]), ends[1])
    return Mark(
        point.start,
        point.end,
        value,
        *ends,
        hollow=point.provisional or point.rounds_missing > 0,
        version=(point.result.added or (point.version,))[0],
        tip=_tip(point, unit, name) if tip else "",
        asked=question(point.metric),
        around=middle_half(point, unit),
    )


def _tip(point: Point, unit: Unit, name: str) -> str:
    value, _ = _value(point, unit)
    median = isinstance(point.estimate, Quantile)
    said = [f"{value} {unit.name}".strip()]
    if not median:
        said[0] += f" ({interval(point, unit)} {unit.name}".rstrip() + ")"
    if point.provisional:
        said.append("so far")
    elif point.rounds_missing:
        said.append(rounds_of(point))
    said.append(f"{point.reports:,} reports")
    return f"{f'{name}: ' if name else ''}{', '.join(said)}"


def middle_half(point: Point, unit: Unit) -> tuple[float, float] | None:
    """Where the middle half of devices lies, as far as the quantiles of a histogram say."""
    by_level = {quantile.level: quantile for quantile in point.result.quantiles}
    if not {0.25, 0.75} <= by_level.keys():
        return None
    return by_level[0.25].lower / unit.size, by_level[0.75].upper / unit.size


def change_shown(change: Difference | None, unit: Unit) -> dict[str, Any] | None:
    """A change in a few words, in the unit of its page."""
    if change is None:
        return None
    before = change.baseline.period
    return {
        "words": change_words(change, unit),
        "part": change.part,
        "is_clear": change.clear,
        "before": labels.period(before.start, before.end, before.every),
        "clock": labels.clock(before.start, before.end, before.every),
    }


def change_words(change: Difference, unit: Unit) -> str:
    """How far, and whether that is clear; of labels and buckets those that clearly changed."""
    noun = "difference" if change.of_tags else "change"
    if isinstance(change.estimate, Estimate):
        return f"{size_of(change.estimate, unit)}: {'' if change.clear else 'no '}clear {noun}"
    if not change.clear:
        return change.brief
    edges = edge_unit(change.figure.metric)
    clear = sorted(
        (
            (one.label or f"{bucket_name(one, edges)} {edges.name}".rstrip(), one)
            for one in change.numbers
            if is_clear(one)
        ),
        key=lambda pair: -abs(pair[1].value),
    )
    told = "; ".join(
        f"{name} {size_of(one, Unit(0.01, '%') if one.kind in SHARES else unit)}" for name, one in clear[:2]
    )
    return f"{told}: clear {noun}" + (f", and in {len(clear) - 2} more" if len(clear) > 2 else "")


def size_of(difference: Estimate, unit: Unit) -> str:
    """A difference with its direction, in a unit: "↑ 3.1 ± 1.2 percentage points"."""
    if not difference.reports:
        return "unknown"
    name = "percentage points" if unit.name == "%" else unit.name
    text = Unit(unit.size, name).figure(abs(difference.value), difference.half_width)
    if not text.partition(" ")[0].strip("0."):  # it is rounded to 0, which has no direction
        return text
    return ("↑ " if difference.value > 0 else "↓ ") + text


def trend_shown(trends: Sequence[Trend], unit: Unit) -> list[str]:
    """The clear trends of a metric in words: of its one number, or of its labels and buckets, clearest first."""
    sentences = []
    for trend in trends:
        since, whole = trend.since, trend.whole
        if since is None or whole is None:
            continue
        number = trend.number
        size = size_of(whole.numbers[trend.place], unit if number.kind not in SHARES else Unit(0.01, "%"))
        first = whole.baseline.period
        began = since.baseline.period
        name = f"{number.label} " if number.label else ""
        sentences.append(
            f"{name}{trend.direction} since {labels.date(began.start)}: {size} against {labels.date(first.start)}"
        )
    return sentences


def shade_of(metric_plan: Plan, segment: str, tag: str) -> int:
    """The colour, dashes and marker of a tag: by its place in the plan, whatever tags have reports."""
    for declared in metric_plan.segments:
        if declared.name == segment and tag in declared.tags:
            return declared.tags.index(tag) % len(charts.PALETTE)
    return len(charts.PALETTE) - 2
