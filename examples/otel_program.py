"""
A program instrumented with OpenTelemetry, and what leaves it once the exporter is swapped.

    python examples/otel_program.py
"""

import sys
from pathlib import Path

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from reticent import Plan
from reticent.reports import to_json
from reticent.testing import sandbox
from reticent_otel import PrivateMetricExporter

# The program. It knows OpenTelemetry, and nothing of reticent.
meter = metrics.get_meter("editor")
time_in_front = meter.create_counter("app.editor.time", unit="s", description="Editor in front")


def edit() -> None:
    """Half a minute of work."""
    time_in_front.add(30, {"document": "diary.txt"})


def main() -> int:
    """Edit for 50 minutes, half a minute at a time, with an export after each; then let the round end."""
    plan = Plan.load(Path(__file__).with_name("plan.toml"))
    with sandbox(plan, segment={"os": "linux"}) as box:  # a real device; only time and network are pretended
        exporter = PrivateMetricExporter(
            box.device, names={"app.editor.time": ("editor_seconds", "editor_hours")}
        )
        provider = MeterProvider([PeriodicExportingMetricReader(exporter)])
        metrics.set_meter_provider(provider)
        for _ in range(100):
            edit()
            provider.force_flush()
        print(f"The device holds {box.values()} and has sent nothing.")
        box.next_round()
        (report,) = box.reports
        print(f"100 exports, 1 report: {to_json(report).decode()}")
        provider.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
