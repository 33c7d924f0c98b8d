"""A program instrumented with the real SDK, another exporter, and what the device then holds and sends."""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, MeterProvider, UpDownCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    Gauge,
    InMemoryMetricReader,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.view import (
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from tacit.device import Policy
from tacit.device.answer import answer
from tacit.device.prf import SecretDraws
from tacit.errors import ParameterError
from tacit.integrations.opentelemetry import PrivateMetricExporter
from tacit.integrations.opentelemetry.amounts import Use, exact, times, together
from tacit.plan import Plan
from tacit.testing import Sandbox, sandbox

PLAN = Plan.from_toml("""
[plan]
name = "app-usage"
version = 1
round = "1h"
grace = "1h"

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
""")

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
    with sandbox(PLAN, policy=policy) as box:
        made = Program(box, **options)
        yield made
        made.provider.shutdown()


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
        with sqlite3.connect(it.box.state) as connection:
            [(secret, epoch)] = connection.execute("SELECT secret, epoch FROM device")
        connection.close()
        by_hand = {"files_saved": 270, "editor_seconds": 2100.75}
        expected = answer(SecretDraws(secret, PLAN.name, epoch), PLAN, number, by_hand).report
        assert it.box.reports == [expected]


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


# Instruments


def test_a_histogram_adds_its_sum_whatever_its_view() -> None:
    views: list[View | None] = [
        None,
        View(instrument_name="*", aggregation=ExplicitBucketHistogramAggregation((1.0, 10.0))),
        View(instrument_name="*", aggregation=ExponentialBucketHistogramAggregation()),
    ]
    for view in views:
        with program(views=[view] if view else []) as it:
            time = it.meter.create_histogram("editor.seconds", unit="s")
            for seconds in (0.5, 20.25, 100):
                time.record(seconds)
            assert it.export() == {"editor_seconds": Fraction("120.75")}
            time.record(1)
            assert it.export() == {"editor_seconds": Fraction("121.75")}


def test_the_sdk_keeps_no_buckets_of_a_histogram_for_this_exporter() -> None:
    with program() as it:
        it.meter.create_histogram("editor.seconds").record(3)
        seen: list[MetricsData] = []
        it.exporter._hand_over = seen.append  # type: ignore[method-assign]
        it.export()
        (point,) = seen[0].resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
        assert (list(point.bucket_counts), point.min, point.max) == ([1], math.inf, -math.inf)  # type: ignore[union-attr]


def test_an_up_down_counter_sets_its_level() -> None:
    """Its increases may be negative, which no total takes: +5 -3 would come to 5."""
    with program() as it:
        files = it.meter.create_up_down_counter("open-files", unit="{file}")
        files.add(5)
        assert it.export() == {"open-files": 5}
        files.add(-3)
        assert it.export() == {"open-files": 2}
        it.box.next_round()
        assert it.export() == {"open-files": 2}  # still open in the next round
        files.add(-7)
        assert it.export() == {"open-files": 0}  # a level below the range


def test_a_gauge_sets_its_last_value_and_keeps_it() -> None:
    with program() as it:
        files = it.meter.create_gauge("open.files", unit="{file}")
        files.set(9)
        files.set(4)
        assert it.export() == {}  # the plan calls it open-files
    with program(names={"open.files": "open-files"}) as it:
        files = it.meter.create_gauge("open.files", unit="{file}")
        files.set(9)
        files.set(4)
        assert it.export() == {"open-files": 4}
        it.box.next_round()
        assert it.export() == {"open-files": 4}


def observing(values: list[float]) -> list[Callable[[CallbackOptions], list[Observation]]]:
    """A callback that observes each value in turn, then nothing."""
    return [lambda _: [Observation(values.pop(0))] if values else []]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("counter", [7, 9, 9]), ("up_down_counter", [7, 9, 9]), ("gauge", [7, 9, 9])],
)
def test_observable_instruments(kind: str, expected: list[int]) -> None:
    """A callback gives totals 7 and 9, then nothing: the increase of a counter, the level of the others."""
    with program() as it:
        create = getattr(it.meter, f"create_observable_{kind}")
        create("files.saved", callbacks=observing([7, 9]))
        assert [it.export()["files_saved"] for _ in range(3)] == expected
        it.box.next_round()
        assert it.export() == {}


def test_an_observable_counter_that_starts_again_takes_nothing_away() -> None:
    with program() as it:
        totals: list[dict[str, int]] = [{"a": 100, "b": 10}, {"a": 0, "b": 15}]

        def look(_: CallbackOptions) -> list[Observation]:
            return [Observation(value, {"disk": disk}) for disk, value in totals.pop(0).items()]

        it.meter.create_observable_counter("files.saved", callbacks=[look])
        assert it.export() == {"files_saved": 110}
        assert it.export() == {"files_saved": 115}


