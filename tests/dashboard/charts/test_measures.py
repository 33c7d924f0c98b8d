from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reticent.dashboard.charts import Measure, RoundBar, gauge, measures, reports_per_round

Parse = Callable[[str], list[Any]]


def test_lengths_are_in_proportion(drawn: Parse) -> None:
    rows = [
        Measure("noise", "why", 3.0, "± 3", "noise"),
        Measure("all", "why", 5.0, "± 5", "whole"),
        Measure("none", "why", 0.0, "± 0", "moved"),
    ]
    for chart in drawn(measures(rows, "x")):
        noise, whole, none = (float(each.get("width")) for each in chart.all("rect", "measure"))
        assert noise / whole == pytest.approx(0.6, abs=0.01)
        assert 0 < none < 2


def test_long_names_are_only_told_where_there_is_room(drawn: Parse) -> None:
    wide, narrow = drawn(measures([Measure("noise", "what devices add", 1, "± 1", "noise")], "x"))
    assert [each.text for each in wide.all("text", "label")] == ["noise: what devices add"]
    assert [each.text for each in narrow.all("text", "label")] == ["noise"]


def test_nothing_at_all_can_be_measured(drawn: Parse) -> None:
    assert len(drawn(measures([Measure("noise", "", 0.0, "± 0", "noise")], "x"))) == 2


@pytest.mark.parametrize(("value", "seen"), [(50, 180), (-20, 6), (130, 354)])
def test_a_needle_never_leaves_its_range(drawn: Parse, value: float, seen: float) -> None:
    (chart,) = drawn(gauge(value, 25, 75, 100, "x"))
    (needle,), (reach,) = chart.all("line", "needle"), chart.all("rect", "reach")
    assert float(needle.get("x1")) == seen
    assert float(reach.get("width")) == pytest.approx((360 - 12) / 2)


def test_open_rounds_are_hollow_bars(drawn: Parse) -> None:
    rounds = [RoundBar(0, 10, 400, False, "four"), RoundBar(20, 30, 100, True, "one")]
    for chart in drawn(reports_per_round(rounds, "x")):
        bars = chart.all("rect", "bar")
        tops = [chart.level(float(bar.get("y"))) for bar in bars]
        assert tops == pytest.approx([400, 100], abs=3)
        assert ["open" in bar.get("class") for bar in bars] == [False, True]
        gap = float(bars[1].get("x")) - float(bars[0].get("x")) - float(bars[0].get("width"))
        assert gap > float(bars[0].get("width")) * 0.9
