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


def test_what_is_not_the_whole_period_is_hollow_and_no_line_goes_to_it() -> None:
    """Neither from the period before nor to the one after."""
    marks = [mark(0, 5.0), mark(1, 6.0), mark(2, 7.0, 3, hollow=True), mark(3, 6.0), mark(4, 6.0)]
    for chart in drawn(charts.series([charts.Line(marks)], "x", "")):
        (dot,) = chart.all("circle", "open")
        (whisker,) = chart.all("path", "open")
        assert chart.level(float(dot.get("cy"))) == pytest.approx(7, abs=0.05)
        assert chart.ends(whisker) == pytest.approx((4, 10), abs=0.1)
        for kind in ("middle", "band"):
            across = [{round(x) for x, _ in chart.places(path)} for path in chart.all("path", kind)]
            assert [len(places) for places in across] == [2, 2]
            assert not any(round(float(dot.get("cx"))) in places for places in across)
    rounds = [charts.RoundBar(0, 10, 400, False, "four"), charts.RoundBar(20, 30, 100, True, "one")]
    for chart in drawn(charts.reports_per_round(rounds, "x")):
        bars = chart.all("rect", "bar")
        assert [chart.level(float(bar.get("y"))) for bar in bars] == pytest.approx([400, 100], abs=3)
        assert ["open" in bar.get("class") for bar in bars] == [False, True]


@pytest.mark.parametrize("count", [60, 400])
def test_many_periods_that_are_not_whole_are_open_and_have_no_line(count: int) -> None:
    """Also where a chart is drawn by pixels, of medians by steps, and where it is small."""
    open_from = count // 2
    marks = [mark(place, 5.0 + place % 3, hollow=place >= open_from) for place in range(count)]
    for chart in drawn(charts.series([charts.Line(marks)], "x", "")):
        (line,) = chart.all("path", "middle")
        (rule, *_) = chart.all("line", "rule")
        left, right = float(rule.get("x1")), float(rule.get("x2"))
        assert max(x for x, _ in chart.places(line)) < (left + right) / 2
        assert chart.all("circle" if count == 60 else "path", "open")
    medians = [replace(one, hollow=one.start >= open_from * 3600) for one in boxes(count)]
    for chart in drawn(charts.series([charts.Line(medians)], "x", "")):
        assert ["open" in band.get("class") for band in chart.all("path", "band")] == [False] * 2 + [True] * 2
    (small,) = drawn(charts.spark([mark(0, 5.0), mark(1, 6.0), mark(2, 9.0, hollow=True)], "x"))
    (last,) = (dot for dot in small.all("circle", "dot") if "open" not in dot.get("class"))
    (beside,) = small.all("circle", "open")
    assert float(last.get("cx")) < float(beside.get("cx")), "the dot is on the last whole period"


def test_other_parameters_break_the_line_and_are_named() -> None:
    other = [mark(place, 7.0, version=3, asked="other") for place in (3, 4)]
    marks = [mark(0, 5.0), mark(1, 6.0), mark(2, 7.0, version=2), *other]
    chart = drawn(charts.series([charts.Line(marks)], "x", ""))[0]
    assert len(chart.all("path", "band")) == 2
    named = [note.text for note in chart.all("text", "note") if "version" in str(note.text)]
    assert named == ["other parameters from version 3"]


def boxes(count: int) -> list[charts.Mark]:
    """Intervals without values: 0 to 10 and 10 to 20 by turns; the middle half of devices lies around each."""
    ends = [(10.0 * (place % 2), 10.0 * (place % 2) + 10) for place in range(count)]
    return [
        replace(mark(place, 0.0), value=float("nan"), lower=low, upper=high, around=(low, high + 5))
        for place, (low, high) in enumerate(ends)
    ]


def test_an_interval_alone_is_a_box_on_the_stem_of_the_middle_half() -> None:
    for chart in drawn(charts.series([charts.Line(boxes(3))], "x", "")):
        assert not chart.all("path", "middle")
        ends = []
        for box in chart.all("rect", "box"):
            top, height = float(box.get("y")), float(box.get("height"))
            ends += [chart.level(top + height), chart.level(top)]
        assert ends == pytest.approx([0, 10, 10, 20, 0, 10], abs=0.1)
        stems = [chart.level(float(stem.get("y2"))) for stem in chart.all("line", "stem")]
        assert stems == pytest.approx([15, 25, 15], abs=0.1)
    alone = drawn(charts.series([charts.Line(boxes(1))], "x", ""))[0].all("rect", "box")
    assert float(alone[0].get("width")) < 30, "one period does not fill the chart"


