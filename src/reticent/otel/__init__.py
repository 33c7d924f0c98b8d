"""
Private telemetry for a program that is instrumented with OpenTelemetry: swap the exporter.

    routes    which metrics of the plan an instrument feeds, in which unit; what the environment says
    exporter  what the data points of an instrument come to, and `PrivateMetricExporter`
    forks     what a forked child must not count again

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
    # Asked for here, so that one place says what is missing.
    import opentelemetry.sdk.metrics.export  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("otel", "opentelemetry") from missing

from reticent.otel.exporter import PrivateMetricExporter
from reticent.otel.routes import segment_of

__all__ = ["PrivateMetricExporter", "segment_of"]
