from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.dashboard.charts.scales import Scale, tick_texts, ticks, time_ticks

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


@given(NUMBERS, st.floats(1e-6, 1e9), st.integers(2, 9))
def test_ticks_are_round_evenly_spaced_and_cover_the_range(low: float, width: float, most: int) -> None:
    high = low + width
    if not high - low > 1e-12 * max(abs(low), abs(high)) * 1e4:
        return
    found = ticks(low, high, most)
    step = found[1] - found[0]
    assert found[0] <= low + 1e-6 * step
    assert found[-1] >= high - 1e-6 * step
    assert len(found) <= most + 2
    for left, right in pairwise(found):
        assert right - left == pytest.approx(step, rel=1e-6)
    mantissa = float(f"{step:.3e}".split("e")[0])
    assert mantissa in (1.0, 2.0, 2.5, 5.0)


def test_a_range_of_no_width_still_has_an_axis() -> None:
    for value in (0, 7.5, -3):
        found = ticks(value, value)
        assert found[0] < value < found[-1]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0, 20, 40], ["0", "20", "40"]),
        ([-0.05, 0, 0.05], ["−0.05", "0", "0.05"]),
        ([0, 2500, 5000], ["0", "2,500", "5,000"]),
        ([0, 2e9], ["0", "2 G"]),
    ],
)
def test_ticks_are_written_short(values: list[float], texts: list[str]) -> None:
    assert tick_texts(values) == texts


@given(NUMBERS, NUMBERS, st.floats(0, 1))
def test_a_scale_is_a_straight_line(low: float, high: float, part: float) -> None:
    if abs(high - low) < 1:
        return
    scale = Scale(low, high, start=10, end=210)
    assert scale(low) == 10
    assert scale(high) == pytest.approx(210)
    assert scale(low + part * (high - low)) == pytest.approx(10 + 200 * part, abs=1e-4)


@given(st.integers(0, 4_000_000_000), st.integers(120, 3_000_000_000), st.integers(2, 12))
def test_times_are_inside_few_increasing_and_named_after_themselves(
    start: int, length: int, most: int
) -> None:
    found = time_ticks(start, start + length, most)
    assert len(found) <= most + 2
    assert [at for at, _ in found] == sorted({at for at, _ in found})
    for at, text in found:
        assert start <= at <= start + length
        time = datetime.fromtimestamp(at, UTC)
        assert time.second == 0
        said = {f"{time:%H:%M}", f"{time.day} {time:%b}", f"{time:%b %Y}", f"{time:%Y}"}
        assert text in said
        if ":" not in text:
            assert (time.hour, time.minute) == (0, 0)


def test_weeks_begin_on_mondays_and_months_on_their_first_day() -> None:
    start = int(datetime(2026, 1, 3, tzinfo=UTC).timestamp())
    weeks = time_ticks(start, start + 40 * 86_400, most=7)
    assert {datetime.fromtimestamp(at, UTC).weekday() for at, _ in weeks} == {0}
    months = time_ticks(start, start + 300 * 86_400, most=6)
    assert [text for _, text in months] == ["Mar 2026", "May 2026", "Jul 2026", "Sep 2026"]
