from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reticent.dashboard.charts import Level, cumulative

Parse = Callable[[str], list[Any]]
EDGES = [0, 10, 20, 30]
VALUES, LOWER, UPPER = [0, 0.3, 0.7, 1.0], [0, 0.2, 0.6, 1.0], [0, 0.4, 0.8, 1.0]


def test_between_edges_the_band_is_as_wide_as_what_is_known(drawn: Parse) -> None:
    """F never falls: on [10, 20] it is at least F(10) ≥ 0.2 and at most F(20) ≤ 0.8."""
    for chart in drawn(cumulative(EDGES, VALUES, LOWER, UPPER, [], "x", "s")):
        upper, lower = chart.all("path", "edge")
        (line,) = chart.all("path", "middle")
        place = [x for x, _ in chart.places(line)]

        def at(edge: Any, x: float, chart: Any = chart) -> set[int]:
            return {round(chart.level(y)) for seen, y in chart.places(edge) if seen == pytest.approx(x)}

        assert [at(upper, x) for x in place] == [{0, 40}, {40, 80}, {80, 100}, {100}]
        assert [at(lower, x) for x in place] == [{0}, {0, 20}, {20, 60}, {60, 100}]
        assert [round(chart.level(y)) for _, y in chart.places(line)] == [0, 30, 70, 100]
        assert len(chart.all("path", "band")) == 1


def test_quantiles_are_drawn_with_their_intervals(drawn: Parse) -> None:
    median = Level(0.5, 15.0, 10.0, 20.0)
    for chart in drawn(cumulative(EDGES, VALUES, LOWER, UPPER, [median], "x", "s")):
        (group,) = chart.all("g", "quantile")
        (dot,) = chart.all("circle", inside=group)
        whisker = chart.all("line", "whisker", inside=group)[0]
        left, right = float(whisker.get("x1")), float(whisker.get("x2"))
        (line,) = chart.all("path", "middle")
        places = [x for x, _ in chart.places(line)]
        assert (left, right) == pytest.approx((places[1], places[2]), abs=0.1)
        assert float(dot.get("cx")) == pytest.approx((left + right) / 2, abs=0.1)
        assert chart.level(float(dot.get("cy"))) == pytest.approx(50, abs=0.3)
        assert chart.all("text", "note", inside=group)[0].text == "50 %"
