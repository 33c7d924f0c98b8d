"""Whatever an SDK hands over is taken, counts as 0, or is dropped; and no value is in any word about it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
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
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from tests.otel.instrumented import FAILURE, PLAN, SUCCESS, program

from reticent.otel import PrivateMetricExporter
from reticent.testing import sandbox


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
        ("gauge", (), 0),
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
