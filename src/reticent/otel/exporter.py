"""
The exporter: from what the SDK collects to the totals of a device, and never to the network.

The data points of an instrument come to one number, without attributes and exemplars.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from fractions import Fraction
from math import isinf, isnan
from numbers import Integral
from typing import TYPE_CHECKING, SupportsFloat

from opentelemetry.sdk import metrics as instruments
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    ExponentialHistogram,
    Gauge,
    Histogram,
    MetricExporter,
    MetricExportResult,
    Sum,
)
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation

from reticent.device import process
from reticent.otel.forks import Inheritance
from reticent.otel.routes import (
    Names,
    Route,
    Routes,
    Scale,
    device_from_environment,
    names_from_environment,
    scale_from_environment,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

    from reticent.device import Device

_logger = logging.getLogger(__name__)

_TEMPORALITY: dict[type, AggregationTemporality] = {
    instruments.Counter: AggregationTemporality.DELTA,
    instruments.ObservableCounter: AggregationTemporality.DELTA,
    instruments.Histogram: AggregationTemporality.DELTA,
    instruments.UpDownCounter: AggregationTemporality.CUMULATIVE,
    instruments.ObservableUpDownCounter: AggregationTemporality.CUMULATIVE,
}
"""Increases of what only grows; levels of what goes up and down (gauges are levels anyway)."""

_WRONG_TEMPORALITY = "its reader does not ask for the temporality this exporter prefers"

Number = Fraction | float
"""Exact, or infinite."""


class Use(Enum):
    """What is done with the numbers of several data points, and with the metric's total of the round."""

    ADDED = "added up, and added to the total"
    LEVEL = "added up, and put in place of the total"
    LARGEST = "the largest put in place of the total"


def read(data: DataT) -> tuple[Use, list[Number]] | None:
    """
    The numbers of an instrument's data points and their use; None where the temporality fits no use.

        increases (counter: delta; histogram: delta, its sum)         ADDED
        levels that add up over attributes (up-down: cumulative)      LEVEL
        levels that do not (gauge)                                    LARGEST

    A cumulative counter would be added again with every export, and a delta of an up-down counter may be
    negative, which no total can take: neither is used. Only `value` and `sum` of a point are ever read.
    """
    if isinstance(data, Gauge):
        return Use.LARGEST, [exact(point.value) for point in data.data_points]
    delta = data.aggregation_temporality == AggregationTemporality.DELTA
    if isinstance(data, Histogram | ExponentialHistogram):
        return (Use.ADDED, [_grown(point.sum) for point in data.data_points]) if delta else None
    if not isinstance(data, Sum) or data.is_monotonic != delta:
        return None
    if delta:
        return Use.ADDED, [_grown(point.value) for point in data.data_points]
    return Use.LEVEL, [exact(point.value) for point in data.data_points]


def together(use: Use, numbers: Iterable[Number]) -> Number:
    """
    One number for several.

    >>> together(Use.LEVEL, [Fraction(5), Fraction(-2)]), together(Use.LARGEST, [Fraction(5), Fraction(7)])
    (Fraction(3, 1), Fraction(7, 1))
    """
    exact_or_infinite = list(numbers)
    if use is Use.LARGEST:
        return max(exact_or_infinite, default=Fraction(0))
    infinite = [number for number in exact_or_infinite if isinstance(number, float)]
    return sum(infinite) if infinite else sum(exact_or_infinite, Fraction(0))


def exact(value: object) -> Number:
    """
    A measured number as it is; what is not a number counts as 0, as it does on the device.

    >>> exact(7), exact(0.5), exact(float("nan")), exact(float("-inf")), exact("7")
    (Fraction(7, 1), Fraction(1, 2), Fraction(0, 1), -inf, Fraction(0, 1))
    """
    try:
        if isinstance(value, Integral):
            return Fraction(int(value))
        number = float(value) if isinstance(value, SupportsFloat) else 0.0
    except Exception:  # a number type of the host's own may raise anything
        return Fraction(0)
    if isnan(number):
        return Fraction(0)
    return number if isinf(number) else Fraction(number)


def _grown(value: object) -> Number:
    """An increase; one that is negative (a source that began again) must not take away from the others."""
    return max(exact(value), Fraction(0))


