"""
The exporter: from what the SDK collects to the totals of a device, and never to the network.

Named by OTEL_METRICS_EXPORTER=reticent, it takes its device and its routes from the environment:

    RETICENT_PLAN         path of the plan
    RETICENT_STATE        path of the device's state file; created if missing
    RETICENT_CONSENT      the consent while the person has not chosen; default: unset
    RETICENT_ENDPOINT     address of the collector; without it nothing is sent
    RETICENT_KEY          ingest key of the collector
    RETICENT_POLICY       limit=number, …; false lifts a rule, as in silent_in_ci=false
    RETICENT_OTEL_NAMES   instrument=metric, …; an instrument may be named several times
    RETICENT_OTEL_SCALE   instrument=factor, …
    RETICENT_OTEL_ROUTES  path of a file of routes
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from opentelemetry.sdk import metrics as instruments
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ExponentialHistogram,
    Gauge,
    Histogram,
    MetricExporter,
    MetricExportResult,
    Sum,
)
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation
from opentelemetry.sdk.resources import Resource

from reticent.device import Device, Policy
from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent_otel.feed import DataPoint, Feed, Kind, Reading, exact
from reticent_otel.forks import Inheritance
from reticent_otel.routes import Names, Route, Routes, Scale, load_routes

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData, NumberDataPoint

_TEMPORALITY: dict[type, AggregationTemporality] = {
    instruments.Counter: AggregationTemporality.DELTA,
    instruments.ObservableCounter: AggregationTemporality.DELTA,
    instruments.Histogram: AggregationTemporality.DELTA,
    instruments.UpDownCounter: AggregationTemporality.CUMULATIVE,
    instruments.ObservableUpDownCounter: AggregationTemporality.CUMULATIVE,
}
"""Increases of what only grows; levels of what goes up and down (gauges are levels anyway)."""

_WRONG_TEMPORALITY = "its reader does not use the temporality that this exporter prefers"


def read(metric: Metric) -> Reading:
    """
    What the SDK collected of an instrument.

    A cumulative counter would be added again with every export, and a delta of an up-down counter may be negative,
    which no total can take: neither is used.
    """
    data, unit = metric.data, metric.unit or ""
    if isinstance(data, Gauge):
        return Reading(metric.name, unit, Kind.GAUGE, _points(data.data_points))
    is_delta = data.aggregation_temporality == AggregationTemporality.DELTA
    if isinstance(data, Histogram | ExponentialHistogram) and is_delta:
        points = [
            DataPoint(exact(point.sum), point.count, exact(point.max), point.attributes or {})
            for point in data.data_points
        ]
        return Reading(metric.name, unit, Kind.HISTOGRAM, points)
    if isinstance(data, Sum) and data.is_monotonic == is_delta:
        kind = Kind.INCREASE if is_delta else Kind.LEVEL
        return Reading(metric.name, unit, kind, _points(data.data_points))
    return Reading(metric.name, unit, Kind.UNUSABLE, [], _WRONG_TEMPORALITY)


def _points(points: Iterable[NumberDataPoint]) -> list[DataPoint]:
    return [DataPoint(exact(point.value), attributes=point.attributes or {}) for point in points]


class PrivateMetricExporter(MetricExporter):
    """
    Adds what the OpenTelemetry SDK collects to the totals of a device.

    Counters and the sums of histograms are added to the total of the current round; up-down counters and gauges set it.
    Attributes are used only where a route names them, exemplars never. The device answers once per round, however often
    this exports, and also when an instrument was not used. Each instrument without a metric is named in one warning; no
    value is ever logged.

    `names` and `scale` map instruments that do not have the name or the unit of a metric; `routes` can also take the
    count, the largest or the mean of a histogram, and select data points by their attributes. The caller starts and
    closes `device`. Without one, as OTEL_METRICS_EXPORTER=reticent creates it, everything comes from the environment,
    and the device lives until `shutdown`.

    Construction raises (`ParameterError`, and what `Device` raises); nothing does after it.
    """

    def __init__(
        self,
        device: Device | None = None,
        *,
        names: Names | None = None,
        scale: Scale | None = None,
        routes: Iterable[Route] = (),
    ) -> None:
        no_buckets = ExplicitBucketHistogramAggregation(boundaries=())
        super().__init__(
            preferred_temporality=_TEMPORALITY, preferred_aggregation={instruments.Histogram: no_buckets}
        )
        self._made: Device | None = None
        if device is None:
            names = names_from_environment() if names is None else names
            scale = scale_from_environment() if scale is None else scale
            file = os.environ.get("RETICENT_OTEL_ROUTES")
            routes = routes or (load_routes(file) if file else ())
            device = self._made = device_from_environment()
        self.device = device
        # Only a device that was opened from a state file without a plan has none.
        self._feed = Feed(device, Routes(device.plan, names, scale, routes)) if device.plan else None
        self._is_shut_down = False
        self._inheritance = Inheritance(self)
        if self._made is not None:
            self._made.start()

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> MetricExportResult:
        """
        Hand everything to the device, once.

        The SDK does not offer an increase again, whatever the result. When the state file cannot be written, the device
        keeps the increase in memory and writes it with the next.
        """
        if self._is_shut_down:
            return MetricExportResult.FAILURE
        try:
            if self._inheritance.is_own() and self._feed is not None:
                resources = metrics_data.resource_metrics
                scopes = (scope for resource in resources for scope in resource.scope_metrics)
                self._feed.take([read(metric) for scope in scopes for metric in scope.metrics])
                self.device.save(2.0)  # the SDK collects once a minute, and may be about to end the process
        except Exception:  # what was raised may tell of a value: it goes no further
            if self._feed is not None:
                self._feed.warn("", "reticent: an export was dropped: unexpected data from the SDK")
            return MetricExportResult.FAILURE
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """True: exports are with the device already, and when it sends is the device's secret."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        """Accept nothing more; close the device if it was created here."""
        self._is_shut_down = self._inheritance.is_over = True
        if self._made is not None:
            self._made.close()


