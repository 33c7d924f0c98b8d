"""The exporter: from what the SDK collects to the totals of a device, and never to the network."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import (
    Counter,
    Histogram,
    ObservableCounter,
    ObservableUpDownCounter,
    UpDownCounter,
)
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricExporter, MetricExportResult
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation

from reticent.device import fork
from reticent.otel import environment
from reticent.otel.amounts import Number, Use, read, times, together
from reticent.otel.inheritance import Inheritance
from reticent.otel.mapping import Names, Route, Routes, Scale

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

    from reticent.device import Device

_logger = logging.getLogger(__name__)

_TEMPORALITY: dict[type, AggregationTemporality] = {
    Counter: AggregationTemporality.DELTA,
    ObservableCounter: AggregationTemporality.DELTA,
    Histogram: AggregationTemporality.DELTA,
    UpDownCounter: AggregationTemporality.CUMULATIVE,
    ObservableUpDownCounter: AggregationTemporality.CUMULATIVE,
}
"""Increases of what only grows; levels of what goes up and down (gauges are levels anyway)."""

_WRONG_TEMPORALITY = "its reader does not ask for the temporality this exporter prefers"


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
        super().__init__(preferred_temporality=_TEMPORALITY, preferred_aggregation={Histogram: sum_alone})
        self._made: Device | None = None
        if device is None:
            names = environment.names_from_environment() if names is None else names
            scale = environment.scale_from_environment() if scale is None else scale
            device = self._made = environment.device_from_environment()
        self._device = device
        # A device that DO_NOT_TRACK switched off has no plan, and takes nothing.
        self._routes = Routes(device.plan, names, scale) if device.plan else None
        self._named: set[str] = set()
        self._is_shut_down = False
        self._inheritance = Inheritance()
        fork.watch(self)
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
        for metric in _metrics(metrics_data):
            route = self._routes.to(metric.name, metric.unit or "")
            found = read(metric.data)
            if found is None and route.metrics:
                route = Route(problem=_WRONG_TEMPORALITY)
            if route.problem:
                self._say_once(metric.name, f"reticent: nothing is kept of {metric.name}: {route.problem}")
            if found is not None:
                use, numbers = found
                for name in route.metrics:
                    amounts[use, name] += [times(number, route.factor) for number in numbers]
        for (use, name), numbers in amounts.items():
            record = self._device.add if use is Use.ADDED else self._device.set
            record(name, together(use, numbers))

    def _say_once(self, about: str, message: str) -> None:
        if about not in self._named:
            self._named.add(about)
            _logger.warning("%s", message)

    # Forks; see `inheritance`

    def before_fork(self) -> None:
        """Called by `fork`."""
        self._inheritance.before_fork(self)

    def after_fork_in_parent(self) -> None:
        """Called by `fork`."""
        self._inheritance.after_fork()

    def after_fork_in_child(self) -> None:
        """Called by `fork`."""
        self._inheritance.after_fork()
        if not self._is_shut_down:
            self._inheritance.begin_as_child(self)


def _metrics(metrics_data: MetricsData) -> Iterator[Metric]:
    for of_resource in metrics_data.resource_metrics:
        for of_scope in of_resource.scope_metrics:
            yield from of_scope.metrics
