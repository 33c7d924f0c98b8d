"""
Private telemetry for a program that is instrumented with OpenTelemetry: swap the exporter.

    routes    which metrics of the plan an instrument feeds, with which part of it, in which unit
    feed      from readings to the totals of a device
    exporter  readings of the SDK in this process: `PrivateMetricExporter`
    forks     what a forked child must not count again
    agent     readings of programs in any language, by OTLP

>>> from opentelemetry.sdk.metrics import MeterProvider
>>> from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
>>> from reticent.mechanisms import Flip, OneBitMean
>>> from reticent_otel import PrivateMetricExporter
>>> from reticent.plan import Metric, Plan
>>> from reticent.testing import sandbox
>>> plan = Plan("app-usage", 1, 3600, 3600, (Metric("files_saved", OneBitMean(1, 100), Flip(0.2)),))
>>> with sandbox(plan) as box:
...     reader = PeriodicExportingMetricReader(PrivateMetricExporter(box.device))
...     provider = MeterProvider([reader], shutdown_on_exit=False)
...     saved = provider.get_meter("editor").create_counter("files.saved")
...     saved.add(3, {"path": "diary.txt"})
...     saved.add(4)
...     provider.shutdown()
...     print(box.values())
{'files_saved': 7}
"""

from __future__ import annotations

from reticent_otel.exporter import PrivateMetricExporter, segment_of
from reticent_otel.routes import Route

__all__ = ["PrivateMetricExporter", "Route", "segment_of"]
