"""Instrumented programs, the real SDK, real devices and a real collector on loopback."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from otel.tests.instrumented import HEAD

from reticent.device import Device, Policy
from reticent.testing import ManualClock
from reticent_otel import PrivateMetricExporter, segment_of

PROGRAMS = 10
BUSY = 4

PLAN = (
    HEAD
    + """
[metrics.files_saved]
kind = "mean"
max_value = 1000
epsilon = 20

[segments]
os = ["linux", "windows"]
"""
)


def test_instrumented_programs_are_estimated(tools: ModuleType, tmp_path: Path) -> None:
    """
    Four programs of ten save 1,000 files, 50 at a time with 20 exports; the rest save none.

    With ε = 20 and no flip a device at either end of the range answers otherwise than it should with
    probability 1 / (e²⁰ + 1) < 2.1e-9: over ten devices this test fails falsely less than once in 4e7 runs.
    Four ones of ten are a mean of (4/10 - p) / (1 - 2p) · 1000 with that p: 400 to seven digits. Were the
    increases lost, counted in part or added twice, the ones would be fewer, fewer, or (clamped) the same;
    `test_instruments.py` has the exact sums.
    """
    service = tools.Service(tmp_path, PLAN)
    keys = tools.make_keys(service.store, "ingest", "reader")
    service.start()
    plan = service.plans[0]
    number = plan.round_at(time.time())
    try:
        with ExitStack() as stack:
            for place in range(PROGRAMS):
                clock = ManualClock(float(plan.round(number - 1).start))
                resource = Resource(
                    {"os": "linux" if place < BUSY else "windows", "host.name": f"host-{place}"}
                )
                device = Device(
                    plan, tmp_path / f"device-{place}", consent="granted", key=keys["ingest"], clock=clock,
                    endpoint=f"http://127.0.0.1:{service.port}", segment=segment_of(plan, resource),
                    policy=Policy.unlimited(),
                )  # fmt: skip
                stack.callback(device.close)
                reader = PeriodicExportingMetricReader(PrivateMetricExporter(device), math.inf)
                provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
                saved = provider.get_meter("editor").create_counter("files.saved")
                clock.now = float(plan.round(number).start)
                for _ in range(20):
                    if place < BUSY:
                        saved.add(50, {"path": f"secret-{place}"})
                    provider.force_flush()
                provider.shutdown()
                clock.now = float(plan.round(number).end)
                assert device.flush(timeout=20) == 1
                assert device.flush(timeout=20) == 0
        asked = f"/v1/estimates?plan=app-usage&metric=files_saved&round={number}"
        (all_together,) = service.get(asked, keys["reader"]).json["estimates"]
        assert all_together["reports"] == PROGRAMS
        assert all_together["value"] == pytest.approx(400, abs=1e-4)
        by_os = service.get(asked + "&by=os", keys["reader"]).json["estimates"]
        shown = {row["segment"]["os"]: (row["reports"], round(row["value"], 4)) for row in by_os}
        assert shown == {"linux": (BUSY, 1000.0), "windows": (PROGRAMS - BUSY, 0.0)}
    finally:
        assert service.stop() == 0
    kept = service.log.encode() + b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert b"app-usage" in kept
    for text in (b"secret-", b"host-", b"files.saved"):
        assert text not in kept