class PrivateMetricExporter(MetricExporter):
    """
    Adds what the OpenTelemetry SDK collects to the totals of a device.

    Counters and the sums of histograms are added to the total of the round under way; up-down counters and
    gauges set it. Attributes and exemplars are never read. The device answers once per round, however often
    this exports, and also when an instrument was not used. Instruments that go nowhere are named in one
    warning each; no value is ever logged.

    `names` and `scale` say where an instrument goes that does not have the name or the unit of a metric.
    `device` stays the caller's to start and to close. Without one, as OTEL_METRICS_EXPORTER=reticent makes
    it, device, names and scale come from the environment, and the device lives until `shutdown`.

    Construction raises (`ParameterError`, and what `Device` raises); nothing does after it.
    """

    def __init__(
        self, device: Device | None = None, *, names: Names | None = None, scale: Scale | None = None
    ) -> None:
        sum_alone = ExplicitBucketHistogramAggregation(boundaries=(), record_min_max=False)
        super().__init__(
            preferred_temporality=_TEMPORALITY, preferred_aggregation={instruments.Histogram: sum_alone}
        )
        self._made: Device | None = None
        if device is None:
            names = names_from_environment() if names is None else names
            scale = scale_from_environment() if scale is None else scale
            device = self._made = device_from_environment()
        self._device = device
        # A device that is not allowed to record has no plan, and takes nothing.
        self._routes = Routes(device.plan, names, scale) if device.plan else None
        self._named: set[str] = set()
        self._is_shut_down = False
        self._inheritance = Inheritance()
        process.watch(self)
        if self._made is not None:
            self._made.start()

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> MetricExportResult:
        """
        Hand everything over to the device, once.

        The SDK does not offer an increase again, whatever is answered here. When the state file cannot be
        written just now, the device keeps it in memory and writes it with the next.
        """
        if self._is_shut_down:
            return MetricExportResult.FAILURE
        try:
            if self._inheritance.is_own():
                self._hand_over(metrics_data)
        except Exception:  # what was raised may tell of a value: it goes no further
            self._say_once("(export)", "reticent: an export was dropped: it is not what the SDK hands over")
            return MetricExportResult.FAILURE
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """True: what was exported is with the device already, and when it sends is the device's secret."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        """Take nothing more; close the device if it was made here."""
        self._is_shut_down = True
        if self._made is not None:
            self._made.close()

    # Numbers

    def _hand_over(self, metrics_data: MetricsData) -> None:
        if self._routes is None:
            return
        amounts: defaultdict[tuple[Use, str], list[Number]] = defaultdict(list)
        scopes = (scope for resource in metrics_data.resource_metrics for scope in resource.scope_metrics)
        for metric in (metric for scope in scopes for metric in scope.metrics):
            route = self._routes.to(metric.name, metric.unit or "")
            amount = read(metric.data)
            if amount is None and route.metrics:
                route = Route(problem=_WRONG_TEMPORALITY)
            if route.problem:
                self._say_once(metric.name, f"reticent: nothing is kept of {metric.name}: {route.problem}")
            if amount is not None:
                use, numbers = amount
                for name in route.metrics:
                    # What is infinite is so in every unit; the product could be too small to be a float's.
                    amounts[use, name] += [
                        number if isinstance(number, float) else number * route.factor for number in numbers
                    ]
        for (use, name), numbers in amounts.items():
            record = self._device.add if use is Use.ADDED else self._device.set
            record(name, together(use, numbers))
        self._device.save()  # the SDK collects once a minute, and may be about to end the process

    def _say_once(self, about: str, message: str) -> None:
        if about not in self._named:
            self._named.add(about)
            _logger.warning("%s", message)

    # Forks; see `forks`

    def before_fork(self) -> None:
        """Called by `process`."""
        self._inheritance.before_fork(self)

    def after_fork_in_parent(self) -> None:
        """Called by `process`."""
        self._inheritance.after_fork()

    def after_fork_in_child(self) -> None:
        """Called by `process`."""
        self._inheritance.after_fork()
        if not self._is_shut_down:
            self._inheritance.begin_as_child(self)

    def before_exit(self) -> None:
        """Called by `process`; the device writes what it has, and OpenTelemetry shuts the exporter down."""
