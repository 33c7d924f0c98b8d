"""
Private telemetry for a program that is instrumented with OpenTelemetry: swap the exporter.

    amounts      what the data points of an instrument come to
    mapping      which metrics of the plan an instrument feeds, and in which unit
    environment  a device from RETICENT_PLAN, RETICENT_STATE, …; segments from the resource
    inheritance  what a forked child must not count again
    exporter     all of it together: `PrivateMetricExporter`

>>> from opentelemetry.sdk.metrics import MeterProvider
>>> from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
>>> from reticent.mechanisms import Flip, OneBitMean
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

from reticent.errors import MissingExtraError

try:
    import opentelemetry.sdk.metrics.export  # noqa: F401  (asked for here, so that one place says what is missing)
except ImportError as missing:
    raise MissingExtraError("otel", "opentelemetry") from missing

from reticent.otel.environment import segment_of
from reticent.otel.exporter import PrivateMetricExporter

__all__ = ["PrivateMetricExporter", "segment_of"]
