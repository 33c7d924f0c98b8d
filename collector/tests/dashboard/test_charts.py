"""Charts taken apart again: what is drawn is read back through the labels of its axes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent_collector.dashboard import charts
from reticent_collector.dashboard.charts import svg
from reticent_collector.estimates.distribution import CumulativeEstimate

Tree = ElementTree.Element
SPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = '"><script>alert(1)</script>&'
NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


class Drawn:
    """One SVG of a chart."""

    def __init__(self, root: Tree) -> None:
        self.root = root

    def all(self, tag: str, kind: str = "", inside: Tree | None = None) -> list[Tree]:
        """Elements by tag and by one of their classes."""
        elements = (self.root if inside is None else inside).iter(SPACE + tag)
        return [element for element in elements if not kind or kind in (element.get("class") or "").split()]

    def places(self, path: Tree) -> list[tuple[float, float]]:
        """The corners of a path of straight lines."""
        corners = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d") or "")
        return [(float(x), float(y)) for x, y in corners]

    def ends(self, path: Tree) -> tuple[float, float]:
        """The values from where to where a whisker goes."""
        low, high = re.search(r"M[-\d.]+ (-?[\d.]+)V(-?[\d.]+)$", path.get("d") or "").groups()  # type: ignore[union-attr]
        return self.level(float(low)), self.level(float(high))

    def level(self, y: float) -> float:
        """The value at a height, read off the labels of the axis."""
        labels = [
            (float(text.get("y") or 0) - 4, float((text.text or "").replace(",", "").replace("−", "-")))
            for text in self.all("text", "label")
            if text.get("text-anchor") == "end" and re.fullmatch(r"[−\d.,]+", text.text or "")
        ]
        labels = [pair for pair in labels if pair[0] <= self.bottom]
        (low_y, low), (high_y, high) = labels[0], labels[-1]
        return low + (y - low_y) / (high_y - low_y) * (high - low)

    @property
    def bottom(self) -> float:
        """The height of the lowest rule."""
        rules = [*self.all("line", "rule"), *self.all("line", "zero")]
        return max(float(rule.get("y1") or 0) for rule in rules)


def drawn(markup: str) -> list[Any]:
    """All SVGs of a chart, wide before narrow."""
    return [Drawn(root) for root in ElementTree.fromstring(f"<div>{markup}</div>")]  # noqa: S314  (our own)


def mark(place: int, value: float, half: float = 1.0, **more: Any) -> charts.Mark:
    return charts.Mark(place * 3600, (place + 1) * 3600, value, value - half, value + half, **more)


def test_values_and_intervals_stand_where_the_axis_says() -> None:
    values = [12.0, 17.5, 9.25, 14.0]
    for chart in drawn(
        charts.series([charts.Line([mark(place, value, 2) for place, value in enumerate(values)])], "x", "s")
    ):
        (middle,), (band,) = chart.all("path", "middle"), chart.all("path", "band")
        assert [chart.level(y) for _, y in chart.places(middle)] == pytest.approx(values, abs=0.05)
        corners = [chart.level(y) for _, y in chart.places(band)]
        expected = [value + 2 for value in values] + [value - 2 for value in reversed(values)]
        assert corners == pytest.approx(expected, abs=0.05)


def test_a_missing_round_is_a_gap_and_a_lone_round_a_whisker() -> None:
    marks = [mark(place, 5.0) for place in (0, 1, 2, 4, 6, 7)]
    chart = drawn(charts.series([charts.Line(marks)], "x", ""))[0]
    assert [len(chart.places(path)) for path in chart.all("path", "middle")] == [3, 2]
    (whisker,) = chart.all("path", "whisker")
    assert chart.ends(whisker) == pytest.approx((4, 6), abs=0.05)


def test_open_rounds_are_dashed_and_hollow() -> None:
    marks = [mark(0, 5.0), mark(1, 6.0), mark(2, 7.0, 3, open=True)]
    for chart in drawn(charts.series([charts.Line(marks)], "x", "")):
        assert len(chart.all("circle", "open")) == 1
        assert [path.get("class") for path in chart.all("path", "middle")] == ["middle", "middle open"]
        assert [path.get("class") for path in chart.all("path", "band")] == ["band", "band open"]
    rounds = [charts.RoundBar(0, 10, 400, False, "four"), charts.RoundBar(20, 30, 100, True, "one")]
    for chart in drawn(charts.reports_per_round(rounds, "x")):
        bars = chart.all("rect", "bar")
        assert [chart.level(float(bar.get("y"))) for bar in bars] == pytest.approx([400, 100], abs=3)
        assert ["open" in bar.get("class") for bar in bars] == [False, True]


def test_other_parameters_break_the_line_and_are_named() -> None:
    other = [mark(place, 7.0, version=3, asked="other") for place in (3, 4)]
    marks = [mark(0, 5.0), mark(1, 6.0), mark(2, 7.0, version=2), *other]
    chart = drawn(charts.series([charts.Line(marks)], "x", ""))[0]
    assert len(chart.all("path", "band")) == 2
    named = [note.text for note in chart.all("text", "note") if "version" in str(note.text)]
    assert named == ["other parameters from version 3"]


def test_an_interval_alone_is_drawn_as_a_step_over_its_period() -> None:
    marks = [
        replace(mark(place, 0.0), value=float("nan"), lower=low, upper=low + 10.0)
        for place, low in enumerate((0.0, 10.0, 0.0))
    ]
    for chart in drawn(charts.series([charts.Line(marks)], "x", "")):
        assert not chart.all("path", "middle")
        top, bottom = chart.all("path", "edge")
        assert [chart.level(y) for _, y in chart.places(top)] == pytest.approx(
            [10, 10, 20, 20, 10, 10], abs=0.1
        )
        assert [chart.level(y) for _, y in chart.places(bottom)] == pytest.approx(
            [0, 0, 10, 10, 0, 0], abs=0.1
        )
        across = [x for x, _ in chart.places(top)]
        assert across == [x for x, _ in chart.places(bottom)]
        assert across[1:-1:2] == across[2::2], "a step ends where the next begins"
        assert across[1] - across[0] == pytest.approx(across[5] - across[4], abs=0.2)


def test_a_long_line_is_drawn_coarser_and_its_band_holds_every_interval() -> None:
    values = [10 + place % 7 for place in range(1000)]
    values[500] = 60
    marks = [mark(place, float(value), 3.0) for place, value in enumerate(values)]
    wide, narrow = drawn(charts.series([charts.Line(marks)], "x", ""))
    for chart, most in ((wide, 240), (narrow, 120)):
        (band,), (line,) = chart.all("path", "band"), chart.all("path", "middle")
        corners = chart.places(band)
        assert len(corners) <= 2 * most
        half = len(corners) // 2
        at_once = -(-1000 // most)
        for place, (upper, lower) in enumerate(zip(corners[:half], corners[: half - 1 : -1], strict=True)):
            group = values[place * at_once : (place + 1) * at_once]
            assert chart.level(upper[1]) == pytest.approx(max(group) + 3, abs=0.3)
            assert chart.level(lower[1]) == pytest.approx(min(group) - 3, abs=0.3)
        assert max(chart.level(y) for _, y in chart.places(line)) == pytest.approx(60, abs=0.3)
        assert not chart.all("rect", "hit")


def test_long_lines_stand_in_strips_of_their_own_on_one_scale() -> None:
    lines = [
        charts.Line([mark(place, level, 1.0) for place in range(200)], name, shade)
        for shade, (name, level) in enumerate((("linux", 10.0), ("macos", 40.0)))
    ]
    for chart in drawn(charts.series(lines, "x", "min")):
        assert [text.text for text in chart.all("text", "unit")] == ["linux, min", "macos, min"]
        first, second = (
            chart.places(chart.all("path", "band", inside=group)[0]) for group in chart.all("g", "line")
        )
        assert max(y for _, y in first) < min(y for _, y in second), "they do not overlap"


def test_colours_of_a_file_are_those_of_the_pages() -> None:
    style = (files("reticent_collector.dashboard") / "static" / "dashboard.css").read_text()
    assert tuple(re.findall(r"--shade-\d: light-dark\((#\w+)", style)) == charts.PALETTE
    assert len(set(charts.PALETTE)) == len(charts.PALETTE)
    looks = {(colour, svg.DASHES[place], place % 4) for place, colour in enumerate(charts.PALETTE)}
    assert len({look[1:] for look in looks}) == 4, "four forms tell lines apart without any colour"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.floats(-1e6, 1e6), st.floats(0, 1e5), st.booleans()),
        min_size=1,
        max_size=30,
        unique_by=lambda row: row[0],
    )
)
def test_there_is_never_a_line_without_its_band(rounds: list[tuple[int, float, float, bool]]) -> None:
    marks = [mark(place, value, half, open=state) for place, value, half, state in sorted(rounds)]
    for chart in drawn(charts.series([charts.Line(marks)], "x", "s") + charts.spark(marks, "x")):
        lines, bands = chart.all("path", "middle"), chart.all("path", "band")
        assert len(lines) == len(bands)
        covered = set()
        for line, band in zip(lines, bands, strict=True):
            across = [x for x, _ in chart.places(line)]
            corners = [x for x, _ in chart.places(band)]
            assert corners == across + across[::-1]
            covered |= set(across)
        alone = len(chart.all("path", "whisker"))
        assert len(covered) + alone >= len(marks)


def test_each_round_says_what_is_there_for_every_line() -> None:
    lines = [
        charts.Line([mark(0, 5.0, tip="linux: 5"), mark(1, 6.0, tip="linux: 6")], name="linux"),
        charts.Line([mark(1, 8.0, tip="macos: 8")], name="macos", shade=1, shown=False),
    ]
    chart = drawn(charts.series(lines, "x", ""))[0]
    titles = ["".join(hit.itertext()) for hit in chart.all("rect", "hit")]
    assert titles == [
        "1 Jan 1970, 00:00 to 01:00 UTC\nlinux: 5",
        "1 Jan 1970, 01:00 to 02:00 UTC\nlinux: 6\nmacos: 8",
    ]
    groups = chart.all("g", "line")
    assert [(group.get("data-line"), "off" in group.get("class")) for group in groups] == [
        ("linux", False),
        ("macos", True),
    ]


def test_hostile_text_stays_text() -> None:
    markup = charts.series(
        [charts.Line([mark(0, 5.0, tip=HOSTILE), mark(1, 5.0)], name=HOSTILE)], HOSTILE, HOSTILE
    )
    assert "<script" not in markup
    chart = drawn(markup)[0]
    assert chart.root.get("aria-label") == HOSTILE
    assert chart.all("g", "line")[0].get("data-line") == HOSTILE
    assert HOSTILE in [unit.text for unit in chart.all("text", "unit")]


@pytest.mark.parametrize("value", [0.0, -3.0, 7.0, 1e-9, 1e15])
def test_one_round_without_width_can_be_drawn(value: float) -> None:
    for chart in drawn(
        charts.series([charts.Line([mark(0, value, 0)])], "x", "") + charts.spark([mark(0, value, 0)], "x")
    ):
        assert len(chart.all("circle")) >= 1
        assert "nan" not in str(chart.root.attrib)


EDGES = [0, 10, 20, 30, 40]
BARS = [
    charts.Bar(0.5, 0.4, 0.6, 0.48, "first"),
    charts.Bar(-0.05, 0.0, 0.04, 0.0, "second"),
    charts.Bar(0.3, 0.2, 0.4, 0.28, "third"),
    charts.Bar(0.26, 0.16, 0.36, 0.24, HOSTILE),
]


def test_bars_have_the_height_of_their_share_and_each_its_interval() -> None:
    for chart in drawn(charts.histogram(EDGES, [charts.Bars(BARS)], "x", "s")):
        for kind, shares in (("raw", [50, -5, 30, 26]), ("norm-sub", [48, 0, 28, 24])):
            (group,) = chart.all("g", kind)
            rects = chart.all("rect", "bar", inside=group)
            tops = [chart.level(float(rect.get("y"))) for rect in rects]
            bottoms = [chart.level(float(rect.get("y")) + float(rect.get("height"))) for rect in rects]
            assert tops == pytest.approx([max(share, 0) for share in shares], abs=0.2)
            assert bottoms == pytest.approx([min(share, 0) for share in shares], abs=0.2)
        for whisker, bar in zip(chart.all("path", "whisker"), BARS, strict=True):
            assert chart.ends(whisker) == pytest.approx((100 * bar.lower, 100 * bar.upper), abs=0.2)
        titles = ["".join(hit.itertext()) for hit in chart.all("rect", "hit")]
        assert titles == [bar.tip for bar in BARS]
    assert len(drawn(charts.small_histogram(EDGES, BARS, "x"))[0].all("path", "whisker")) == len(BARS)


def test_many_buckets_have_few_labels_that_do_not_touch() -> None:
    edges = [place * 100 / 255 for place in range(256)]
    bars = [charts.Bar(1 / 255, 0, 0.01, 1 / 255)] * 255
    for chart in drawn(charts.histogram(edges, [charts.Bars(bars)], "x", "")):
        labels = [
            (float(text.get("x")), len(text.text))
            for text in chart.all("text", "label")
            if float(text.get("y")) > chart.bottom + 10
        ]
        assert len(labels) >= 3
        assert all(right - left > 7.5 * long for (left, long), (right, _) in pairwise(labels))


def test_between_edges_the_band_is_as_wide_as_what_is_known() -> None:
    """F never falls: on [10, 20] it is at least F(10) ≥ 0.2 and at most F(20) ≤ 0.8."""
    edges, values, lower, upper = (0, 10, 20, 30), (0, 0.3, 0.7, 1.0), (0, 0.2, 0.6, 1.0), (0, 0.4, 0.8, 1.0)
    below = CumulativeEstimate(edges, values, lower, upper, confidence=0.95, reports=100, unit="s")
    for chart in drawn(charts.cumulative_chart(below, [below.quantile(0.5)], "x", "s")):
        top, bottom = chart.all("path", "edge")
        dots = [
            (float(dot.get("cx")), float(dot.get("cy")))
            for group in chart.all("g", "line")
            for dot in chart.all("circle", inside=group)
        ]
        places = [x for x, _ in dots]
        assert not chart.all("path", "middle"), "nothing is drawn between edges"

        def at(edge: Any, x: float, chart: Any = chart) -> set[int]:
            return {round(chart.level(y)) for seen, y in chart.places(edge) if seen == pytest.approx(x)}

        assert [at(top, x) for x in places] == [{0, 40}, {40, 80}, {80, 100}, {100}]
        assert [at(bottom, x) for x in places] == [{0}, {0, 20}, {20, 60}, {60, 100}]
        assert [round(chart.level(y)) for _, y in dots] == [0, 30, 70, 100]
        assert len(chart.all("path", "band")) == 1
        (group,) = chart.all("g", "quantile")
        interval, *_ = chart.all("line", "whisker", inside=group)
        ends = float(interval.get("x1")), float(interval.get("x2"))
        assert ends == pytest.approx((places[1], places[2]), abs=0.1)
        assert chart.level(float(interval.get("y1"))) == pytest.approx(50, abs=0.3)


@given(NUMBERS, st.floats(1e-6, 1e9), st.integers(2, 9))
def test_ticks_are_round_evenly_spaced_and_cover_the_range(low: float, width: float, most: int) -> None:
    high = low + width
    if not high - low > 1e-12 * max(abs(low), abs(high)) * 1e4:
        return
    values = svg.ticks(low, high, most)
    step = values[1] - values[0]
    assert values[0] <= low + 1e-6 * step
    assert values[-1] >= high - 1e-6 * step
    assert len(values) <= most + 2
    for left, right in pairwise(values):
        assert right - left == pytest.approx(step, rel=1e-6)
    mantissa = float(f"{step:.3e}".split("e")[0])
    assert mantissa in (1.0, 2.0, 2.5, 5.0)


@given(st.integers(0, 4_000_000_000), st.integers(120, 3_000_000_000), st.integers(2, 12))
def test_times_are_inside_few_increasing_and_named_after_themselves(
    start: int, length: int, most: int
) -> None:
    labels = svg.time_ticks(start, start + length, most)
    assert len(labels) <= most + 2
    assert [at for at, _ in labels] == sorted({at for at, _ in labels})
    for at, text in labels:
        assert start <= at <= start + length
        time = datetime.fromtimestamp(at, UTC)
        assert time.second == 0
        assert text in {f"{time:%H:%M}", f"{time.day} {time:%b}", f"{time:%b %Y}", f"{time:%Y}"}
        if ":" not in text:
            assert (time.hour, time.minute) == (0, 0)
