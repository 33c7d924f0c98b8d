"""Pages of choices, flags and histograms with devices that have no value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collector.tests.dashboard.test_pages import check_figure, check_safe

from reticent_collector.dashboard import labels
from reticent_collector.dashboard.views import edge_unit
from reticent_collector.figures import Unit
from reticent_collector.results import Selection
from reticent_lab.fleet import SdkFleet

PLAN = (Path(__file__).parents[3] / "examples" / "commands.toml").read_text()
METRICS = "/plans/tool-usage/metrics"
DEVICES, DAY = 2000, 20_700


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Any:
    """A quarter chose nothing, a fifth crashed, half have a value, all of those below 100."""
    world = make_world(PLAN, now=(DAY + 3) * 86_400.0)
    fleet = SdkFleet(world.plan, DEVICES, 7)
    columns: dict[str, list[object]] = {
        "last_command": [(None, "build", "build", "test")[device % 4] for device in range(DEVICES)],
        "crashed": [device % 5 == 0 for device in range(DEVICES)],
        "start_ms": [(None, 70)[device % 2] for device in range(DEVICES)],
    }
    for day in (DAY, DAY + 1):
        world.answer(fleet, day, columns)
    return world


def newest(world: Any, metric: str) -> Any:
    """The latest result of a metric."""
    return world.results.estimates(Selection("tool-usage", metric, every="day"))[0]


def test_a_flag_is_a_percentage(world: Any) -> None:
    page = world.get(f"{METRICS}/crashed?every=day").page
    estimate = newest(world, "crashed").estimate
    assert estimate.lower <= 0.2 <= estimate.upper <= 1
    assert "devices where it happened:" in page.texts
    assert f"{100 * estimate.value:.1f}" in " ".join(page.texts)
    assert "%" in page.texts


def test_a_choice_has_a_bar_per_label_and_says_apart_how_many_chose_nothing(world: Any) -> None:
    page = world.get(f"{METRICS}/last_command?every=day").page
    buckets = newest(world, "last_command").estimate.buckets
    names = ["build", "test", "run", "format", "publish", "absent"]
    assert [bucket.label for bucket in buckets] == names
    for bucket, share in zip(buckets, (0.5, 0.25, 0, 0, 0, 0.25), strict=True):
        assert bucket.lower <= share <= bucket.upper
    assert [row[0] for row in page.rows if row[0] in names] == names, "the table has all of them"
    assert page.texts.count("build") > 2, "the axis, in two sizes, and the table"
    assert "median" not in page.texts, "labels have no order"
    assert any(text.startswith("of devices (") and "chose nothing" in text for text in page.texts)
    first = next(text for text in page.texts if "±" in text and text[0].isdigit())
    check_figure(first, "%", {"value": buckets[0].value, "half_width": buckets[0].half_width})
    assert page.texts[page.texts.index(first) - 1] == "build:", "the label that most devices chose"
    assert any(text.startswith("then test 2") for text in page.texts), "and those after it"
    lines = [tag["data-line"] for tag in page.all("g") if "data-line" in tag]
    assert lines[: len(lines) // 2] == ["build", "test", *lines[2:4]], "each of the largest over time"


def test_quantiles_are_those_of_devices_with_a_value(world: Any) -> None:
    page = world.get(f"{METRICS}/start_ms?every=day").page
    result = newest(world, "start_ms")
    assert "median of devices with a value" in page.texts
    absent = result.estimate.buckets[-1]
    assert absent.label == "absent"
    assert absent.lower <= 0.5 <= absent.upper
    below = result.cumulative
    assert list(below.edges) == [0, 50, 100, 200, 500, 1000, 10_000]
    for place, share in enumerate((0, 0, 1, 1, 1, 1, 1)):
        assert below.lower[place] <= share <= below.upper[place]
    median = below.quantile(0.5)
    assert median.lower <= 70 <= median.upper
    unit = edge_unit(world.plan.by_name["start_ms"])
    low, high = (labels.rounded(edge / unit.size, 6) for edge in (median.lower, median.upper))
    assert f"between {low} and {high}" in " ".join(page.texts)
    assert any("had no value" in text for text in page.texts)


@pytest.mark.parametrize("path", ["/", "/plans/tool-usage", f"{METRICS}/last_command", f"{METRICS}/crashed"])
def test_the_pages_are_safe(world: Any, path: str) -> None:
    answer = world.get(path)
    assert answer.status == 200
    check_safe(answer.page)


SPLIT = """
min_reports = 1
[plan]
name = "tool-usage"
version = 1
round = "1d"
grace = "1d"
[metrics.apps]
kind = "split"
unit = "second"
max_value = 86400
labels = ["editor", "browser"]
mechanism = "d-bit-flip"
bits = 3
epsilon = 16
"""


def test_a_split_has_amounts_in_its_unit_and_the_unused_rest(make_world: Any) -> None:
    world = make_world(SPLIT, now=(DAY + 3) * 86_400.0)
    fleet = SdkFleet(world.plan, DEVICES, 7)
    columns: dict[str, list[object]] = {"apps/editor": [43_200] * DEVICES, "apps/browser": [0] * DEVICES}
    for day in (DAY, DAY + 1):
        world.answer(fleet, day, columns)
    page = world.get(f"{METRICS}/apps?every=day").page
    [editor, browser, unused] = newest(world, "apps").estimate.buckets
    assert [one.label for one in (editor, browser, unused)] == ["editor", "browser", "unused"]
    for number, truth in ((editor, 43_200), (browser, 0), (unused, 43_200)):
        assert number.lower <= truth <= number.upper
        assert number.unit == "second"
    assert "Mean amount per label" in page.texts
    assert "editor:" in page.texts, "the largest part is the headline"
    assert [row[0] for row in page.rows if row[0] in ("editor", "browser", "unused")] == [
        "editor",
        "browser",
        "unused",
    ]
    hours = Unit.of("second", editor.upper)
    assert hours.figure(editor.value, editor.half_width).removesuffix(f" {hours.name}") in " ".join(
        page.texts
    )
    first = next(text for text in page.texts if "±" in text and text[0].isdigit())
    assert first == Unit(hours.size).figure(editor.value, editor.half_width)
    assert "%" not in [text for text in page.texts if text.startswith("raw")]
    assert world.get("/").status == 200
    assert world.get(f"{METRICS}/apps?by=").status == 200
