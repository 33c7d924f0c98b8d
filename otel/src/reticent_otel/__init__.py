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

from typing import TYPE_CHECKING

from reticent.errors import MissingExtraError
from reticent_otel.routes import Route

if TYPE_CHECKING:
    from reticent_otel.exporter import PrivateMetricExporter, segment_of

__all__ = ["PrivateMetricExporter", "Route", "segment_of"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'reticent_otel' has no attribute {name!r}")
    try:
        from reticent_otel import exporter
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        raise MissingExtraError("otel", "opentelemetry") from missing
    return getattr(exporter, name)
