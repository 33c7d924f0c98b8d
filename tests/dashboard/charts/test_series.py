from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reticent.dashboard.charts import Line, Mark, series, spark
from reticent.dashboard.charts.series import runs

Parse = Callable[[str], list[Any]]
HOSTILE = '"><script>alert(1)</script>&'


def mark(place: int, value: float, half: float = 1.0, **more: Any) -> Mark:
    return Mark(place * 3600, (place + 1) * 3600, value, value - half, value + half, **more)


def test_values_and_intervals_stand_where_the_axis_says(drawn: Parse) -> None:
    values = [12.0, 17.5, 9.25, 14.0]
    for chart in drawn(
        series([Line([mark(place, value, 2) for place, value in enumerate(values)])], "x", "s")
    ):
        (middle,), (band,) = chart.all("path", "middle"), chart.all("path", "band")
        seen = [chart.level(y) for _, y in chart.places(middle)]
        assert seen == pytest.approx(values, abs=0.05)
        corners = [chart.level(y) for _, y in chart.places(band)]
        expected = [value + 2 for value in values] + [value - 2 for value in reversed(values)]
        assert corners == pytest.approx(expected, abs=0.05)


def test_times_run_evenly_from_left_to_right(drawn: Parse) -> None:
    chart = drawn(series([Line([mark(place, 1.0) for place in range(5)])], "x", ""))[0]
    (middle,) = chart.all("path", "middle")
    places = [x for x, _ in chart.places(middle)]
    steps = [right - left for left, right in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 4, abs=0.11)
    assert steps[0] > 0


def test_a_missing_round_is_a_gap_and_a_lone_round_a_whisker(drawn: Parse) -> None:
    marks = [mark(place, 5.0) for place in (0, 1, 2, 4, 6, 7)]
    assert [len(run) for run in runs(marks)] == [3, 1, 2]
    chart = drawn(series([Line(marks)], "x", ""))[0]
    assert [len(chart.places(path)) for path in chart.all("path", "middle")] == [3, 2]
    (whisker,) = chart.all("path", "whisker")
    low, high = chart.stem(whisker)
    assert (chart.level(low), chart.level(high)) == pytest.approx((4, 6), abs=0.05)


def test_open_rounds_are_dashed_and_hollow(drawn: Parse) -> None:
    marks = [mark(0, 5.0), mark(1, 6.0), mark(2, 7.0, 3, open=True)]
    for chart in drawn(series([Line(marks)], "x", "")):
        assert len(chart.all("circle", "open")) == 1
        assert [len(chart.places(path)) for path in chart.all("path", "middle")] == [2, 2]
        assert [path.get("class") for path in chart.all("path", "middle")] == ["middle", "middle open"]
        assert [path.get("class") for path in chart.all("path", "band")] == ["band", "band open"]


def test_a_new_version_breaks_the_line_and_is_named(drawn: Parse) -> None:
    marks = [mark(0, 5.0), mark(1, 6.0), mark(2, 7.0, version=2), mark(3, 7.0, version=2)]
    chart = drawn(series([Line(marks)], "x", ""))[0]
    assert len(chart.all("path", "band")) == 2
    assert "version 2" in [each.text for each in chart.all("text", "note")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.floats(-1e6, 1e6), st.floats(0, 1e5), st.booleans()),
        min_size=1,
        max_size=30,
        unique_by=lambda each: each[0],
    )
)
def test_there_is_never_a_line_without_its_band(
    drawn: Parse, rounds: list[tuple[int, float, float, bool]]
) -> None:
    marks = [mark(place, value, half, open=state) for place, value, half, state in sorted(rounds)]
    for chart in drawn(series([Line(marks)], "x", "s") + spark(marks, "x")):
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


def test_each_round_says_what_is_there_for_every_line(drawn: Parse) -> None:
    lines = [
        Line([mark(0, 5.0, tip="linux: 5"), mark(1, 6.0, tip="linux: 6")], name="linux"),
        Line([mark(1, 8.0, tip="macos: 8")], name="macos", shade=1, shown=False),
    ]
    chart = drawn(series(lines, "x", ""))[0]
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


def test_hostile_text_stays_text(drawn: Parse) -> None:
    made = series([Line([mark(0, 5.0, tip=HOSTILE), mark(1, 5.0)], name=HOSTILE)], HOSTILE, HOSTILE)
    assert "<script" not in made
    chart = drawn(made)[0]
    assert chart.root.get("aria-label") == HOSTILE
    assert chart.all("g", "line")[0].get("data-line") == HOSTILE
    assert HOSTILE in [each.text for each in chart.all("text", "unit")]


@pytest.mark.parametrize("value", [0.0, -3.0, 7.0, 1e-9, 1e15])
def test_one_round_without_width_can_be_drawn(drawn: Parse, value: float) -> None:
    for chart in drawn(series([Line([mark(0, value, 0)])], "x", "") + spark([mark(0, value, 0)], "x")):
        assert len(chart.all("circle")) >= 1
        assert "nan" not in str(chart.root.attrib)