def test_many_intervals_alone_are_a_band_of_steps() -> None:
    for chart in drawn(charts.series([charts.Line(boxes(60))], "x", "")):
        assert not chart.all("rect", "box")
        around, inner = chart.all("path", "band")
        for band, top in ((around, 5), (inner, 0)):
            corners = chart.places(band)
            upper, lower = corners[: len(corners) // 2], corners[len(corners) // 2 :]
            levels = [chart.level(y) for _, y in upper]
            assert levels == pytest.approx([10 + top, 10 + top, 20 + top, 20 + top] * 30, abs=0.2)
            assert [x for x, _ in upper] == [x for x, _ in reversed(lower)]
            assert all(left[0] == right[0] for left, right in zip(upper[1::2], upper[2::2], strict=False))


def test_a_long_line_is_drawn_by_pixels_and_its_band_holds_every_interval() -> None:
    """And what is missing is missing in it too."""
    values = {place: 10.0 + place % 7 for place in range(1000) if not 600 <= place < 640}
    values[500] = 60.0
    marks = [mark(place, value, 3.0) for place, value in values.items()]
    wide, narrow = drawn(charts.series([charts.Line(marks)], "x", ""))
    for chart, most in ((wide, 240), (narrow, 120)):
        bands, lines = chart.all("path", "band"), chart.all("path", "middle")
        assert (len(bands), len(lines)) == (2, 2), "a gap"
        (rule, *_) = chart.all("line", "rule")
        left, right = float(rule.get("x1")), float(rule.get("x2"))
        pixel = {place: left + (place + 0.5) / 1000 * (right - left) for place in values}
        corners = [corner for band in bands for corner in chart.places(band)]
        assert len(corners) <= 2 * most
        for band in bands:
            places = chart.places(band)
            half = len(places) // 2
            for (x, top), (_, bottom) in zip(places[:half], places[: half - 1 : -1], strict=True):
                near = [values[place] for place, at in pixel.items() if abs(at - x) < 4.1]
                nearest = values[min(pixel, key=lambda place: abs(pixel[place] - x))]
                assert nearest + 2.7 <= chart.level(top) <= max(near) + 3.3
                assert min(near) - 3.3 <= chart.level(bottom) <= nearest - 2.7
        assert max(chart.level(y) for line in lines for _, y in chart.places(line)) == pytest.approx(
            60, abs=0.3
        )


def test_a_short_stretch_of_a_long_line_is_seen() -> None:
    """Two days between two gaps stand in one column of pixels."""
    places = [*range(200), 230, 231, *range(260, 900)]
    for chart in drawn(charts.series([charts.Line([mark(place, 5.0) for place in places])], "x", "")):
        (whisker,) = chart.all("path", "whisker")
        assert chart.ends(whisker) == pytest.approx((4, 6), abs=0.05)


def test_a_line_of_few_devices_does_not_set_the_axis_of_many() -> None:
    """A version of 105 devices beside one of 102,193: its interval is 31 times as wide."""
    many = [mark(place, 10.0 + place % 2, 0.5) for place in range(12)]
    other = [mark(place, 12.0, 0.6) for place in range(12)]
    few = [mark(place, 40.0, 30.0) for place in range(12)]
    lines = [charts.Line(many, "2.2", 0), charts.Line(few, "2.4", 1), charts.Line(other, "2.3", 2)]
    for chart in drawn(charts.series(lines, "x", "min")):
        titles = [text.text for text in chart.all("text", "unit")]
        assert titles == ["min", "2.4 (few reports, an axis of its own), min"]
        heights = {}
        for group in chart.all("g", "line"):
            (band,) = chart.all("path", "band", inside=group)
            down = [y for _, y in chart.places(band)]
            heights[group.get("data-line")] = max(down) - min(down)
        assert heights["2.2"] > 20, "it is not flattened"
        whole = drawn(charts.series([lines[0], lines[2]], "x", "min"))[
            0 if chart.root.get("class").endswith("wide") else 1
        ]
        assert [text.text for text in whole.all("text", "unit")] == ["min"], "alike lines share an axis"


def test_strips_begin_and_end_at_the_same_pixel() -> None:
    """Whatever the labels of their axes."""
    lines = [
        charts.Line([mark(place, 5.0, 1.0) for place in range(200)], "many"),
        charts.Line([mark(place, 3.0, 100_000.0) for place in range(200)], "few", 1),
    ]
    for chart in drawn(charts.series(lines, "x", "")):
        ends = {
            (rule.get("x1"), rule.get("x2")) for kind in ("rule", "zero") for rule in chart.all("line", kind)
        }
        assert len(ends) == 1
        axis = [text for text in chart.all("text", "label") if text.get("text-anchor") == "end"]
        assert min(float(text.get("x")) - 7 * len(text.text) for text in axis) >= 0, "its labels have room"


@pytest.mark.parametrize("strips", [1, 3])
def test_a_long_line_has_a_point_per_column_of_pixels_in_each_size(strips: int) -> None:
    """A year of days, also in the small chart of an overview, and strips of which a page has several."""
    marks = [mark(place, 5.0 + place % 3, 1.0) for place in range(366)]
    lines = [charts.Line(marks, f"tag {shade}", shade) for shade in range(strips)]
    for chart in [*drawn(charts.series(lines, "x", "")), *drawn(charts.spark(marks, "x"))]:
        width = float(chart.root.get("viewBox").split()[2])
        for band in chart.all("path", "band"):
            across = [x for x, _ in chart.places(band)]
            shared = strips > 1 and "spark" not in chart.root.get("class")
            assert 30 < len(across) / 2 <= width / (4 if shared else 2)
            assert across[0] == min(across)


def test_flags_stand_at_their_time_and_are_numbered() -> None:
    flags = [charts.Flag(-5, "before"), charts.Flag(3 * 3600, HOSTILE), charts.Flag(6 * 3600, "second")]
    for chart in drawn(
        charts.series([charts.Line([mark(place, 5.0) for place in range(8)])], "x", "", flags)
    ):
        (first, second) = chart.all("line", "flag")
        (rule, *_) = chart.all("line", "rule")
        left, right = float(rule.get("x1")), float(rule.get("x2"))
        for flag, part in ((first, 3 / 8), (second, 6 / 8)):
            assert float(flag.get("x1")) == pytest.approx(left + part * (right - left), abs=0.1)
        assert [text.text for text in chart.all("text", "flag-number")] == ["1", "2"]


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
    marks = [mark(place, value, half, hollow=state) for place, value, half, state in sorted(rounds)]
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
        charts.Line([mark(1, 8.0, tip="macos: 8")], name="macos", shade=1),
    ]
    chart = drawn(charts.series(lines, "x", ""))[0]
    titles = ["".join(hit.itertext()) for hit in chart.all("rect", "hit")]
    assert titles == [
        "1 Jan 1970, 00:00 to 01:00 UTC\nlinux: 5",
        "1 Jan 1970, 01:00 to 02:00 UTC\nlinux: 6\nmacos: 8",
    ]
    assert [group.get("data-line") for group in chart.all("g", "line")] == ["linux", "macos"]


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
    charts.Bar(50, 40, 60, "first"),
    charts.Bar(-5, 0, 4, "second"),
    charts.Bar(30, 20, 40, "third"),
    charts.Bar(26, 16, 36, HOSTILE),
]


def test_bars_have_the_height_of_their_share_and_each_its_interval() -> None:
    for chart in drawn(charts.histogram(EDGES, [charts.Bars(BARS)], "x", "s")):
        rects = chart.all("rect", "bar")
        tops = [chart.level(float(rect.get("y"))) for rect in rects]
        bottoms = [chart.level(float(rect.get("y")) + float(rect.get("height"))) for rect in rects]
        assert tops == pytest.approx([50, 0, 30, 26], abs=0.2)
        assert bottoms == pytest.approx([0, -5, 0, 0], abs=0.2)
        for whisker, bar in zip(chart.all("path", "whisker"), BARS, strict=True):
            assert chart.ends(whisker) == pytest.approx((bar.lower, bar.upper), abs=0.2)
        titles = ["".join(hit.itertext()) for hit in chart.all("rect", "hit")]
        assert titles == [bar.tip for bar in BARS]
    assert len(drawn(charts.small_histogram(EDGES, BARS, "x"))[0].all("path", "whisker")) == len(BARS)


def test_many_buckets_have_few_labels_that_do_not_touch() -> None:
    edges = [place * 100 / 255 for place in range(256)]
    bars = [charts.Bar(100 / 255, 0, 1)] * 255
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
