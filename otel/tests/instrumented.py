"""A program instrumented with the real SDK, and the exporter that was swapped in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import View

from reticent.device import Policy
from reticent.plan import Plan
from reticent.testing import Sandbox, sandbox
from reticent_otel import PrivateMetricExporter

HEAD = """
min_reports = 1
[plan]
name = "app-usage"
version = 1
round = "1h"
grace = "1h"
"""
PLAN = Plan.from_toml(
    HEAD
    + """
[metrics.files_saved]
kind = "mean"
max_value = 1000
epsilon = 1.0
flip = 0.2

[metrics.editor_seconds]
kind = "mean"
unit = "second"
max_value = 3600
epsilon = 1.0

[metrics.editor_spread]
kind = "histogram"
unit = "second"
max_value = 3600
buckets = 8
mechanism = "hadamard-bit"
epsilon = 1.0

[metrics.open-files]
kind = "mean"
unit = "files"
max_value = 50
epsilon = 1.0
"""
)

SUCCESS, FAILURE = MetricExportResult.SUCCESS, MetricExportResult.FAILURE


class Program:
    """An instrumented program: its meter, and the exporter that was swapped in."""

    def __init__(self, box: Sandbox, views: list[View] | None = None, **options: Any) -> None:
        self.box = box
        self.exporter = PrivateMetricExporter(box.device, **options)
        self.reader = PeriodicExportingMetricReader(self.exporter, export_interval_millis=math.inf)
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False, views=views or [])
        self.meter: Meter = self.provider.get_meter("editor")

    def export(self) -> dict[str, int | Fraction]:
        """Export now; returns what the device holds then."""
        self.provider.force_flush()
        return self.box.values()


@contextmanager
def program(policy: Policy | None = None, **options: Any) -> Iterator[Program]:
    with sandbox(PLAN, policy=policy or Policy.unlimited(), debug=False) as box:
        made = Program(box, **options)
        yield made
        made.provider.shutdown()


def collected(it: Program) -> MetricsData:
    """What the SDK would hand to the exporter now."""
    seen: list[MetricsData] = []
    it.exporter.export, export = lambda data, **_: seen.append(data), it.exporter.export  # type: ignore[assignment,method-assign]
    it.provider.force_flush()
    it.exporter.export = export  # type: ignore[method-assign]
    return seen[0] if seen else MetricsData([])
