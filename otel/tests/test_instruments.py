"""
Every kind of instrument, its attributes, name and unit, and what the device holds of it.

Whatever an SDK hands over is taken, counts as 0, or is dropped; and no value is in any word about it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from inspect import signature
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider, UpDownCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    Gauge,
    InMemoryMetricReader,
    Metric,
    MetricsData,
    NumberDataPoint,
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
from otel.tests.instrumented import FAILURE, PLAN, SUCCESS, collected, program

from reticent.device import Policy
from reticent.errors import ParameterError
from reticent.testing import sandbox
from reticent_otel import PrivateMetricExporter

# Kinds


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
        (point,) = collected(it).resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
        assert list(point.bucket_counts) == [1]  # type: ignore[union-attr]


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
        assert it.export() in ({"open-files": 4}, {})  # older SDKs hand over a gauge only after it was set


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


@pytest.mark.skipif(
    "aggregation_cardinality_limit" not in signature(View).parameters, reason="an SDK without a limit"
)
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
        sandbox(PLAN, policy=Policy.unlimited()) as box,
        pytest.raises(ParameterError, match=r"names\['a'\]: expected a metric of plan"),
    ):
        PrivateMetricExporter(box.device, names={"a": "editor_minutes"})


@pytest.mark.parametrize("factor", [0, -1, "much", math.nan, math.inf])
def test_a_scale_that_is_no_factor_is_refused_at_construction(factor: Any) -> None:
    with (
        sandbox(PLAN, policy=Policy.unlimited()) as box,
        pytest.raises(ParameterError, match=r"scale\['a'\]: expected a number > 0"),
    ):
        PrivateMetricExporter(box.device, scale={"a": factor})


def test_another_unit_is_not_guessed_at(caplog: pytest.LogCaptureFixture) -> None:
    with program() as it:
        time = it.meter.create_counter("editor.seconds", unit="ms")
        for _ in range(3):
            time.add(4_812)
            assert it.export() == {}
    assert len(caplog.records) == 1
    assert (
        "editor.seconds is not used: its unit is 'ms', that of metric editor_seconds is 'second'"
        in caplog.text
    )
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
    warnings = [record.getMessage() for record in caplog.records if record.name.startswith("reticent")]
    assert warnings == [
        f"reticent: instrument {name} is not used: plan app-usage has no metric for it"
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
        if not seen.resource_metrics:
            pytest.skip("this SDK counts nothing about itself")
        names = {metric.name for scope in seen.resource_metrics[0].scope_metrics for metric in scope.metrics}
        assert any(name.startswith("otel.sdk.") for name in names)
        assert it.exporter.export(seen) is SUCCESS
        assert it.box.values() == {"files_saved": 1}
    assert caplog.text == ""


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


class Odd:
    def __float__(self) -> float:
        raise RuntimeError("private value 7")


@pytest.mark.parametrize(
    ("use", "values", "expected"),
    [
        ("counter", (10**400, math.inf), 1000),
        ("level", (math.inf, -math.inf), 0),
        ("counter", (Odd(), 7 * 10**400), 7),
    ],
)
def test_the_infinite_decides_in_any_unit(use: str, values: tuple[Any, ...], expected: Fraction) -> None:
    """Both infinities come to no number, which a device counts as 0; so does what raises."""
    with program(scale={"files.saved": Fraction(1, 10**400)}) as it:
        assert it.exporter.export(handmade(use, *values)) is SUCCESS
        assert it.box.values() == {"files_saved": expected}


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
    with sandbox(PLAN, policy=Policy.unlimited()) as box:
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
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 3
    assert all("does not use the temporality" in line for line in warnings)
