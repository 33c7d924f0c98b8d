"""A program instrumented with the real SDK, and the reports of its device: one per round, by its wishes."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.view import View
from otel.tests.instrumented import FAILURE, PLAN, SUCCESS, collected, program
from tests.shared.devices import identity
from tests.shared.state_files import what_is_in

from reticent.device import Device, Policy
from reticent.testing import ManualClock, sandbox
from reticent_otel import PrivateMetricExporter

# One report per round


def test_a_counter_exported_100_times_is_one_report_of_the_sum() -> None:
    with program() as it:
        counter = it.meter.create_counter("files.saved")
        for number in range(100):
            counter.add(number % 10)
            it.export()
        assert it.box.values() == {"files_saved": 450}  # ten times 0 + 1 + ... + 9
        assert it.box.reports == []
        number = it.box.round
        it.box.next_round()
        it.export()
        assert [report.round for report in it.box.reports] == [number]


def test_the_report_is_that_of_a_device_which_added_by_hand() -> None:
    """The exporter is a way to the totals and changes nothing about the answer."""
    with program() as it:
        counter, time = it.meter.create_counter("files.saved"), it.meter.create_histogram("editor.seconds")
        for _ in range(3):
            counter.add(90)
            time.record(700.25)
            it.export()
        number = it.box.round
        it.box.next_round()
        by_hand = {"files_saved": 270, "editor_seconds": 2100.75}
        assert it.box.reports == [identity(it.box.state).law(PLAN, number, by_hand)]


def test_an_unused_instrument_is_answered_with_0_as_every_other() -> None:
    """Silence would be an answer: used or not, one report, of the same size."""
    sizes = set()
    for used in (True, False):
        with program() as it:
            counter = it.meter.create_counter("files.saved")
            if used:
                counter.add(1000)
            it.export()
            assert it.box.values() == ({"files_saved": 1000} if used else {})
            it.box.next_round()
            (report,) = it.box.reports
            sizes.add(len(report.bits))
    assert len(sizes) == 1


def test_an_increase_counts_in_the_round_it_is_exported_in_and_only_there() -> None:
    with program() as it:
        counter = it.meter.create_counter("files.saved")
        counter.add(5)
        assert it.export() == {"files_saved": 5}
        counter.add(6)
        it.box.next_round()
        assert it.export() == {"files_saved": 6}
        it.box.next_round()
        assert it.export() == {}


# The device's wishes, and its troubles


def test_a_paused_device_takes_nothing() -> None:
    with program() as it:
        counter = it.meter.create_counter("files.saved")
        counter.add(5)
        assert it.box.device.pause()
        assert it.exporter.export(collected(it)) is SUCCESS
        assert it.box.values() == {}
        it.box.device.resume()
        it.box.next_round()
        counter.add(6)
        assert it.export() == {"files_saved": 6}


@pytest.mark.parametrize("from_the_start", [True, False])
def test_do_not_track(
    from_the_start: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if from_the_start:
        monkeypatch.setenv("DO_NOT_TRACK", "1")
    with program() as it:
        monkeypatch.setenv("DO_NOT_TRACK", "1")
        it.meter.create_counter("files.saved").add(5)
        assert it.exporter.export(collected(it)) is SUCCESS
        assert it.box.values() == {}
        assert it.box.state.exists() is not from_the_start
    assert caplog.text == ""


def test_a_plan_the_policy_refuses_takes_nothing() -> None:
    with program(policy=Policy(max_epsilon=0.5)) as it:
        it.meter.create_counter("files.saved").add(5)
        assert it.exporter.export(collected(it)) is SUCCESS
        assert it.box.values() == {}
        assert it.box.device.status().refused


def test_a_locked_file_loses_nothing_and_counts_nothing_twice() -> None:
    """The SDK does not offer an increase again; the device keeps it until it can be written."""
    with program() as it:
        counter = it.meter.create_counter("files.saved")
        other = sqlite3.connect(it.box.state, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            counter.add(5)
            assert it.exporter.export(collected(it)) is SUCCESS
        assert not what_is_in(it.box.state).totals
        other.execute("ROLLBACK")
        other.close()
        assert it.export() == {"files_saved": 10}


def test_the_sdk_hands_over_an_increase_once_also_after_a_failure() -> None:
    """What the promise of the page rests on: FAILURE does not bring an increase back."""

    class Failing(MetricExporter):
        def __init__(self) -> None:
            super().__init__(PrivateMetricExporter(box.device)._preferred_temporality)
            self.seen: list[list[Metric]] = []

        def export(self, metrics_data: MetricsData, *_: Any, **__: Any) -> MetricExportResult:
            self.seen.append(list(metrics_data.resource_metrics[0].scope_metrics[0].metrics))
            return FAILURE

        def force_flush(self, timeout_millis: float = 0) -> bool:
            return True

        def shutdown(self, timeout_millis: float = 0, **_: Any) -> None:
            pass

    with sandbox(PLAN, policy=Policy.unlimited()) as box:
        exporter = Failing()
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
        provider = MeterProvider([reader], shutdown_on_exit=False)
        counter = provider.get_meter("editor").create_counter("files.saved")
        for amount in (5, 6):
            counter.add(amount)
            provider.force_flush()
        provider.shutdown()
    assert [seen[0].data.data_points[0].value for seen in exporter.seen] == [5, 6]  # type: ignore[union-attr]


# Life


def test_flushing_and_exporting_never_send() -> None:
    """When a report is sent is drawn from the device's secret; the host's exports must not show in it."""
    with program() as it:
        counter = it.meter.create_counter("files.saved")
        for _ in range(3):
            counter.add(1)
            it.box.clock.advance(PLAN.round_seconds)
            assert it.provider.force_flush()
            assert it.exporter.force_flush()
        assert it.box.transport.bodies == []


def test_after_shutdown_nothing_is_taken_and_a_given_device_goes_on() -> None:
    with program() as it:
        counter = it.meter.create_counter("files.saved")
        counter.add(1)
        data = collected(it)
        assert it.exporter.export(data) is SUCCESS
        it.exporter.shutdown()
        it.exporter.shutdown()
        assert it.exporter.export(data) is FAILURE
        assert it.box.values() == {"files_saved": 1}
        it.box.device.add("files_saved", 1)
        assert it.box.values() == {"files_saved": 2}


def test_the_last_increase_is_exported_at_shutdown() -> None:
    with sandbox(PLAN, policy=Policy.unlimited()) as box:
        reader = PeriodicExportingMetricReader(PrivateMetricExporter(box.device), 3_600_000)
        provider = MeterProvider([reader], shutdown_on_exit=False)
        provider.get_meter("editor").create_counter("files.saved").add(8)
        provider.shutdown()
        assert box.values() == {"files_saved": 8}


# Secrets


def test_attributes_and_exemplars_reach_neither_the_file_nor_the_wire() -> None:
    secret = "ann-4711-diary"  # noqa: S105
    with sandbox(PLAN, policy=Policy.unlimited()) as box:
        exporter = PrivateMetricExporter(box.device)
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
        control = InMemoryMetricReader()
        provider = MeterProvider(
            [reader, control], exemplar_filter=AlwaysOnExemplarFilter(), shutdown_on_exit=False,
            views=[View(instrument_name="files.saved", attribute_keys=set())],
        )  # fmt: skip
        meter = provider.get_meter("editor", attributes={"scope": secret})
        meter.create_counter("files.saved", description=secret).add(3, {"path": secret})
        meter.create_histogram("editor.seconds").record(2, {"path": secret})
        meter.create_gauge("open-files").set(2, {secret: secret})
        seen = control.get_metrics_data()
        assert seen is not None
        exemplars = [
            exemplar.filtered_attributes
            for metric in seen.resource_metrics[0].scope_metrics[0].metrics
            for point in metric.data.data_points
            for exemplar in point.exemplars
        ]
        assert {"path": secret} in exemplars  # it was there to be leaked
        provider.force_flush()

        def written() -> bytes:
            return b"".join(path.read_bytes() for path in sorted(Path(box.state.parent).iterdir()))

        assert b"files_saved" in written()
        assert secret.encode() not in written()
        box.next_round()
        assert len(box.transport.bodies) == 1
        assert secret.encode() not in written() + b"".join(box.transport.bodies)
        provider.shutdown()


@pytest.mark.parametrize("by_another_process", [False, True])
def test_an_exporter_hears_of_consent_that_is_given_later(by_another_process: bool, tmp_path: Path) -> None:
    """Nothing is taken before; from the next export on it is, and the device starts to answer."""
    clock = ManualClock(1_800_000_000.0)
    own, other = (
        Device(PLAN, tmp_path / "state", consent="unset", clock=clock, policy=Policy.unlimited())
        for _ in range(2)
    )
    exporter = PrivateMetricExporter(own)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    saved = provider.get_meter("editor").create_counter("files.saved")
    saved.add(5)
    provider.force_flush()
    assert not (tmp_path / "state").exists()
    assert (other if by_another_process else own).set_consent("granted")
    clock.advance(PLAN.round_seconds)  # the round of the choice is not answered
    saved.add(7)
    provider.force_flush()
    assert own._recorded(own.current_round) == {"files_saved": 7}
    provider.shutdown()