def device_from_environment() -> Device:
    """The device of this program, with the segment that the SDK's resource gives it."""
    paths = {
        "RETICENT_PLAN": "the path of a plan, such as plan.toml",
        "RETICENT_STATE": "the path of the device's state file, such as telemetry.db",
    }
    for name, expected in paths.items():
        if not os.environ.get(name):
            read = "RETICENT_PLAN, RETICENT_STATE, RETICENT_CONSENT, RETICENT_ENDPOINT, RETICENT_KEY, RETICENT_POLICY"
            hint = f"OTEL_METRICS_EXPORTER=reticent reads {read}"
            raise ParameterError(name, f"{expected}, in the environment", "nothing", hint)
    plan = Plan.load(os.environ["RETICENT_PLAN"])
    return Device(
        plan,
        os.environ["RETICENT_STATE"],
        endpoint=os.environ.get("RETICENT_ENDPOINT") or None,
        key=os.environ.get("RETICENT_KEY") or None,
        segment=segment_of(plan, Resource.create()),
        policy=Policy.from_text("RETICENT_POLICY", os.environ.get("RETICENT_POLICY", "")),
        consent=os.environ.get("RETICENT_CONSENT") or "unset",  # type: ignore[arg-type]  # checked there
    )


def names_from_environment() -> Names:
    """RETICENT_OTEL_NAMES."""
    names: dict[str, tuple[str, ...]] = {}
    for instrument, metric in _pairs("RETICENT_OTEL_NAMES", "instrument=metric"):
        names[instrument] = (*names.get(instrument, ()), metric)
    return names


def scale_from_environment() -> Scale:
    """RETICENT_OTEL_SCALE."""
    scale: dict[str, Fraction] = {}
    for instrument, factor in _pairs("RETICENT_OTEL_SCALE", "instrument=factor"):
        try:
            scale[instrument] = Fraction(factor)
        except (ValueError, ZeroDivisionError):
            raise ParameterError("RETICENT_OTEL_SCALE", "numbers such as 0.001 or 1/60", factor) from None
    return scale


def segment_of(plan: Plan, resource: Resource) -> dict[str, object]:
    """
    The attributes of a resource that the plan declares as segments; `.` may be `_` in the plan.

    The rest of the resource (host names, instance ids, command lines) is not read. A tag outside the plan's closed set
    becomes "other" on the device.

    >>> from reticent.plan import Segment
    >>> plan = Plan("app-usage", 1, 3600, 3600, (), segments=(Segment("os_type", ("linux", "windows")),))
    >>> segment_of(plan, Resource({"os.type": "linux", "host.name": "anns-laptop"}))
    {'os_type': 'linux'}
    """
    attributes = resource.attributes
    dotted = {name.replace(".", "_"): value for name, value in attributes.items()}
    return {
        segment.name: attributes.get(segment.name, dotted.get(segment.name))
        for segment in plan.segments
        if segment.name in attributes or segment.name in dotted
    }


def _pairs(name: str, expected: str) -> list[tuple[str, str]]:
    """The pairs of a list such as a=b,c=d."""
    pairs = []
    for item in filter(None, map(str.strip, os.environ.get(name, "").split(","))):
        left, equals, right = (part.strip() for part in item.partition("="))
        if not (left and equals and right):
            raise ParameterError(name, f"{expected}, separated by commas", repr(item))
        pairs.append((left, right))
    return pairs