def test_attributes_are_summed_away_and_gauges_take_the_largest() -> None:
    with program(names={"disk.fill": "editor_seconds"}) as it:
        saved, files = it.meter.create_counter("files.saved"), it.meter.create_up_down_counter("open-files")
        fill = it.meter.create_gauge("disk.fill")
        for number in range(10):
            saved.add(number, {"project": f"secret-{number}"})
            fill.set(100 - number, {"disk": number})
        files.add(5, {"how": "opened"})
        files.add(-2, {"how": "closed"})
        assert it.export() == {"files_saved": 45, "open-files": 3, "editor_seconds": 100}


def test_more_attributes_than_the_sdk_keeps_apart_lose_nothing() -> None:
    with program(views=[View(instrument_name="*", aggregation_cardinality_limit=3)]) as it:
        saved = it.meter.create_counter("files.saved")
        for number in range(50):
            saved.add(2, {"project": number})
        assert it.export() == {"files_saved": 100}


def test_several_meters_with_one_instrument_are_added_up() -> None:
    with program() as it:
        for scope in ("one", "two"):
            it.provider.get_meter(scope).create_counter("files.saved").add(4)
        assert it.export() == {"files_saved": 8}


# Names and units


def test_an_instrument_may_feed_several_metrics_or_none(caplog: pytest.LogCaptureFixture) -> None:
    names = {"App.Editor.Time": ("editor_seconds", "editor_spread"), "noise": ()}
    with program(names=names) as it:
        it.meter.create_counter("app.editor.time", unit="s").add(60)
        it.meter.create_counter("noise").add(1)
        assert it.export() == {"editor_seconds": 60, "editor_spread": 60}
    assert caplog.text == ""


@pytest.mark.parametrize("name", ["files_saved", "files.saved", "files-saved", "files/saved", "Files.Saved"])
def test_an_instrument_finds_the_metric_of_its_name(name: str) -> None:
    with program() as it:
        it.meter.create_counter(name).add(1)
        assert it.export() == {"files_saved": 1}


def test_a_name_that_is_no_metric_is_refused_at_construction() -> None:
    with (
        sandbox(PLAN) as box,
        pytest.raises(ParameterError, match=r"names\['a'\]: expected a metric of plan"),
    ):
        PrivateMetricExporter(box.device, names={"a": "editor_minutes"})


@pytest.mark.parametrize("factor", [0, -1, "much", math.nan, math.inf])
def test_a_scale_that_is_no_factor_is_refused_at_construction(factor: Any) -> None:
    with sandbox(PLAN) as box, pytest.raises(ParameterError, match=r"scale\['a'\]: expected a number > 0"):
        PrivateMetricExporter(box.device, scale={"a": factor})


def test_another_unit_is_not_guessed_at(caplog: pytest.LogCaptureFixture) -> None:
    with program() as it:
        time = it.meter.create_counter("editor.seconds", unit="ms")
        for _ in range(3):
            time.add(4_812)
            assert it.export() == {}
    assert len(caplog.records) == 1
    assert "editor.seconds: its unit is 'ms', that of metric editor_seconds is 'second'" in caplog.text
    assert "4812" not in caplog.text


@pytest.mark.parametrize("factor", [0.001, Fraction(1, 1000), "1/1000", Decimal("0.001")])
def test_a_scale_converts_exactly(factor: Any) -> None:
    with program(scale={"Editor.Seconds": factor}) as it:
        time = it.meter.create_counter("editor.seconds", unit="ms")
        time.add(1)
        time.add(7, {"window": 2})
        assert it.export() == {"editor_seconds": Fraction(8, 1000)}


