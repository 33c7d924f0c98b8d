from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from reticent.dashboard.charts import Bar, histogram, small_histogram

Parse = Callable[[str], list[Any]]
EDGES = [0, 10, 20, 30, 40]
BARS = [
    Bar(0.5, 0.4, 0.6, 0.48, "first"),
    Bar(-0.05, 0.0, 0.04, 0.0, "second"),
    Bar(0.3, 0.2, 0.4, 0.28, "third"),
    Bar(0.26, 0.16, 0.36, 0.24, '<b onclick="x">'),
]


def heights(chart: Any, kind: str) -> list[tuple[float, float]]:
    """(lower end, upper end) of each bar of a kind, in percent, as the axis says."""
    (group,) = chart.all("g", kind)
    rects = chart.all("rect", "bar", inside=group)
    tops = [(float(rect.get("y")), float(rect.get("height"))) for rect in rects]
    return [(chart.level(y + height), chart.level(y)) for y, height in tops]


def test_bars_have_the_height_of_their_share(drawn: Parse) -> None:
    for chart in drawn(histogram(EDGES, BARS, "x", "s")):
        raw = heights(chart, "raw")
        assert [low for low, _ in raw] == pytest.approx([0, -5, 0, 0], abs=0.2)
        assert [high for _, high in raw] == pytest.approx([50, 0, 30, 26], abs=0.2)
        assert [high for _, high in heights(chart, "norm-sub")] == pytest.approx([48, 0, 28, 24], abs=0.2)


def test_every_bar_has_its_interval(drawn: Parse) -> None:
    for chart in drawn(histogram(EDGES, BARS, "x", "s")):
        ends = [chart.stem(each) for each in chart.all("path", "whisker")]
        seen = [(chart.level(low), chart.level(high)) for low, high in ends]
        for (low, high), bar in zip(seen, BARS, strict=True):
            assert (low, high) == pytest.approx((100 * bar.lower, 100 * bar.upper), abs=0.2)
    assert len(drawn(small_histogram(EDGES, BARS, "x"))[0].all("path", "whisker")) == len(BARS)


def test_every_bucket_can_be_pointed_at(drawn: Parse) -> None:
    made = histogram(EDGES, BARS, "x", "s")
    assert "<b onclick" not in made
    titles = ["".join(hit.itertext()) for hit in drawn(made)[0].all("rect", "hit")]
    assert titles == [bar.tip for bar in BARS]


def widths(chart: Any) -> list[float]:
    return [float(hit.get("width")) for hit in chart.all("rect", "hit")]


def test_uneven_buckets_are_drawn_equally_wide(drawn: Parse) -> None:
    even, uneven = (drawn(histogram(edges, BARS, "x", "s"))[0] for edges in (EDGES, [0, 1, 10, 100, 10_000]))
    assert widths(even) == pytest.approx([widths(even)[0]] * 4, abs=0.11)
    assert widths(uneven) == pytest.approx([widths(uneven)[0]] * 4, abs=0.11)
    shown = [each.text for each in uneven.all("text", "label") if each.get("text-anchor") != "end"]
    assert shown[:4] == ["0", "1", "10", "100"]


def test_many_buckets_have_few_labels_that_do_not_touch(drawn: Parse) -> None:
    edges = [place * 100 / 255 for place in range(256)]
    bars = [Bar(1 / 255, 0, 0.01, 1 / 255)] * 255
    for chart in drawn(histogram(edges, bars, "x", "")):
        labels = [
            (float(each.get("x")), len(each.text))
            for each in chart.all("text", "label")
            if float(each.get("y")) > chart.bottom + 10
        ]
        assert len(labels) >= 3
        for (left, long), (right, _) in pairwise(labels):
            assert right - left > 7.5 * long