def test_unmapped_instruments_are_named_once_and_never_with_a_value(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with program() as it:
        for number in range(3):
            it.meter.create_counter("http.requests").add(987_654)
            if number:
                it.meter.create_gauge("cpu.temperature").set(987_654, {"user": "ann"})
            it.export()
    said = [record.getMessage() for record in caplog.records if record.name.startswith("tacit")]
    assert said == [
        f"tacit: nothing is kept of {name}: plan app-usage has no metric for it"
        for name in ("http.requests", "cpu.temperature")
    ]
    assert "987" not in caplog.text
    assert "ann" not in caplog.text


def test_what_the_sdk_counts_about_itself_is_left_out_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    with program() as it:
        it.meter.create_counter("files.saved").add(1)
        it.export()
        seen = collected(it)
        names = {metric.name for scope in seen.resource_metrics[0].scope_metrics for metric in scope.metrics}
        assert any(name.startswith("otel.sdk.") for name in names)
        assert it.exporter.export(seen) is SUCCESS
        assert it.box.values() == {"files_saved": 1}
    assert caplog.text == ""


# Values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, 0), (math.inf, 1000), (-math.inf, 0), (-3, 0), (10**400, 1000), (1e308, 1000), ("3", 0),
        (0.1, Fraction(0.1)), (Fraction(1, 3), Fraction(1 / 3)), (Decimal("2.5"), Fraction(5, 2)),
        (True, 1), (None, 0), ([1], 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("use", ["counter", "level", "gauge"])
def test_any_value_is_taken_or_counts_as_0(
    value: Any, expected: Fraction, use: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever an SDK or an instrumentation library lets through; this SDK refuses some of it itself."""
    with program() as it:
        assert it.exporter.export(handmade(use, value, 0)) is SUCCESS
        assert it.box.values() == {"files_saved": expected}
    assert caplog.text == ""


@pytest.mark.parametrize(("use", "expected"), [("counter", 5), ("level", 5), ("gauge", 3)])
def test_what_is_not_a_number_does_not_spoil_what_is(use: str, expected: int) -> None:
    with program() as it:
        it.exporter.export(handmade(use, 3, math.nan, 2))
        assert it.box.values() == {"files_saved": expected}


def handmade(use: str, *values: Any) -> MetricsData:
    """An export as the SDK would make it, of one instrument and a point per value."""
    points = [NumberDataPoint({"n": place}, 0, 0, value) for place, value in enumerate(values)]
    data: dict[str, DataT] = {
        "counter": Sum(points, AggregationTemporality.DELTA, is_monotonic=True),
        "level": Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=False),
        "gauge": Gauge(points),
    }
    scope = ScopeMetrics(InstrumentationScope("editor"), [Metric("files.saved", "", "", data[use])], "")
    return MetricsData([ResourceMetrics(Resource({}), [scope], "")])


def collected(it: Program) -> MetricsData:
    """What the SDK would hand to the exporter now."""
    seen: list[MetricsData] = []
    it.exporter.export, export = lambda data, **_: seen.append(data), it.exporter.export  # type: ignore[method-assign]
    it.provider.force_flush()
    it.exporter.export = export  # type: ignore[method-assign]
    return seen[0]


def test_amounts_of_the_infinite() -> None:
    """By hand: the infinite decides; both infinities come to no number, which a device counts as 0."""
    assert together(Use.ADDED, [Fraction(10**400), math.inf]) == math.inf
    assert math.isnan(together(Use.LEVEL, [math.inf, -math.inf]))
    assert together(Use.LARGEST, []) == 0
    assert times(math.inf, Fraction(1, 10**400)) == math.inf

    class Odd:
        def __float__(self) -> float:
            raise RuntimeError("private value 7")

    assert exact(Odd()) == 0


@pytest.mark.parametrize("garbage", [None, 7, MetricsData([None])])  # type: ignore[list-item]
def test_what_is_no_data_is_dropped_without_a_word_about_it(
    garbage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with program() as it:
        for _ in range(2):
            assert it.exporter.export(garbage) is FAILURE
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is None


def test_nothing_raised_inside_reaches_the_host_or_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with program() as it:

        def broken(*_: object) -> None:
            raise RuntimeError("private value 424242")

        it.box.device.add = broken  # type: ignore[method-assign]
        it.meter.create_counter("files.saved").add(424242)
        it.provider.force_flush()
    assert len(caplog.records) == 1
    assert "424242" not in caplog.text


def test_cumulative_counters_and_deltas_of_levels_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Another reader may not ask for what this exporter prefers; twice would be worse than not at all."""
    delta = AggregationTemporality.DELTA
    with sandbox(PLAN) as box:
        exporter = PrivateMetricExporter(box.device)
        reader = InMemoryMetricReader({UpDownCounter: delta})  # everything else is cumulative
        provider = MeterProvider([reader], shutdown_on_exit=False)
        meter = provider.get_meter("editor")
        meter.create_counter("files.saved").add(3)
        meter.create_histogram("editor.seconds").record(3)
        meter.create_up_down_counter("open-files").add(3)
        data = reader.get_metrics_data()
        assert data is not None
        assert exporter.export(data) is SUCCESS
        assert box.values() == {}
        provider.shutdown()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert all("does not ask for the temporality" in line for line in said)


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
    with program(names={"a": "anything"} if from_the_start else None) as it:
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
        assert other.execute("SELECT count(*) FROM totals").fetchall() == [(0,)]
        other.execute("ROLLBACK")
        other.close()
        assert it.export() == {"files_saved": 10}
        assert it.box.device.status().notes == {"state-busy": 2}


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

    with sandbox(PLAN) as box:
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
    with sandbox(PLAN) as box:
        reader = PeriodicExportingMetricReader(PrivateMetricExporter(box.device), 3_600_000)
        provider = MeterProvider([reader], shutdown_on_exit=False)
        provider.get_meter("editor").create_counter("files.saved").add(8)
        provider.shutdown()
        assert box.values() == {"files_saved": 8}


# Secrets


def test_attributes_and_exemplars_reach_neither_the_file_nor_the_wire() -> None:
    secret = "ann-4711-diary"  # noqa: S105
    with sandbox(PLAN) as box:
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
        found = [
            exemplar.filtered_attributes
            for metric in seen.resource_metrics[0].scope_metrics[0].metrics
            for point in metric.data.data_points
            for exemplar in point.exemplars
        ]
        assert {"path": secret} in found  # it was there to be leaked
        provider.force_flush()

        def written() -> bytes:
            return b"".join(path.read_bytes() for path in sorted(Path(box.state.parent).iterdir()))

        assert b"files_saved" in written()
        assert secret.encode() not in written()
        box.next_round()
        assert len(box.transport.bodies) == 1
        assert secret.encode() not in written() + b"".join(box.transport.bodies)
        provider.shutdown()
